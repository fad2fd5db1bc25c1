"""Whether a message asks for a translation, from which language and into which, as programs write it in ten languages.

The grammar is a word of translating, and in the same sentence a preposition with the name of a language; else a label ("Target
language: German"), or two names ("English to German"). Its words are data, in `chat_words.toml`, and so are the names of
languages, in `chat_names.json`. Only the beginning and the end of a long message are read, and each search from a word has a
bound.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from unicodedata import combining, normalize

from dragoman import languages

_FOLDER = Path(__file__).parent
_READ = 20_000  # characters at the beginning and at the end of a message in which a language is looked for
_MAX_KEPT = 4_000  # characters of a message whose reading is kept
_KEPT_ANSWERS = 64  # to a question of which a request asks several about the same message
_MAX_SENTENCE = 220
_MAX_FOUND = 100  # words of one kind in a message: an instruction has fewer
_LED = re.compile(r"^(?P<line>[^\n]{4,200}?)[:：](?=\s{0,40}\S)", re.MULTILINE)
_MAX_LED = 4
_QUOTES = "\"'`*_“”‘’«»「」『』【】《》<>{}[]()（） \t"
_SENTENCE_END = re.compile(r"[。！？]|[.!?](?:\s|$)|\n[ \t]*\n|[.。:：][ \t]*\n")
_PAIR = re.compile(r"[ \t]to[ \t]|-to-|[ \t]?(?:->|→|=>|➜)[ \t]?|到", re.IGNORECASE)
_PAIR_HERE = re.compile(r"[ \t]*[^\s→>=-][^\n.,→>=-]{1,30}?[ \t]?(?:->|→|=>|➜)[ \t]?")
_OR = re.compile(r"[^.\n,;:]{2,40}?(?:,? (?:or|and)|,|/|;)(?= ?\w)")
_IN = re.compile(r"\bin(?:to)?\b", re.IGNORECASE)
_LEAD = re.compile(
    rf"[\s{re.escape(_QUOTES)}:：]{{0,12}}(?:(?:the|an?|target|following|output|destination|languages?|lang|locale|code|iso|639-1"
    r"|with|of|la|les?|el|o|das|dem|den|l|lingua|idioma|langue"
    r"|língua|язык|sprache)\b[\s\"'`’*:：(=«\[{<]{0,8}){0,6}",
    re.IGNORECASE,
)
_ADJECTIVE = re.compile(r"(?:\w{1,8}?[、，])?\w{1,8}?的")
_ADJECTIVES = re.compile(
    r"(?:(?!(?:the|an?|of|for|by|in|on|with|from)\b)[A-Za-z][a-z-]{2,20}(?P<comma>,)?[ \t]+){1,4}(?=[A-Z][a-z]{2}|[^\x00-\x7f])"
)
_ADJECTIVE_END = re.compile(
    r"(?:al|ic|ive|ent|ant|[ai]ble|ern|ful|ous|ate|ish|ary|day|ar|ain|ct|ard|ple|[rd]ed|ken|quality)\Z"
)
_WORD = re.compile(r"[\w-]{1,40}")
_LAST_WORDS = re.compile(r"[A-Za-zÀ-ÿА-яё][\wÀ-ÿ-]{0,40}(?: [A-Za-zÀ-ÿА-яё-]{1,40}){0,2}\Z", re.ASCII)
_IN_BRACKETS = re.compile(r"[\w -]{2,40}? ?[(（][\w ,-]{2,30}[)）]")
_TAG = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,4}){0,2}")
_AFTER_CODE = re.compile(r"\s*(?:[\"'`”’»)\]}>.,;:!?，。：]|$|\n)")
_SOURCE_TEXT = re.compile(r"\b(?:following|given|this|the|original|de|le)[ \t]+(?=(\w[\w -]{1,40}))", re.IGNORECASE)
_CONTEXT_LINE = re.compile(
    r"^[^\n:]{0,30}\b(?:context|description|title|summary|background|synopsis|notes?|about)\b[^\n:]{0,30}:(?:[^\n]+|(?:\n[^\n]+)+)$"
    r"|<(\w{0,20}context)>[\s\S]{0,3000}?</\1>",
    re.IGNORECASE | re.MULTILINE,
)
"""What tells of a text, not of its translation."""


@dataclass(frozen=True, slots=True)
class AskedLanguages:
    """What a message says of a translation: `targets` are the languages into which it asks for one, each once."""

    asks: bool = False
    targets: tuple[str, ...] = ()
    source: str | None = None


@cache
def _data() -> Mapping[str, Mapping[str, str]]:
    text = (_FOLDER / "chat_words.toml").read_text("utf-8")
    for name, part in tomllib.loads(text)["parts"].items():
        text = text.replace(f"{{{name}}}", part)
    return tomllib.loads(text)


@cache
def words(kind: str) -> re.Pattern[str]:
    """The words of a kind, each a group with the name of the request's language."""
    return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _data()[kind].items()), re.IGNORECASE)


