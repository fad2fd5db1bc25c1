"""Reports of results: one HTML page that needs no network, Markdown with the same tables, PNGs for a README."""

from dragoman_bench.report.charts import rates_by_result
from dragoman_bench.report.named import Named, load_labelled, read_named
from dragoman_bench.report.page import (
    README_CHARTS,
    Look,
    Section,
    report_charts,
    save_pngs,
    write_markdown,
    write_page,
    write_report,
)
from dragoman_bench.report.style import Chart
from dragoman_bench.report.timelines import Window

__all__ = [
    "README_CHARTS",
    "Chart",
    "Look",
    "Named",
    "Section",
    "Window",
    "load_labelled",
    "rates_by_result",
    "read_named",
    "report_charts",
    "save_pngs",
    "write_markdown",
    "write_page",
    "write_report",
]
