"""The files of a tune: settings that a server reads, data that is read again, a page; from committed outcomes."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dragoman.errors import ConfigError
from dragoman.settings import load
from dragoman_bench.tune.outcome import SCHEMA, Choice, Tuning, read_tuning, write_tuning
from dragoman_bench.tune.outputs import (
    all_tables,
    config_text,
    write_outcome,
    write_report_page,
)

COMMITTED = sorted((Path(__file__).parents[2] / "results").glob("tune-*/tune.json"))
FLAGS = {"model": "", "max-model-len": 1024, "load-format": "auto"}


@pytest.fixture(scope="module")
def whole() -> Tuning:
    return read_tuning(next(path for path in COMMITTED if path.parent.name == "tune-cpu"))


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.parent.name)
def test_committed_outcomes_are_read_and_reported(path: Path, tmp_path: Path) -> None:
    tuning = read_tuning(path)
    assert tuning.finding is not None and tuning.recommendation is not None and tuning.final is not None
    assert tuning.trials[0].results and tuning.ladder is not None and tuning.ladder.knee
    assert all(choice.reason for choice in tuning.recommendation.choices)
    files = write_outcome(tuning, tmp_path, FLAGS)
    assert [file.name for file in files] == ["dragoman.toml", "report.html", "tune.json"]
    assert read_tuning(files[2]) == tuning
    assert json.loads(files[2].read_text(encoding="utf-8"))["schema"] == SCHEMA
    settings = load(files[0], environment={}).settings
    assert settings.engine.max_num_seqs == tuning.recommendation.knobs.max_num_seqs
    assert settings.engine.max_model_len == 1024


def test_every_value_stands_under_its_own_reason(whole: Tuning) -> None:
    assert whole.recommendation is not None
    choices = (Choice("max_num_seqs", 4, "the reason of four"), Choice("max_num_batched_tokens", 512, "of 512"))
    text = config_text(replace(whole, recommendation=replace(whole.recommendation, choices=choices)), FLAGS)
    lines = text.splitlines()
    assert lines[lines.index("max_num_seqs = 4") - 1] == "# the reason of four"
    assert lines[lines.index("max_num_batched_tokens = 512") - 1] == "# of 512"
    assert tomllib.loads(text)["engine"]["max_num_seqs"] == 4


def test_what_was_not_reached_is_missing_and_the_best_so_far_is_written(whole: Tuning, tmp_path: Path) -> None:
    partial = replace(
        whole, finding=None, final=None, recommendation=None, partial=True, partial_because="stopped by hand"
    )
    assert partial.choices
    assert set(all_tables(partial)) == {"recommended", "rungs", "conditions"}
    write_outcome(partial, tmp_path, FLAGS)
    assert "stopped by hand" in (tmp_path / "report.html").read_text(encoding="utf-8")
    with pytest.raises(ConfigError):
        config_text(replace(partial, ladder=None), FLAGS)


def test_the_page_loads_nothing_and_shows_settings_final_and_ladder(whole: Tuning, tmp_path: Path) -> None:
    write_report_page(whole, tmp_path / "report.html", config_text(whole, FLAGS))
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "http://" not in page.replace("http://www.w3.org", "") and "<script" not in page
    for slug in ("recommended", "final", "rungs", "conditions"):
        assert f'<table id="{slug}"' in page
    assert page.count("<svg") == 1
    for drawn in page.split("<svg")[1:]:
        ElementTree.fromstring("<svg" + drawn[: drawn.index("</svg>")].replace("xlink:", "") + "</svg>")


def test_a_page_is_written_again_from_a_committed_outcome(tmp_path: Path) -> None:
    folder, page = COMMITTED[0].parent, tmp_path / "page.html"
    subprocess.run([sys.executable, "-m", "dragoman_bench.tune.outputs", str(folder), str(page)], check=True)
    assert "max_num_seqs = " in page.read_text(encoding="utf-8")


def test_tables_hold_every_candidate_and_cap(whole: Tuning) -> None:
    tables = all_tables(whole)
    assert whole.ladder is not None and whole.final is not None
    assert [row.cells[0].text for row in tables["rungs"].rows] == [str(rung.cap) for rung in whole.ladder.rungs]
    assert [row.marked for row in tables["final"].rows].count(True) == 1


def test_a_file_that_is_no_outcome_is_refused(tmp_path: Path, whole: Tuning) -> None:
    path = tmp_path / "tune.json"
    for text in ("{}", "[1]", "no json", '{"schema": 9}', f'{{"schema": {SCHEMA}, "model": 1}}'):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match="not a results file of tune"):
            read_tuning(path)
    with pytest.raises(ConfigError, match="cannot read"):
        read_tuning(tmp_path / "nowhere.json")
    with pytest.raises(ConfigError, match="cannot write"):
        write_tuning(whole, path / "below" / "tune.json")
