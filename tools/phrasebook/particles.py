"""Korean particles, whose form follows the last sound of the word before them.

Hangul decides by its code point. Digits are read as Sino-Korean numbers, Latin words by a spelling rule that agrees
with the usual transcription for most names ("Tom" 톰 closes, "Mike" 마이크 does not). What cannot be read, such as a
placeholder, gets both forms the way Korean software writes them: 은(는), (으)로. Nothing here knows about patterns.
"""

from enum import Enum
from functools import lru_cache

PAIRS = frozenset(
    {
        ("은", "는"),
        ("이", "가"),
        ("을", "를"),
        ("과", "와"),
        ("으로", "로"),
        ("이에요", "예요"),
        ("이라고", "라고"),
        ("이나", "나"),
        ("아", "야"),
        ("이랑", "랑"),
        ("이고", "고"),
        ("이라서", "라서"),
        ("이었어요", "였어요"),
    }
)
"""(after a closing consonant, after a vowel)"""


class Sound(Enum):
    VOWEL = 0
    RIEUL = 1
    CONSONANT = 2
    UNKNOWN = 3


_DIGITS = dict(zip("0123456789", "CRVCVVCRRV", strict=True))
_SIGNS = {"%": "V", "℃": "V", "$": "V"}
_CODES = {"V": Sound.VOWEL, "R": Sound.RIEUL, "C": Sound.CONSONANT}
_FIRST_SYLLABLE, _LAST_SYLLABLE, _FINALS, _RIEUL = 0xAC00, 0xD7A3, 28, 8


def _latin(before: str, letter: str) -> Sound:
    if letter == "l" or (letter == "r" and not before.islower()):  # the letter R alone is read 알
        return Sound.RIEUL
    if letter in "mn" or (letter == "g" and before == "n"):
        return Sound.CONSONANT
    return Sound.CONSONANT if letter in "ckpt" and before.lower() in tuple("aeiouc") else Sound.VOWEL


@lru_cache(maxsize=65536)
def final_sound(text: str) -> Sound | None:
    """How `text` ends when read aloud in Korean; None if nothing in it is read (quotes, spaces, punctuation)."""
    for index in range(len(text) - 1, -1, -1):
        char = text[index]
        if _FIRST_SYLLABLE <= ord(char) <= _LAST_SYLLABLE:
            final = (ord(char) - _FIRST_SYLLABLE) % _FINALS
            return Sound.VOWEL if final == 0 else Sound.RIEUL if final == _RIEUL else Sound.CONSONANT
        if char in _DIGITS or char in _SIGNS:
            return _CODES[_DIGITS.get(char) or _SIGNS[char]]
        if char.isascii() and char.isalpha():
            return _latin(text[index - 1] if index else "", char.lower())
        if char.isalpha():
            return Sound.VOWEL
    return None


def particle(closed: str, opened: str, sound: Sound) -> str:
    """The form of the particle after `sound`: `closed` follows a consonant, `opened` a vowel."""
    if sound is Sound.UNKNOWN:
        return f"({closed[: -len(opened)]}){opened}" if closed.endswith(opened) else f"{closed}({opened})"
    if sound is Sound.RIEUL and closed.startswith("으"):
        return opened
    return opened if sound is Sound.VOWEL else closed
