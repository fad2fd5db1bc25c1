"""Answers in JSON: to a message in JSON (a list, an object, either under a key, or lines of these), and to others where the
instruction shows the keys; and what a message in JSON says besides its texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as default
from functools import partial
from itertools import islice
from typing import Any, cast

from dragoman.api.compat.chat_languages import keys, tag_of, words
from dragoman.api.compat.chat_outline import Outline, dumped, fields_of, joined, wrapped
from dragoman.api.compat.chat_schema import COPIED_NAMES
from dragoman.api.compat.chat_text import parsed_json
from dragoman.errors import InvalidRequest
from dragoman.types import Formality, Options

_KEYS = keys()
"""Names of fields, by what they have."""
_TONES: Mapping[str, Formality] = {"formal": "prefer_more", "casual": "prefer_less", "informal": "prefer_less"}
SENTENCE = re.compile(r"[^.!?。！？;\n]+")
"""A sentence of an instruction, or a part of one between semicolons."""
_SHOWN_LIST = re.compile(r"\{\s*\\?[\"'](\w{1,40})\\?[\"']\s*:\s*\[")
_SHOWN_ENTRY = re.compile(r"\"(\w{1,40})\"\s*:\s*\{\s*\"")
_SHOWN_ITEM = re.compile(r"\{((?:[^{}\[\]\"]{1,100}+|\"[^\"\n]{0,300}+\"){1,40}+)\}")
_SHOWN_KEY = re.compile(r"[\"'](\w{1,40})\\?[\"']\s*:")
_LINES_WANTED = re.compile(
    r"\bjson ?l(?:ines)?\b|\bndjson\b|\b(?:one|each) (?:json )?object (?:per|on (?:its|one|a)(?: own)?) line\b",
    re.IGNORECASE,
)
_STRINGS_WANTED = re.compile(r"\barray (?:of|with)(?: \w+){0,3} (?:translated strings|translations)\b", re.IGNORECASE)
_OBJECTS = re.compile(r"\bobjects (?:with|having|containing)\b[^.\n]{0,80}", re.IGNORECASE)
_INPUT = re.compile(r"\binput\b|\bgiven\b", re.IGNORECASE)
_MAPPING = re.compile(
    r"\b(?:object|json|dict\w*)\b[^.\n]{0,40}\b(?:mapping|keyed|maps|whose keys are)\b|\{\s*\"\d+\"\s*:\s*\"",
    re.IGNORECASE,
)
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"(?P<key>\s*:)?', re.DOTALL)
_KEPT = re.compile(
    r"\b(?:not|never|keep|copy|copied|unchanged|preserve|same|as (?:it is|is|they are))\b|n.t\b|不|保持|保留|勿",
    re.IGNORECASE,
)
_ALONE = re.compile(r"\b(?:only|just|solely|nothing but)\b|[只仅僅]|だけ|のみ|만 ", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Shown:
    """What an instruction shows of the answer: the key of its list, and the keys of an item."""

    outer: str | None
    keys: tuple[str, ...]

    @classmethod
    def of(cls, about: str) -> _Shown:
        outer = [found[1] for found in _SHOWN_LIST.finditer(about)]
        shown = [keys for found in _SHOWN_ITEM.finditer(about) if (keys := tuple(_SHOWN_KEY.findall(found[1])))]
        lists = [one for one in _named_keys(about) if _is_of_list(one)]
        if not shown:
            named = (_OBJECTS.search(one[0]) for one in SENTENCE.finditer(about) if _INPUT.search(one[0]) is None)
            shown = [tuple(re.findall(r"[\"'`](\w{1,40})[\"'`]", one[0])) for one in named if one is not None]
        return cls(outer[-1] if outer else lists[-1] if lists else None, shown[-1] if shown else ())


def _is_of_list(key: str) -> bool:
    """Whether the list of an answer may be under a key."""
    name = key.lower()
    return name in _KEYS["list"] or any(one[-1:] == "s" and one in _KEYS["list"] for one in name.split("_"))


def _named_keys(about: str) -> list[str]:
    return [found[2] or found[3] or found[4] for found in words("named_key").finditer(about)]


def of_value(message: str, value: object, about: str) -> Outline | None:
    """The answer to a message that is this value in JSON; None: its form is not clear."""
    shown, is_same = _Shown.of(about), words("same").search(about) is not None
    name, items = _list_in(value)
    if (
        name is not None
        and shown.outer is None
        and {one.lower() for one in fields_of(value)}.intersection(_KEYS["says_how"])
    ):
        return None
    if items is None:
        return _object(message, fields_of(value), about, shown, is_same=is_same)
    if not all(isinstance(one, str) for one in items) and not all(map(fields_of, items)):
        return None
    key = _text_key(items, about)
    if key is None and items and not isinstance(items[0], str):
        return None
    if key is not None and _MAPPING.search(about) is not None:
        return _by_id([(_id_of(item, place), fields_of(item)[key]) for place, item in enumerate(items)], ())
    form = _item_form(items, key, shown)
    wants_array = re.search(r"\bjson array\b|\barray of\b|数组", about, re.IGNORECASE) is not None
    outer = shown.outer or (None if wants_array and not is_same else name)
    if form is None or (outer is not None and outer != name and not _is_of_list(outer)):
        return None
    if key is not None and _STRINGS_WANTED.search(about) is not None:
        form = ()
    elif not form and (outer == name or shown.outer is None):
        is_alone = name is not None and shown.outer == name and len(fields_of(value)) > 1 and not is_same
        return _same_items(json.dumps({name: items}, ensure_ascii=False) if is_alone else message, value, key, name)
    if outer is None and _LINES_WANTED.search(about) is not None:
        return joined(items, partial(_write_item, key=key, form=form), "", "\n", "", Outline(is_json=False))
    made = joined(items, partial(_write_item, key=key, form=form), "[", ", ", "]", Outline())
    return wrapped(made, f"{{{dumped(outer)}: ", "}") if outer is not None else made


def _same_items(message: str, value: object, key: str | None, name: str | None) -> Outline:
    """The list as it came, with a translation in place of each text."""
    return spliced(message, key) if key is not None or len(fields_of(value)) < 2 else spliced(message, name)


def _object(message: str, entries: Mapping[str, Any], about: str, shown: _Shown, *, is_same: bool) -> Outline | None:
    """The answer to an object of texts by their ids; None: it is not clear, or the object says more than texts."""
    names = {name.lower() for name in entries}
    if names.intersection(_KEYS["says_how"]) or (
        names.intersection(_KEYS["says_target"]) and names.intersection(_KEYS["no_texts"])
    ):
        return None
    shown_entries = {found[1] for found in _SHOWN_ENTRY.finditer(about)}
    if shown_entries and all(isinstance(one, str) for one in entries.values()):
        if outer := {one for one in shown_entries if one.lower() in _KEYS["list"] and one not in entries}:
            name = outer.pop()
            return wrapped(spliced(message, None), f"{{{dumped(name)}: ", "}") if shown_entries == {name} else None
        form = _item_form(list(entries.values()), None, shown)
        return _by_id(entries.items(), form) if form else None
    is_plain = all(isinstance(one, str | dict | None) for one in entries.values())
    if not is_same and (not is_plain or shown.outer is not None):
        return None
    text = _text_key([entries])
    if text is not None and len(shown.keys) == 1 and shown.keys[0] not in entries:
        form = _item_form([entries], text, shown)
        return joined([entries], partial(_write_item, key=text, form=form), "", "", "", Outline()) if form else None
    kept, translated = _kept(about, entries)
    key = _text_key([entries]) if names.intersection(_KEYS["id"]) else None
    if key is not None or (kept and len(translated := entries.keys() - kept) == 1):
        return spliced(message, key or next(iter(translated)))
    return spliced(message, None) if not kept else None


def _by_id(entries: Iterable[tuple[str, object]], form: Sequence[tuple[str, str]]) -> Outline:
    """An object of the texts' translations, or of their fields, by their ids."""

    def each(made: Outline, place: int, entry: tuple[str, object]) -> None:
        made.literal(f"{dumped(entry[0])}: ")
        _write_item(made, place, entry[1], None, form)

    return joined(entries, each, "{", ", ", "}", Outline())


