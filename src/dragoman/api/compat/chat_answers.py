"""The texts of a message that is a list of some form, and the form in which the answer to an instruction is wanted.

Forms: JSON (a list, an object, either under a key), lines of JSON, YAML, numbered, tagged or timed lines, lines that an
instruction counts, texts between separators. The answer has the form of the message, character for character, or the one that
the instruction shows; `chat_forms` has the few that neither tells.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as default
from functools import partial
from itertools import islice
from textwrap import dedent
from typing import Any, TypeVar, cast

from dragoman.api.compat.chat_languages import keys, tag_of, words
from dragoman.api.compat.chat_schema import COPIED_NAMES, Outline, dumped, fields_of
from dragoman.api.compat.chat_text import HTML, named_lines, parsed_json
from dragoman.errors import InvalidRequest, TooManyTexts, UnclearPrompt
from dragoman.types import Formality, Options, Translation

Item = TypeVar("Item")
_KEYS = keys()
"""Names of fields, by what they have."""
_TONES: Mapping[str, Formality] = {"formal": "prefer_more", "casual": "prefer_less", "informal": "prefer_less"}
_JSON_WANTED = re.compile(r"(?<![a-z])json(?![a-z])", re.IGNORECASE)
_OTHER_FORM = re.compile(
    r"(?<!/)\b(?:yaml|xml|csv)\b(?![/ -](?:tags?|elements?|markup|placeholders?)\b)", re.IGNORECASE
)
_OF_FORM = re.compile(
    r"json|format|structure|\bkeys?\b|\bfields?\b|\bobjects?\b|\barrays?\b|\bsame\b|schema|格式|数组|同じ",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.!?。！？;\n]+")
_JSON_REFUSED = re.compile(
    r"\b(?:no|not|without|never|nor|non)\b"
    r"(?:(?!\b(?:outside|besides|but|other than|before|after|except)\b)[^.\n]){0,40}\bjson\b",
    re.IGNORECASE,
)
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
_OBJECT_WANTED = re.compile(
    r"\b(?:reply|respond|answer|return|output)\b[^.\n]{0,40}\{\s*[\"']\w+[\"']\s*:", re.IGNORECASE
)
_INPUT = re.compile(r"\binput\b|\bgiven\b", re.IGNORECASE)
_MAPPING = re.compile(
    r"\b(?:object|json|dict\w*)\b[^.\n]{0,40}\b(?:mapping|keyed|maps|whose keys are)\b|\{\s*\"\d+\"\s*:\s*\"",
    re.IGNORECASE,
)
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"(?P<key>\s*:)?', re.DOTALL)
_TAGGED = re.compile(
    r"<(?P<name>[A-Za-z][\w-]{0,20})(?P<id>[^<>\n]{0,60})>(?P<text>(?:(?!</?(?P=name)\b)[\s\S]){0,20000}?)</(?P=name)>\s*"
)
_SHOWN_ELEMENT = re.compile(r"<([A-Za-z]\w{0,20})(?: [^<>\n]{0,60})?>[^<>\n]{1,60}</\1>")
_PAIRED = re.compile(
    r"(?P<left>[^\w\s/\"'`]{1,3})(?P<name>\d{1,9})(?P<right>[^\w\s/\"'`]{1,3})(?P<text>[\s\S]{0,20000}?)(?P=left)/(?P=name)(?P=right)\s*"
)
_BOUNDED = re.compile(
    r"(?P<head>\S{2,60}?_)(?:BEGIN|START)(?P<tail>_{0,6}[^\w\s]{0,6})(?P<text>[\s\S]{0,20000}?)(?P=head)(?:END|STOP)(?P=tail)\s*"
)
_TIMED = re.compile(r"(?:\d{1,2}:)?\d{1,2}:\d{2}[.,]\d{1,3}\s*-->\s*[^\n]*\n")
_YAML_ITEM = re.compile(
    r"^(?P<head>[ \t]*- (?P<id_key>id|key|index|n): *(?P<id>[^\n]{1,100}))\n[ \t]+(?P<key>\w{1,40}):[ \t]*",
    re.MULTILINE,
)
_YAML_SHOWN = re.compile(r"^[ \t]*- (?:id|key|index|n):[^\n]*((?:\n[ \t]+\w{1,40}:[^\n]*)+)", re.MULTILINE)
_WRITTEN_TO = re.compile(r"\b(?:into|to|in|under) the [\"'`](\w{1,40})[\"'`] field", re.IGNORECASE)
_COUNTED = re.compile(r"\bnumber|\blines?\b|\bindex|\bids?\b|行|编号|番号|번호", re.IGNORECASE)
_ANSWER = re.compile(r"\b(?:translat(?:ions?|ed)|outputs?|answers?|return|respon\w+)\b", re.IGNORECASE)
_KEYS_STAY = re.compile(
    r"\bvalues?\b[\s\S]{0,200}\bkeys?\b|\bkeys?\b[\s\S]{0,200}\bvalues?\b|\.properties\b|\.env\b", re.IGNORECASE
)
_KEY_LINE = re.compile(r"^[ \t]*[\w.-]{1,80}[ \t]*(?P<sep>[=:])[ \t]*(?=[^\s])", re.MULTILINE)
_KEPT = re.compile(
    r"\b(?:not|never|keep|copy|copied|unchanged|preserve|same|as (?:it is|is|they are))\b|n.t\b|不|保持|保留|勿",
    re.IGNORECASE,
)
_ALONE = re.compile(r"\b(?:only|just|solely|nothing but)\b|[只仅僅]|だけ|のみ|만 ", re.IGNORECASE)
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_NEGATED = re.compile(r"\b(?:without|not|no|never|don't)\b", re.IGNORECASE)


def read(message: str, about: str, most: int) -> Outline | None:
    """The texts of a message in the form of the answer, after an instruction `about`. None: the message is one text, whose
    translation is the answer.

    Raises `UnclearPrompt` where the texts or the form are not clear, and `TooManyTexts` for over `most`.
    """
    parsed = parsed_json(message)
    is_named = _JSON_WANTED.search(about) is not None or (parsed is None and _OBJECT_WANTED.search(about) is not None)
    wants_json = is_named and _JSON_REFUSED.search(about) is None
    if parsed is not None:
        found = _json(message, parsed, about)
        is_bare = words("answered").search(about) is not None and _OF_FORM.search(about) is None
        if found is None or not found.texts or (is_bare and len(found.texts) == 1):
            raise UnclearPrompt("the form of the answer to a message in JSON is not understood", param="messages")
    else:
        found = _lines_of_json(message, about, most)
        if found is None and re.match(r"\s*(?:\[\s*(?:\[\s*[\[{\"\d]|[{\"])|\{\s*\")", message) is not None:
            raise UnclearPrompt("the message begins as JSON does, and is none", param="messages")
        found = found or _yaml(message, about) or _listed(message, about, most)
        if wants_json:
            found = _in_json(found, about) if found is not None else _under_a_key(message, about)
        is_markup = message.lstrip()[:1] == "<" and message.rstrip()[-1:] == ">"
        if found is None and (wants_json or (_OTHER_FORM.search(about) is not None and not is_markup)):
            raise UnclearPrompt(
                "an answer in JSON, YAML, XML or CSV is wanted, and its form is not understood", param="messages"
            )
        found = _in_a_tag(message, about, found)
    if found is not None and len(found.texts) > most:
        raise TooManyTexts(f"over {most} texts in one call", param="messages")
    return found if found is None or found.texts else None


# ---- JSON


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
            named = (_OBJECTS.search(one[0]) for one in _SENTENCE.finditer(about) if _INPUT.search(one[0]) is None)
            shown = [tuple(re.findall(r"[\"'`](\w{1,40})[\"'`]", one[0])) for one in named if one is not None]
        return cls(outer[-1] if outer else lists[-1] if lists else None, shown[-1] if shown else ())


def _is_of_list(key: str) -> bool:
    """Whether the list of an answer may be under a key."""
    name = key.lower()
    return name in _KEYS["list"] or any(one[-1:] == "s" and one in _KEYS["list"] for one in name.split("_"))


def _named_keys(about: str) -> list[str]:
    return [found[2] or found[3] or found[4] for found in words("named_key").finditer(about)]


def joined(
    items: Iterable[Item], each: Callable[[Outline, int, Item], None], begin: str, join: str, end: str, made: Outline
) -> Outline:
    """An answer of what `each` appends for the items, with their places."""
    made.literal(begin)
    for place, item in enumerate(items):
        made.literal(join if place else "")
        each(made, place, item)
    made.literal(end)
    return made


def _json(message: str, value: object, about: str) -> Outline | None:
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
    return _wrapped(made, f"{{{dumped(outer)}: ", "}") if outer is not None else made


def _same_items(message: str, value: object, key: str | None, name: str | None) -> Outline:
    """The list as it came, with a translation in place of each text."""
    return _spliced(message, key) if key is not None or len(fields_of(value)) < 2 else _spliced(message, name)


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
            return _wrapped(_spliced(message, None), f"{{{dumped(name)}: ", "}") if shown_entries == {name} else None
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
        return _spliced(message, key or next(iter(translated)))
    return _spliced(message, None) if not kept else None


def _by_id(entries: Iterable[tuple[str, object]], form: Sequence[tuple[str, str]]) -> Outline:
    """An object of the texts' translations, or of their fields, by their ids."""

    def each(made: Outline, place: int, entry: tuple[str, object]) -> None:
        made.literal(f"{dumped(entry[0])}: ")
        _write_item(made, place, entry[1], None, form)

    return joined(entries, each, "{", ", ", "}", Outline())


