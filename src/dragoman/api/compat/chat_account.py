"""Whether a reading accounts for all that messages say: a text that has nothing of the request in it, and an answer of the
shape that the instruction asks for.

A person who reads a request accounts for each line of it. Where one is left (a label, a line of signs, or a request within
the text; a key, a tag, a mark, or numbers that the instruction wants and the answer has not), the reading is a guess, and its
answer would be one that the program cannot use. This module does not read: it looks at what the reading found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from dragoman.api.compat import chat_languages
from dragoman.api.compat.chat_ends import SplitMessage
from dragoman.api.compat.chat_labels import is_besides, label_kind
from dragoman.api.compat.chat_languages import keys, signs, words
from dragoman.api.compat.chat_outline import Outline
from dragoman.api.compat.chat_text import HTML
from dragoman.errors import UnclearPrompt
from dragoman.types import Translation

_READ = 20_000  # characters of an instruction, and of the answer
_ENDS = 3_000  # characters at the beginning and at the end of a text that are looked at
_MAX_MARKS = 200
_KEPT = 64  # instructions of which is kept what they want: a program sends the same one with each text
_MAX_CLAUSES = 2_000  # of an instruction: its 20,000 characters have fewer, unless they are a list of short words
_SENTENCE = re.compile(r"[^.!?。！？;；\n]+")
_CLAUSE_END = re.compile(
    r"(?:[,，]|(?<=[\u3040-\u30ff])、|\b(?=(?:and|then|und|et|y|e|ed|и)\b)|(?<=하고) )"
    r"(?!\s*(?:\w{1,3}\s+)?[\"'`]\w{1,40}[\"'`](?!\s*:))",
    re.IGNORECASE,
)
"""Where a clause ends; a name in quotes is one more of those before it."""
_ANEW = re.compile(
    r"\s*(?:then|but|just|only|instead|rather)\b|\s*(?:也|但|而|[并並]|同[时時]|另外?|[还還])", re.IGNORECASE
)
_LABEL = re.compile(r"[ \t#*\[]{0,6}(?P<name>[^\W\d_][^\n:：]{0,58}?)[ \t*\]]{0,4}[:：](?P<rest>[^\n]*)")
_HEADING = re.compile(
    r"[ \t#*=-]{0,8}(?:[\[【](?P<bracketed>[^\]】\n]{2,40})[\]】]|(?P<capitals>[A-Z][A-Z _]{2,40})\b|[^\n:：]{2,60}?)"
    r"[^\n:：]{0,60}(?:[:：][ \t*]*|[\]】=*-]+[ \t]*)"
)
"""A line that says what follows it."""
_MARK_LINE = re.compile(r"[ \t]*<{2,5}[A-Z][A-Z_ ]{2,30}>{2,5}[ \t]*")
_SIGNED = re.compile(r"[^\w\s\"'`]{2,12}[\w .-]{1,30}?[^\w\s\"'`]{2,12}")
_TOKEN = re.compile(
    r"\b(?i:start|begin|end|finish|prefix|precede|close|mark|flag|tag|label)\w*\b[^\n]{0,40}?"
    r"\b(?:with|by|in)(?: the (?:word|letters?|line|text))? "
    r"(?:[\"'`“](?P<quoted>[^\"'`”\n]{1,40})[\"'`”]|(?P<capitals>[A-Z]{3,20}\b|\[[A-Z]{2,12}\]))"
)
"""What the answer is to begin or end with."""
_BRACKETED = re.compile(
    r"[ \t]*+[\[【(（#]++[ \t]*+(?P<name>[^\]】\n:：()（）]{3,40}?)[ \t]*+(?:[(（][^()（）\n]{0,40}[)）])?(?:[\]】:：)）]|\n)"
)
_PREFIX = re.compile(r"\s*[\[<({>]{1,2}([\w-]{2,20})[\])}<>]{1,2}[ \t:]*\S")
_ITEM = re.compile(
    r"\s*(?:\[[\w.: -]{1,40}\]|\{[\w.]{1,40}\}|<(?!h\d>)[\w|#-]{0,40}\d[\w|#-]{0,10}>|[#@]\d+|\d+[.):|]"
    r"|(?=[\w-]+?[._][\w.-])[\w.-]++[ \t]*+[:=|]|\w++=)[ \t]*\S"
)
_IDENTIFIER = re.compile(
    r"[\"'`](?P<quoted>[A-Za-z][A-Za-z_]{1,30})[\"'`](?!\s*:)|(?<![\w.{<])(?P<spelt>[a-z]+(?:_[a-z]+)+|[a-z]+(?:[A-Z][a-z]+)+)(?![\w.}>])"
)
_TEMPLATE = re.compile(
    r"^[ \t*-]*(?P<name>[^\W\d][^\n:：]{1,30})[:：][ \t*]*"
    r"(?P<place>\[[^\]\n]{3,80}\]|<[^>\n]{3,80}>|\{[^}\n]{3,80}\}|\([^)\n]{3,80}\)|\.\.\.)[ \t]*$",
    re.MULTILINE,
)
_SHOWN_FORM = re.compile(
    r"^(?![^\n:：]{0,80}\b(?:examples?|input)\b)(?P<head>[^\n:：]{3,120})[:：][ \t*]*\n\s*"
    r"(?P<form>(?![`\[{\d*-])\S[^\n]*(?:\n[^\n]*\S[^\n]*){0,20})",
    re.MULTILINE | re.IGNORECASE,
)
_FORM = re.compile(
    r"\b(?:form(?:at)?|template|structure|layout|like this|as follows)\b|格式|形式|formato|формат", re.IGNORECASE
)
"""The lines that show how an answer is written."""
_FILLED = re.compile(r"[<\[{(][^<>\[\]{}()\n]{3,60}[>\]})]")
_FORM_OF_LABELS = re.compile(
    r"\b(?:format|form|template|structure)\b[^\n:：]{0,30}[:：][ \t]+"
    r"(?:(?P<label>[^\W\d_][\w ]{1,30})[:：][ \t]*(?=[<\[{(.…])|(?P<place>[\[<(][\w ]{2,30}[\])>]))",
    re.IGNORECASE,
)
_ARRAY = re.compile(r"\barray\b|数组|數組|配列|배열|массив", re.IGNORECASE)
_COUNTED = re.compile(r"\b(?:num\w*|n|i|id|index|line|\d+)\b", re.IGNORECASE)
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_QUOTED_FORM = re.compile(r"[\"'`](?P<before>[^\"'`<\[{(\n]{0,40})\btranslation\b(?P<after>[^\"'`\n]{0,40})[\"'`]")
_PAIRED = re.compile(
    r"[<\[{(](?P<first>[^<>\[\]{}()\n]{3,60})[>\]})](?P<between>[ \t]*[^\w\s<>\[\]{}(),.]{1,12}[ \t]*)"
    r"[<\[{(](?P<second>[^<>\[\]{}()\n]{3,60})[>\]})]"
)
"""Two places with signs between."""
_SHOWN_ANSWER = re.compile(
    r"(?:^|(?<=[.!?] ))(?![^\n:：]{0,40}\b(?:rules|guidelines|requirements|principles|steps)\b)"
    r"[^\n:：]{0,30}(?:output|answer|response|translations?|result|输出|译文|出力)[^\n:：]{0,20}[:：][ \t*]*+(?:\n[ \t]*+)?"
    r"(?P<sign>[\[{<]|\d{1,3}(?=[.):|\]]))",
    re.MULTILINE | re.IGNORECASE,
)
_SENTENCE_ENDS = re.compile(r"[.!?:;。！？：；…\"'”»」』`\])}>]\s*\Z")
_NOUNS = re.compile(r"\s*(?:(?:and|or|und|et|y|e|ed|и)\s+)?(?:[A-Za-zÀ-ÿ-]{1,30}+[ \t]*+){1,3}\s*", re.IGNORECASE)
"""A clause that may be one more thing of the one before it."""
_THEN = re.compile(r"\s*(?:and\s+)?then\b", re.IGNORECASE)
_LABEL_WITHIN = re.compile(r"[.!?] [A-Z][\w ]{2,40}: ")
_SIGNS = re.compile(r"\s*[^\w\s\"'“”«»「」]{2,}\s*")
_TUPLE = re.compile(r"\s*\(\s*\"[^\"\n]*\"\s*,[^\n]*\)\s*")
_QUOTED = re.compile(r"([\"“「『«„`])[^\"“”「」『』«»„`]+[\"”」』»“`]")
_KEY = re.compile(r"[\"'](?!(?:key|id|index)\\?[\"']\s*:\s*\{)(\w{1,40})\\?[\"']\s*:(?!:)")
_ELEMENT = re.compile(r"<([A-Za-z_][\w-]{0,40})(?: [^<>\n]{0,60})?>")
_TAG_LINE = re.compile(r"^[ \t]*<(?P<end>/?)(?P<name>[A-Za-z_][\w-]{0,40})>[ \t]*$", re.MULTILINE)
_MARKUP = HTML | {"svg", "script", "style", "section", "details"}
_SHOWN_BLOCK = re.compile(r"<([A-Za-z_][\w-]{0,40})>([^<>]{1,100})</\1>")
_PLACE = re.compile(r"<([A-Za-z_]{1,40})>\s{0,9}</\1>")
_BOLD_LABEL = re.compile(r"^\*\*[^\n*]{2,60}[:：]\*\*[ \t]*$", re.MULTILINE)
_CODE = re.compile(r"[a-z]{2}(?:[-_][A-Za-z]{2,4})?")
_KEY_BEFORE = re.compile(r"[\"'](\w{1,40})[\"']\s*:\s*\"?\Z")
_TEXT_KEYS = frozenset(keys()["text"] + keys()["answer"])
_OF_INPUT = re.compile(
    r"^\W*(?:the |an? |each |every )?(?:users?|inputs?|source|messages?|texts?|originals?) (?:\w+ ){0,2}"
    r"(?:may|will|can|is|are|has|have|contains?|gives?|provides?)\b",
    re.IGNORECASE,
)
_WINDOW = 80  # characters before a text and behind it, where its marks are
_MARK = re.compile(r"(?<![|=#@%~^&+<>§¶$-])[|=#@%~^&+<>§¶$-]{2,24}(?![|=#@%~^&+<>§¶$-])")
_NO_MARK = re.compile(r"-+>|=+>|<-+|-{2,}|#{1,6}|>=|<=|={2,3}|\|\||&&|<<|>>|%%|\$\$")


def check(
    about: str, message: str, part: SplitMessage | None, made: Outline | None, target: str, *, is_given: bool
) -> None:
    """Raises `UnclearPrompt` where something is not accounted for.

    `about`: the instruction, into the language `target`. `message`: the one with the text. `part`: how it was taken apart,
    if it was. `made`: the answer's form (None: the translation of the text). `is_given`: that form is given by a schema.
    """
    if not message.strip():
        return  # goes back as it is
    text = part.text if part is not None else message
    is_one = made is None or (len(made.texts) == 1 and made.texts[0].strip() == text.strip())
    is_text = is_one or (is_given and text.lstrip()[:1] not in ("[", "{"))
    left = _left_in_text(about, part, text, target) if is_text else None
    left = left or (_left_in_items(about, made) if made is not None else None)
    left = left or (_left_behind(part) if part is not None else None)
    if left is None and not is_given:
        written = made.write(Translation("", "", False, "stop")) if made is not None else ""
        frame = "".join("".join(parts) for parts in made.literals) + written if made is not None else ""
        left = _left_of_form(about[:_READ], message, text, frame)
    if left is not None:
        raise _unclear(left)


def check_places(about: str, message: str) -> None:
    """Raises `UnclearPrompt` where the message has an empty element that its instructions describe: a place for what is no
    translation."""
    for place in islice(_PLACE.finditer(message[-_READ:]), 10):
        if f"<{place[1]}" in about and words("wrapped").search(about) is None:
            raise _unclear(place[0])


def _unclear(left: str) -> UnclearPrompt:
    return UnclearPrompt(f"what {left.strip()[:100]!r} is for is not understood", param="messages")


# ---- the text


def _left_in_text(about: str, part: SplitMessage | None, text: str, target: str) -> str | None:
    """What of the request is left in a text."""
    ends = text.strip()
    if not ends:
        return about if "\n" in about.strip() else None
    lines = [line for line in f"{ends[:_ENDS]}\n{ends[_ENDS:][-_ENDS:]}".splitlines() if line.strip()]
    if (named := _named(about, lines) if len(lines) > 1 else None) is not None:
        return named
    if _TUPLE.fullmatch(text) is not None:
        return text
    if part is not None and part.is_marked:
        return None
    if _is_for_another(lines[0], target):
        return None
    if len(lines) > 1 and _is_heading_of(lines[-1], target):
        return lines[-1]
    is_own = part is not None
    is_label = part is not None and part.before.rstrip().endswith((":", "："))
    return (
        (_frame(text, lines) if is_own else None)
        or _labels(lines, about, is_own=is_own, is_behind=is_label)
        or (lines[0] if _are_marked(lines) and (words("items").search(about) or _are_numbered(lines)) else None)
        or _besides(text)
        or _elements_around(text)
        or _requests(lines, is_own=is_own)
    )


def _named(about: str, lines: Sequence[str]) -> str | None:
    """A line that heads what is not to be translated, or is a label in capitals or brackets that the instruction names, or
    names the lines of signs that divide the text."""
    between = {_numberless(line.strip()) for line in lines if _SIGNED.fullmatch(line.strip()) is not None}
    marks = [line for line in lines if _MARK_LINE.fullmatch(line) is not None]
    if len(set(marks)) > 1 or marks[:1] == [lines[0]]:
        return marks[0]  # one alone within the text separates its parts
    for line in lines:
        signed = islice(_SIGNED.finditer(line), 10 if between else 0)
        named = {_numberless(mark[0].rstrip(".,:;")) for mark in signed}
        if named & between and _SIGNED.fullmatch(line.strip()) is None:
            return line
        label = _HEADING.fullmatch(line)
        if label is None:
            continue
        name = label["bracketed"] or label["capitals"]
        is_named = name is not None and re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", about) is not None
        if is_named or words("no_text").search(line):
            return line
    return None


def _numberless(mark: str) -> str:
    """A mark of signs and words, whatever the number in it, or the letter that stands for one."""
    return re.sub(r"\d+|(?<![A-Za-z])[Nni](?![A-Za-z])", "#", mark)


def _frame(text: str, lines: Sequence[str]) -> str | None:
    """Quotation marks around the whole text, or lines of signs around it; or brackets around several texts in quotes."""
    if _QUOTED.fullmatch(text.strip()) is not None:
        return text
    signs = [line for line in (lines[0], lines[-1]) if _SIGNS.fullmatch(line) is not None]
    return signs[0] if len(lines) > 1 and signs and not text.lstrip().startswith("---\n") else None


def _labels(lines: Sequence[str], about: str, *, is_own: bool, is_behind: bool) -> str | None:
    """A label before the text or behind it. `is_behind`: the text stands behind a label already, so that one alone in its
    first line is the text's own ("Usage:"), unless the instruction has its name."""
    labels = [_LABEL.match(line) for line in lines]
    prefix = _PREFIX.match(lines[0])
    is_language = labels[0] is not None and label_kind(labels[0]["name"]) == "language"
    if len(lines) == 1 and (is_language or (prefix is not None and chat_languages.tag_of(prefix[1]) is not None)):
        return lines[0]
    kinds = [label_kind(label["name"]) if label is not None else None for label in labels]
    last = labels[-1]
    is_end = last is not None and len(lines) > 1 and not last["rest"].strip()
    if is_end and (is_own or kinds[-1] in ("answer", "language")):
        return lines[-1]
    is_note = is_own and last is not None and words("how_label").fullmatch(last["name"].strip()) is not None
    if is_note and len(lines) > 1:
        return lines[-1]
    is_record = len(lines) > 1 and None not in labels
    is_whole = is_record and not is_own
    for label, kind, line in zip(labels[:20] if len(lines) > 1 else (), kinds, lines, strict=False):
        if label is not None and _is_of_language(label) and not (is_whole and _is_field(label["name"], kind)):
            return line
    if labels[0] is None:
        return None
    name, rest = labels[0]["name"], labels[0]["rest"].strip()
    is_known = kinds[0] in ("text", "answer") and (is_own or _LABEL_WITHIN.search(rest) is None)
    speaks = words("asks").search(name) is not None and not chat_languages.begins(name)
    is_named = len(lines) > 1 and not rest and name.strip(" *") in about
    is_other = is_own and (speaks or kinds[0] == "language" or is_named or not is_behind)
    if is_known or is_other or (is_own and _QUOTED.fullmatch(rest) is not None):
        return lines[0]
    return lines[0] if is_record and kinds[0] is not None else None


