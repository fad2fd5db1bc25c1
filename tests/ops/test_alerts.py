from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.ops.dashboard import metrics_of
from tests.ops.tools import ALERTS, OPS, needs_promtool, promtool
from tests.telemetry.metered import DOCUMENTATION, documented

TESTS = sorted((OPS / "prometheus").glob("*.test.yml"))


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


@needs_promtool
def test_promtool_accepts_rules_and_the_example_configuration() -> None:
    promtool("check", "rules", "--lint-fatal", ALERTS)
    promtool("check", "config", OPS / "prometheus" / "prometheus.yml")


@needs_promtool
def test_alerts_fire_when_they_should_and_only_then() -> None:
    promtool("test", "rules", *TESTS)


def test_every_alert_is_tested_to_fire() -> None:
    tests = [test for file in TESTS for test in yaml.safe_load(file.read_text(encoding="utf-8"))["tests"]]
    expected = [sample for test in tests for one in test["promql_expr_test"] for sample in one.get("exp_samples", ())]
    fired = {match for one in expected for match in re.findall(r'alertname="(\w+)"', one["labels"])}
    assert fired == {rule["alert"] for rule in rules()}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_says_what_is_wrong_and_what_to_do_about_metrics_that_exist(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert set(rule["annotations"]) == {"summary", "description", "action"}
    assert "{{ $labels.instance }}" in rule["annotations"]["summary"]
    read = metrics_of(rule["expr"])
    assert read
    assert read <= documented().keys() | {"up"}
    for name in read & documented().keys():
        for labels in re.findall(rf"{name}(?:_bucket)?\{{([^}}]*)\}}", rule["expr"]):
            assert set(re.findall(r"(\w+)\s*(?:=|!=|=~|!~)", labels)) <= documented()[name].labels


def test_the_documentation_lists_the_alerts() -> None:
    listed = re.findall(r"^\| `(Dragoman\w+)` \| (\w+) \|", DOCUMENTATION.read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == [(rule["alert"], rule["labels"]["severity"]) for rule in rules()]
