"""Which part of a message is text, where an instruction stands before it, after it or around it.

The text is between marks (a fence, quotes, a tag, a mark that the instruction names), or behind a line that introduces it, or
before a last paragraph that asks for its translation. What a line introduces, its nouns tell: a text, or something else
(rules, a glossary, an example). The instruction is in the first and last pages of a message, every search there has a bound,
and the end of the text is looked for once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import islice
from typing import cast

from dragoman.api.compat import chat_languages
from dragoman.api.compat.chat_languages import words
from dragoman.api.input import MAX_VALUES, parse_json
from dragoman.errors import InvalidJson, UntranslatableText

_HEAD, _TAIL = 20_000, 3_000  # characters in which an instruction may be
_MAX_LINE = 600
_MAX_COLONS, _MAX_MARKS = 500, 50
_MAX_IN_LINE = 10  # colons and marks of one line, which is read up to each of them
_OPENING = re.compile(
    r"^[ \t]*(?P<fence>```|~~~)[\w-]*[ \t]*(?:\n|$)|(?P<quotes>\"\"\"|'''|```)"
    r"|^[ \t]*(?P<rule>[-=*_#~+]{3,})[ \t]*$|^[ \t]*<(?P<tag>[A-Za-z][\w-]{0,40})(?: [^<>\n]{0,100})?>"
    r"|^[ \t]*\[(?P<bracket>[A-Z][A-Z _]{2,30})\]"
    r"|(?P<colon>[:：])",
    re.MULTILINE,
)
_NAMED = re.compile(
    r"\b(?:enclosed|between|inside|surrounded|delimited|wrapped|within)\b[^.\n(]{0,25}?(?:(?P<word>triple (?:backticks|quotes))"
    r"|(?P<marker>[^\w\s.,:;<>(){}\[\]\"'`\x21-\x7f\u2010-\u2030]{1,6}|[^\w\s.,:;<>(){}\[\]\"'`]{2,6}|[\"'`][^\w\s\"'`<>{}]{1,8}[\"'`]))",
    re.IGNORECASE,
)
_BEGIN = re.compile(r"^(?P<left>[^\w\n]{0,10})(?:BEGIN|START)\b[^\n]{0,40}\n", re.MULTILINE)
_BEHIND_MARK = re.compile(
    r"\b(?:after|behind|below)\b[^.\n]{0,20}?\b(?:marker|mark|delimiter|separator)\b"
    r" [\"'`“]?(?P<marker>[^\w\s.,:;\"'`”]{2,24})(?![^\s\"'`”.,:;])",
    re.IGNORECASE,
)
"""A mark that the instruction names, behind which the text is."""
_WORD_MARKS = {"triple backticks": "```", "triple quotes": '"""'}
_PAIRS = {'"': '"', "“": "”", "「": "」", "『": "』", "`": "`", "'": "'", "‘": "’", "«": "»", "„": "“"}
_OBJECT = re.compile(
    r"(?P<before>(?:(?!\n\s*\n)[^\"“「『`'‘«„]){1,300}?[\s:：,，\u3040-\u9fff\uac00-\ud7a3])?(?P<open>(?!\"{3}|'{3}|`{3})[\"“「『`'‘«„])(?=\S)"
)
_FIELD = re.compile(r"\s*(?:field|key|value|tag|column|property|section|attribute)", re.IGNORECASE)
_FIELD_BEFORE = re.compile(r"\b(?:field|key|id|column|property|attribute|array|list|object)[\s:]+\Z", re.IGNORECASE)
_HERE = re.compile(r"\s*(?:now,? )?(?:here(?:'s| is| are)|this is|these are) ", re.IGNORECASE)
_END_LINE = re.compile(r"\n[^\w\n]{0,10}END(?: OF)? [A-Z_ ]{3,40}[^\w\n]{0,10}\s*\Z")
_END_BLOCKS = re.compile(r"(?:\n\s*<(?P<block>\w{3,40})>(?:(?!</?(?P=block)>)[\s\S]){0,3000}</(?P=block)>\s*){1,4}\Z")
_BULLET = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s+(?P<line>[^\n]{0,200})")
_PAIR_LINES = re.compile(r"\s*(?:^[ \t]*[^\n]{1,100}(?:->|=>|→)[^\n]{0,200}\n){1,500}+", re.MULTILINE)
_PLACE = re.compile(r"\s{0,80}(?:\[[^\[\]\n]{3,60}\]|<[^<>\n]{3,60}>|\{[^{}\n]{3,60}\})[ \t]*\n")
_BLANK = re.compile(r"\s{0,80}")
_FIRST_LINE = re.compile(r"\s*+(?P<line>[^\n]{3,600}?)(?P<colon>[:：])[ \t*]*+\r?\n")
_ABOVE = re.compile(r"\b(?:above|preceding|it|this)\b|上面|以上|上記|위", re.IGNORECASE)
_NEXT_BRACKET = re.compile(r"\n[ \t]*\n?\[[A-Z][A-Z _]{2,30}\]")
_WHOLE_QUOTE = re.compile(r"\s*[\"“「『«„`]([^\"“”「」『』«»„`]{1,20000})[\"”」』»“`]\s*")
_PARAGRAPH_END = re.compile(r"(?<![ \t])[ \t]*+\r?\n\s*\n")
_CLOSING_TAG = re.compile(r"^[ \t]*</(?P<tag>[A-Za-z][\w-]{1,40})>[ \t]*$", re.MULTILINE)
_LINE_END = re.compile(r"(?<![ \t])[ \t]*+\r?\n(?:\s*\n)?")
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
    if told and (framed := _FRAMED.fullmatch(message)) is not None:
        return SplitMessage("", framed["text"].strip(), "", True)
    if (bare := _BARE.match(message)) is not None and words("bare_request").fullmatch(bare["line"]) is not None:
        return _trimmed(SplitMessage(bare[0], message[bare.end() :].lstrip("\r\n")))
    scan = _Scan(message, told)
    finders = [
        scan.record,
        scan.first_line,
        scan.between_named,
        scan.behind_now,
        scan.json_at_the_end,
        scan.numbered_at_the_end,
        scan.list_behind_paragraph,
        scan.introduced,
    ]
    if told:
        finders.append(scan.before_end)
    else:
        finders[6:6] = [scan.quoted]
        finders.append(scan.before_request)
    if is_asked:
        finders += [scan.json_within, scan.quoted, scan.behind_paragraph]
    part = next((found for find in finders if (found := find()) is not None), None)
    return _trimmed(part) if part is not None else None


