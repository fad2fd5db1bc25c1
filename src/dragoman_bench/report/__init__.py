"""Reports of results: one HTML page that needs no network, Markdown with the same tables, PNGs for a README."""

from dragoman_bench.report.figures import README_CHARTS, Chart, report_charts, save_pngs
from dragoman_bench.report.markdown import write_markdown
from dragoman_bench.report.naming import read_named
from dragoman_bench.report.page import Look, Section, write_report

__all__ = [
    "README_CHARTS",
    "Chart",
    "Look",
    "Section",
    "read_named",
    "report_charts",
    "save_pngs",
    "write_markdown",
    "write_report",
]
