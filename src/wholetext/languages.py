"""Parses and normalises language tags, matches them with others, and returns their names and scripts.

Tags are BCP-47, canonicalised as CLDR does (`iw` is `he`, `cmn` is `zh`, `zh_tw` is `zh-TW`).
"""

from __future__ import annotations

import difflib
import re
from functools import lru_cache

import langcodes
from langcodes import Language
from langcodes.language_lists import CLDR_LANGUAGES
from langcodes.tag_parser import LanguageTagError

from wholetext.errors import UnknownLanguage

MAX_TAG_CHARACTERS = 64
"""Longer than every tag and language name."""

_CJK_SCRIPTS = frozenset({"Hans", "Hant", "Hani", "Jpan", "Hira", "Kana", "Hrkt", "Kore", "Hang", "Bopo"})
_RIGHT_TO_LEFT_SCRIPTS = frozenset({"Arab", "Hebr", "Syrc", "Thaa", "Nkoo", "Adlm", "Rohg", "Mand", "Samr"})
_UNSPACED_SCRIPTS = _CJK_SCRIPTS - {"Kore", "Hang"} | {"Thai", "Laoo", "Khmr", "Mymr", "Tibt", "Lana", "Talu"}
_NOT_A_LANGUAGE = frozenset({"und", "mul", "zxx", "mis"})
_LOCAL_USE = re.compile(r"q[a-t][a-z]")  # qaa-qtz: for private agreement
_MORE_NAMED = ("gsw", "no", "zh-Hans", "zh-Hant", "pt-BR", "pt-PT", "sr-Latn", "sr-Cyrl", "es-MX", "fr-CA")
_OTHER_NAMES = {
    "simplified chinese": "zh-Hans",
    "traditional chinese": "zh-Hant",
    "简体中文": "zh-Hans",
    "繁體中文": "zh-Hant",
    "mandarin": "zh",
    "farsi": "fa",
    "american english": "en-US",
    "british english": "en-GB",
    "brazilian portuguese": "pt-BR",
    "european portuguese": "pt-PT",
}
"""Common names that CLDR's list of languages lacks, folded."""

_TAG_PREFIX = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z]{2,4})?(?![A-Za-z])")


@lru_cache(maxsize=4096)
def normalise(tag: str) -> str:
    """Return the canonical tag for a BCP-47 tag (any case, `_` for `-`), or for a language's exact English or own name.

    Extensions and private-use subtags are dropped: they name no language. Raises `UnknownLanguage`, with a suggestion if
    there is one, for anything else.
    """
    text = tag.strip()
    if not text:
        raise UnknownLanguage('The language is empty; give a tag such as "en" or "zh-Hant".')
    if len(text) > MAX_TAG_CHARACTERS:
        raise UnknownLanguage(f"{text[:24] + '…'!r} is no language: it has over {MAX_TAG_CHARACTERS} characters.")
    found = find(text)
    if found is None:
        near = _nearest(text)
        hint = f' Did you mean "{near}"?' if near else ' Give a BCP-47 tag such as "en" or "zh-Hant".'
        raise UnknownLanguage(f"{text!r} is not a known language.{hint}")
    return found


def find(text: str) -> str | None:
    """Like `normalise`, but return None if the text names no language, without the time for a suggestion."""
    text = text.strip()
    if not 0 < len(text) <= MAX_TAG_CHARACTERS:
        return None
    return _parsed(text) or _known_names().get(_folded(text)) or _named(text)


@lru_cache(maxsize=4096)
def match(tag: str, served: tuple[str, ...]) -> str | None:
    """Return the entry of `served`, as spelt there, that serves `tag`; None if there is none.

    An entry serves a tag when both are one language in one script: `zh-CN` is served by `zh`, `zh-TW` by `zh-Hant` and
    never by `zh`, `pt-BR` by `pt` or else by `pt-PT`, `nb` by `no`. A related language is not served: `yue` is not `zh`,
    `nn` is not `no`. Of several entries the one with the nearest region is taken (CLDR's distance), then the first.
    Raises `UnknownLanguage` when `tag` or an entry is no language.
    """
    wanted = normalise(tag)
    group = _group(wanted)
    nearest = [
        (langcodes.tag_distance(wanted, normal), place, candidate)
        for place, candidate in enumerate(served)
        if _group(normal := normalise(candidate)) == group
    ]
    return min(nearest)[2] if nearest else None


@lru_cache(maxsize=4096)
def name(tag: str, in_language: str = "en") -> str:
    """Return the language's name in another language: `name("zh-TW")` is "Chinese (Traditional, Taiwan)"."""
    return Language.get(_scripted(normalise(tag))).display_name(normalise(in_language))


