"""Scores of translations."""

from tools.phrasebook.message import Copied
from tools.phrasebook.scores import Translated, copies, misses, quality, summarise

REFERENCE = "Tom is in room 1204. See https://a.example/x."


def translated(
    answer: str, reference: str = REFERENCE, tokens: int = 30, copied: tuple[Copied, ...] = ()
) -> Translated:
    return Translated(("ja", "en"), reference, answer, tokens, copied)


def test_an_equal_translation_scores_full() -> None:
    assert quality([translated(REFERENCE)]) == {"count": 1, "chrf": 100.0, "exact": 1.0}


def test_a_near_translation_scores_between() -> None:
    score = quality([translated(REFERENCE.replace("Tom", "Tim")), translated(REFERENCE)])
    assert 80 < score["chrf"] < 100
    assert score["exact"] == 0.5


def test_no_translations_score_nothing() -> None:
    assert quality([]) == {"count": 0, "chrf": 0.0, "exact": 0.0}


def test_copies_are_counted_by_kind() -> None:
    items = (Copied("name", "Tom"), Copied("url", "https://a.example/x"))
    wrong = REFERENCE.replace("1204", "1205").replace("/x", "/y")
    found = copies([translated(REFERENCE, copied=items), translated(wrong, copied=items)])
    assert found["name"] == {"count": 2, "exact": 1.0}
    assert found["url"] == {"count": 2, "exact": 0.5}
    assert found["numbers of a message"] == {"count": 2, "exact": 0.5}


def test_a_copy_too_many_is_not_exact() -> None:
    items = (Copied("name", "Tom"),)
    assert copies([translated(f"{REFERENCE} Tom", copied=items)])["name"]["exact"] == 0.0


def test_misses_can_be_read_and_are_few() -> None:
    wrong = [translated(f"{number}") for number in range(30)]
    found = misses([translated(REFERENCE), *wrong])
    assert len(found) == 20
    assert found[0] == {"direction": "ja-en", "reference": REFERENCE, "answer": "0"}


def test_a_summary_sorts_by_direction_and_length() -> None:
    summary = summarise([translated(REFERENCE, tokens=n) for n in (3, 20, 21, 150, 300)])
    assert summary["directions"]["ja-en"]["count"] == 5
    assert summary["directions"]["en-ja"]["count"] == 0
    counts = {band: row["count"] for band, row in summary["bands"].items()}
    assert counts == {"1-20": 2, "21-50": 1, "101-200": 1, "over 200": 1}
