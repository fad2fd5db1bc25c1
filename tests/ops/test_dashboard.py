from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import yaml

from tests.ops.dashboard import dashboard, metrics_of, queries
from tests.ops.tools import OPS, needs_promtool, promtool
from tests.telemetry.metered import documented

WIDTH = 24
VARIABLES = {"__rate_interval": "1m", "job": "dragoman", "instance": ".*"}


def test_every_metric_has_a_panel_and_every_panel_s_metrics_exist() -> None:
    shown = set[str]().union(*(metrics_of(query.expr) for query in queries()))
    assert {name for name in shown if name.startswith("dragoman_")} == documented().keys()


def test_vllm_s_metrics_are_those_that_vllm_has() -> None:
    vllm = importlib.util.find_spec("vllm")
    if vllm is None or not vllm.submodule_search_locations:
        pytest.skip("vLLM is not installed")
    loggers = (Path(vllm.submodule_search_locations[0]) / "v1" / "metrics" / "loggers.py").read_text(encoding="utf-8")
    for query in queries():
        for name in metrics_of(query.expr):
            if name.startswith("vllm:"):  # the client library adds _total to a counter's name
                assert f'"{name}"' in loggers or f'"{name.removesuffix("_total")}"' in loggers, name


def test_every_query_reads_the_chosen_instances_alone() -> None:
    for query in queries():
        selectors = query.expr.count('{job="$job", instance=~"$instance"')
        assert selectors == query.expr.count("{"), query


@needs_promtool
def test_every_query_is_promql(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{n}", "expr": query.filled(VARIABLES)} for n, query in enumerate(queries())]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", file)


def test_panels_have_titles_descriptions_units_and_space() -> None:
    taken = set[tuple[int, int]]()
    ids = set[int]()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= WIDTH
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["id"] not in ids
        ids.add(panel["id"])
        assert panel["title"]
        if panel["type"] != "row":
            assert panel["description"], panel["title"]
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_provisioning_is_yaml_of_the_first_version() -> None:
    files = sorted((OPS / "grafana" / "provisioning").rglob("*.yml"))
    assert [file.parent.name for file in files] == ["dashboards", "datasources"]
    assert all(yaml.safe_load(file.read_text(encoding="utf-8"))["apiVersion"] == 1 for file in files)