def _wrapped(made: Outline, before: str, after: str) -> Outline:
    made.literals[0].insert(0, before)
    made.literals[-1].append(after)
    return made


def _spliced(message: str, key: str | None) -> Outline:
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
        for one in _SENTENCE.finditer(about):
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


def _lines_of_json(message: str, about: str, most: int) -> Outline | None:
    lines = message.strip().split("\n", most + 1)
    if len(lines) < 2 or lines[0].strip()[:1] != "{":
        return None
    values = [fields_of(parsed_json(line)) for line in lines if line.strip()]
    if len(values) > most or not all(values):
        return None
    if all(len(one) == 1 and isinstance(next(iter(one.values())), str) for one in values):
        return _spliced(message, None)
    key = _text_key(values)
    form = _item_form(values, key, _Shown.of(about)) if key is not None else None
    if not form:
        return _spliced(message, key) if form is not None else None
    return joined(values, partial(_write_item, key=key, form=form), "", "\n", "", Outline(is_json=False))


def _in_json(found: Outline, about: str) -> Outline | None:
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
        return _json(dumped(items), items, about) if len(items) == len(found.texts) else None
    if re.search(r"\barray\b|数组|\blist of strings\b", about, re.IGNORECASE) is None:
        return None
    made = joined(found.texts, lambda made, _, text: made.translated(text), "[", ", ", "]", Outline())
    outer = _Shown.of(about).outer
    return _wrapped(made, f"{{{dumped(outer)}: ", "}") if outer is not None else made