def spliced(message: str, key: str | None) -> Outline:
    """The message as it is, with a translation in place of each string of JSON: of those of one key, or of all but ids."""
    made, at, name, is_object = Outline(), 0, "", message.lstrip()[:1] == "{"
    for found in _STRING.finditer(message):
        if found["key"] is not None:
            name = json.loads(found[0][: -len(found["key"])])
            continue
        text = json.loads(found[0])
        is_language = name.lower() in _KEYS["says_target"] + _KEYS["says_source"] and tag_of(text) is not None
        if name == key if key is not None else not is_language and (is_object or name.lower() not in _KEYS["id"]):
            made.literal(message[at : found.start()])
            made.translated(text)
            at = found.end()
    made.literal(message[at:])
    return made


def _list_in(value: object) -> tuple[str | None, list[object] | None]:
    """The one list of texts of a value, with its key; None, None: there is none."""
    if isinstance(value, list):
        return None, cast(list[object], value)
    lists = [(name, cast(list[object], one)) for name, one in fields_of(value).items() if isinstance(one, list) and one]
    kept = [one for one in lists if one[0].lower() not in _KEYS["no_texts"]]
    return kept[0] if len(kept) == 1 else (None, None)


def _kept(about: str, names: Iterable[str]) -> tuple[set[str], set[str]]:
    """The fields that sentences of an instruction say to keep, and those that they say to translate."""
    kept, translated, alone = set[str](), set[str](), set[str]()
    names = list(names)
    for name in islice((one for one in names if len(one) <= 60), 20):
        word = rf"(?<![\w-]){re.escape(name)}(?![\w-])"
        named = re.compile(
            rf"[\"'`“「*]{word}[\"'`”」*]|{word} ?(?:fields?|keys?|values?|propert|字段|键)|(?:fields?|keys?|字段) ?{word}"
            rf"|^[ \t*-]*{word}\**[:：]"
        )
        for one in SENTENCE.finditer(about):
            if named.search(one[0]) is None:
                continue
            if _KEPT.search(one[0]) is not None:
                kept.add(name)
            elif name.lower() not in _KEYS["id"] and words("asks").search(one[0]) is not None:
                translated.add(name)
                alone |= {name} if _ALONE.search(one[0]) is not None else set()
    kept |= {*names} - alone if alone else set()
    return kept - translated, translated - kept


