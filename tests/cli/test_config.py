"""`dragoman config show`: values and their origins."""

from __future__ import annotations

from click.testing import CliRunner

from dragoman.cli.config import command


def test_what_differs_from_the_defaults_is_shown_without_a_password() -> None:
    environment = {"DRAGOMAN_STORAGE_URL": "postgresql://u:s@ec:ret@h/x", "DRAGOMAN_SERVER_PORT": "1", "COLUMNS": "200"}
    shown = CliRunner().invoke(command, ["show", "--changed"], env=environment).output
    assert "postgresql://u:***@h/x" in shown
    assert "ec:ret" not in shown
    assert "server.port" in shown
    assert "server.host" not in shown