def keys() -> dict[str, tuple[str, ...]]:
    """Names of fields in JSON by what they have."""
    return {kind: tuple(names.split()) for kind, names in _data()["keys"].items()}


@cache
def signs() -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    """Nouns of shapes, each with a sign of its shape."""
    return tuple((re.compile(noun, re.IGNORECASE), re.compile(sign)) for noun, sign in _data()["signs"].items())


@cache
def _by_language(kind: str) -> Mapping[str, re.Pattern[str]]:
    return {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _data()[kind].items()}


@cache
def _names() -> dict[str, str]:
    """Names of languages, folded, to tags; of two the more common one's."""
    found: dict[str, str] = {}
    listed: dict[str, list[str]] = json.loads((_FOLDER / "chat_names.json").read_text("utf-8"))
    for tag, names in listed.items():
        for name in names:
            found.setdefault(name, tag)
            found.setdefault(re.sub(r"[()（）]", "", name), tag)
            if name[:1].isascii() and not name.isascii():
                found.setdefault("".join(one for one in normalize("NFD", name) if not combining(one)), tag)
            if name.endswith("语"):
                found.setdefault(f"{name[:-1]}文", tag)
            if tag == "ru" or name.endswith(("ский", "цкий")):
                found.setdefault(name[:-2], tag)  # "с английского"
    return found | {name: tag for tag, names in _data()["names"].items() for name in names.split("|")}


def tag_of(name: str) -> str | None:
    """The tag of a language's tag or name; None for what is none."""
    name = name.strip(_QUOTES + "\n.:") if not name.rstrip().endswith((")", "）")) else name.strip()
    return _tag_of(name) if 0 < len(name) <= languages.MAX_TAG_CHARACTERS else None


@lru_cache(maxsize=4096)
def _tag_of(name: str) -> str | None:
    if words("no_language").fullmatch(name):
        return None
    found = _names().get(name.casefold().replace("_", " ")) or languages.find(name)
    if found is None and name.endswith(
        (")", "）")
    ):  # "German (Germany)", as .NET and CLDR write regions that need not be said
        found = languages.find(re.split(r" ?[(（]", name, maxsplit=1)[0])
    return found


def is_same(one: str, other: str) -> bool:
    """Whether two tags are of one language, in whatever region or script."""
    return one.partition("-")[0] == other.partition("-")[0]


# ---- the name of a language at a place


def at(text: str, place: int, stop: int | None = None) -> str | None:
    """The language whose name begins at a place, and before `stop`, behind quotes and words such as "the target language";
    None: none does."""
    lead = _LEAD.match(text, place)
    start = lead.end() if lead is not None else place
    is_marked = start > place and (text[start - 1] in "\"'`“‘«「『(<[{*" or "lang" in text[place:start].lower())
    name = text[start : min(start + 80, len(text) if stop is None else stop)]
    if (found := _named_at(name, is_marked)) is None and (adjective := _ADJECTIVE.match(name)) is not None:
        return _named_at(name[adjective.end() :], is_marked)
    if found is None and (adjectives := _ADJECTIVES.match(name)) is not None:
        is_sure = text[max(place - 4, 0) : place].lower() == "into" or adjectives["comma"]
        if is_sure or _ADJECTIVE_END.search(adjectives[0].rstrip()):  # and no verb: "to fit German readers"
            return _named_at(name[adjectives.end() :], is_marked)
    return found


@lru_cache(maxsize=4096)
def _named_at(text: str, is_marked: bool) -> str | None:
    if (found := _IN_BRACKETS.match(text)) is not None and (tag := _tag_of(found[0])):
        return tag
    following = list(islice(_WORD.finditer(text.partition("\n")[0]), 4))
    for word in reversed(following if following and following[0].start() == 0 else []):
        spelt = text[: word.end()]
        if re.fullmatch(r"[\w -]+", spelt) and (tag := _known(spelt, text[len(spelt) :], is_marked)):
            return tag
    for length in range(min(len(text), 14), 1, -1):
        if not text[:length].isascii() and (tag := _names().get(text[:length].strip(_QUOTES).casefold())):
            return tag
    return None


