"""Plural categories beside those that Babel has of CLDR."""

from __future__ import annotations

import pytest

from wholetext import languages
from wholetext.markup.plurals import plural_categories, plural_category

babel = pytest.importorskip("babel")
BASES = [tag for tag in babel.localedata.locale_identifiers() if "_" not in tag and languages.find(tag)]
TAGS = [tag for tag in BASES if plural_category(tag, 1) is not None]


def test_the_rules_of_most_languages_are_known() -> None:
    assert len(TAGS) > 60


@pytest.mark.parametrize("tag", TAGS)
def test_a_number_has_the_category_of_cldr(tag: str) -> None:
    form = babel.Locale.parse(tag).plural_form
    numbers = [*range(1_200), *range(9_990, 10_120), 123_456, 999_999]
    assert [plural_category(tag, number) for number in numbers] == [form(number) for number in numbers]
    assert set(plural_categories(tag)) == {form(number) for number in range(1_001)} | {"other"}


def test_a_language_without_rules_has_none() -> None:
    assert plural_category("tlh", 1) is None
    assert plural_categories("tlh") == ("other",)
