from __future__ import annotations

import io

from rich.console import Console

from dragoman_bench.bench.progress import ProgressBar, ProgressLines


def test_lines_show_a_phase_when_it_begins_and_do_not_flood() -> None:
    out = io.StringIO()
    lines = ProgressLines(Console(file=out))

    lines.phase("4 clients", 100)
    for done in range(50):
        lines.update(done, 0, 4)

    assert out.getvalue() == "4 clients\n"


def test_a_live_bar_shows_counts_and_leaves_nothing_behind() -> None:
    out = io.StringIO()
    with ProgressBar(Console(file=out, force_terminal=True, width=120)) as live:
        live.phase("warm-up", None)
        live.phase("4 clients", 100)
        live.update(25, 2, 4)

    assert "4 clients" in out.getvalue()
    assert "25 done, 2 failed, 4 in flight" in out.getvalue()