def _besides(text: str) -> str | None:
    """A paragraph that begins with a label of what programs say besides a text, or an element of that. (Of a text that is a
    record of labels all are its own.)"""
    lines = [line for line in text[:_READ].splitlines() if line.strip()]
    if len(lines) < 2 and _LABEL_WITHIN.search(text[:_READ]) is None:
        return None
    if len(lines) > 1 and all(map(_LABEL.match, lines)):
        return None
    paragraphs = (_LABEL.match(one) for one in re.split(r"\n\s*\n", text[:_READ].strip()))
    for label in (*paragraphs, *map(_BRACKETED.match, lines)):
        if label is not None and is_besides(label["name"]):
            return label[0]
    element = _ELEMENT.search(text[:_READ])
    is_element = element is not None and f"</{element[1]}>" in text and is_besides(element[1])
    return element[0] if element is not None and is_element else None


def _is_of_language(label: re.Match[str]) -> bool:
    """Whether what a label says is a language's name, or two with a sign between."""
    value = label["rest"].strip(" *")
    is_short = len(label["rest"]) < 80
    return is_short and any(chat_languages.tag_of(one) is not None for one in re.split(r"->|→|=>|➜", value))


def _is_field(name: str, kind: str | None) -> bool:
    """Whether a label says nothing of a translation. In a record that is the user's whole message, such a label's value is
    text, also where it could be a language's code ("Subject: Hi")."""
    return kind is None and words("asks").search(name) is None


