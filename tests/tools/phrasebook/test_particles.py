"""Korean particles follow the last sound."""

import pytest
from tools.phrasebook.particles import Sound, final_sound, particle


@pytest.mark.parametrize(
    ("word", "topic", "towards"),
    [
        ("기차역", "은", "으로"),
        ("학교", "는", "로"),
        ("호텔", "은", "로"),
        ("서울", "은", "로"),
        ("3", "은", "으로"),
        ("1204", "는", "로"),
        ("1", "은", "로"),
        ("100", "은", "으로"),
        ("35%", "는", "로"),
        ("Tom", "은", "으로"),
        ("Mike", "는", "로"),
        ("Jack", "은", "으로"),
        ("Daniel", "은", "로"),
        ("Ming", "은", "으로"),
        ("Peter", "는", "로"),
        ("report.pdf", "는", "로"),
    ],
)
def test_particle_follows_the_sound_that_a_word_ends_in(word: str, topic: str, towards: str) -> None:
    sound = final_sound(word)
    assert sound is not None
    assert particle("은", "는", sound) == topic
    assert particle("으로", "로", sound) == towards


def test_closing_punctuation_is_not_read() -> None:
    assert final_sound("‘서울’") is Sound.RIEUL
    assert final_sound(" (…)") is None


def test_an_unreadable_word_gets_both_forms() -> None:
    assert particle("은", "는", Sound.UNKNOWN) == "은(는)"
    assert particle("으로", "로", Sound.UNKNOWN) == "(으)로"
    assert particle("이라고", "라고", Sound.UNKNOWN) == "(이)라고"
