"""Makes flags of settings: every field of `dragoman.settings` becomes an option, named after its key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from dragoman import settings
from dragoman.settings import Group, flag_of

F = TypeVar("F", bound=Callable[..., Any])


class SettingsCommand(click.Command):
    """A command whose help lists the settings that have a group, by group; the other flags work but are not listed."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups = {_name(path): option.group for path, option in settings.options().items()}
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in ("options", *get_args(Group))}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                sections[groups.get(parameter.name or "") or "options"].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title.capitalize()):
                    formatter.write_dl(records)
        formatter.write_paragraph()
        formatter.write_text("Other settings have flags too: `dragoman config show --all`, docs/operating.md.")


def _leaves(annotation: Any) -> list[Any]:
    """Return the types and literal values in an annotation."""
    return [leaf for part in get_args(annotation) for leaf in _leaves(part)] or [annotation]


def _flag(option: settings.Option) -> Callable[[F], F]:
    """Make the flag of a setting. Its value is a text, which `settings.load` parses and checks."""
    leaves = _leaves(option.type)
    is_number = int in leaves or float in leaves
    metavar = "N" if is_number else "BOOL" if bool in leaves else option.key.rsplit("_", 1)[-1].upper()
    values = [] if is_number else ["|".join(leaf for leaf in leaves if isinstance(leaf, str))]
    if option.default not in (None, ""):
        values.append(f"default: {str(option.default).lower() if bool in leaves else option.default}")
    suffix = "; ".join(filter(None, values))
    help = f"{option.help}  [{suffix}]" if suffix else option.help
    return click.option(
        flag_of(option.path), _name(option.path), metavar=metavar, help=help, hidden=option.group is None
    )


def _name(path: str) -> str:
    return path.replace(".", "_")


def settings_options(*sections: str) -> Callable[[F], F]:
    """Return a decorator that adds `--config` and the flags of `sections`, by default of all, to a command.

    The command receives `loaded: settings.Loaded`. Flags of removed settings are accepted, so that `load` can report them.
    """

    def wanted(known: Iterable[str]) -> list[str]:
        return [path for path in known if not sections or path.split(".")[0] in sections]

    known = settings.options()
    chosen, removed = wanted(known), wanted(settings.REMOVED)

    def decorate(function: F) -> F:
        def wrapped(config: Path | None, **values: Any) -> Any:
            flags = {path: values.pop(_name(path)) for path in (*chosen, *removed)}
            given = {path: value for path, value in flags.items() if value is not None}
            return function(loaded=settings.load(config, given), **values)

        wrapped.__doc__ = function.__doc__
        wrapped.__click_params__ = list(getattr(function, "__click_params__", []))  # type: ignore[attr-defined]
        for path in removed:
            wrapped = click.option(flag_of(path), _name(path), hidden=True)(wrapped)
        for path in reversed(chosen):
            wrapped = _flag(known[path])(wrapped)
        return click.option(
            "--config",
            type=click.Path(path_type=Path),
            help="Settings file; ./dragoman.toml is read when it is there.",
        )(wrapped)  # type: ignore[return-value]

    return decorate
