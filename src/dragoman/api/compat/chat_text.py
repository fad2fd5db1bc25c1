"""Which part of a message is text, where an instruction stands before it, after it or around it.

The text is between marks (a fence, quotes, a tag, a mark that the instruction names), or behind a line that introduces it, or
before a last paragraph that asks for its translation. What a line introduces, its nouns tell: a text, or something else
(rules, a glossary, an example). The instruction is in the first and last pages of a message, every search there has a bound,
and the end of the text is looked for once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import cast

from dragoman.api.compat import chat_languages
from dragoman.api.compat.chat_languages import words
from dragoman.api.input import MAX_VALUES, parse_json
from dragoman.errors import InvalidJson, UntranslatableText

_HEAD, _TAIL = 20_000, 3_000  # characters in which an instruction may be
_MAX_LINE = 600
_MAX_COLONS, _MAX_MARKS = 500, 50
_OPENING = re.compile(
    r"^[ \t]*(?P<fence>```|~~~)[\w-]*[ \t]*(?:\n|$)|(?P<quotes>\"\"\"|'''|```)"
    r"|^[ \t]*<(?P<tag>[A-Za-z][\w-]{0,40})(?: [^<>\n]{0,100})?>|^[ \t]*\[(?P<bracket>[A-Z][A-Z _]{2,30})\]"
    r"|(?P<colon>[:：])",
    re.MULTILINE,
)
_NAMED = re.compile(
    r"\b(?:enclosed|between|inside|surrounded|delimited|wrapped|within)\b[^.\n]{0,25}?(?:(?P<word>triple (?:backticks|quotes))"
    r"|(?P<marker>[^\w\s.,:;<>(){}\[\]\"'`\x21-\x7f\u2010-\u2030]{1,6}|[^\w\s.,:;<>(){}\[\]\"'`]{2,6}|[\"'`][^\w\s\"'`<>{}]{1,8}[\"'`]))",
    re.IGNORECASE,
)
_BEGIN = re.compile(r"^(?P<left>[^\w\n]{0,10})(?:BEGIN|START)\b[^\n]{0,40}\n", re.MULTILINE)
_WORD_MARKS = {"triple backticks": "```", "triple quotes": '"""'}
_PAIRS = {'"': '"', "“": "”", "「": "」", "『": "』", "`": "`", "'": "'", "‘": "’", "«": "»", "„": "“"}
_OBJECT = re.compile(
    r"(?P<before>(?:(?!\n\s*\n)[^\"“「『`'‘«„]){4,300}?[\s:：,，])?(?P<open>(?!\"{3}|'{3}|`{3})[\"“「『`'‘«„])(?=\S)"
)
_FIELD = re.compile(r"\s*(?:field|key|value|tag|column|property|section|attribute)", re.IGNORECASE)
_HERE = re.compile(r"\s*(?:now,? )?(?:here(?:'s| is| are)|this is|these are) ", re.IGNORECASE)
_END_LINE = re.compile(r"\n[^\w\n]{0,10}END(?: OF)? [A-Z_ ]{3,40}[^\w\n]{0,10}\s*\Z")
_CAPITALS_LABEL = re.compile(r"\n[ \t]*(?:[A-Z]{1,20}[_ ]){0,3}([A-Z]{3,20})[:：][ \t]*(?:\n|\Z)")
_END_BLOCKS = re.compile(r"(?:\n\s*<(?P<block>\w{3,40})>(?:(?!</?(?P=block)>)[\s\S]){0,3000}</(?P=block)>\s*){1,4}\Z")
_NAME = re.compile(r"\s*([^\W\d]{2,30})[ \t]*[:：][ \t]*")
_BULLET = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s+(?P<line>[^\n]{0,200})")
_PAIR_LINES = re.compile(r"\s*(?:^[ \t]*[^\n]{1,100}(?:->|=>|→)[^\n]{0,200}\n){1,500}+", re.MULTILINE)
_BLANK = re.compile(r"\s{0,80}")
_FIRST_LINE = re.compile(r"\s*(?P<line>[^\n]{3,600}?)(?P<colon>[:：])[ \t*]*\r?\n")
_ABOVE = re.compile(r"\b(?:above|preceding|it|this)\b|上面|以上|上記|위", re.IGNORECASE)
_NEXT_BRACKET = re.compile(r"\n[ \t]*\n?\[[A-Z][A-Z _]{2,30}\]")
_WHOLE_QUOTE = re.compile(r"\s*[\"“「『«„]([^\"“”「」『』«»„]{1,20000})[\"”」』»“]\s*")
_PARAGRAPH_END = re.compile(r"[ \t]*\r?\n\s*\n")
_LINE_END = re.compile(r"[ \t]*\r?\n(?:\s*\n)?")
HTML = frozenset(
    re.findall(
        r"\w+", "a b body br code div em font h1 h2 h3 html i img li ol p pre s span strong sub sup table td tr u ul"
    )
)


