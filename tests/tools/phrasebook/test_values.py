"""Values that are copied."""

import re
from random import Random

import pytest
from tools.phrasebook.values import COPIED_KINDS, draw_copied, stock

SHAPES = {
    "name": r"[A-Z][a-z]+",
    "company": r"[A-Z][a-z]+( [A-Z][a-z]+)?",
    "int": r"[2-9]|[1-9]\d{1,2}",
    "room": r"[1-9]\d{2,3}",
    "code": r"[A-Z]{1,3}-?\d{3,6}",
    "url": r"https://[a-z.]+(/[a-z]+)*(\?id=\d+)?",
    "email": r"[a-z]+(\.[a-z]+|\d+)?@[a-z.]+",
    "phone": r"(\+\d+ )?\d+(-\d+)+",
    "version": r"\d+(\.\d+){1,2}",
    "percent": r"([1-9]\d?|100)%",
    "file": r"[a-z]+[a-z_\d-]*\.[a-z\d]+",
    "placeholder": r"\$?\{+[\w]+\}+|%[sd]|%\(\w+\)s|%\d\d?\$s|<x id=\"\d\"></x>",
}


@pytest.mark.parametrize("kind", sorted(COPIED_KINDS))
def test_a_copied_value_has_the_shape_of_its_kind(kind: str) -> None:
    rng = Random(1)
    for _ in range(500):
        value = draw_copied(kind, rng, stock())
        assert len(set(value.texts)) == 1
        assert re.fullmatch(SHAPES[kind], value.texts[0])