def _elements_around(text: str) -> str | None:
    """An element on lines of its own, which HTML does not have, within a text that is no markup; or one of a language."""
    for one in islice(_SHOWN_BLOCK.finditer(text[:_READ]), _MAX_MARKS):
        if one[1].lower() not in _MARKUP and chat_languages.tag_of(one[2]) is not None:
            return one[0]
    if text.lstrip().startswith("<"):
        return None
    tags = list(_TAG_LINE.finditer(text[-_READ:]))
    last_ends = {tag["name"]: tag.start() for tag in tags if tag["end"]}
    for tag in tags:
        name = tag["name"]
        if not tag["end"] and last_ends.get(name, -1) > tag.start() and name.lower() not in _MARKUP:
            return f"<{name}>"
    return None


def _requests(lines: Sequence[str], *, is_own: bool) -> str | None:
    """A line that asks for a translation, or is a rule for one."""
    for line in lines if is_own else lines[:1] if len(lines) > 1 else ():
        is_order = words("rule").match(line.lstrip(" -*#")) is not None
        if is_own and is_order and words("manner").search(line) is not None:
            return line
        if is_own and line is lines[-1] and len(lines) > 1 and _is_order(line) and not _goes_on(lines[-2], line):
            return line
        if is_own and line is lines[0] and len(lines) > 1 and _is_order(line) and words("solely").search(line):
            return line
        if is_own and line.rstrip().endswith((":", "：")) and words("asks").search(line) is not None:
            return line
        is_rule = is_own and (words("rule_line").match(line) is not None and words("asks").search(line) is not None)
        is_question = not is_own and line.rstrip().endswith(("?", "？"))
        is_request = not is_question and chat_languages.begins(line) and words("follows").search(line) is not None
        if is_rule or (is_request and words("text").search(line) is not None):
            return line
    return None


