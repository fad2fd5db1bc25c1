"""Settings as flags: every field of `dragoman.settings` becomes an option, named after its key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from dragoman import settings

F = TypeVar("F", bound=Callable[..., Any])


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
        for option in reversed(chosen):
            default = "" if option.default in (None, "") else f"  [default: {option.default}]"
            wrapped = click.option(
                settings.flag(option.path),
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