def _known(spelt: str, after: str, is_marked: bool) -> str | None:
    folded = spelt.casefold()
    is_word = words("names_like_words").fullmatch(folded) is not None and not is_marked and not spelt[:1].isupper()
    if is_word:
        return None
    if (tag := _inflected(folded)) is not None:
        return tag
    if _TAG.fullmatch(spelt):
        is_short = len(spelt) == 2 and _AFTER_CODE.match(after) is not None
        is_code = is_marked or "-" in spelt or "_" in spelt or spelt.isupper() or is_short
        is_word = words("names_like_words").fullmatch(folded) is not None and not is_marked
        return languages.find(spelt) if is_code and not is_word else None
    return languages.find(spelt) if spelt[0].isupper() and len(spelt) > 3 else None


def _inflected(folded: str) -> str | None:
    """The tag of a name, or of one with an ending: "Deutsche", "Englischen", "английского"."""
    names = _names()
    if (found := names.get(folded.replace("_", " "))) is not None:
        return found
    if folded.endswith(("sche", "schen", "che", "chen")):
        return names.get(folded.removesuffix("n").removesuffix("e"))
    return names.get(re.sub(r"(?:ий|ого|ому|им|ом)$", "", folded)) if folded[-1:] in "йоум" else None


def before(text: str, place: int, *, codes: bool = True) -> str | None:
    """The language whose name ends at a place; None: none does. `codes`: also a code in small letters, which may be an
    article ("la traduction")."""
    text = text[max(place - 40, 0) : place].rstrip(_QUOTES)
    for length in range(min(len(text), 14), 1, -1) if not text.isascii() else ():
        if not text[-length:].isascii() and (tag := _names().get(text[-length:].casefold())) is not None:
            return tag
    last = _LAST_WORDS.search(text)
    parts = last[0].split(" ") if last is not None else []
    for spelt in (" ".join(parts[place:]) for place in range(len(parts))):
        is_word = words("names_like_words").fullmatch(spelt.casefold()) is not None
        if not is_word and (codes or len(spelt) > 3 or not spelt.islower()) and (tag := _known(spelt, "", True)):
            return tag
    return None


# ---- what a message says


def asks(message: str) -> bool:
    """Whether a message speaks of a translation, at its beginning or its end."""
    if len(message) <= _READ:
        return _asks(message)
    search = words("asks").search
    return search(message, 0, _READ) is not None or search(message, len(message) - _READ) is not None


@lru_cache(maxsize=_KEPT_ANSWERS)
def _asks(message: str) -> bool:
    return words("asks").search(message) is not None


def tells(message: str) -> bool:
    """Whether a sentence of a message asks its reader for a translation, or says that this is what the reader does."""
    return _starts("tells", message) or _starts("persona", message)


def commands(message: str) -> bool:
    """Whether a sentence of a message asks its reader for a translation."""
    return _starts("tells", message)


def follows(line: str) -> bool:
    """Whether a line speaks of a text that follows, and of no language."""
    return (
        words("follows").search(line) is not None and words("text").search(line) is not None and not read(line).targets
    )


def requested(message: str) -> Iterator[str]:
    """The languages into which sentences of a message ask its reader for a translation."""
    for found in _some(_sentence("tells"), message, 0, _READ):
        if found[0][:1] not in ",，;；:：":
            end = _SENTENCE_END.search(message, found.end(), found.end() + _MAX_SENTENCE)
            yield from read(
                message[found.start() : end.start() if end is not None else found.end() + _MAX_SENTENCE]
            ).targets


def introduces(message: str, target: str) -> bool:
    """Whether one of the first lines of a message leads with a colon from the name of a language as one into which something
    goes ("na polski: …") to more. In English texts do so too, and its requests are known."""
    prepositions = {spoken: pattern for spoken, pattern in _by_language("to").items() if spoken != "en"}
    for line in islice(_LED.finditer(message, 0, _MAX_SENTENCE), _MAX_LED):
        for spoken, pattern in prepositions.items():
            for word in _some(pattern, line["line"]):
                tag = before(line["line"], word.start()) if spoken in ("ja", "ko") else at(line["line"], word.end())
                if tag is not None and is_same(tag, target):
                    return True
    return False


def begins(message: str) -> bool:
    """Whether a message begins with such a sentence."""
    return _sentence("tells").match(message) is not None


def _starts(kind: str, message: str) -> bool:
    return _has_sentence(kind, message[:_READ]) or (len(message) > _READ and _has_sentence(kind, message[-_READ:]))


@lru_cache(maxsize=_KEPT_ANSWERS)
def _has_sentence(kind: str, message: str) -> bool:
    return _sentence(kind).search(message) is not None