def _goes_on(before: str, line: str) -> bool:
    """Whether a line is the rest of a sentence that the line before it begins."""
    return line.lstrip()[:1].islower() and _SENTENCE_ENDS.search(before) is None


def _is_heading_of(line: str, target: str) -> bool:
    """Whether a line is a language's name with signs around it: what follows is to be in that language."""
    name = line.strip().strip("[]#*<>=-_ ")
    tag = chat_languages.tag_of(name) if len(name) < len(line.strip()) else None
    return tag is not None and chat_languages.is_same(tag, target)


def _is_for_another(line: str, target: str) -> bool:
    """Whether a line asks for a translation into other languages only: it is a text about translating."""
    targets = chat_languages.read(line).targets
    return bool(targets) and not any(chat_languages.is_same(one, target) for one in targets)


def _left_in_items(about: str, made: Outline) -> str | None:
    """A text of several that is a language's code, or an element alone, or of a field that is not one of texts."""
    shown = frozenset(_KEY.findall(about[:_READ]))
    for text, literals in islice(zip(made.texts, made.literals, strict=False), _MAX_MARKS):
        if _ELEMENT.fullmatch(text.strip()) or (_CODE.fullmatch(text) and chat_languages.tag_of(text) is not None):
            return text
        key = _KEY_BEFORE.search("".join(literals)[-80:])
        is_text = key is not None and (key[1].lower() in _TEXT_KEYS or "to_translat" in key[1].lower())
        if key is not None and key[1] in shown and not key[1].isdigit() and not is_text:
            return key[1]
        label = _LABEL.match(text) if "\n" in text.strip() else None
        if label is not None and is_besides(label["name"]):
            return text
    if not made.is_json and _are_marked(made.texts[:_MAX_MARKS]):
        return made.texts[0]
    is_of_lines = not any("".join(literals).strip() for literals in islice(made.literals, _MAX_MARKS))
    if not made.is_json and len(made.texts) > 1 and is_of_lines:
        first, others = made.texts[0].rstrip(), made.texts[1:_MAX_MARKS]  # what may head the texts
        is_label = first.endswith((":", "：")) and not any(one.rstrip().endswith((":", "：")) for one in others)
        if is_label or chat_languages.commands(first):
            return first
    for literals in () if made.is_json else islice(made.literals, _MAX_MARKS):
        if words("asks").search(between := _ELEMENT.sub("", "".join(literals))) and len(between) > _WINDOW // 2:
            return between
    return None