@lru_cache(maxsize=4096)
def native_name(tag: str) -> str:
    """Return the language's own name, or its English name if CLDR has none."""
    return Language.get(_scripted(normalise(tag))).autonym()


@lru_cache(maxsize=4096)
def script(tag: str) -> str:
    """Return the ISO 15924 code of the language's script: `Hant` for `zh-TW`, `Zzzz` if unknown."""
    return Language.get(normalise(tag)).maximize().script or "Zzzz"


@lru_cache(maxsize=256)
def of_script(script: str) -> str | None:
    """Return the language that CLDR has for an ISO 15924 script alone: `el` for `Grek`; None if it has none."""
    found = Language.make(script=script).maximize()
    known = found.language not in (None, "en", "und") or script in ("Latn", "Shaw", "Dsrt")
    return _parsed(found.language) if known and found.language else None


@lru_cache(maxsize=4096)
def primary(tag: str) -> str:
    """Return the language subtag: `zh` for `zh-Hant-TW`."""
    return normalise(tag).partition("-")[0]


def is_cjk(tag: str) -> bool:
    """Whether the language is written in Han characters, kana or Hangul."""
    return script(tag) in _CJK_SCRIPTS


def is_right_to_left(tag: str) -> bool:
    """Whether the language is written from right to left."""
    return script(tag) in _RIGHT_TO_LEFT_SCRIPTS


@lru_cache(maxsize=4096)
def uses_spaces(tag: str) -> bool:
    """Whether the language puts spaces between its words; Chinese, Japanese, Thai, Lao, Khmer and Burmese do not."""
    return script(tag) not in _UNSPACED_SCRIPTS


def _parsed(text: str) -> str | None:
    """Return the canonical tag; None if the text is not a tag of a language."""
    try:
        full = Language.get(langcodes.standardize_tag(text, macro=True))
    except LanguageTagError:
        return None
    bare = Language.make(full.language, None, full.script, full.territory, full.variants)
    subtag = bare.language or "und"
    if subtag in _NOT_A_LANGUAGE or subtag.startswith("x-") or _LOCAL_USE.fullmatch(subtag):
        return None
    return bare.to_tag() if full.extlangs is None and bare.is_valid() else None


def _named(text: str) -> str | None:
    """Return the tag of a language with this English name. `langcodes.find` accepts similar names, so compare the result."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z ()'-]{2,}", text):
        return None
    try:
        found = Language.find(text, "en")
    except LookupError:
        return None
    return _parsed(found.to_tag()) if _folded(found.display_name()) == _folded(text) else None


def _nearest(text: str) -> str | None:
    """Return a tag to suggest: the language of a country code (`jp`), a valid beginning, or the tag of a similar name."""
    if re.fullmatch(r"[A-Za-z]{2}", text):
        return _spoken_in(Language.make(territory=text.upper()))
    prefix = _TAG_PREFIX.match(text)
    if prefix:
        return _parsed(prefix.group()) or _parsed(re.split("[-_]", prefix.group())[0])
    close = difflib.get_close_matches(_folded(text), _known_names(), n=1, cutoff=0.75)
    return _known_names()[close[0]] if close else None


def _spoken_in(country: Language) -> str | None:
    if country.territory_name().startswith("Unknown"):
        return None
    language = country.maximize().language
    return _parsed(language) if language else None


@lru_cache(maxsize=1)
def _known_names() -> dict[str, str]:
    """Map folded English and own names to tags, for each language that CLDR can name."""
    tags = sorted({tag for code in (*CLDR_LANGUAGES, *_MORE_NAMED) if (tag := _parsed(code))})
    return {_folded(spelt): tag for tag in tags for spelt in (native_name(tag), name(tag))} | _OTHER_NAMES


def prepare() -> None:
    """Load the tables of names before the first misspelt tag needs them. It takes seconds."""
    _named("English")
    _known_names()


def _folded(text: str) -> str:
    return " ".join(re.sub(r"[(),（），、-]", " ", text.casefold()).split())


def _group(tag: str) -> tuple[str, str]:
    """Return language and script (`no` means Bokmål). A tag can serve another one with the same language and script."""
    language = primary(tag)
    return "no" if language == "nb" else language, script(tag)


def _scripted(tag: str) -> str:
    """Add the script if the region implies an unusual one: CLDR can name zh-Hant-TW, not zh-TW."""
    language = Language.get(tag)
    if language.territory is None or language.script is not None:
        return tag
    implied = script(tag)
    if implied == script(primary(tag)):
        return tag
    return Language.make(language.language, None, implied, language.territory, language.variants).to_tag()