def _behind_pair(message: str) -> SplitMessage | None:
    """The text behind two languages ("English to German: Hello."), or between them ("English: Hello.\\nGerman:")."""
    found = _PAIR_LABEL.match(message) or _PAIR_LINES_OF.fullmatch(message)
    if found is None or not all(map(chat_languages.tag_of, (found["source"], found["target"]))):
        return None
    text = found.groupdict().get("text") or message[found.end() :]
    before = f"Translate from {found['source']} to {found['target']}:"
    return replace(_without_quotes(SplitMessage(before, text.strip())), is_marked=True)


_PAIR_LABEL = re.compile(
    r"\s*(?P<source>[\w-]{2,20}) ?(?:\bto\b|->|=>|→|➜) ?(?P<target>[\w-]{2,20}(?: \w{2,20})?) ?[:：]", re.IGNORECASE
)
_PAIR_LINES_OF = re.compile(
    r"\s*(?P<source>[\w-]{2,20})[:：](?P<text>[\s\S]{1,20000}?)\n[ \t]{0,8}(?P<target>[\w-]{2,20})[:：]\s*"
)


_BARE = re.compile(r"\s{0,80}(?P<line>\S[^\n:：]{0,60})[:：]?[ \t]{0,8}\n(?=\s{0,80}\S)")
_LIST_ITEM = re.compile(
    r"[ \t]*(?P<left>[\[<(#|]{0,3})(?P<id>\d{1,9})(?P<right>[\])>|.:]{1,3})[ \t]*(?P<text>\S[^\n]*)"
)
_NOW = re.compile(
    r"^[ \t#*]{0,9}(?P<line>(?:now|your turn|现在|今から|では|이제)\b[^\n:：]{0,200})[:：][ \t*]{0,9}\n",
    re.MULTILINE | re.IGNORECASE,
)
_HEADS_RULES = re.compile(
    r"(?:要求|规则|規則|事项|\b(?:rules|requirements|guidelines|instructions))(?:如下| below)?[ \t]*\Z", re.IGNORECASE
)
_JSON_WITHIN = re.compile(r"[\[{](?=\s{0,80}[\[{\"])")
_JSON_START = re.compile(r"(?:^|(?<=[:：.。]))[ \t]*(?=[\[{])", re.MULTILINE)


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
        colons, marks, line, in_line = _MAX_COLONS, _MAX_MARKS, -1, 0
        for opening in _OPENING.finditer(self._message, 0, _HEAD):
            is_colon = opening["colon"] is not None
            colons, marks = colons - is_colon, marks - (not is_colon)
            start = self._message.rfind("\n", 0, opening.start())
            line, in_line = start, in_line + 1 if start == line else 0
            if opening.start() < self._skip or min(colons, marks) < 0 or in_line > _MAX_IN_LINE:
                continue
            find = self._behind_colon if is_colon else self._between_marks
            part = find(opening)
            place = _PLACE.match(part.text) if part is not None else None
            if place is not None and _said("asks", place[0]):
                continue  # of a template of the answer
            if part is not None and (part.is_marked or not _has_rules(part.text)):
                return part
        return self._held

    def record(self) -> SplitMessage | None:
        """The text of a message that is a list of labels, each with what it says; or the last of several examples."""
        message = self._message
        if _LABELS.search(message, 0, _MAX_LINE) is None:
            return None
        found = list(islice(_LABELS.finditer(message, 0, _HEAD), _MAX_COLONS))
        labels = [(one, kind) for one in found if (kind := self._kind(one)) is not None]
        if not labels:
            return None
        is_whole = not message[: found[0].start()].strip()
        is_ended = labels[-1][1] in ("answer", "language") and not message[labels[-1][0].end() :].strip()
        texts = [one for one, kind in labels if kind == "text"]
        if not texts and is_ended and labels[-1][1] == "language":
            texts = [one for one, kind in labels[:-1] if kind == "language"][-1 if not is_whole else -2 :: 2][-1:]
        elif len({one["name"] for one in texts}) == 1 and is_ended:
            texts = texts[-1:]
        if len(texts) != 1 or not (is_whole or is_ended) or _opens(message, texts[0].end()):
            return None
        is_alone = self._told and _EXPLICIT.search(texts[0]["name"]) is not None
        if _has_inner_label(message[texts[0].end() :]) or not (is_alone or len(labels) > 1):
            return None
        label = texts[0]
        before, text = message[: label.end()], message[label.end() :]
        if is_whole and label["end"] is None:
            following = next((one.start() for one, _ in labels if one.start() > label.end()), len(message))
            before, text = message[: label.end()], message[label.end() : following]
        part = _without_end(SplitMessage(before, text.strip("\r\n"), message[len(before) + len(text) :]))
        return replace(_without_quotes(part), is_marked=True)

    def _kind(self, label: re.Match[str]) -> str | None:
        """What a label says; one of a language has not the text."""
        kind = label_kind(label["name"])
        value = self._message[label.end() : label.end() + 60].partition("\n")[0] if label["end"] is None else ""
        return "context" if kind == "text" and chat_languages.tag_of(value.strip(" ]*")) is not None else kind

    def first_line(self) -> SplitMessage | None:
        """The text behind a first line that is a request and ends with a colon: whatever marks it has are its own."""
        colon = _FIRST_LINE.match(self._message)
        if colon is None or _NAMED.search(colon["line"]) is not None:
            return None
        if _HEADS_RULES.search(colon["line"]) is not None:
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
            line, is_first = message[start : end.start()], not message[:start].strip()
            is_text = message[end.end() : end.end() + 300].strip() != ""
            if not is_text or len(line) > 2_000 or line[-1:] in _PAIRS or _is_rules(message, end.end()):
                continue
            part = SplitMessage(message[: end.end()], message[end.end() :])
            if self._is_last_rule(line, message[:start]) and not _has_rules(_without_end(part).text):
                return part if not _OF_ANSWER.search(part.text.lstrip(), 0, 100) else None
            if not chat_languages.commands(line):
                continue
            rest = re.split(r"[:：][ \t]", line)[-1].rstrip()
            if rest != line.rstrip() and rest and not (rest[-1] in ".!。:：" or _said("asks", rest)):
                continue  # the text begins on this line
            is_whole = not self._told or (_said("text", line) and line.rstrip().endswith((".", ":", "。", "：", "!")))
            if not is_whole or not (
                _said("follows", line) or (end[0].count("\n") > 1 and chat_languages.read(line).targets)
            ):
                continue
            if (is_first or chat_languages.read(message[: end.start()]).targets) and not _has_rules(
                _without_end(part).text
            ):
                return part
        return None

    def _is_last_rule(self, line: str, before: str) -> bool:
        """Whether a line is a rule for the answer, behind a request for a translation of what follows."""
        is_rule = words("rule_line").match(line) is not None and words("asks").search(line) is not None
        is_request = is_rule and not self._told and chat_languages.commands(before) and _said("follows", before)
        return is_request and bool(chat_languages.read(before).targets)

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
        """The text before a label of the answer or a note, where other messages have the instruction."""
        part = _without_end(SplitMessage("", self._message))
        return part if part.after.strip() else None

    def json_at_the_end(self) -> SplitMessage | None:
        """JSON behind an instruction."""
        message = self._message
        if message.rstrip()[-1:] not in ("]", "}") or message.lstrip()[:1] in ("[", "{"):
            return None
        for start in islice(_JSON_START.finditer(message, 0, _HEAD), 5):
            title = message[max(start.start() - 300, 0) : start.start()].rstrip().rpartition("\n")[2]
            is_label = title.endswith((":", "：", ":**"))
            is_known = _said("context", title) or (
                label_kind(title.strip(" *:：")) is None and self._has_label(start.start())
            )
            if title and not (is_label and is_known) and parsed_json(message[start.end() :]) is not None:
                return SplitMessage(message[: start.end()], message[start.end() :].strip(), "", True)
        return None

    def behind_now(self) -> SplitMessage | None:
        """The text behind the line that ends examples and begins the task: "Now translate:"."""
        for line in reversed(list(islice(_NOW.finditer(self._message, 0, _HEAD), _MAX_MARKS))):
            if chat_languages.commands(line["line"]) and self._message[: line.start()].strip():
                return SplitMessage(self._message[: line.end()], self._message[line.end() :].lstrip("\r\n"))
        return None

    def json_within(self) -> SplitMessage | None:
        """The one list or object in JSON between sentences."""
        message = self._message
        end = max(message.rfind("]"), message.rfind("}"))
        if len(message) - end > _TAIL or (message.count("[", 0, _HEAD) + message.count("{", 0, _HEAD)) == 0:
            return None
        for start in islice(_JSON_WITHIN.finditer(message, 0, _HEAD), 5):
            if message[end] != {"[": "]", "{": "}"}[start[0]]:
                continue
            text = message[start.start() : end + 1]
            before = message[: start.start()]
            sentence = re.split(r"[.!。\n]\s*(?=\S)", before[-_MAX_LINE:])[-1]
            is_request = chat_languages.commands(sentence) or (_said("text", sentence) and _said("follows", sentence))
            is_answer = _said("answered", sentence) and not chat_languages.read(sentence).targets
            if is_request and not is_answer and chat_languages.commands(before) and parsed_json(text):
                return SplitMessage(message[: start.start()], text, message[end + 1 :], True)
        return None

    def numbered_at_the_end(self) -> SplitMessage | None:
        """Lines with numbers to the end, behind a line that asks for their translation."""
        message = self._message
        for end in islice(_LINE_END.finditer(message, 0, _HEAD), _MAX_MARKS):
            first = _LIST_ITEM.match(message, end.end())
            if first is None:
                continue
            line = message[: end.start()].rpartition("\n")[2]
            items = [_LIST_ITEM.match(one) for one in message[end.end() : end.end() + _HEAD].split("\n") if one.strip()]
            is_list = all(one is not None and one["left"] == first["left"] for one in items[:-1]) and len(items) > 1
            is_request = chat_languages.commands(line) and (_said("items", line) or _said("text", line))
            is_request = is_request or (end[0].count("\n") > 1 and self._are_rules(message[: end.start()]))
            is_rules = _has_rules("\n".join(one["text"] for one in items if one is not None))
            return (
                SplitMessage(message[: end.end()], message[end.end() :])
                if is_list and is_request and not is_rules
                else None
            )
        return None

    def _are_rules(self, before: str) -> bool:
        """Whether the last paragraph before a place is a list of rules behind a line that asks for a translation."""
        lines = re.split(r"\n\s*\n", before[-_TAIL:])[-1].splitlines()
        rules = [_BULLET.match(line) is not None for line in lines]
        first = rules.index(True) if True in rules else len(rules)
        return first < len(rules) and all(rules[first:]) and bool(chat_languages.read(lines[0]).targets)

    def _has_label(self, stop: int) -> bool:
        """Whether the message has the label of a text, on a line of its own, before a place."""
        labels = islice(_LABELS.finditer(self._message, 0, stop), _MAX_COLONS)
        return any(one["end"] is not None and label_kind(one["name"]) == "text" for one in labels)

    def between_named(self) -> SplitMessage | None:
        """The text between two marks that the instruction names, or lines that say BEGIN and END."""
        message, told = self._message, self._told
        for begin in reversed([*islice(_BEGIN.finditer(message, 0, _HEAD), _MAX_MARKS)]):  # after those of examples
            if (end := message.rfind(f"\n{begin['left']}END", begin.end())) >= 0:
                text = message[begin.end() : end].strip("\r\n")
                return SplitMessage(message[: begin.start()], text, message[end:], True)
        if (part := self._last_block()) is not None:
            return part
        if told and len(named := named_lines(message, told)) == 2 and all(message.count(one) == 1 for one in named):
            first, last = (message.find(one) for one in named)
            return SplitMessage(message[:first], message[first + len(named[0]) : last].strip(), message[last:], True)
        for named in islice(_NAMED.finditer(told[-_HEAD:] if told else message[:_HEAD]), 20):
            marker = _WORD_MARKS.get((named["word"] or "").lower()) or (named["marker"] or "").strip("\"'`")
            first = message.find(marker, 0 if told else named.end()) if marker else -1
            find = message.rfind if named["word"] is not None else message.find
            last = find(marker, first + len(marker)) if first >= 0 else -1
            if 0 <= first < last and len(message) - last < _TAIL:
                text = message[first + len(marker) : last].strip()
                return SplitMessage(message[:first], text, message[last + len(marker) :], True)
        behind = _BEHIND_MARK.search(told[-_HEAD:] if told else message[:_HEAD])
        if behind is not None and (first := message.find(behind["marker"], 0 if told else behind.end())) >= 0:
            return SplitMessage(message[:first], message[first + len(behind["marker"]) :].strip())
        return None

    def _last_block(self) -> SplitMessage | None:
        """The text in the last block of a tag that the instruction names, after an example of one."""
        message = self._message
        end = next(
            iter(reversed(list(islice(_CLOSING_TAG.finditer(message, max(len(message) - _TAIL, 0)), _MAX_MARKS)))), None
        )
        if end is None or end["tag"].lower() in HTML or _said("context", _spaced(end["tag"])):
            return None
        mark = f"<{end['tag']}>"
        start = message.rfind(mark, 0, end.start())
        if start < 0 or message[:start].rstrip().endswith(f"</{end['tag']}>") or mark not in message[:start]:
            return None
        return SplitMessage(
            message[:start], message[start + len(mark) : end.start()].strip("\r\n"), message[end.end() :], True
        )

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
            is_end = len(after) <= 300 and "\n" not in after.strip() and re.match(r"\w", after, re.ASCII) is None
            sentence = re.split(r"[.!?。]\s|\n", found["before"])[-1]
            is_request = chat_languages.commands(sentence if sentence[-1:].isascii() else sentence + after.strip())
            is_field = _FIELD.match(message, first + 1) or _FIELD_BEFORE.search(found["before"])
            if not is_end or is_field or not is_request:
                continue
            request, _, rest = sentence.partition(": ")
            is_within = re.search(r"\w", rest) and re.search(r"\w", after) and not rest.rstrip().endswith(":")
            if is_within and chat_languages.commands(request) and chat_languages.read(request).targets:
                return None  # the text began before the quotation
            if first < end and "\n" not in message[first:end] and chat_languages.asks(message[first:end]):
                return None  # several are quoted
            return SplitMessage(message[: found.start("open")], message[found.end() : end], message[end + 1 :], True)
        return None

    def _between_marks(self, opening: re.Match[str]) -> SplitMessage | None:
        """The text in a fence, quotes or a tag, whose title says that it is one."""
        message, kind, name = self._message, opening.lastgroup or "", opening[opening.lastgroup or 0]
        if kind == "rule":
            return self._behind_rule(opening)
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
        if not text.strip() and after.strip():
            self._skip = last + len(close)
            return None
        return SplitMessage(before, text.rstrip() if text.endswith(("\n", " ")) else text, after, True)

    def _behind_rule(self, rule: re.Match[str]) -> SplitMessage | None:
        """The text behind a line of signs that ends an instruction, or the one that it names."""
        before, text = self._message[: rule.start()], self._message[rule.start() :]
        is_request = chat_languages.commands(before) and bool(self._told or chat_languages.read(before).targets)
        return SplitMessage(before, text) if is_request and text.strip(f"{rule['rule'][0]} \r\n") else None

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
        is_list = is_block and _said("text", line) and _said("follows", line) and not _said("context", line)
        is_list = is_list or (is_block and words("label").fullmatch(line) is not None)
        if (
            len(line) > _MAX_LINE
            or place < self._from
            or _opens(message, end)
            or (not is_list and _is_rules(message, end))
        ):
            return None
        if not self._introduces(_spaced(line), message[:start], is_block=is_block):
            return None
        return SplitMessage(message[:end], message[end:].lstrip("\r\n" if is_block else " "))

    def _introduces(self, line: str, before: str, *, is_block: bool) -> bool:
        """Whether a line introduces the text, and not rules, a format or an example. `is_block`: on the lines behind it."""
        sentence = re.split(r"[.!。]\s+", line)[-1]
        if _said("no_text", sentence) and not chat_languages.read(sentence).targets:
            return False
        asks = _said("asks", line)
        is_behind = bool(self._told) and _begins(before)
        if words("label").fullmatch(sentence) is not None and (sentence == line or chat_languages.commands(line)):
            return is_block or asks or not self._told or is_behind
        is_next = is_behind or self._held is not None or (bool(self._told) and not before.strip())
        if is_block and _said("text", line) and _said("follows", line) and (is_next or chat_languages.commands(line)):
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
        if self._told and not before.strip() and words("bare_request").fullmatch(line) is not None:
            return True
        is_plain = re.search(r"[\"“`「]", line) is None and not chat_languages.read(before[-2_000:]).targets
        follows = _said("follows", sentence) or bool(targets)
        is_clear = not self._told or _said("text", sentence)
        return asks and is_plain and follows and is_clear and chat_languages.commands(sentence)