@dataclass(frozen=True, slots=True)
class SplitMessage:
    """A message as instruction and text. `is_marked`: it has marks of both ends (a fence, quotes, a tag)."""

    before: str
    text: str
    after: str = ""
    is_marked: bool = False

    @property
    def about(self) -> str:
        """The instruction."""
        around = " … " if self.is_marked and self.after.strip() else "\n\n"
        return f"{self.before[:_HEAD]}{around}{self.after[-_TAIL:]}"


def split(message: str, told: str = "") -> SplitMessage | None:
    """The text of a message, and what stands around it; None where nothing tells them apart.

    `told`: what other messages say; where these already ask for a translation, the message need not do so itself.
    """
    if (pair := _behind_pair(message)) is not None:
        return pair
    is_asked = chat_languages.asks(message)
    if not is_asked and not told:
        return None
    if told and (line := _SOURCE_LINE.match(message)) is not None:
        rest = message[line.end() :]
        part = split(rest, told) or SplitMessage("", rest)
        return replace(part, before=line[0] + part.before)
    scan = _Scan(message, told)
    finders = [scan.first_line, scan.between_named, scan.json_at_the_end, scan.list_behind_paragraph, scan.introduced]
    if told:
        finders.append(scan.before_end)
    else:
        finders[3:3] = [scan.quoted]
        finders.append(scan.before_request)
    if is_asked:
        finders += [scan.quoted, scan.behind_paragraph]
    part = next((found for find in finders if (found := find()) is not None), None)
    return _trimmed(part) if part is not None else None


def _behind_pair(message: str) -> SplitMessage | None:
    """The text behind two languages: "English to German: Hello." """
    found = _PAIR_LABEL.match(message)
    if (
        found is None
        or chat_languages.tag_of(found["source"]) is None
        or chat_languages.tag_of(found["target"]) is None
    ):
        return None
    before = f"Translate from {found['source']} to {found['target']}:"
    return replace(_without_quotes(SplitMessage(before, message[found.end() :].strip())), is_marked=True)


_PAIR_LABEL = re.compile(
    r"\s*(?P<source>[\w-]{2,20}) ?(?:\bto\b|->|=>|→|➜) ?(?P<target>[\w-]{2,20}(?: \w{2,20})?) ?[:：]", re.IGNORECASE
)


_JSON_START = re.compile(r"^[ \t]*[\[{]", re.MULTILINE)


def parsed_json(text: str) -> object:
    """The JSON list or object that a text is, within the bounds of a request's; None: it is none."""
    text = text.strip()
    if text[:1] not in ("{", "["):
        return None
    try:
        return cast(object, parse_json(text.encode(), MAX_VALUES))
    except (InvalidJson, UntranslatableText, UnicodeEncodeError):
        return None


# ---- what is introduced