def _under_a_key(message: str, about: str) -> Outline | None:
    """One text whose translation goes under the one key that the instruction shows or names."""
    keys = _Shown.of(about).keys or tuple(dict.fromkeys(_named_keys(about)))
    if len(keys) != 1 or keys[0].lower() not in _KEYS["answer"]:
        return None
    made = Outline()
    made.translated(message)
    return _wrapped(made, f"{{{dumped(keys[0])}: ", "}")


# ---- lists of other forms


def _plain(translation: Translation) -> str:
    return translation.text


def _one_line(translation: Translation) -> str:
    return " ".join(translation.text.splitlines())


def _outline(message: str, spans: Sequence[tuple[int, int]], write: Callable[[Translation], str] = _plain) -> Outline:
    """The message as it is, with gaps for its texts at these places, in order, without white space around them unless in
    quotes."""
    made, at = Outline(write, is_json=False), 0
    for start, stop in spans:
        text = message[start:stop]
        kept = text.strip() if message[max(start - 1, 0)] != '"' else text
        if kept:
            start += text.index(kept)
            made.literal(message[at:start])
            made.translated(kept)
            at = start + len(kept)
    made.literal(message[at:])
    return made


def between(heads: Sequence[re.Match[str]], stop: int) -> list[tuple[int, int]]:
    """From the end of each head to the next one."""
    ends = [*(one.start() for one in heads[1:]), stop]
    return [(head.end(), end) for head, end in zip(heads, ends, strict=True)]