def _are_marked(lines: Sequence[str]) -> bool:
    """Whether each of several lines begins with a mark or a key, as the items of a list do."""
    return len(lines) > 1 and all(_ITEM.match(line) is not None for line in lines)


def _are_numbered(lines: Sequence[str]) -> bool:
    return all((item := _ITEM.match(line)) is not None and re.search(r"\d", item[0]) for line in lines)


def _left_behind(part: SplitMessage) -> str | None:
    """A bold label behind a text that has one."""
    label = part.before[-_WINDOW:].rstrip().rpartition("\n")[2]
    other = _BOLD_LABEL.search(part.text[:_READ]) if _BOLD_LABEL.match(label) is not None else None
    return other[0] if other is not None else None


# ---- the answer's form


def _left_of_form(about: str, message: str, text: str, frame: str) -> str | None:
    """What an instruction wants in the answer, and the answer has not."""
    if not frame.strip() and _wants_nothing(about):
        return None
    at = max(message.rfind(text[:200]), 0)
    before, after = message[max(at - _WINDOW, 0) : at].split(), message[at + len(text) :][:_WINDOW].split()
    around = " ".join(  # the marks that the text stands between, and no words
        one if _ELEMENT.search(one) is not None else re.sub(r"\w", "", one) for one in (*before[-1:], *after[:1])
    )
    has = f"{frame[:_READ]} {text[:_READ]} {around}"
    if (key := _keys(about, text, frame)) is not None:
        return key
    return _left_of_answer(about, frame[:_READ], has)