class _Scan:
    """Looks for the place in a message at which its text is introduced or opened."""

    def __init__(self, message: str, told: str) -> None:
        self._message, self._told = message, told
        asked = None if told else words("asks").search(message, 0, _HEAD)
        self._from = asked.start() if asked is not None else (0 if told else len(message))
        self._skip = 0
        self._held: SplitMessage | None = None  # what follows a list of terms

    def introduced(self) -> SplitMessage | None:
        """The text behind the first line or mark that introduces it."""
        colons, marks = _MAX_COLONS, _MAX_MARKS
        for opening in _OPENING.finditer(self._message, 0, _HEAD):
            is_colon = opening["colon"] is not None
            colons, marks = colons - is_colon, marks - (not is_colon)
            if opening.start() < self._skip or min(colons, marks) < 0:
                continue
            find = self._behind_colon if is_colon else self._between_marks
            part = find(opening)
            if part is not None and (part.is_marked or not _has_rules(part.text)):
                return part
        return self._held

    def first_line(self) -> SplitMessage | None:
        """The text behind a first line that is a request and ends with a colon: whatever marks it has are its own."""
        colon = _FIRST_LINE.match(self._message)
        if colon is None or _NAMED.search(colon["line"]) is not None:
            return None
        is_request = chat_languages.commands(colon["line"]) and chat_languages.read(colon["line"]).targets
        return self._behind_colon(colon) if is_request or self._told else None

    def list_behind_paragraph(self) -> SplitMessage | None:
        """The same where that text is a list, whose items may hold marks and labels."""
        part = self.behind_paragraph()
        return part if part is not None and _STRUCTURED.match(part.text) is not None else None

    def behind_paragraph(self) -> SplitMessage | None:
        """The text behind a paragraph, or a first line, whose last line is a request as a whole."""
        message = self._message
        ends = [
            *islice(_PARAGRAPH_END.finditer(message, 0, _HEAD), _MAX_MARKS),
            *islice(_LINE_END.finditer(message, 0, _MAX_LINE), 1),
        ]
        for end in ends:
            start = message.rfind("\n", 0, end.start()) + 1
            line, is_first = message[start : end.start()], not message[:start].strip() and not self._told
            is_text = message[end.end() : end.end() + 300].strip() != ""
            if not is_text or len(line) > 2_000 or line[-1:] in _PAIRS or not chat_languages.commands(line):
                continue
            is_whole = not self._told or (_said("text", line) and line.rstrip().endswith((".", ":", "。", "：", "!")))
            if not is_whole or not _said("follows", line) or _is_rules(message, end.end()):
                continue
            part = SplitMessage(message[: end.end()], message[end.end() :])
            if (is_first or chat_languages.read(line).targets) and not _has_rules(_without_end(part).text):
                return part
        return None

    def before_request(self) -> SplitMessage | None:
        """The text before a last paragraph that asks for its translation."""
        before, blank, request = self._message.rstrip().rpartition("\n\n")
        is_request = (
            bool(blank)
            and len(request) <= 400
            and _ABOVE.search(request) is not None
            and chat_languages.tells(request.strip())
        )
        return (
            SplitMessage("", before.rstrip(), blank + request)
            if is_request and chat_languages.read(request).targets
            else None
        )

    def before_end(self) -> SplitMessage | None:
        """The text before a label of the answer, where other messages have the instruction."""
        part = _without_end(SplitMessage("", self._message))
        return part if part.after.strip() else None

    def json_at_the_end(self) -> SplitMessage | None:
        """JSON behind an instruction."""
        message = self._message
        if message.rstrip()[-1:] not in ("]", "}") or message.lstrip()[:1] in ("[", "{"):
            return None
        for start in islice(_JSON_START.finditer(message, 0, _HEAD), 5):
            title = message[max(start.start() - 300, 0) : start.start()].rstrip().rpartition("\n")[2]
            is_shown = title.endswith((":", "：")) and _said("context", title)
            if title and not is_shown and parsed_json(message[start.start() :]) is not None:
                return SplitMessage(message[: start.start()], message[start.start() :].strip(), "", True)
        return None

    def between_named(self) -> SplitMessage | None:
        """The text between two marks that the instruction names, or lines that say BEGIN and END."""
        message, told = self._message, self._told
        if (begin := _BEGIN.search(message, 0, _HEAD)) is not None and (
            end := message.rfind(f"\n{begin['left']}END", begin.end())
        ) >= 0:
            return SplitMessage(message[: begin.start()], message[begin.end() : end].strip("\r\n"), message[end:], True)
        for named in islice(_NAMED.finditer(told[-_HEAD:] if told else message[:_HEAD]), 20):
            marker = _WORD_MARKS.get((named["word"] or "").lower()) or (named["marker"] or "").strip("\"'`")
            first = message.find(marker, 0 if told else named.end()) if marker else -1
            find = message.rfind if named["word"] is not None else message.find
            last = find(marker, first + len(marker)) if first >= 0 else -1
            if 0 <= first < last and len(message) - last < _TAIL:
                text = message[first + len(marker) : last].strip()
                return SplitMessage(message[:first], text, message[last + len(marker) :], True)
        return None

    def quoted(self) -> SplitMessage | None:
        """One text in quotes within a sentence that asks for its translation, at the beginning of a paragraph."""
        message = self._message
        for start in (0, *(one.end() for one in islice(_PARAGRAPH_END.finditer(message, 0, _HEAD), _MAX_MARKS))):
            found = _OBJECT.match(message, start)
            if found is None or found["before"] is None:
                continue
            close = _PAIRS[found["open"]]
            first, end = message.find(close, found.end()), message.rfind(close, found.end())
            after = message[end + 1 : end + 302] if end >= 0 else "\n."
            is_end = len(after) <= 300 and "\n" not in after.strip() and not after[:1].isalnum()
            sentence = re.split(r"[.!?。]\s|\n", found["before"])[-1]
            if not is_end or _FIELD.match(message, first + 1) or not chat_languages.commands(sentence):
                continue
            if first < end and "\n" not in message[first:end] and chat_languages.asks(message[first:end]):
                return None  # several are quoted
            return SplitMessage(message[: found.start("open")], message[found.end() : end], message[end + 1 :], True)
        return None

    def _between_marks(self, opening: re.Match[str]) -> SplitMessage | None:
        """The text in a fence, quotes or a tag, whose title says that it is one."""
        message, kind, name = self._message, opening.lastgroup or "", opening[opening.lastgroup or 0]
        before, is_tag = message[: opening.start()], kind in ("tag", "bracket")
        close = f"</{name}>" if kind == "tag" else f"[/{name}]" if kind == "bracket" else name
        first, last = message.find(close, opening.end()), message.rfind(close, opening.end())
        title = _spaced(name if is_tag else before[-200:].rstrip().rpartition("\n")[2])
        is_text = _said("text", title) or (is_tag and (f"<{name}>" in self._told or f"<{name}>" in before))
        is_asked = bool(self._told) or opening.start() >= self._from
        if kind == "bracket" and first < 0 and (is_text or title == "TARGET") and is_asked:
            end = _NEXT_BRACKET.search(message, opening.end())
            stop = end.start() if end is not None else len(message)
            return SplitMessage(before, message[opening.end() : stop].strip(), message[stop:], True)
        if first < 0 or (kind == "tag" and name.lower() in HTML):
            return None
        if _said("context", title) and (is_tag or not is_text):
            self._skip = first + len(close)
            return None
        after = message[last + len(close) :]
        if first < last and after.strip() and not is_tag:
            last, after = first, message[first + len(close) :]  # several: the first ends before more of the instruction
        is_whole = len(after) <= _TAIL and (is_text or not is_tag) and (is_text or not self._told or not before.strip())
        if not is_whole or not (is_asked or chat_languages.asks(after)):
            return None
        text = message[opening.end() : last].removeprefix("\r\n").removeprefix("\n")
        return SplitMessage(before, text.rstrip() if text.endswith(("\n", " ")) else text, after, True)

    def _behind_colon(self, colon: re.Match[str]) -> SplitMessage | None:
        """The text behind a line that introduces it, or behind a label."""
        message, place = self._message, colon.start("colon")
        start = message.rfind("\n", 0, place) + 1
        line, end = message[start:place], colon.end("colon")
        rest = message[end : end + 400].partition("\n")[0]
        is_block = not rest.strip(" \t*\r")
        end += len(rest) if is_block else 0
        if is_block and _said("context", line) and (pairs := _PAIR_LINES.match(message, end)) is not None:
            self._skip = pairs.end()
            self._held = self._held or SplitMessage(message[: pairs.end()], message[pairs.end() :].strip())
            return None
        if len(line) > _MAX_LINE or place < self._from or _opens(message, end) or _is_rules(message, end):
            return None
        if not self._introduces(_spaced(line), message[:start], is_block=is_block):
            return None
        return SplitMessage(message[:end], message[end:].lstrip("\r\n" if is_block else " "))

    def _introduces(self, line: str, before: str, *, is_block: bool) -> bool:
        """Whether a line introduces the text, and not rules, a format or an example. `is_block`: on the lines behind it."""
        sentence = re.split(r"[.!。]\s+", line)[-1]
        asks = _said("asks", line)
        is_behind = bool(self._told) and _begins(before)
        if words("label").fullmatch(sentence) is not None and (sentence == line or chat_languages.commands(line)):
            return is_block or asks or not self._told or is_behind
        is_next = is_behind or self._held is not None or (bool(self._told) and not before.strip())
        if is_block and is_next and _said("text", line) and _said("follows", line):
            return True
        if _HERE.match(sentence) is not None and _said("text", sentence) and not _said("context", sentence):
            return True
        is_first = not before.strip() or _said("context", before[:100])
        if self._told and not (is_first and chat_languages.tells(line)):
            return False
        targets = chat_languages.read(line).targets if asks else ()
        if is_block:
            if targets:
                return chat_languages.tells(line) or _said("follows", line)
            return not _said("context", sentence) and (asks or _said("text", sentence))
        is_plain = re.search(r"[\"“`「]", line) is None and not chat_languages.read(before[-2_000:]).targets
        follows = _said("follows", sentence) or bool(targets)
        is_clear = not self._told or _said("text", sentence)
        return asks and is_plain and follows and is_clear and chat_languages.commands(sentence)


