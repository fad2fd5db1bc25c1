"""A short run of the fuzzer, and that it finds what is planted."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dragoman_bench.bench.measurement import Measurement
from tests.fuzz import findings, guided
from tests.fuzz.__main__ import fuzz
from tests.fuzz.findings import finding
from tests.fuzz.targets import Target, targets
from tests.processes import ROOT


@pytest.mark.acceptance
def test_a_short_run_finds_nothing() -> None:
    assert fuzz(600, seed=1) == []


def test_the_kept_corpus_is_read_or_refused() -> None:
    """Files that earlier runs of the guided fuzzer have kept, as they reached code that others did not."""
    with targets() as table:
        known = {guided.file_name(name) for name in table}
        assert {path.stem for path in guided.CORPUS.glob("*.zip")} <= known
        for name, target in table.items():
            for data in guided.kept(name):
                assert finding(target, data) is None, (name, data[:200])


def test_a_corpus_keeps_its_smallest_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guided, "CORPUS", tmp_path / "corpus")
    monkeypatch.setattr(guided, "MOST_KEPT_BYTES", 5)
    folder = tmp_path / "grown"
    folder.mkdir()
    for number, data in enumerate((b"aaaa", b"b", b"cc", b"b")):
        (folder / str(number)).write_bytes(data)
    assert guided.kept("api /x?y") == []
    guided.keep("api /x?y", folder)
    assert guided.kept("api /x?y") == [b"b", b"cc"]


def test_the_page_shows_the_published_results() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    results = Measurement.read(ROOT / "results" / "fuzz.json")
    assert guided.shown_in(page, results) == page, "run make results"
    with targets() as table:
        assert {*results.data["targets"]} == {*table}


def test_another_exception_and_too_much_time_are_findings_and_a_refusal_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def parse(data: bytes) -> None:
        if data == b"refused":
            raise ValueError
        if data == b"wrong":
            raise KeyError
        while data == b"slow" and time.process_time():
            pass

    monkeypatch.setattr(findings, "LONGEST_S", 0.05)
    target = Target([b""], lambda _, data: data, parse, (ValueError,))
    found = [finding(target, data) for data in (b"read", b"refused", b"wrong", b"slow")]
    assert found[:2] == [None, None]
    assert [type(one).__name__ for one in found[2:]] == ["KeyError", "TooLong"]
