"""`dragoman`: the list of commands, and error reports: one line on stderr, exit code 2 for wrong input, else 1."""

from __future__ import annotations

import importlib
import signal
import sys
from importlib import metadata

import click
from rich.text import Text

from dragoman import __version__
from dragoman.cli.console import error_console
from dragoman.errors import ConfigError, DragomanError
from dragoman.extras import missing_packages

_COMMANDS = {
    "serve": "Serve a model over HTTP.",
    "deploy": "Write the configuration of a Ray cluster of several hosts.",
    "translate": "Translate a text, a text file or standard input.",
    "translate-files": "Translate documents: each comes back as the same file in another language.",
    "keys": "Create, list, rotate and revoke keys; show what each has used.",
    "glossaries": "List stored glossaries with their owners; share, give and delete them.",
    "memories": "List stored translation memories with their owners; share, give and delete them.",
    "memory": "List, import, export and delete a key's translation memories on a server.",
    "backup": "Copy the database while servers use it.",
    "doctor": "Report what this machine can run, and why.",
    "models": "List model profiles and what each needs.",
    "config": "Show the effective settings and where each came from.",
    "traffic": "Show the traffic that was recorded, or export it as a workload.",
}
_BENCH_COMMANDS = {
    "bench": "Load-test a translation server.",
    "eval": "Score translations against references, and test a server with hard inputs.",
    "check-model": "Check a model before you serve it: its prompt, languages, marks, speed.",
    "report": "Make a report from results files.",
    "journey": "Measure the steps from one worker process to continuous batching on this machine.",
    "plan": "Compute how many GPUs your recorded traffic needs, from a measurement of one.",
    "tune": "Find the engine settings that serve your traffic best, with reasons.",
}
_ENTRY_POINTS = "dragoman.commands"


def _bench_command(name: str) -> click.Command:
    """Load a command of `dragoman_bench`. Raises `ConfigError` if the extra `bench` is not installed."""
    if missing := missing_packages("bench"):
        raise ConfigError(
            f"dragoman {name} needs the extra 'bench' ({', '.join(missing)} not installed): pip install 'dragoman[bench]'"
        )
    (entry,) = metadata.entry_points(group=_ENTRY_POINTS, name=name)
    command: click.Command = entry.load()
    return command


class _Commands(click.Group):
    """Imports the module of a command only when it is used, so that `dragoman --help` is fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS, *_BENCH_COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _BENCH_COMMANDS:
            return _bench_command(cmd_name)
        if cmd_name not in _COMMANDS:
            return None
        if cmd_name == "serve":  # until the server handles it: its imports take a second, in which SIGHUP would end it
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        return importlib.import_module(f"dragoman.cli.{cmd_name.replace('-', '_')}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list((_COMMANDS | _BENCH_COMMANDS).items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="dragoman")
def cli() -> None:
    """A self-hosted LLM translation server that measures and tunes itself."""


def main() -> None:
    """Run the console script."""
    try:
        sys.exit(cli.main(standalone_mode=False) or 0)
    except click.exceptions.Exit as leave:
        sys.exit(leave.exit_code)
    except (click.Abort, KeyboardInterrupt):
        error_console.print("interrupted", style="yellow")
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except DragomanError as error:
        error_console.print(Text("error:", "red"), error.message, highlight=False, soft_wrap=True)
        sys.exit(2 if isinstance(error, ConfigError) or 400 <= error.status < 500 else 1)


if __name__ == "__main__":
    main()
