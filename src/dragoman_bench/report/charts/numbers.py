"""Numbers and times as people read them, in charts and tables alike."""

from __future__ import annotations

from math import floor, log10


def number(value: float) -> str:
    """Three significant digits; no exponents."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    if abs(value) >= 1 or value == 0:
        return f"{value:.2f}"
    return f"{value:.{min(6, 2 - floor(log10(abs(value))))}f}"


def duration(value_s: float) -> str:
    """`30 ms`, `1.5 s`."""
    return f"{value_s * 1000:.4g} ms" if value_s < 1 else f"{value_s:.4g} s"