def _said(kind: str, text: str) -> bool:
    return words(kind).search(text) is not None


def _spaced(name: str) -> str:
    """A name of several words, with spaces between these."""
    return re.sub(r"[_-]", " ", name)


_SOURCE_LINE = re.compile(r"\s*\[(?:source|from|target|language)[^\]\n]{0,60}\]\s*\n", re.IGNORECASE)


def _opens(message: str, place: int) -> bool:
    """Whether the next line that is not blank opens a fence, quotes or a tag."""
    following = _BLANK.match(message, place)
    place = following.end() if following is not None else place
    if message.startswith(("```", "~~~", '"""', "'''"), place):
        return True
    tag = re.compile(r"<([A-Za-z][\w-]{0,40})>\s*\n").match(message, place)
    return tag is not None and _said("text", _spaced(tag[1]))


def _is_rules(message: str, place: int) -> bool:
    """Whether what stands behind a colon is more of the instruction: a list of rules, or a heading of some."""
    first = message[place : place + 300].lstrip()
    line = first.partition("\n")[0]
    if (bullet := _BULLET.match(first)) is not None:
        return words("rule").match(bullet["line"].lstrip("*")) is not None
    is_heading = line.rstrip("* ").endswith((":", "：")) or line.startswith("#")
    return is_heading and words("context").search(line) is not None and len(line) < 80


