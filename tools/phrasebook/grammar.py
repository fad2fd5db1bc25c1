"""Surface rules that a pattern leaves to the generator: Korean particles, English articles and capitals.

The form of a Korean particle follows the last sound of the word before it. Hangul decides by its code point. Digits are
read as Sino-Korean numbers, Latin words by a spelling rule that agrees with the usual transcription for most names ("Tom"
톰 ends in a consonant, "Mike" 마이크 does not). What cannot be read, such as a placeholder, gets both forms the way Korean
software writes them: 은(는), (으)로. English sounds are judged by spelling, with short lists of exceptions.
"""

import re
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


_SPOKEN_VOWEL_LETTERS = "AEFHILMNORSX"
_SILENT_H = ("hour", "honest", "honor", "heir")
_CONSONANT_VOWELS = ("uni", "use", "usu", "euro", "one", "ukulele", "uk ", "ewe")
_UNI_EXCEPTIONS = ("unin", "unim", "unid")
_VOWEL_NUMBER = re.compile(r"8|(?:11|18)(?:\D|$|\d{3}(?:\D|$))")


def indefinite(noun: str) -> str:
    """`noun` behind its indefinite article: "an apple", "a university", "an 8", "a USB cable"."""
    return f"{'an' if _vowel_sound(noun) else 'a'} {noun}"


def _vowel_sound(noun: str) -> bool:
    word = re.split(r"[\s-]", noun, maxsplit=1)[0]
    if word[:1].isdigit():
        return bool(_VOWEL_NUMBER.match(word))
    if len(word) > 1 and word.isupper():
        return word[0] in _SPOKEN_VOWEL_LETTERS
    lower = noun.lower()
    if lower.startswith(_SILENT_H):
        return True
    if lower.startswith(_CONSONANT_VOWELS) and not lower.startswith(_UNI_EXCEPTIONS):
        return False
    return lower[:1] in tuple("aeiou")


def capitalised(text: str) -> str:
    """`text` with its first letter in upper case."""
    return text[:1].upper() + text[1:]
