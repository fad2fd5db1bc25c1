"""The report of a tune: everything is said in it, and it needs nothing but itself."""

from __future__ import annotations

import re
from collections import Counter
from html import unescape
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman_bench.tune.charts import charts
from dragoman_bench.tune.config_file import config_text
from dragoman_bench.tune.page import html, write_page
from tests.bench.reading import Page
from tests.tune.telling import RECOMMENDATION, TRIALS, WHOLE, stopped


@pytest.fixture(scope="module")
def whole() -> str:
    return html(WHOLE, config_text(WHOLE, {}))


def said(text: str) -> str:
    """What a reader sees; names may break after an underscore, and code is set as code."""
    return Page(re.sub(r"</?(?:wbr|code)>", "", text)).text


def test_the_page_refers_to_nothing_outside_itself(whole: str) -> None:
    parsed = Page(whole.replace("<wbr>", ""))
    references = [value for _, name, value in parsed.attributes if name in ("href", "src", "xlink:href", "srcset")]
    assert references and all(value.startswith("#") for value in references)
    assert not [tag for tag, _, _ in parsed.attributes if tag in ("script", "link", "iframe", "img", "object")]
    assert not re.search(r"url\((?!#)|@import|<script", whole)
    assert "default-src 'none'" in whole


def test_every_id_is_unique_and_every_reference_has_one(whole: str) -> None:
    parsed = Page(whole.replace("<wbr>", ""))
    ids = Counter(value for _, name, value in parsed.attributes if name == "id")
    assert [found for found, count in ids.items() if count > 1] == []
    wanted = {value.removeprefix("#") for _, name, value in parsed.attributes if name in ("href", "aria-labelledby")}
    assert wanted <= set(ids)


def test_the_recommendation_and_its_reasons_are_on_it(whole: str) -> None:
    text = said(whole)
    for told in (RECOMMENDATION.headline, RECOMMENDATION.because.replace("`", ""), *RECOMMENDATION.caveats):
        assert told in text
    for choice in RECOMMENDATION.choices:
        assert choice.path in text and choice.why[1:] in text
    assert "max_num_seqs = 16" in text  # the file itself


def test_every_trial_is_on_it_with_its_reason(whole: str) -> None:
    text = said(whole)
    for trial in TRIALS:
        assert trial.name in text and trial.reason[1:] in unescape(text)
    assert "<quantization>" not in whole  # escaped


def test_charts_have_words_and_the_knee_is_marked(whole: str) -> None:
    drawn = [
        value
        for tag, name, value in Page(whole.replace("<wbr>", "")).attributes
        if (tag, name) == ("svg", "aria-label")
    ]
    assert sorted(drawn) == sorted(chart.alt for chart in charts(WHOLE).values())
    assert '<tr class="marked">\n<th scope="row">16<span class="flag knee">knee</span>' in whole


def test_an_unfinished_tune_gives_a_page_of_what_was_reached() -> None:
    text = html(stopped())
    assert "Not finished (Ctrl-C)" in text and "Read with care" in text
    assert 'id="climb"' in text and 'id="against"' not in text and 'id="cache"' not in text


def test_the_same_outcome_gives_the_same_page(whole: str) -> None:
    assert html(WHOLE, config_text(WHOLE, {})) == whole


def test_where_it_cannot_be_written_is_told(tmp_path: Path) -> None:
    write_page(stopped(), tmp_path / "new" / "report.html")
    assert (tmp_path / "new" / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    with pytest.raises(ConfigError, match="cannot write"):
        write_page(stopped(), tmp_path)