def _listed(message: str, about: str, most: int) -> Outline | None:
    named = (mark for one in words("separator").finditer(about) if (mark := _mark(one)) in message)
    lines = named_lines(message, about)
    if len(lines) > 1:
        raise UnclearPrompt(f"what is between {lines[0]!r} and {lines[1]!r} is not clear", param="messages")
    if (separator := next(iter((*lines, *named)), None)) is not None:
        heads = [re.compile("").match(message, 0), *islice(re.finditer(re.escape(separator), message), most + 1)]
        return _outline(message, between([one for one in heads if one is not None], len(message)))
    for pattern in (_TAGGED, _PAIRED, _BOUNDED):
        if (spans := _elements(message, pattern, most)) is not None:
            return _renamed(_outline(message, spans), about)
    if (timed := _timed(message, most)) is not None:
        return timed
    found = _numbered(message, about, most) or _keyed(message, about, most) or _each_line(message, about, most)
    return _apart(found, about) if found is not None and len(found.texts) > 1 else found


def _mark(separator: re.Match[str]) -> str:
    """The signs that an instruction calls a separator."""
    return next(
        one for name in ("mark", "zh", "before", "kept", "left", "shown", "by", "around") if (one := separator[name])
    )


def _apart(found: Outline, about: str) -> Outline:
    """The list with the separator between its lines that an instruction wants in the answer.

    Raises `UnclearPrompt` for one that is not on a line of its own.
    """
    for one in _SENTENCE.finditer(about):
        named = words("separator").search(one[0])
        if named is None or _ANSWER.search(one[0]) is None or words("not").search(one[0]) is not None:
            continue
        mark = _mark(named).strip("*`") or named[0]
        if re.search(rf"^[ \t]*{re.escape(mark)}[ \t]*$", about, re.MULTILINE) is None and "line" not in one[0].lower():
            raise UnclearPrompt(f"where {mark!r} is wanted in the answer is not clear", param="messages")
        for literals in found.literals[1:-1]:
            literals[:] = ["".join(literals).replace("\n", f"\n{mark}\n", 1)]
    return found


def _keyed(message: str, about: str, most: int) -> Outline | None:
    """Lines of keys and values, where an instruction says that the keys stay."""
    if _KEYS_STAY.search(about) is None:
        return None
    heads = list(islice(_KEY_LINE.finditer(message), most + 1))
    lines = [line for line in message.splitlines() if line.strip()]
    if not heads or len(heads) != len(lines):
        return None
    ends = [message.find("\n", head.end()) for head in heads]
    spans = [(head.end(), end if end >= 0 else len(message)) for head, end in zip(heads, ends, strict=True)]
    is_quoted = all(message[start:end].rstrip().endswith('"') and message[start] == '"' for start, end in spans)
    if is_quoted:
        return _spliced(message, None)
    if any(message[start:end].strip()[:1] in ('"', "'", "|", ">", "[", "{") for start, end in spans):
        raise UnclearPrompt("the values of the message's keys are not plain text", param="messages")
    is_yaml = all(head["sep"] == ":" for head in heads)
    return _outline(message, spans, (lambda one: _as_yaml(one.text)) if is_yaml else _one_line)