_SIGNED_LINE = re.compile(
    r"^[ \t]*(?P<mark>[^\w\s\"'`]{2,12}(?:[\w .-]{1,30}?[^\w\s\"'`]{2,12})?)[ \t]*$", re.MULTILINE
)


def named_lines(message: str, about: str) -> list[str]:
    """The lines of signs, with or without words between them, that a sentence of the instruction names, each once."""
    lines = (one["mark"] for one in islice(_SIGNED_LINE.finditer(message, 0, _HEAD), _MAX_MARKS))
    around = (r"^[^\n]*[^\W_][^\n]*(?<![^\s\"'`“「(])", r"(?![^\s\"'`”」).,;:])")
    return [
        mark
        for mark in dict.fromkeys(lines)
        if re.search(re.escape(mark).join(around), about, re.MULTILINE) is not None
    ]


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


def is_instructed(message: str, is_asked: bool = False) -> bool:
    """Whether a message begins with a request, with rules behind it, or with more where others ask already."""
    lines = message.lstrip()[:_TAIL].splitlines()[:12] or [""]
    first = lines[0]
    if (
        is_asked
        and _begins(first)
        and _said("text", first)
        and _said("follows", first)
        and any(map(str.strip, lines[1:]))
    ):
        return True
    sentences = [one for line in lines for one in re.split(r"(?<=[.。])\s*", line)]
    is_told = _begins(first) or (chat_languages.tells(first) and any(map(_begins, lines[1:])))
    return is_told and any(map(words("rule_line").match, sentences[1:]))