@lru_cache(maxsize=_KEPT)
def _wants_nothing(about: str) -> bool:
    """Whether an instruction wants no more than the translation: what it wants is in any answer if it is in an empty one."""
    return _left_of_answer(about, "", "") is None


def _left_of_answer(about: str, frame: str, has: str) -> str | None:
    clauses = _demands(about)
    demands = [one for one in clauses if not one.is_kept]
    return (
        _elements(about, demands, has)
        or _marks(demands, has)
        or _orders(clauses, frame, has)
        or _shown_forms(about, has)
        or _templates(about, has)
    )


def _templates(about: str, has: str) -> str | None:
    """A label with a place for the translation, or an example of an answer whose first sign the answer has not."""
    for one in islice(_TEMPLATE.finditer(about), _MAX_MARKS):
        is_filled = one["place"][0] in ".…" or _is_of_translation(one["place"])
        is_label = label_kind(one["name"]) != "context" and not chat_languages.begins(one["name"])
        if is_filled and is_label and one["name"].strip(" *") not in has:
            return one[0]
    about = _without_places(about)
    for one in islice(_SHOWN_ANSWER.finditer(about), _MAX_MARKS):
        sign = r"\d" if one["sign"].isdigit() else re.escape(one["sign"])
        if re.search(sign, has) is None and chat_languages.tag_of(one["sign"]) is None:
            return one[0]
    return None