@cache
def _sentence(kind: str) -> re.Pattern[str]:
    pattern = words(kind).pattern.replace(" ", r"\s")  # a sentence may be broken into lines
    return re.compile(rf"(?:\A|[.!。\n;；:：,，]|^)[\s#*>\-;\"]{{0,40}}+(?:/\w+ )?(?:{pattern})", re.IGNORECASE)


def read(message: str) -> AskedLanguages:
    """What a message says of a translation."""
    if len(message) > 2 * _READ:
        message = f"{message[:_READ]}\n\n{message[-_READ:]}"
    if not asks(message):
        return AskedLanguages()
    return _read(message) if len(message) <= _MAX_KEPT else _read.__wrapped__(message)


@lru_cache(maxsize=1024)
def _read(message: str) -> AskedLanguages:
    message = _CONTEXT_LINE.sub("", message)
    verbs = list(_some(words("asks"), message))
    targets = list(dict.fromkeys(_targets(message, verbs)))
    kept = (
        one for one in targets if not any(other.startswith(f"{one}-") for other in targets)
    )  # "Simplified Chinese" is Chinese
    return AskedLanguages(True, tuple(kept), _source(message, verbs))


def _some(pattern: re.Pattern[str], message: str, start: int = 0, stop: int | None = None) -> Iterator[re.Match[str]]:
    return islice(pattern.finditer(message, start, len(message) if stop is None else stop), _MAX_FOUND)


def _targets(message: str, verbs: Sequence[re.Match[str]]) -> list[str]:
    """The languages by the first kind of words that names one."""
    named = [*_beside_verbs(message, verbs, "to"), *_labelled(message, "target")]
    if not named:
        pairs = (one for one in _some(_PAIR, message) if before(message, one.start()) is not None)
        named = [tag for pair in pairs if (tag := at(message, pair.end())) is not None]
    if not named:
        named = [tag for one in _some(_IN, message) if (tag := at(message, one.end())) is not None]
    if not named:  # "a German translation"
        named = [tag for one in verbs if (tag := before(message, one.start(), codes=False))]
    return named


def _beside_verbs(message: str, verbs: Sequence[re.Match[str]], kind: str) -> Iterator[str]:
    """The languages that prepositions of a kind name in the sentences of words of translating."""
    for word in verbs:
        spoken = word.lastgroup or ""
        pattern = _by_language(kind)[spoken]
        if spoken in ("ja", "ko"):
            places = _some(pattern, message, max(word.start() - 60, 0), word.start())
            found = (before(message, one.start()) for one in places)
        else:
            end = _SENTENCE_END.search(message, word.end(), word.end() + _MAX_SENTENCE)
            stop = end.start() if end is not None else min(word.end() + _MAX_SENTENCE, len(message))
            begin = max(word.start() - 60, 0) if spoken == "zh" and kind == "from" else word.end()
            found = (tag for one in _some(pattern, message, begin, stop) for tag in _listed(message, one.end(), stop))
        yield from islice(dict.fromkeys(filter(None, found)), 2 if kind == "to" else 1)


def _listed(message: str, place: int, stop: int) -> Iterator[str]:
    """The language at a place, and an alternative to it."""
    pair = _PAIR_HERE.match(message, place, stop)
    if pair is not None and at(message, place, pair.end()) is not None and (tag := at(message, pair.end(), stop)):
        yield tag
    elif (tag := at(message, place, stop)) is not None:
        yield tag
        other = _OR.match(message, place, stop)
        if other is not None and (tag := at(message, other.end(), stop)) is not None:
            yield tag


def _labelled(message: str, kind: str) -> Iterator[str]:
    found = (at(message, label.end()) for label in _some(words(kind), message))
    yield from filter(None, found)


def _source(message: str, verbs: Sequence[re.Match[str]]) -> str | None:
    for tag in (*_labelled(message, "source"), *islice(_beside_verbs(message, verbs, "from"), 1)):
        return tag
    for pair in _some(_PAIR, message):
        if at(message, pair.end()) is not None and (tag := before(message, pair.start())) is not None:
            return tag
    for word in verbs:  # "translate the following German text", "translate the German"
        for step in _some(_SOURCE_TEXT, message, word.end(), word.end() + 60):
            name = re.split(r"\b(?:in)?to\b", step[1])[0]
            is_format = re.match(r"[A-Z]{3}\b", name) is not None  # "this SRT file"
            is_within = is_format or _IN.search(message, word.end(), step.start()) is not None
            if not is_within and (tag := at(name, 0)) is not None:
                return tag
    return None