def _text_key(items: Sequence[object], about: str = "") -> str | None:
    """The field of all items that has their text."""
    entries = [fields_of(item) for item in items]
    if not entries or not entries[0]:
        return None
    said = [one for one in _kept(about, entries[0])[1] if all(isinstance(entry.get(one), str) for entry in entries)]
    if len(said) == 1:
        return said[0]
    names = {name.lower(): name for name in entries[0]}
    known = [names[name] for name in _KEYS["text"] if name in names]
    others = [name for name, one in entries[0].items() if isinstance(one, str) and name.lower() not in _KEYS["id"]]
    chosen = known[0] if known else others[0] if len(others) == 1 else None
    return chosen if chosen and all(isinstance(one.get(chosen), str) for one in entries) else None


def reduced(message: str) -> str:
    """A list in JSON with nothing but the ids and texts of its items; another message as it is."""
    items = _list_in(parsed_json(message))[1]
    key = _text_key(items) if items else None
    if items is None or key is None:
        return message
    return dumped(
        [{name: one for name, one in fields_of(item).items() if name == key or name in COPIED_NAMES} for item in items]
    )


def _id_of(item: object, place: int) -> str:
    return str(next((one for name, one in fields_of(item).items() if name.lower() in _KEYS["id"]), place))


def _item_form(items: Sequence[object], key: str | None, shown: _Shown) -> tuple[tuple[str, str], ...] | None:
    """The keys of an item of the answer, each with the field it is copied from, "" for the translation, "#" for the place,
    "=" for the text; (): it is as it came; None: it is not known what one of them has."""
    entries = list(fields_of(items[0])) if items else []
    ids = [name for name in entries if name.lower() in _KEYS["id"]]
    given = shown.keys
    if (
        not given
        or (key is None and not {one.lower() for one in given} & ({*_KEYS["id"], *_KEYS["answer"]}))
        or set(given) == set(entries)
    ):
        return ()
    answers = [one for one in given if one not in entries and one.lower() in _KEYS["answer"]] or [
        one for one in given if one == key
    ]
    form: list[tuple[str, str]] = []
    for name in given:
        if name in answers:
            form.append((name, ""))
        elif name in entries:
            form.append((name, name))
        elif name.lower() in _KEYS["id"] and (ids or key is None):
            form.append((name, ids[0] if ids else "#"))
        elif name.lower() in _KEYS["text"]:
            form.append((name, key or "="))
        else:
            return None
    return tuple(form) if len(answers) == 1 else None


def _write_item(made: Outline, place: int, item: object, key: str | None, form: Sequence[tuple[str, str]]) -> None:
    entries = fields_of(item)
    text = cast(str, item) if key is None else str(entries[key])
    if not form:
        made.translated(text)
        return
    for number, (name, field) in enumerate(form):
        made.literal(f"{', ' if number else '{'}{dumped(name)}: ")
        if field == "":
            made.translated(text)
        else:
            made.literal(str(place) if field == "#" else dumped(text if field == "=" else entries.get(field)))
    made.literal("}")