def _elements(message: str, pattern: re.Pattern[str], most: int) -> list[tuple[int, int]] | None:
    """The texts of elements of one name, each with an id, that are the whole message."""
    spans, names, at = list[tuple[int, int]](), set[str](), len(message) - len(message.lstrip())
    while at < len(message) and len(spans) <= most:
        found = pattern.match(message, at)
        if found is None:
            return None
        groups = found.groupdict()
        names.add(re.sub(r"\d+", "", groups.get("name") or groups["head"]))
        has_id = groups.get("id") is None or groups["id"].strip() or any(map(str.isdigit, groups["name"]))
        if (
            len(names) > 1
            or (groups.get("name") or "").lower() in HTML
            or not (has_id or next(iter(names)).lower() in ("text", "item", "segment", "line", "s", "t"))
        ):
            return None
        spans.append(found.span("text"))
        at = found.end()
    return spans or None


def _renamed(made: Outline, about: str) -> Outline:
    """The elements under the name that the instruction has for translated ones, or shows for those of the answer."""
    name = re.search(r"<(\w*[^\W\d])[ >]", "".join(made.literals[0]))
    shown = (
        found
        for one in _SENTENCE.finditer(about)
        if words("answered").search(one[0])
        for found in _SHOWN_ELEMENT.finditer(one[0])
    )
    named = [*(found[1] for found in shown), *re.findall(r"<(\w*translat\w*)[ >]", about)]
    wanted = [one for one in named if name is not None and one != name[1] and one.lower() not in HTML]
    if name is not None and wanted and f"<{name[1]}" in about:
        made.literals = [
            [re.sub(rf"(</?){name[1]}\b", rf"\1{wanted[-1]}", one) for one in parts] for parts in made.literals
        ]
    return made


def _timed(message: str, most: int) -> Outline | None:
    """Subtitles, whose numbers and times stay."""
    times = list(islice(_TIMED.finditer(message), most + 1)) if "-->" in message[:2_000] else []
    if not times or message[: times[0].start()].replace("WEBVTT", "").strip(" \t\r\n0123456789"):
        return None
    ends = [len(message[: one.start()].rstrip().rstrip("0123456789")) for one in times[1:]]
    return _outline(message, [(one.end(), end) for one, end in zip(times, [*ends, len(message)], strict=True)])


def _numbered(message: str, about: str, most: int) -> Outline | None:
    """Lines that each begin with a number of one form; a line without one belongs to the item before it."""
    first = words("numbered").match(message)
    if first is None or not (
        first["sep"].strip() or "\t" in first["sep"] or first["right"] or (first["left"] and _COUNTED.search(about))
    ):
        return None
    around = [re.escape(first[name]) for name in ("left", "word")], [re.escape(first["right"] + first["sep"].strip())]
    pattern = re.compile(
        rf"^[ \t]{{0,8}}{''.join(around[0])}(?P<id>\d{{1,9}}){around[1][0]}[ \t]{{0,8}}", re.MULTILINE | re.IGNORECASE
    )
    heads, last = list[re.Match[str]](), -1
    for found in islice(pattern.finditer(message), 2 * most):
        if int(found["id"]) > last:
            heads.append(found)
            last = int(found["id"])
    if not heads or (len(heads) < 2 and _COUNTED.search(about) is None):
        return None
    spans = between(heads, len(message))
    *others, last = (message[start:end].strip() for start, end in spans)
    if others and _BLANK_LINE.search(last) is not None and not any(map(_BLANK_LINE.search, others)):
        raise UnclearPrompt("what follows the message's list is not clear", param="messages")
    is_single = not any("\n" in message[start:end].strip() for start, end in spans)
    return _outline(message, _without_separator(message, spans), _one_line if is_single else _plain)