def is_labelled(message: str) -> bool:
    """Whether a message begins with the label of a text, or of what is known besides one."""
    label = _FIRST_LABEL.match(message)
    if label is None or label["end"] is None:
        return False
    return label_kind(label["name"]) == "text" or _BESIDES.fullmatch(label["name"]) is not None


def is_open(message: str) -> bool:
    """Whether a message ends with the label of an answer, or begins with a line that asks for one of what follows."""
    last = _LAST_LABEL.search(message[-_TAIL:])
    if last is not None and "\n" in message.strip():
        name = re.sub(r"[(（][^()（）]{0,60}[)）]", "", last["name"]).strip()
        if label_kind(name) in ("answer", "language") or name.lower() == "target":
            return True
    line, _, rest = message.lstrip()[:_TAIL].partition("\n")
    asked = words("asks").search(line, 0, _MAX_LINE) if line.rstrip().endswith((":", "：")) and rest.strip() else None
    return asked is not None and asked.lastgroup != "en"


def has_label(message: str) -> bool:
    """Whether a line of a message is the label of a text, with nothing behind it."""
    labels = islice(_LABELS.finditer(message, 0, _HEAD), _MAX_COLONS)
    return any(one["end"] is not None and words("label").fullmatch(one["name"]) is not None for one in labels)


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