def _shown_forms(about: str, has: str) -> str | None:
    """Lines or places that show how an answer is written, with words or signs that it has not."""
    for one in islice(_SHOWN_FORM.finditer(about), _MAX_MARKS):
        lines = one["form"].splitlines()
        is_marked = re.match(r"[#=*]{2,}", lines[0]) is not None and words("answered").search(one["head"]) is not None
        if not is_marked and _FORM.search(one["head"]) is None:
            continue
        kept = (line for line in lines if is_marked or line.endswith(":") or words("asks").search(line) is None)
        shown = _without_places("\n".join(kept))
        if any(word[0] not in has for word in _LETTERS.finditer(shown)):
            return one[0]
    for one in islice(_FORM_OF_LABELS.finditer(about), _MAX_MARKS):
        place = one["place"] or ""
        if (one["label"] or "") not in has or not (_is_of_translation(place) or _COUNTED.search(place) or not place):
            return one[0]
    for one in islice(_PAIRED.finditer(about), _MAX_MARKS):
        places = f"{one['first']} {one['second']}"
        is_shown = _is_of_translation(places) and words("terms").search(places) is None
        if is_shown and one["between"].strip() not in has:
            return one[0]
    return None


def _without_places(shown: str) -> str:
    """What is shown of an answer, without the places for its translations."""
    return _FILLED.sub(lambda found: "" if _is_of_translation(found[0]) else found[0], shown)


def _is_of_translation(place: str) -> bool:
    return words("asks").search(place) is not None or words("text").search(place) is not None


def _keys(about: str, text: str, frame: str) -> str | None:
    """A key of JSON that is shown, and that neither the answer nor the message has."""
    known = {*_KEY.findall(frame[:_READ]), *_KEY.findall(text[:_READ])}
    if not frame.strip():
        return None
    shown = [name for name in islice(_KEY.findall(about), _MAX_MARKS) if not any(map(str.isdigit, name))]
    return next((name for name in shown if name not in known), None)


@dataclass(frozen=True, slots=True)
class _Demand:
    """A clause of an instruction about the answer. `is_request`: it asks for the translation, and names the language."""

    text: str
    is_request: bool
    is_kept: bool = False
    is_order: bool = False  # it says what to put into the answer
    is_more: bool = False  # it is one more thing of such a clause


@lru_cache(maxsize=_KEPT)
def _demands(about: str) -> tuple[_Demand, ...]:
    """The clauses of an instruction about the answer that are no prohibition, and do not tell what stays.

    A negation, or a condition, holds until a clause begins anew, and one within the request ("with no notes") for it alone.
    What stands before the request in its sentence leads to it, unless the request begins with "then".
    """
    found, left = list[_Demand](), _MAX_CLAUSES
    for sentence in islice(_SENTENCE.finditer(about), _MAX_CLAUSES):
        is_off = is_listed = False
        clauses = _CLAUSE_END.split(sentence[0])[:left]
        if not clauses:
            break
        left -= len(clauses)
        requests = [bool(chat_languages.read(one).targets) for one in clauses]
        first = requests.index(True) if True in requests else 0
        for place in range(0 if _THEN.match(clauses[first]) else first, len(clauses)):
            clause = clauses[place]
            is_off = (is_off and _ANEW.match(clause) is None) or words("not").search(clause) is not None
            is_order = _is_order(clause)
            is_listed = is_order or (is_listed and _NOUNS.fullmatch(clause) is not None)
            if not is_off and not _OF_INPUT.search(clause):
                is_kept = words("kept").search(clause) is not None
                found.append(_Demand(clause, requests[place], is_kept, is_order, is_listed and not is_order))
            is_off = is_off and not requests[place]
    return tuple(found)


