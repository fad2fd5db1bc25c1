"""Settings as flags: every field of `dragoman.settings` becomes an option, named after its key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from dragoman import settings
from dragoman.settings import flag_of

F = TypeVar("F", bound=Callable[..., Any])


def _refuse(path: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Raises `ConfigError` where the flag of a removed setting is given."""

    def refuse(_: click.Context, __: click.Parameter, value: Any) -> None:
        if value is not None:
            raise settings.removed(path, flag_of(path))

    return refuse


def settings_options(*sections: str) -> Callable[[F], F]:
    """Decorate a command with `--config` and the flags of `sections`; it receives `loaded: settings.Loaded`."""
    chosen = [option for option in settings.options().values() if option.section in sections]

    def decorate(function: F) -> F:
        def wrapped(config: Path | None, **values: Any) -> Any:
            flags = {
                option.path: values.pop(option.path.replace(".", "_"))
                for option in chosen
                if values.get(option.path.replace(".", "_")) is not None
            }
            for option in chosen:
                values.pop(option.path.replace(".", "_"), None)
            return function(loaded=settings.load(config, flags), **values)

        wrapped.__doc__ = function.__doc__
        wrapped.__click_params__ = list(getattr(function, "__click_params__", []))  # type: ignore[attr-defined]
        for path in settings.REMOVED:
            if path.split(".", 1)[0] in sections:
                wrapped = click.option(
                    flag_of(path), path.replace(".", "_"), hidden=True, expose_value=False, callback=_refuse(path)
                )(wrapped)
        for option in reversed(chosen):
            default = "" if option.default in (None, "") else f"  [default: {option.default}]"
            wrapped = click.option(
                flag_of(option.path),
                option.path.replace(".", "_"),
                metavar=option.key.upper(),
                help=f"{option.help}{default}",
            )(wrapped)
        return click.option(
            "--config",
            type=click.Path(path_type=Path),
            help="Settings file; ./dragoman.toml is read when it is there.",
        )(wrapped)  # type: ignore[return-value]

    return decorate