def _trimmed(part: SplitMessage) -> SplitMessage:
    """Without what stands around the text too: lines of signs, labels, a last note, quotes, context behind it."""
    if part.is_marked:
        first = part.text.lstrip()[:200].partition("\n")[0]
        inner = _INNER.search(part.text, 0, _HEAD) if ":" in first and _said("context", first) else None
        part = replace(part, text=part.text[inner.end() :]) if inner is not None else part
        return _without_frame(part)
    for step in (_without_end, _without_frame, _without_label, _without_end, _without_frame, _without_quotes):
        part = step(part)
    return part


def _without_end(part: SplitMessage) -> SplitMessage:
    """Without a label of the answer, a last note, or context behind the text."""
    before, text, after = part.before, part.text, part.after
    if (following := _next_label(before, text)) is not None:
        text, after = text[:following].rstrip(), text[following:] + after
    for ending in (_END_LINE, _END_BLOCKS, _LAST_LABEL, words("end_note"), _LAST_RULES, _LAST_LABEL):
        tail = text[-_TAIL:]
        found = ending.search(tail)
        if found is None or (ending is _END_BLOCKS and not _said("context", _spaced(found["block"]))):
            continue
        if ending is _LAST_RULES and not _is_of_answer(found):
            continue
        if ending is _LAST_LABEL and label_kind(found["name"]) not in ("answer", "language"):
            continue
        at = max(len(text) - _TAIL, 0) + found.start()
        text, after = text[:at].rstrip(), text[at:] + after
    return replace(part, before=before, text=text.rstrip() if text.endswith("\n") else text, after=after)


