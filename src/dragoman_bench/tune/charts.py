"""The charts of a tune: which there are, what each is called and what to look for in it; the final's and the memory's drawn.

The ladder's is `ladder_chart`'s. Knows outcomes; how they look is the bench's `style`.
"""

# pyright: reportUnknownMemberType=false
# (matplotlib leaves its **kwargs untyped)

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.bench.tables import number
from dragoman_bench.report import Chart, style
from dragoman_bench.report.style import save_png
from dragoman_bench.tune import ladder_chart
from dragoman_bench.tune.figures import conditions, spread
from dragoman_bench.tune.ladder_chart import Read, climbed
from dragoman_bench.tune.outcome import Final, Ladder, Memory, Standing, Tuning


def charts(tuning: Tuning) -> dict[str, Chart]:
    """Those that there is data for, by slug."""
    made: list[Chart] = []
    if tuning.ladder is not None and climbed(tuning.ladder):
        made.append(_ladder_chart(tuning.ladder, tuning.slo))
    if tuning.memory is not None:
        made.append(_memory_chart(tuning, tuning.memory))
    if tuning.final is not None and any(standing.busy for standing in tuning.final.standings):
        chosen = tuning.recommendation.contender if tuning.recommendation else ""
        made.append(_final_chart(tuning.final, tuning.demand.levels.busy, chosen))
    return {chart.slug: chart for chart in made}


def save_pngs(tuning: Tuning, folder: Path) -> dict[str, Path]:
    """Each chart as a PNG with title, caption and conditions; paths by slug. Raises ConfigError."""
    told = " ".join(conditions(tuning))
    paths: dict[str, Path] = {}
    for slug, chart in charts(tuning).items():
        paths[slug] = folder / f"tune-{slug}.png"
        save_png(chart.draw(), paths[slug], chart.title, f"{chart.caption} {told}")
    return paths


@style.styled
def final(found: Final, chosen: str = "") -> Figure:
    """A row a contender: what it served within the SLO or in all, and its tail; every repeat is a point, those of the
    contender called `chosen` green."""
    shown = [standing for standing in found.standings if standing.busy]
    legend: list[Artist] = [
        Line2D([], [], color=style.INK, marker="|", markersize=11, linestyle="none", label="median"),
        Line2D([], [], color=style.MUTED, marker="o", linestyle="none", alpha=0.5, label="each round"),
    ]
    figure, [[rates, tails]] = style.grid(1, 2, 0.75 + 0.34 * len(shown), legend, sharey=True)
    _rows(rates, shown, chosen, lambda seen: getattr(seen, found.metric))
    _rows(tails, shown, chosen, lambda seen: seen.e2e_p95_s)
    within = "within the SLO " if found.metric == "goodput_rps" else ""
    rates.set_title(f"requests {within}a second")
    tails.set_title("95th percentile, end to end")
    style.time_axis(tails, [value for s in shown for one in s.busy if (value := one.e2e_p95_s)], "x", ticks=5)
    rates.set_xlim(0, 1.1 * max(value for s in shown for one in s.busy if (value := getattr(one, found.metric))))
    rates.set_yticks(range(len(shown)), [_short(standing) for standing in shown])
    rates.set_ylim(len(shown) - 0.4, -0.6)
    return figure


@style.styled
def memory(tuning: Tuning, found: Memory) -> Figure:
    """Tokens of KV cache: what the demand takes, what is given, what the search's server had."""
    rows = [
        ("most at once, drawn from the demand", tuning.demand.peak_tokens_drawn, 6),
        ("the longest text at every place", tuning.demand.peak_tokens_worst, 6),
        (f"sized: {number(found.margin)} times the need", found.wanted_tokens, 2),
    ]
    if found.capacity_tokens is not None:
        rows.append(("the server it was measured on", found.capacity_tokens, 7))
    figure, [[axes]] = style.grid(1, 1, 0.55 + 0.33 * len(rows))
    for place, (_, tokens, look) in enumerate(rows):
        axes.barh(place, tokens, 0.62, color=style.series(look), linewidth=0)
        style.note(axes, f"{tokens:,}", tokens, place, (4, -3))
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x")
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("tokens of KV cache")
    return figure


def _ladder_chart(found: Ladder, slo: str | None) -> Chart:
    medians = "; ".join(
        f"cap {rung.cap}: {number(rate.median)}"
        for rung in climbed(found)
        if (rate := spread(rung.seen, lambda seen: getattr(seen, found.metric)))
    )
    knee = f"The green line marks the knee, {found.knee}: the smallest cap equal to the best. " if found.knee else ""
    return Chart(
        "ladder",
        "The ladder: one engine, more and more requests at once",
        f"{found.clients} clients in a closed loop, at most so many of their requests at the server. {knee}"
        "Points are medians of the repeats, whiskers their lowest and highest.",
        f"Line charts over the cap on requests at once. Requests a second: {medians}. Knee: {found.knee}.",
        lambda: ladder_chart.ladder(found, parse_slo(slo) if slo else None),
    )


def _final_chart(found: Final, clients: int, chosen: str) -> Chart:
    told = "; ".join(
        f"{_short(standing)} {number(rate.median)}"
        for standing in found.standings
        if (rate := spread(standing.busy, lambda seen: getattr(seen, found.metric)))
    )
    how = (
        "All servers were up and measured in turn" if found.together else "One server was up at a time, round by round"
    )
    return Chart(
        "final",
        "The final: what was found against what nobody tuned",
        f"{clients} clients. {how}; the order turned from round to round. Green: what is recommended. To the right is more "
        "requests, which is better, and more seconds, which is worse.",
        f"Requests a second by configuration: {told}.",
        lambda: final(found, chosen),
    )


def _memory_chart(tuning: Tuning, found: Memory) -> Chart:
    return Chart(
        "memory",
        "How large the KV cache must be",
        "Prompts and outputs of the texts that are in the house at once, in tokens.",
        f"Bar chart: {found.needed_tokens:,} tokens needed, {found.wanted_tokens:,} with the margin.",
        lambda: memory(tuning, found),
    )


def _rows(axes: Axes, shown: Sequence[Standing], chosen: str, read: Read) -> None:
    for place, standing in enumerate(shown):
        values = [value for seen in standing.busy if (value := read(seen)) is not None]
        found = spread(standing.busy, read)
        if found is None:
            continue
        colour = style.series(2 if standing.contender.name == chosen else 7)
        axes.plot([found.low, found.high], [place, place], color=colour, linewidth=3, alpha=0.45, solid_capstyle="butt")
        axes.plot(values, [place] * len(values), "o", color=colour, alpha=0.5, markersize=5)
        axes.plot(found.median, place, "|", color=style.INK, markersize=13, markeredgewidth=1.8)
        style.note(axes, number(found.median), found.median, place, (0, 9), ha="center")
    axes.grid(axis="x")
    axes.margins(x=0.12)


def _short(standing: Standing) -> str:
    return standing.contender.title.split(",")[0].replace("`", "")
