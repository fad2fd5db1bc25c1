"""English surface rules that a pattern leaves to the generator: a or an, and the capital that opens a sentence.

Sounds are judged by spelling with short lists of exceptions, enough for a lexicon of everyday nouns.
"""

import re

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
