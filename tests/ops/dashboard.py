"""Grafana's dashboard as data, and its queries with the variables filled in, as Grafana would."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.ops.tools import OPS

DASHBOARD = OPS / "grafana" / "dashboard.json"
_METRIC = re.compile(r"\b(?:dragoman_|vllm:|process_)\w+|\bup\b")
_DERIVED = re.compile(r"_(?:bucket|sum|count)$")


@dataclass(frozen=True)
class Query:
    """One query of a panel. `expr` still has Grafana's variables in it."""

    row: str
    panel: str
    expr: str
    legend: str

    def filled(self, values: Mapping[str, str]) -> str:
        expr = self.expr
        for name, value in values.items():
            expr = expr.replace(f"${name}", value)
        return expr


def dashboard() -> dict[str, Any]:
    return json.loads(DASHBOARD.read_text(encoding="utf-8"))


def queries() -> Iterator[Query]:
    row = ""
    for panel in dashboard()["panels"]:
        if panel["type"] == "row":
            row = panel["title"]
        for target in panel.get("targets", ()):
            yield Query(row, panel["title"], target["expr"], target["legendFormat"])


def metrics_of(expr: str) -> set[str]:
    """The metrics that an expression reads; a histogram's by its own name."""
    return {_DERIVED.sub("", name) for name in _METRIC.findall(expr)}