def _without_separator(message: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The items without the line of signs with which each but the last ends."""
    lines = [message[start:end].rstrip().rpartition("\n")[2] for start, end in spans[:-1]]
    if len(lines) < 2 or len(set(lines)) > 1 or re.match(r"[ \t]*[^\w\s]{2}", lines[0]) is None:
        return spans
    return [(start, message.rindex(lines[0], start, end)) for start, end in spans[:-1]] + spans[-1:]


def _each_line(message: str, about: str, most: int) -> Outline | None:
    if "\n" not in message.strip() or words("lines").search(about) is None:
        return None
    spans = [found.span() for found in islice(re.finditer(r"[^\n]+", message), most + 1)]
    if all(end - start > 1 and message[start] == message[end - 1] == '"' for start, end in spans):
        spans = [(start + 1, end - 1) for start, end in spans]
    return _outline(message, spans, _one_line)


def _in_a_tag(message: str, about: str, found: Outline | None) -> Outline | None:
    """The answer in the tag that the instruction wants around it."""
    named = (one["tag"] or one["word"] for one in words("wrapped").finditer(about) if _NEGATED.search(one[0]) is None)
    tag = next((one for one in named if f"<{one}>" in about and f"<{one}>" not in message), None)
    if tag is not None and about.count(f"<{tag}>") > 1 and re.search(rf"</{tag}>|<{tag}>\W? tags?\b", about) is None:
        return found  # places of a form
    if tag is None or (found is None and "transl" not in tag.lower() and tag.lower() not in _KEYS["answer"]):
        return found
    if found is None:
        found = _outline(message, [(0, len(message))])
    line = "\n" if len(found.texts) > 1 or f"<{tag}>\n" in about else ""
    return _wrapped(found, f"<{tag}>{line}", f"{line}</{tag}>")


# ---- YAML

_NOT_PLAIN = re.compile(
    r"[-+.~=\d?:,\[\]{}#&*!|>'\"%@`\s]|(?:true|false|null|yes|no|on|off|y|n)\Z"
    r"|.*(?:[\x00-\x1f\x7f-\x9f\u2028\u2029]|:\s|:\Z|\s#|\s\Z)|\Z",
    re.DOTALL | re.IGNORECASE,
)
"""What YAML would not read as this string without quotes."""
_YAML_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029)}
"""Control characters and line ends that JSON has as they are, and YAML has not."""
_YAML_BLOCK = re.compile(r"([|>])[-+]?[ \t]*\n")


def _as_yaml(text: str) -> str:
    return dumped(text).translate(_YAML_ESCAPES) if _NOT_PLAIN.match(text) else text


def _yaml(message: str, about: str) -> Outline | None:
    """A list of objects with an id and a text, of which the instruction shows or names those of the answer."""
    heads = list(_YAML_ITEM.finditer(message)) if re.match(r"\s*- \w+:", message) else []
    if not heads or message[: heads[0].start()].strip() or len({one["key"] for one in heads}) > 1:
        return None
    key = heads[0]["key"]
    if key not in about and re.search(r"\bfields?\b", about):
        raise UnclearPrompt(f"the message has no field that the instruction names, but {key}", param="messages")
    shown = [re.findall(r"\n[ \t]+(\w{1,40}):", one[1]) for one in _YAML_SHOWN.finditer(about)]
    named = [found[1] for found in _WRITTEN_TO.finditer(about)]
    keys = [one for one in (shown[-1] if shown else [key]) if one != key] or [named[-1] if named else key]
    fields = [f"\n  {one}: " for one in keys]

    def write(translation: Translation) -> str:
        return "".join(f"{one}{_as_yaml(translation.text)}" for one in fields)

    def each(made: Outline, place: int, span: tuple[int, int]) -> None:
        made.literal(heads[place]["head"].strip())
        made.translated(_from_yaml(message[span[0] : span[1]].rstrip()))

    return joined(between(heads, len(message)), each, "", "\n", "", Outline(write, is_json=False))


def _from_yaml(text: str) -> str:
    """The string that a scalar of YAML is: plain, in quotes, or a block."""
    if block := _YAML_BLOCK.match(text):
        lines = dedent(text[block.end() :])
        return lines if block[1] == "|" else re.sub(r"(?<!\n)\n(?!\n)", " ", lines).replace("\n\n", "\n")
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            return text
    return text


# ---- what a message in JSON says besides its texts


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
