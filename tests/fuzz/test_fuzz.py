"""A short run of the fuzzer, and that it finds what is planted."""

from __future__ import annotations

import time

import pytest

from tests.fuzz import __main__ as fuzzing
from tests.fuzz.__main__ import finding, fuzz
from tests.fuzz.targets import Target


@pytest.mark.acceptance
def test_a_short_run_finds_nothing() -> None:
    assert fuzz(600, seed=1) == []


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

    monkeypatch.setattr(fuzzing, "LONGEST_S", 0.05)
    target = Target([b""], lambda _, data: data, parse, (ValueError,))
    found = [finding(target, data) for data in (b"read", b"refused", b"wrong", b"slow")]
    assert found[:2] == [None, None]
    assert [type(one).__name__ for one in found[2:]] == ["KeyError", "TooLong"]