def _is_of_answer(found: re.Match[str]) -> bool:
    """Whether a last list, or an example, says what the answer is: texts end with rules, notes and requirements too."""
    if label_kind(found["name"]) not in ("answer", "context"):
        return False
    if found["example"] is not None:
        return _said("asks", found["example"])
    lines = (re.sub(r"^[\s*•\d.)、-]+", "\n", line) for line in found[0].splitlines()[1:])
    return any(
        _said("solely", line) and (_said("end_note", line) or (_said("asks", line) and _said("answered", line)))
        for line in lines
    )


def _next_label(before: str, text: str) -> int | None:
    """Where the next label begins that is written as the one of the text is, in capitals or with signs."""
    label = _LABELS.search(before, before.rstrip().rfind("\n") + 1)
    if label is None or not (label["style"] or label["name"].isupper()):
        return None
    for one in islice(_LABELS.finditer(text, 0, _HEAD), _MAX_COLONS):
        is_same = one["style"] == label["style"] and one["name"].isupper() == label["name"].isupper()
        is_kind = label_kind(one["name"]) is not None or _spaced(one["name"]).endswith(f" {label['name'].split()[-1]}")
        if is_same and is_kind:
            return one.start()
    return None


def _has_inner_label(text: str) -> bool:
    """Whether the first line has a label within: "Source text: hello. Translated text: …" is one text."""
    line = text.partition("\n")[0][:_MAX_LINE]
    return any(label_kind(name) is not None for name in re.findall(r"([A-Z][\w ]{2,40})[:：]\s", line))