def _begins(message: str) -> bool:
    """Whether the first line of a message is a request as a whole."""
    first = message.lstrip()[:_MAX_LINE].partition("\n")[0].rstrip()
    return first.endswith((".", ":", "。", "：")) and chat_languages.begins(first)


def is_instructed(message: str) -> bool:
    """Whether a message begins with a request, with rules behind it."""
    first, *others = message.lstrip()[:_TAIL].splitlines()[:12] or [""]
    return _begins(first) and any(map(words("rule_line").match, others))


def is_labelled(message: str) -> bool:
    """Whether a message begins with the label of a text."""
    label = re.compile(r"\s*([^\n:：]{2,60})[:：][ \t*]*\n").match(message)
    return label is not None and words("label").fullmatch(label[1]) is not None


def _has_rules(text: str) -> bool:
    """Whether what may be text tells how to translate: it is more of the instruction, at its beginning or its end."""
    if _STRUCTURED.match(text) is not None:
        return False
    lines = f"{text[:_TAIL]}\n{text[-_TAIL:]}" if len(text) > _TAIL else text
    return any(
        words("rule_line").match(line) and words("asks").search(line, 0, _MAX_LINE) for line in lines.splitlines()
    )


_STRUCTURED = re.compile(r"\s*(?:[\[{@]|#?\d+\b|<[^<>\n]{0,40}\d)")


# ---- the end of the text


