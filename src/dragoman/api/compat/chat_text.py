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
    r"|(?P<colon>[:：])|^[ \t]*(?P<rule>[-=*#~_]{3,})[ \t]*\n",
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
_END_BLOCKS = re.compile(r"(?:\n\s*<(?P<block>\w{3,40})>(?:(?!</?(?P=block)>)[\s\S]){0,3000}</(?P=block)>\s*){1,4}\Z")
_NAME = re.compile(r"\s*([^\W\d]{2,30})[ \t]*[:：][ \t]*")
_BULLET = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s+(?P<line>[^\n]{0,200})")
_PAIR_LINES = re.compile(r"\s*(?:^[ \t]*[^\n]{1,100}(?:->|=>|→)[^\n]{0,200}\n){1,500}+", re.MULTILINE)
_BLANK = re.compile(r"\s{0,80}")
_PARAGRAPH_END = re.compile(r"[ \t]*\r?\n\s*\n")
_LINE_END = re.compile(r"[ \t]*\r?\n(?:\s*\n)?")
HTML = frozenset(
    [
        "b",
        "i",
        "p",
        "a",
        "div",
        "span",
        "br",
        "html",
        "u",
        "em",
        "strong",
        "font",
        "ul",
        "ol",
        "li",
        "h1",
        "h2",
        "h3",
        "table",
        "tr",
        "td",
        "body",
        "code",
        "pre",
        "img",
        "sup",
        "sub",
        "s",
    ]
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
    part = _behind_first_line(message, bool(told)) or _between_named(message, told) or _json_at_the_end(message)
    if part is None and is_asked and not told:
        part = _quoted(message)
    part = part or _Scan(message, told).part()
    if part is None and told and (ended := _without_end(SplitMessage("", message))).after.strip():
        part = ended
    if part is None and is_asked:
        part = (
            (_before_request(message) if not told else None) or _quoted(message) or _behind_request(message, bool(told))
        )
    return _without_context(_without_label(part)) if part is not None else None


def _behind_pair(message: str) -> SplitMessage | None:
    """The text behind two languages: "English to German: Hello." """
    found = _PAIR_LABEL.match(message)
    if (
        found is None
        or chat_languages.tag_of(found["source"]) is None
        or chat_languages.tag_of(found["target"]) is None
    ):
        return None
    text = message[found.end() :].strip()
    is_quoted = len(text) > 2 and text[0] == text[-1] == '"' and text.count('"') == 2
    return SplitMessage(
        f"Translate from {found['source']} to {found['target']}:", text.strip('"') if is_quoted else text, "", True
    )


_PAIR_LABEL = re.compile(
    r"\s*(?P<source>[\w-]{2,20}) ?(?:\bto\b|->|=>|→|➜) ?(?P<target>[\w-]{2,20}(?: \w{2,20})?) ?[:：]", re.IGNORECASE
)


def _behind_first_line(message: str, is_told: bool) -> SplitMessage | None:
    """The text behind a first line that is a request and ends with a colon."""
    end = re.compile(r"\s*(?P<line>[^\n]{3,600}?)[:：][ \t*]*\r?\n").match(message)
    if end is None or _opens(message, end.end()) or _is_rules(message, end.end()):
        return None
    announces = words("text").search(end["line"]) is not None and words("follows").search(end["line"]) is not None
    if not chat_languages.commands(end["line"]) and not (is_told and announces):
        return None
    if _NAMED.search(end["line"]) is not None:
        return None
    names = chat_languages.read(end["line"]).targets or (is_told and words("follows").search(end["line"]))
    return _without_end(SplitMessage(message[: end.end()], message[end.end() :].lstrip("\r\n"))) if names else None


def _json_at_the_end(message: str) -> SplitMessage | None:
    """JSON behind an instruction."""
    if message.rstrip()[-1:] not in ("]", "}") or message.lstrip()[:1] in ("[", "{"):
        return None
    for start in islice(_JSON_START.finditer(message, 0, _HEAD), 5):
        title = message[max(start.start() - 300, 0) : start.start()].rstrip().rpartition("\n")[2]
        is_shown = title.endswith((":", "：")) and words("context").search(title) is not None
        if title and not is_shown and parses_as_json(message[start.start() :]):
            return SplitMessage(message[: start.start()], message[start.start() :].strip(), "", True)
    return None


_JSON_START = re.compile(r"^[ \t]*[\[{]", re.MULTILINE)


def parses_as_json(text: str) -> bool:
    """Whether a text is JSON, within the bounds of a request's."""
    try:
        parse_json(text.encode(), MAX_VALUES)
    except (InvalidJson, UntranslatableText, UnicodeEncodeError):
        return False
    return True


def _between_named(message: str, told: str) -> SplitMessage | None:
    """The text between two marks that the instruction names, or lines that say BEGIN and END."""
    if (begin := _BEGIN.search(message, 0, _HEAD)) is not None and (
        end := message.rfind(f"\n{begin['left']}END", begin.end())
    ) >= 0:
        return SplitMessage(message[: begin.start()], message[begin.end() : end].strip("\r\n"), message[end:], True)
    for named in list(_NAMED.finditer(told[-_HEAD:] if told else message[:_HEAD]))[:20]:
        marker = _WORD_MARKS.get((named["word"] or "").lower()) or (named["marker"] or "").strip("\"'`")
        first = message.find(marker, 0 if told else named.end()) if marker else -1
        find = message.rfind if named["word"] is not None else message.find
        last = find(marker, first + len(marker)) if first >= 0 else -1
        if 0 <= first < last and len(message) - last < _TAIL:
            text = message[first + len(marker) : last].strip()
            return SplitMessage(message[:first], text, message[last + len(marker) :], True)
    return None


def _quoted(message: str) -> SplitMessage | None:
    """One text in quotes within a sentence that asks for its translation, at the beginning of a paragraph."""
    for start in (0, *(one.end() for one in islice(_PARAGRAPH_END.finditer(message, 0, _HEAD), _MAX_MARKS))):
        found = _OBJECT.match(message, start)
        if found is None or found["before"] is None:
            continue
        first, end = message.find(_PAIRS[found["open"]], found.end()), message.rfind(_PAIRS[found["open"]], found.end())
        after = message[end + 1 : end + 302] if end >= 0 else ""
        is_end = end >= 0 and len(after) <= 300 and "\n" not in after.strip() and not after[:1].isalnum()
        sentence = re.split(r"[.!?。]\s|\n", found["before"])[-1]
        if not is_end or _FIELD.match(message, first + 1) or not chat_languages.commands(sentence):
            continue
        is_several = first < end and "\n" not in message[first:end] and chat_languages.asks(message[first:end])
        return (
            None
            if is_several
            else SplitMessage(message[: found.start("open")], message[found.end() : end], message[end + 1 :], True)
        )
    return None


def _before_request(message: str) -> SplitMessage | None:
    """The text before a last paragraph that asks for its translation."""
    tail = message[-_TAIL:].rstrip()
    start = tail.rfind("\n\n")
    request = tail[start:]
    if (
        start < 0
        or len(request) > 400
        or not re.search(r"\b(?:above|preceding|it|this)\b|上面|以上|上記|위", request, re.IGNORECASE)
    ):
        return None
    if not chat_languages.tells(request.strip()) or not chat_languages.read(request).targets:
        return None
    at = max(len(message) - _TAIL, 0) + start
    return SplitMessage("", message[:at].rstrip(), message[at:])


def _behind_request(message: str, is_told: bool) -> SplitMessage | None:
    """The text behind a paragraph, or a first line, whose last line is a request as a whole."""
    ends = [
        *islice(_PARAGRAPH_END.finditer(message, 0, _HEAD), _MAX_MARKS),
        *islice(_LINE_END.finditer(message, 0, _MAX_LINE), 1),
    ]
    for end in ends:
        line = message[message.rfind("\n", 0, end.start()) + 1 : end.start()]
        is_text = end.end() < len(message) and not message[end.end() : end.end() + 300].isspace()
        if not is_text or len(line) > 2_000 or line[-1:] in _PAIRS or not chat_languages.commands(line):
            continue
        is_first = not message[: end.start() - len(line)].strip() and not is_told
        is_sure = not is_told or (
            words("text").search(line) is not None and line.rstrip().endswith((".", ":", "。", "：", "!"))
        )
        follows = words("follows").search(line) is not None and is_sure
        if follows and (is_first or chat_languages.read(line).targets) and not _is_rules(message, end.end()):
            part = _without_end(SplitMessage(message[: end.end()], message[end.end() :]))
            if not _has_rules(part.text):
                return part
    return None


# ---- what is introduced


class _Scan:
    """Looks for the first place in a message at which its text is introduced or opened."""

    def __init__(self, message: str, told: str) -> None:
        self._message, self._told, is_told = message, told, bool(told)
        self._is_told = is_told
        asked = None if is_told else words("asks").search(message, 0, _HEAD)
        self._from = asked.start() if asked is not None else (0 if is_told else len(message))
        self._skip = 0
        self._held: SplitMessage | None = None  # what follows a list of terms

    def part(self) -> SplitMessage | None:
        """The text, if it is introduced."""
        colons, marks = _MAX_COLONS, _MAX_MARKS
        for opening in _OPENING.finditer(self._message, 0, _HEAD):
            is_colon = opening["colon"] is not None
            colons, marks = colons - is_colon, marks - (not is_colon)
            if opening.start() < self._skip or min(colons, marks) < 0:
                continue
            part = (
                self._colon(opening) if is_colon else self._rule(opening) if opening["rule"] else self._marks(opening)
            )
            if part is not None and (part.is_marked or not _has_rules(part.text)):
                return _without_end(part)
        return self._held

    def _rule(self, opening: re.Match[str]) -> SplitMessage | None:
        """A line of dashes behind an instruction."""
        at = opening.end()
        is_last = (
            not self._is_told and opening.start() > self._from and _OPENING.search(self._message, at, at + 400) is None
        )
        return (
            SplitMessage(self._message[: opening.start()], self._message[at:])
            if is_last and not _is_rules(self._message, at)
            else None
        )

    def _marks(self, opening: re.Match[str]) -> SplitMessage | None:
        """The text between a fence, quotes or a tag."""
        message, kind, name = self._message, opening.lastgroup or "", opening[opening.lastgroup or 0]
        close = f"</{name}>" if kind == "tag" else f"[/{name}]" if kind == "bracket" else name
        first, last = message.find(close, opening.end()), message.rfind(close, opening.end())
        title = message[max(opening.start() - 200, 0) : opening.start()].rstrip().rpartition("\n")[2]
        about = re.sub(r"[_-]", " ", name if kind in ("tag", "bracket") else title)
        is_named = kind in ("tag", "bracket") and (
            f"<{name}>" in self._told or f"<{name}>" in message[: opening.start()]
        )
        is_text = is_named or words("text").search(about) is not None
        if (
            kind == "bracket"
            and first < 0
            and is_text | (about == "TARGET")
            and (self._is_told or opening.start() >= self._from)
        ):
            end = re.compile(r"\n[ \t]*\n?\[[A-Z][A-Z _]{2,30}\]").search(message, opening.end())
            stop = end.start() if end is not None else len(message)
            return SplitMessage(message[: opening.start()], message[opening.end() : stop].strip(), message[stop:], True)
        if first < 0 or (kind == "tag" and name.lower() in HTML):
            return None
        if words("context").search(about) is not None and not (is_text and kind not in ("tag", "bracket")):
            self._skip = first + len(close)
            return None
        after = message[last + len(close) :]
        if message.count(close, opening.end(), _HEAD * 2) > 1 and after.strip() and kind not in ("tag", "bracket"):
            last, after = first, message[first + len(close) :]  # several: the first ends before more of the instruction
        is_asked = self._is_told or opening.start() >= self._from or chat_languages.asks(after)
        is_whole = len(after) <= _TAIL and (not self._is_told or not message[: opening.start()].strip() or is_text)
        if not is_asked or not is_whole or (kind in ("tag", "bracket") and not is_text):
            return None
        text = message[opening.end() : last].removeprefix("\r\n").removeprefix("\n")
        text = text.rstrip() if text.endswith(("\n", " ")) else text
        return SplitMessage(message[: opening.start()], text, after, True)

    def _colon(self, opening: re.Match[str]) -> SplitMessage | None:
        """The text behind a line that introduces it, or behind a label."""
        message = self._message
        start = message.rfind("\n", 0, opening.start()) + 1
        line = message[start : opening.start()]
        same_line = message[opening.end() : opening.end() + 400].partition("\n")[0]
        begins_line = not same_line.strip(" \t*\r")
        end = opening.end() + (len(same_line) if begins_line else 0)
        if (
            begins_line
            and (pairs := _PAIR_LINES.match(message, end)) is not None
            and words("context").search(line) is not None
        ):
            self._skip = pairs.end()
            self._held = self._held or SplitMessage(message[: pairs.end()], message[pairs.end() :].strip())
            return None
        if len(line) > _MAX_LINE or opening.start() < self._from or _opens(message, end):
            return None
        if not self._introduces(line, start, begins_line=begins_line) or _is_rules(message, end):
            return None
        text = message[end:]
        text = text.lstrip("\r\n") if begins_line else text.lstrip(" ")
        quoted = re.compile(r"\s*\"([^\"\n]{1,2000})\"\s*").fullmatch(text)
        return SplitMessage(message[:end], quoted[1] if quoted is not None else text, "", quoted is not None)

    def _introduces(self, line: str, start: int, *, begins_line: bool) -> bool:
        """Whether a line introduces the text, not rules, a format or an example."""
        sentence = re.split(r"[.!。]\s+", line)[-1]
        has_verb = words("asks").search(line) is not None
        if words("label").fullmatch(sentence) is not None and (sentence == line or chat_languages.commands(line)):
            return begins_line or has_verb or not self._is_told or _begins(self._message[:start])
        is_behind_request = self._held is not None or (self._is_told and _begins(self._message[:start]))
        if (
            is_behind_request
            and begins_line
            and words("text").search(line) is not None
            and words("follows").search(line) is not None
        ):
            return True
        if (
            _HERE.match(sentence) is not None
            and words("text").search(sentence) is not None
            and words("context").search(sentence) is None
        ):
            return True
        is_behind_context = words("context").search(self._message[: min(start, 100)]) is not None
        is_request = chat_languages.tells(line) and (
            not self._is_told or not self._message[:start].strip() or is_behind_context
        )
        if has_verb and not begins_line:
            is_plain = (
                re.search(r"[\"“`「]", line) is None
                and not chat_languages.read(self._message[max(start - 2_000, 0) : start]).targets
            )
            follows = words("follows").search(sentence) is not None or bool(chat_languages.read(line).targets)
            is_clear = not self._is_told or words("text").search(sentence) is not None
            return is_plain and is_request and follows and is_clear and chat_languages.commands(sentence)
        if has_verb and chat_languages.read(line).targets:
            return begins_line and (not self._is_told or is_request)
        if words("context").search(sentence) is not None or (self._is_told and not is_request):
            return False
        return begins_line and (has_verb or words("text").search(sentence) is not None)


_SOURCE_LINE = re.compile(r"\s*\[(?:source|from|target|language)[^\]\n]{0,60}\]\s*\n", re.IGNORECASE)


def _opens(message: str, place: int) -> bool:
    """Whether the next line that is not blank opens a fence, quotes or a tag."""
    following = _BLANK.match(message, place)
    place = following.end() if following is not None else place
    if message.startswith(("```", "~~~", '"""', "'''"), place):
        return True
    tag = re.compile(r"<([A-Za-z][\w-]{0,40})>\s*\n").match(message, place)
    return tag is not None and words("text").search(re.sub(r"[_-]", " ", tag[1])) is not None


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


def _without_context(part: SplitMessage) -> SplitMessage:
    """Without the context that stands between the same marks before the text."""
    first = part.text.lstrip()[:200].partition("\n")[0]
    inner = _INNER.search(part.text, 0, _HEAD) if part.is_marked and ":" in first else None
    if inner is None or words("context").search(first) is None:
        return part
    return replace(part, text=part.text[inner.end() :])


def _without_label(part: SplitMessage) -> SplitMessage:
    """Without a label, or lines of dashes, that stand around the text too."""
    label = re.compile(r"\s*([^\n:：]{2,60})[:：][ \t*]*\n").match(part.text)
    if label is not None and words("label").fullmatch(label[1]) is not None and not part.is_marked:
        part = replace(part, before=part.before + label[0], text=part.text[label.end() :].lstrip("\r\n"))
    rule = re.compile(r"\s*([-=*#~_]{3,})[ \t]*\n").match(part.text)
    if rule is not None and part.text.rstrip().endswith(f"\n{rule[1]}"):
        part = replace(part, text=part.text.rstrip()[rule.end() : -len(rule[1])].strip())
    return part


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