def _without_label(part: SplitMessage) -> SplitMessage:
    """Without a label before the text."""
    label = _FIRST_LABEL.match(part.text)
    if label is None or _has_inner_label(part.text[label.end() :]):
        return part
    kind = label_kind(label["name"])
    if kind == "text" or (kind == "language" and part.after.strip()):
        return replace(part, before=part.before + label[0], text=part.text[label.end() :].lstrip("\r\n"))
    return part


def _without_frame(part: SplitMessage) -> SplitMessage:
    """Without signs, or lines of them, around the text, or such a line before it."""
    if (framed := _FRAMED.fullmatch(part.text)) is not None:
        return replace(part, text=framed["text"].strip(), is_marked=True)
    first = _SIGNS.match(part.text)
    if first is None or _FRONT_MATTER.match(part.text) is not None:
        return part
    signs, name, text = first["signs"], first["name"], part.text[first.end() :]
    if len(signs) < 2 if name is None else not (_said("text", name) or _BEGINS.match(name) or _said("asks", name)):
        return part
    closing = rf"(?:{re.escape(signs.translate(_MIRRORED)[::-1])}|{re.escape(signs)})"
    rest = r"[^\n]{0,60}" if name is not None else ""
    last = re.search(rf"(?:\n|\A)[ \t]*{closing}{rest}\s*\Z", text[-200:])
    is_begin = len(signs) > 2 and part.before.strip() if name is None else name.isupper() or signs in "[【"
    if last is None and (part.is_marked or not is_begin):
        return part
    at = max(len(text) - 200, 0) + last.start() if last is not None else len(text)
    return replace(part, before=part.before + first[0], text=text[:at].strip("\r\n"), after=text[at:] + part.after)