def _without_end(part: SplitMessage) -> SplitMessage:
    """Without a label of the answer, a last note, or context behind the text."""
    if part.is_marked:
        return part
    before, text, after = part.before, part.text, part.after
    if (end := _END_LINE.search(text[-_TAIL:])) is not None:
        at = max(len(text) - _TAIL, 0) + end.start()
        text, after = text[:at], text[at:] + after
    label, end = _CAPITALS_LABEL.search(f"\n{before[-60:]}"), _CAPITALS_LABEL.search(text)
    if label is not None and end is not None and (end[1] == label[1] or _said("context", _spaced(end[0]))):
        text, after = text[: end.start()], text[end.start() :] + after
    for ending in (_END_BLOCKS, words("end_label"), words("end_note")):
        tail = text[-_TAIL:]
        if (found := ending.search(tail)) is None:
            continue
        if ending is words("end_label") and found["language"] is not None:
            named = _NAME.match(text)
            if named is None or not chat_languages.tag_of(named[1]) or not chat_languages.tag_of(found["language"]):
                continue
            text, before = text[named.end() :], before + text[: named.end()]
            tail = text[-_TAIL:]
            found = ending.search(tail) or found
        if ending is _END_BLOCKS and words("context").search(found["block"].replace("_", " ")) is None:
            continue
        at = max(len(text) - _TAIL, 0) + found.start()
        text, after = text[:at].rstrip(), text[at:] + after
    return SplitMessage(before, text.rstrip() if text.endswith("\n") else text, after)


_INNER = re.compile(
    r"^(?:texts?|[\w ]{0,20}(?:text|line|sentence)) to (?:be )?translated?:[ \t]*", re.IGNORECASE | re.MULTILINE
)
_LABEL_LINE = re.compile(r"\s*([^\n:：]{2,60})[:：][ \t*]*\n")
_RULED = re.compile(r"\s*(?P<rule>[-=*#~_]{3,})[ \t]*\n(?P<text>[\s\S]*)\n(?P=rule)\s*\Z")


def _trimmed(part: SplitMessage) -> SplitMessage:
    """Without what stands around the text too: labels, notes, lines of dashes, quotes, or context between the same marks."""
    if part.is_marked:
        first = part.text.lstrip()[:200].partition("\n")[0]
        inner = _INNER.search(part.text, 0, _HEAD) if ":" in first and _said("context", first) else None
        part = replace(part, text=part.text[inner.end() :]) if inner is not None else part
    else:
        part = _without_end(part)
        label = _LABEL_LINE.match(part.text)
        if label is not None and words("label").fullmatch(label[1]) is not None:
            part = replace(part, before=part.before + label[0], text=part.text[label.end() :].lstrip("\r\n"))
        part = _without_quotes(part)
    ruled = _RULED.match(part.text)
    return replace(part, text=ruled["text"].strip()) if ruled is not None else part


def _without_quotes(part: SplitMessage) -> SplitMessage:
    """Without the quotation marks around the whole text."""
    found = _WHOLE_QUOTE.fullmatch(part.text)
    return replace(part, text=found[1], is_marked=True) if found is not None else part


@cache
def _term_heading() -> re.Pattern[str]:
    return re.compile(rf"^[^\n]{{0,120}}(?:{words('terms').pattern})[^\n]{{0,120}}\n", re.IGNORECASE | re.MULTILINE)


_TERM = re.compile(
    r"[ \t]*(?:[-*•|][ \t]*)?(?P<source>[^\n|=:：→>]{1,80}?)[ \t]*(?:->|=>|→|=|[:：]|\|)"
    r"[ \t]*(?P<target>[^\n|#]{1,80}?)[ \t]*(?:[|#][^\n]*)?(?:\n|\Z)"
)


def terms(about: str) -> dict[str, str]:
    """The terms of an instruction's glossaries, with their translations."""
    found: dict[str, str] = {}
    for heading in islice(_term_heading().finditer(about, 0, 2 * _HEAD), 20):
        at, blanks = heading.end(), 0
        while (term := _TERM.match(about, at)) is not None or (
            blanks < 4 and re.compile(r"[ \t|:-]*\n|#[^\n]*\n").match(about, at)
        ):
            if term is None or "---" in term["source"]:
                blanks += 1
                at = about.find("\n", at) + 1 or len(about)
                continue
            found |= {term["source"].strip(): term["target"].strip()}
            at = term.end()
    return {source: target for source, target in found.items() if "term" not in source.lower()}