def of_lines(message: str, about: str, most: int) -> Outline | None:
    """The answer to objects in JSON on a line each; None: the message is none, has over `most`, or the form is not clear."""
    lines = message.strip().split("\n", most + 1)
    if len(lines) < 2 or lines[0].strip()[:1] != "{":
        return None
    values = [fields_of(parsed_json(line)) for line in lines if line.strip()]
    if len(values) > most or not all(values):
        return None
    if all(len(one) == 1 and isinstance(next(iter(one.values())), str) for one in values):
        return spliced(message, None)
    key = _text_key(values)
    form = _item_form(values, key, _Shown.of(about)) if key is not None else None
    if not form:
        return spliced(message, key) if form is not None else None
    return joined(values, partial(_write_item, key=key, form=form), "", "\n", "", Outline(is_json=False))


def in_json(found: Outline, about: str) -> Outline | None:
    """A list of another form as the JSON that the instruction shows, or as an array of strings."""
    if found.is_json or re.match(r"\s*(?:\{|\[[\"{])", "".join(found.literals[0])) is not None:
        return found
    ids = [re.findall(r"\d+", "".join(literals)) for literals in found.literals[: len(found.texts)]]
    items = [
        {"id": int(numbers[-1]), "text": text}
        for numbers, text in zip(ids, found.texts, strict=True)
        if numbers and len(numbers[-1]) < 10
    ]
    if _MAPPING.search(about) is not None or _Shown.of(about).keys:
        return of_value(dumped(items), items, about) if len(items) == len(found.texts) else None
    if re.search(r"\barray\b|数组|\blist of strings\b", about, re.IGNORECASE) is None:
        return None
    made = joined(found.texts, lambda made, _, text: made.translated(text), "[", ", ", "]", Outline())
    outer = _Shown.of(about).outer
    return wrapped(made, f"{{{dumped(outer)}: ", "}") if outer is not None else made


def under_a_key(message: str, about: str) -> Outline | None:
    """One text whose translation goes under the one key that the instruction shows or names."""
    keys = _Shown.of(about).keys or tuple(dict.fromkeys(_named_keys(about)))
    if len(keys) != 1 or keys[0].lower() not in _KEYS["answer"]:
        return None
    made = Outline()
    made.translated(message)
    return wrapped(made, f"{{{dumped(keys[0])}: ", "}")


# ---- what a message says besides its texts


@dataclass(frozen=True, slots=True)
class Said:
    """Languages, options and instructions of a message that is a JSON object."""

    target: str | None = None
    source: str | None = None
    how: str = ""
    options: Options = default(default_factory=Options)


def said(message: str) -> Said:
    """What a message says besides its texts. Raises `InvalidRequest` for a glossary that cannot be read."""
    entries = fields_of(parsed_json(message)) if message.lstrip()[:1] == "{" else {}
    if not entries:
        return Said()
    strings = {name.lower(): one for name, one in entries.items() if isinstance(one, str) and one}
    named = [
        next((tag_of(strings[name]) for name in names if name in strings), None)
        for names in (_KEYS["says_target"], _KEYS["says_source"])
    ]
    if named[0] is None:
        return Said()
    glossary, keep = _terms(entries.get("glossary"))
    options = Options(
        context="\n".join(strings[name] for name in ("title", "description") if name in strings) or None,
        keep=keep,
        glossary=glossary,
        formality=_TONES.get(strings.get("tone", ""), "default"),
    )
    return Said(named[0], named[1], "\n".join(strings[name] for name in _KEYS["says_how"] if name in strings), options)


def _terms(glossary: object) -> tuple[dict[str, str], tuple[str, ...]]:
    """Terms with their translations, and those to keep: of an object, or of a list of objects with source and target."""
    if isinstance(glossary, dict):
        pairs = list(cast(dict[str, object], glossary).items())
    elif isinstance(glossary, list):
        listed = (fields_of(one) for one in cast(list[object], glossary))
        pairs = [(str(one.get("source") or ""), cast(object, one.get("target"))) for one in listed]
    elif glossary:
        raise InvalidRequest("glossary: it is not an object of terms and translations", param="messages")
    else:
        pairs = []
    terms = {term: translation for term, translation in pairs if term and isinstance(translation, str) and translation}
    return terms, tuple(term for term, _ in pairs if term and term not in terms)
