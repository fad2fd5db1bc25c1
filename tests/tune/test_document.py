"""A tune's outcome survives JSON, and what is no outcome is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.tune.document import read_tuning, to_document, write_tuning
from dragoman_bench.tune.outcome import Tuning
from tests.tune.telling import WHOLE, stopped


@pytest.mark.parametrize("tuning", [WHOLE, stopped()], ids=["whole", "stopped"])
def test_what_is_written_is_read_again(tuning: Tuning, tmp_path: Path) -> None:
    write_tuning(tuning, tmp_path / "made" / "tune.json")
    assert read_tuning(tmp_path / "made" / "tune.json") == tuning


def test_another_schema_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tune.json"
    file.write_text(json.dumps(to_document(WHOLE) | {"schema": 99}), encoding="utf-8")
    with pytest.raises(ConfigError, match="schema 99, this version reads 1"):
        read_tuning(file)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is not a tune's outcome"),
        ("[]", "schema None"),
        (json.dumps({"schema": 1}), "started_at: Field required"),
        (json.dumps(to_document(WHOLE) | {"ladder": {"clients": "many"}}), "ladder.clients"),
    ],
)
def test_what_is_no_outcome_is_told(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "tune.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=told):
        read_tuning(file)


def test_a_missing_file_and_a_folder_in_the_way_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        read_tuning(tmp_path / "nowhere.json")
    with pytest.raises(ConfigError, match="cannot write"):
        write_tuning(WHOLE, tmp_path)
