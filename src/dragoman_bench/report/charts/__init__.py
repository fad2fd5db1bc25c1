"""Charts of results: each function draws one figure from results by label; `svg` and `save_png` write it."""

from dragoman_bench.report.charts.latency import ecdf, has_gaps, inter_token_latency, latency, latency_by_band
from dragoman_bench.report.charts.over_time import has_samples, over_time
from dragoman_bench.report.charts.render import save_png, svg
from dragoman_bench.report.charts.selection import Named, loads_of, shared_load
from dragoman_bench.report.charts.throughput import goodput, latency_against_throughput, throughput
from dragoman_bench.report.charts.timeline import Window, timeline

__all__ = [
    "Named",
    "Window",
    "ecdf",
    "goodput",
    "has_gaps",
    "has_samples",
    "inter_token_latency",
    "latency",
    "latency_against_throughput",
    "latency_by_band",
    "loads_of",
    "over_time",
    "save_png",
    "shared_load",
    "svg",
    "throughput",
    "timeline",
]