_MIRRORED = str.maketrans("<>[](){}【】", "><][)(}{】【")
_FRAMED = re.compile(r"\s*<{2,5}(?P<text>[^<>]{1,20000})>{2,5}\s*")
_SIGNS = re.compile(
    r"\s*(?P<signs>[^\w\s\"'`“«「.!?]{1,200})[ \t]*+(?:(?P<name>[^\W\d][\w ]{2,40}?)[ \t]*+[^\w\s]{1,40})?[ \t]*+\n"
)
_LABELS = re.compile(
    r"^[ \t]*+(?P<style>[#*\[【]{0,4})[ \t]*+(?P<name>[^\W\d_][^\n:：\]】]{1,58}?)[ \t*\]】]*"
    r"(?:[(（][^()（）\n:：]{0,60}[)）])?[:：]\*{0,2}[ \t]*(?P<end>\r?\n|\Z)?",
    re.MULTILINE,
)
_EXPLICIT = re.compile(
    r"\b(?:text[eo]?|testo)\b|translat|tradu|übers|перев|текст|译|訳|번역|原文|文本|テキスト|원문", re.IGNORECASE
)
_FRONT_MATTER = re.compile(r"\s*---[ \t]*\n(?:[\w-]+:[^\n]*\n){1,50}---")
_BEGINS = re.compile(r"(?:begin|start)\b", re.IGNORECASE)
_LAST_LABEL = re.compile(r"(?:\n|\A)[ \t#*\[]{0,8}(?P<name>[^\s:：][^\n:：]{1,59}?)[ \t*]*+[:：][ \t*\]]*+\s*\Z")
_LAST_RULES = re.compile(
    r"\n[ \t#*\[]{0,8}(?P<name>[^\s:：][^\n:：]{1,40}?)[ \t*\]]*+[:：]"
    r"(?:[ \t]*(?P<example>[\[{][^\n]*+)|[ \t*]*(?:\n[ \t]*(?:[-*•]|\d{1,2}[.)、])[^\n]*+)++)\s*\Z"
)
"""A label with a list of rules, or an example in JSON, to the end."""
_FIRST_LABEL = re.compile(
    r"\s*+[#*\[]{0,4}[ \t]*+(?P<name>[^\s:：][^\n:：]{1,59}?)[ \t*\]]*+[:：][ \t*]*(?P<end>\r?\n)?"
)
_INNER = re.compile(
    r"^(?:texts?|[\w ]{0,20}(?:text|line|sentence)) to (?:be )?translated?:[ \t]*", re.IGNORECASE | re.MULTILINE
)


@lru_cache(maxsize=4096)
def label_kind(name: str) -> str | None:
    """What a label says that follows: a `text`, an `answer`, something in a `language`, or `context`; None: it says nothing."""
    name = _spaced(name).strip(" #*(")
    if words("label").fullmatch(name) is not None:
        return "text"
    if words("answer_label").fullmatch(name) is not None:
        return "answer"
    is_word = words("names_like_words").fullmatch(name) is not None or re.fullmatch(r"[A-Za-z]{3}", name) is not None
    if not is_word and chat_languages.tag_of(name) is not None:
        return "language"
    return "context" if _said("context", name) or _NEXT.match(name) is not None else None


_BESIDES = re.compile(
    r"[^\n]{0,20}?(?:\b(?:context|glossary|terminology|(?:previous|preceding|prior|earlier) (?P<before>[\w ]{0,30}))"
    r"|上下文|术语表|前文)[^\n]{0,20}",
    re.IGNORECASE,
)


def is_besides(name: str) -> bool:
    """Whether a label, or the name of an element, says what programs add to a text: context, terms, its key, a length."""
    name = _spaced(name).strip(" #*")
    if (found := _BESIDES.fullmatch(name)) is not None:
        return found["before"] is None or _said("text", found["before"]) or _said("asks", found["before"])
    found = _NEXT.match(name)
    return found is not None and (_said("text", rest := name[found.end() :]) or " " not in rest.rstrip())


_OF_ANSWER = re.compile(r"\b(?:output|answer|translat\w+)\b", re.IGNORECASE)
_NEXT = re.compile(
    r"(?:string )?(?:key|id|type|path|file|comment|channel|author|speaker|domain|category|url)\Z"
    r"|max\w* length|next|upcoming|following|surrounding|(?:source|target)[_ ]?lang",
    re.IGNORECASE,
)


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