def _elements(about: str, demands: Sequence[_Demand], has: str) -> str | None:
    """An element that the answer is to have."""
    for one in demands:
        for found in _ELEMENT.finditer(one.text) if words("answered").search(one.text) is not None else ():
            name = found[1]
            is_closed = f"</{name}>" in about or f"{found[0]} tag" in about
            if is_closed and name.lower() not in HTML and not words("context").search(name) and f"<{name}" not in has:
                return found[0]
    for shown in islice(_SHOWN_BLOCK.finditer(about), _MAX_MARKS):
        is_placeholder = words("asks").search(shown[2]) or words("text").search(shown[2])
        is_about = words("context").search(shown[1].replace("_", " ")) is not None
        if is_placeholder and not is_about and shown[1].lower() not in HTML and f"<{shown[1]}" not in has:
            return shown[0]
    return None


def _marks(demands: Sequence[_Demand], has: str) -> str | None:
    """A mark that the answer is to have."""
    for one in demands:
        is_answer = one.is_order or words("answered").search(one.text) is not None
        is_around = words("between").search(one.text) is not None
        for found in _MARK.finditer(one.text) if is_answer else ():
            if (is_around or _NO_MARK.fullmatch(found[0]) is None) and found[0] not in has:
                return one.text
    return None


def _orders(demands: Sequence[_Demand], frame: str, has: str) -> str | None:
    """A clause that wants more than the translation in the answer, or a shape that it has not."""
    where = frame if frame.strip() else has
    return next(
        (one.text for one in demands if _wants_more(one, is_one=not frame.strip()) or _wants_shape(one, frame, where)),
        None,
    )


def _is_order(clause: str) -> bool:
    """Whether a clause begins with what to put into the answer, or says what the answer is."""
    return words("order").match(clause, _verb(clause)) is not None or words("answer_is").search(clause) is not None


def _verb(clause: str) -> int:
    """Where the verb of a clause that tells to do something stands."""
    lead = words("lead").match(clause)
    return lead.end() if lead is not None else 0


def _wants_more(one: _Demand, *, is_one: bool) -> bool:
    """Whether something is to be produced besides a translation: by a verb of other work, or by a noun of what no
    translation has. (The manner of a translation, its terms, and what stays are no more than a translation.)"""
    clause, verb, is_order = one.text, _verb(one.text), one.is_order
    if is_one and (is_order or one.is_request or one.is_kept) and words("several").search(clause):
        return True
    if one.is_kept:
        return False
    if words("extra_beside").search(clause) is not None:
        return True
    if one.is_request:
        return False
    if is_order and words("bilingual").search(clause):
        return True
    rest = words("translated").sub(" ", clause)
    is_adding = words("adding").match(clause, verb) is not None and not any(
        words(kind).search(clause) for kind in ("added", "asks")
    )
    if is_adding or words("works").match(clause, verb) is not None:
        return True
    is_of_answer = is_order or one.is_more or words("answered").search(rest) is not None
    return is_of_answer and words("extra").search(rest) is not None


def _wants_shape(one: _Demand, frame: str, where: str) -> bool:
    """Whether a clause about the answer names a shape, a key, or a word at the beginning or end, which it has not."""
    clause = one.text
    if one.is_kept or (not one.is_order and (frame.strip() or words("answered").search(clause) is None)):
        return False
    if any(pattern.search(clause) and not sign.search(where) for pattern, sign in signs()):
        return True
    # an array that is the last of an answer's fields
    beside = _KEY.findall(frame.partition("[")[0]) if frame.lstrip()[:1] == "{" else []
    if len(beside) > 1 and _ARRAY.search(clause) and not any(key in clause for key in beside):
        return True
    shown = _QUOTED_FORM.search(clause)
    if shown is not None and any(word[0] not in where for word in _LETTERS.finditer(shown["before"] + shown["after"])):
        return True
    token = _TOKEN.search(clause)
    if token is not None and (token["quoted"] or token["capitals"]) not in where:
        return True
    is_of_keys = words("keyed").search(clause) is not None
    named = (one for one in _IDENTIFIER.finditer(clause) if one["spelt"] or is_of_keys)
    return bool(frame.strip()) and any((one["quoted"] or one["spelt"]) not in frame for one in named)
