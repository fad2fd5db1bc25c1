"""Which part of a message is text, where an instruction stands before it, after it or around it.

The text is between marks (a fence, quotes, a tag, a mark that the instruction names), or behind a line that introduces it, or
before a last paragraph that asks for its translation. What a line introduces, its nouns tell: a text, or something else
(rules, a glossary, an example). The instruction is in the first and last pages of a message, every search there has a bound,
and the end of the text is looked for once.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from typing import cast

from dragoman.api.compat import chat_languages
from dragoman.api.compat.chat_ends import FRAMED, SplitMessage, trimmed, without_end, without_quotes
from dragoman.api.compat.chat_labels import (
    HEAD,
    LABELS,
    MAX_COLONS,
    MAX_LINE,
    MAX_MARKS,
    TAIL,
    has_inner_label,
    has_label,
    label_kind,
    said,
    spaced,
)
from dragoman.api.compat.chat_languages import words
from dragoman.api.input import MAX_VALUES, parse_json
from dragoman.errors import InvalidJson, TooManyValues, UntranslatableText

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
_FENCES = ("```", "~~~", '"""', "'''")
_WORD_MARKS = {"triple backticks": "```", "triple quotes": '"""'}
_PAIRS = {'"': '"', "“": "”", "「": "」", "『": "』", "`": "`", "'": "'", "‘": "’", "«": "»", "„": "“"}
_OBJECT = re.compile(
    r"(?P<before>(?:(?!\n\s*\n)[^\"“「『`'‘«„]){1,300}?[\s:：,，\u3040-\u9fff\uac00-\ud7a3])?(?P<open>(?!\"{3}|'{3}|`{3})[\"“「『`'‘«„])(?=\S)"
)
_FIELD = re.compile(r"\s*(?:field|key|value|tag|column|property|section|attribute)", re.IGNORECASE)
_FIELD_BEFORE = re.compile(r"\b(?:field|key|id|column|property|attribute|array|list|object)[\s:]+\Z", re.IGNORECASE)
_HERE = re.compile(r"\s*(?:now,? )?(?:here(?:'s| is| are)|this is|these are) ", re.IGNORECASE)
_BULLET = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s+(?P<line>[^\n]{0,200})")
_PAIR_LINES = re.compile(r"\s*(?:^[ \t]*[^\n]{1,100}(?:->|=>|→)[^\n]{0,200}\n){1,500}+", re.MULTILINE)
_BLANK = re.compile(r"\s{0,80}")
_FIRST_LINE = re.compile(r"\s*+(?P<line>[^\n]{3,600}?)(?P<colon>[:：])[ \t*]*+\r?\n")
_ABOVE = re.compile(r"\b(?:above|preceding|it|this)\b|上面|以上|上記|위", re.IGNORECASE)
_NEXT_BRACKET = re.compile(r"\n[ \t]*\n?\[[A-Z][A-Z _]{2,30}\]")
_PARAGRAPH_END = re.compile(r"(?<![ \t])[ \t]*+\r?\n\s*\n")
_LINE_END = re.compile(r"(?<![ \t])[ \t]*+\r?\n(?:\s*\n)?")
HTML = frozenset(
    re.findall(
        r"\w+", "a b body br code div em font h1 h2 h3 html i img li ol p pre s span strong sub sup table td tr u ul"
    )
)


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
    if told and (framed := FRAMED.fullmatch(message)) is not None:
        return SplitMessage("", framed["text"].strip(), "", True)
    if (bare := _BARE.match(message)) is not None and words("bare_request").fullmatch(bare["line"]) is not None:
        return trimmed(SplitMessage(bare[0], message[bare.end() :].lstrip("\r\n")))
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
    return trimmed(part) if part is not None else None


def _behind_pair(message: str) -> SplitMessage | None:
    """The text behind two languages ("English to German: Hello."), or between them ("English: Hello.\\nGerman:")."""
    found = _PAIR_LABEL.match(message) or _PAIR_LINES_OF.fullmatch(message)
    if found is None or not all(map(chat_languages.tag_of, (found["source"], found["target"]))):
        return None
    text = found.groupdict().get("text") or message[found.end() :]
    before = f"Translate from {found['source']} to {found['target']}:"
    return replace(without_quotes(SplitMessage(before, text.strip())), is_marked=True)


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
    r"(?:要求|规则|規則|事项|\b(?:rules|requirements|guidelines|instructions|examples?))(?:如下| below)?[ \t]*\Z",
    re.IGNORECASE,
)
_JSON_WITHIN = re.compile(r"[\[{](?=\s{0,80}[\[{\"])")
_JSON_START = re.compile(r"(?:^|(?<=[:：.。]))[ \t]*(?=[\[{])", re.MULTILINE)


def parsed_json(text: str) -> object:
    """The JSON list or object that a text is; None: it is none. Raises `TooManyValues` for more than a request may have."""
    try:
        return message_json(text)
    except (UntranslatableText, UnicodeEncodeError):
        return None


def message_json(text: str) -> object:
    """The JSON list or object that a message is; None: it is none. Raises `UntranslatableText`, and `TooManyValues` for more
    than a request may have."""
    text = text.strip()
    if text[:1] not in ("{", "["):
        return None
    try:
        return cast(object, parse_json(text.encode(), MAX_VALUES))
    except InvalidJson:
        return None
    except TooManyValues:
        raise TooManyValues(
            f"the message is JSON with more than {MAX_VALUES} values in its lists and objects: send several",
            param="messages",
        ) from None


# ---- what is introduced


class _Scan:
    """Looks for the place in a message at which its text is introduced or opened."""

    def __init__(self, message: str, told: str) -> None:
        self._message, self._told = message, told
        asked = None if told else words("asks").search(message, 0, HEAD)
        self._from = asked.start() if asked is not None else (0 if told else len(message))
        self._skip = 0
        self._held: SplitMessage | None = None  # what follows a list of terms

    def introduced(self) -> SplitMessage | None:
        """The text behind the first line or mark that introduces it."""
        colons, marks, line, in_line = MAX_COLONS, MAX_MARKS, -1, 0
        for opening in _OPENING.finditer(self._message, 0, HEAD):
            is_colon = opening["colon"] is not None
            colons, marks = colons - is_colon, marks - (not is_colon)
            start = self._message.rfind("\n", 0, opening.start())
            line, in_line = start, in_line + 1 if start == line else 0
            if opening.start() < self._skip or min(colons, marks) < 0 or in_line > _MAX_IN_LINE:
                continue
            find = self._behind_colon if is_colon else self._between_marks
            part = find(opening)
            if part is not None and (part.is_marked or not _has_rules(part.text)):
                return part
        return self._held

    def record(self) -> SplitMessage | None:
        """The text of a message that is a list of labels, each with what it says; or the last of several examples."""
        message = self._message
        if LABELS.search(message, 0, MAX_LINE) is None:
            return None
        found = list(islice(LABELS.finditer(message, 0, HEAD), MAX_COLONS))
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
        if has_inner_label(message[texts[0].end() :]) or not (is_alone or len(labels) > 1):
            return None
        label = texts[0]
        before, text = message[: label.end()], message[label.end() :]
        if is_whole and label["end"] is None:
            following = next((one.start() for one, _ in labels if one.start() > label.end()), len(message))
            before, text = message[: label.end()], message[label.end() : following]
        part = without_end(SplitMessage(before, text.strip("\r\n"), message[len(before) + len(text) :]))
        return replace(without_quotes(part), is_marked=True)

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
            *islice(_PARAGRAPH_END.finditer(message, 0, HEAD), MAX_MARKS),
            *islice(_LINE_END.finditer(message, 0, MAX_LINE), 1),
        ]
        for end in ends:
            start = message.rfind("\n", 0, end.start()) + 1
            line, is_first = message[start : end.start()], not message[:start].strip()
            is_text = message[end.end() : end.end() + 300].strip() != ""
            if not is_text or len(line) > 2_000 or line[-1:] in _PAIRS or _is_rules(message, end.end()):
                continue
            part = SplitMessage(message[: end.end()], message[end.end() :])
            if self._is_last_rule(line, message[:start]) and not _has_rules(without_end(part).text):
                return part if not _OF_ANSWER.search(part.text.lstrip(), 0, 100) else None
            if not chat_languages.commands(line):
                continue
            rest = re.split(r"[:：][ \t]", line)[-1].rstrip()
            if rest != line.rstrip() and rest and not (rest[-1] in ".!。:：" or said("asks", rest)):
                continue  # the text begins on this line
            is_whole = not self._told or (said("text", line) and line.rstrip().endswith((".", ":", "。", "：", "!")))
            if not is_whole or not (
                said("follows", line) or (end[0].count("\n") > 1 and chat_languages.read(line).targets)
            ):
                continue
            if (is_first or chat_languages.read(message[: end.start()]).targets) and not _has_rules(
                without_end(part).text
            ):
                return part
        return None

    def _is_last_rule(self, line: str, before: str) -> bool:
        """Whether a line is a rule for the answer, behind a request for a translation of what follows."""
        is_rule = words("rule_line").match(line) is not None and words("asks").search(line) is not None
        is_request = is_rule and not self._told and chat_languages.commands(before) and said("follows", before)
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
        part = without_end(SplitMessage("", self._message))
        labels = [one for one in islice(LABELS.finditer(part.text, 0, HEAD), MAX_COLONS) if one["end"] is not None]
        if labels and said("text", name := spaced(labels[-1]["name"])) and not said("context", name):
            at = labels[-1].end()
            part = replace(part, before=part.text[:at], text=part.text[at:].strip())
        return part if part.after.strip() else None

    def json_at_the_end(self) -> SplitMessage | None:
        """JSON behind an instruction."""
        message = self._message
        if message.rstrip()[-1:] not in ("]", "}") or message.lstrip()[:1] in ("[", "{"):
            return None
        for start in islice(_JSON_START.finditer(message, 0, HEAD), 5):
            title = message[max(start.start() - 300, 0) : start.start()].rstrip().rpartition("\n")[2]
            is_label = title.endswith((":", "：", ":**"))
            is_known = said("context", title) or (
                label_kind(title.strip(" *:：")) is None and self._has_label(start.start())
            )
            if title and not (is_label and is_known) and parsed_json(message[start.end() :]) is not None:
                return SplitMessage(message[: start.end()], message[start.end() :].strip(), "", True)
        return None

    def behind_now(self) -> SplitMessage | None:
        """The text behind the line that ends examples and begins the task: "Now translate:"."""
        for line in reversed(list(islice(_NOW.finditer(self._message, 0, HEAD), MAX_MARKS))):
            if chat_languages.commands(line["line"]) and self._message[: line.start()].strip():
                return SplitMessage(self._message[: line.end()], self._message[line.end() :].lstrip("\r\n"))
        return None

    def json_within(self) -> SplitMessage | None:
        """The one list or object in JSON between sentences."""
        message = self._message
        end = max(message.rfind("]"), message.rfind("}"))
        if len(message) - end > TAIL:
            return None
        for start in islice(_JSON_WITHIN.finditer(message, 0, HEAD), 5):
            if message[end] != {"[": "]", "{": "}"}[start[0]]:
                continue
            text = message[start.start() : end + 1]
            before = message[: start.start()]
            sentence = re.split(r"[.!。\n]\s*(?=\S)", before[-MAX_LINE:])[-1]
            is_request = chat_languages.commands(sentence) or (said("text", sentence) and said("follows", sentence))
            is_answer = said("answered", sentence) and not chat_languages.read(sentence).targets
            if is_request and not is_answer and chat_languages.commands(before) and parsed_json(text):
                return SplitMessage(message[: start.start()], text, message[end + 1 :], True)
        return None

    def numbered_at_the_end(self) -> SplitMessage | None:
        """Lines with numbers to the end, behind a line that asks for their translation."""
        message = self._message
        for end in islice(_LINE_END.finditer(message, 0, HEAD), MAX_MARKS):
            first = _LIST_ITEM.match(message, end.end())
            if first is None:
                continue
            line = message[: end.start()].rpartition("\n")[2]
            items = [_LIST_ITEM.match(one) for one in message[end.end() : end.end() + HEAD].split("\n") if one.strip()]
            is_list = all(one is not None and one["left"] == first["left"] for one in items[:-1]) and len(items) > 1
            is_request = chat_languages.commands(line) and (said("items", line) or said("text", line))
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
        lines = re.split(r"\n\s*\n", before[-TAIL:])[-1].splitlines()
        rules = [_BULLET.match(line) is not None for line in lines]
        first = rules.index(True) if True in rules else len(rules)
        return first < len(rules) and all(rules[first:]) and bool(chat_languages.read(lines[0]).targets)

    def _has_label(self, stop: int) -> bool:
        """Whether the message has the label of a text, on a line of its own, before a place."""
        labels = islice(LABELS.finditer(self._message, 0, stop), MAX_COLONS)
        return any(one["end"] is not None and label_kind(one["name"]) == "text" for one in labels)

    def between_named(self) -> SplitMessage | None:
        """The text between two marks that the instruction names, or lines that say BEGIN and END."""
        message, told = self._message, self._told
        for begin in reversed([*islice(_BEGIN.finditer(message, 0, HEAD), MAX_MARKS)]):  # after those of examples
            if (end := message.rfind(f"\n{begin['left']}END", begin.end())) >= 0:
                text = message[begin.end() : end].strip("\r\n")
                return SplitMessage(message[: begin.start()], text, message[end:], True)
        times = 1 if told else 2  # with the sentence that names it
        named = named_lines(message, told or message[:HEAD])
        first, last = (message.rfind(one) for one in named) if len(named) == 2 else (0, 0)
        if all(message.count(one) == times for one in named) and first < last and not self._separates(named[0], first):
            return SplitMessage(message[:first], message[first + len(named[0]) : last].strip(), message[last:], True)
        for named in islice(_NAMED.finditer(told[-HEAD:] if told else message[:HEAD]), 20):
            sentence = 1 + max(named.string.rfind(end, 0, named.end()) for end in ".\n")
            if words("untouched").match(named.string, sentence) is not None:
                continue  # what is between them is the text's own, and stays
            marker = _WORD_MARKS.get((named["word"] or "").lower()) or (named["marker"] or "").strip("\"'`")
            first = message.find(marker, 0 if told else named.end()) if marker else -1
            is_last = bool(marker) and message.rstrip().endswith(marker)  # those between are the text's own
            find = message.rfind if named["word"] is not None or is_last else message.find
            last = find(marker, first + len(marker)) if first >= 0 else -1
            if 0 <= first < last and len(message) - last < TAIL:
                text = message[first + len(marker) : last].strip()
                return SplitMessage(message[:first], text, message[last + len(marker) :], True)
        behind = _BEHIND_MARK.search(told[-HEAD:] if told else message[:HEAD])
        if behind is not None:
            marker, start = behind["marker"], 0 if told else behind.end()
            line = re.compile(rf"^[ \t]*{re.escape(marker)}[ \t]*$", re.MULTILINE).search(message, start)
            first = message.find(marker, line.start() if line is not None else start)
            if first >= 0:
                return SplitMessage(message[:first], message[first + len(marker) :].strip())
        return None

    def quoted(self) -> SplitMessage | None:
        """One text in quotes within a sentence that asks for its translation, at the beginning of a paragraph."""
        message = self._message
        for start in (0, *(one.end() for one in islice(_PARAGRAPH_END.finditer(message, 0, HEAD), MAX_MARKS))):
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
        if kind in ("rule", "fence", "quotes") and self._separates(name, opening.start()):
            return None
        if kind == "rule":
            return self._behind_rule(opening)
        before, is_tag = message[: opening.start()], kind in ("tag", "bracket")
        close = f"</{name}>" if kind == "tag" else f"[/{name}]" if kind == "bracket" else name
        first, last = message.find(close, opening.end()), message.rfind(close, opening.end())
        title = spaced(name if is_tag else before[-200:].rstrip().rpartition("\n")[2])
        is_text = said("text", title) or (is_tag and (f"<{name}>" in self._told or f"<{name}>" in before))
        is_asked = bool(self._told) or opening.start() >= self._from
        if kind == "bracket" and first < 0 and (is_text or title == "TARGET") and is_asked:
            end = _NEXT_BRACKET.search(message, opening.end())
            stop = end.start() if end is not None else len(message)
            return SplitMessage(before, message[opening.end() : stop].strip(), message[stop:], True)
        if first < 0 or (kind == "tag" and name.lower() in HTML):
            return None
        if said("context", title) and (is_tag or not is_text):
            self._skip = first + len(close)
            return None
        after = message[last + len(close) :]
        if first < last and after.strip() and not is_tag:
            last, after = first, message[first + len(close) :]  # several: the first ends before more of the instruction
        if not is_tag and has_label(after):
            self._skip = last + len(close)  # it tells of the text
            return None
        is_whole = len(after) <= TAIL and (is_text or not is_tag) and (is_text or not self._told or not before.strip())
        if not is_whole or not (is_asked or chat_languages.asks(after)):
            return None
        text = message[opening.end() : last].removeprefix("\r\n").removeprefix("\n")
        if not text.strip() and after.strip():
            self._skip = last + len(close)
            return None
        return SplitMessage(before, text.rstrip() if text.endswith(("\n", " ")) else text, after, True)

    def _separates(self, mark: str, place: int) -> bool:
        """Whether a mark at a place is a separator that the instruction names, with text before it, which is a line that is not
        of the instruction; or one that would be a fence, and is there more than twice."""
        before = self._message[:place]
        about = f"{self._told[-HEAD:]}\n{before[:HEAD]}"
        found = [one[0] for one in islice(words("separator").finditer(about), MAX_MARKS)]
        if not (any(mark in one for one in found) or (found and _is_named(mark, about))):
            return False
        lines = (one for one in reversed(before[-HEAD:].splitlines()) if one.strip() not in ("", mark))
        line = next(lines, "")
        is_instruction = not line or mark in line or said("asks", line) or words("rule_line").match(line) is not None
        is_pair = self._message.count(mark, place) < 3 or not any("separat" in one.lower() for one in found)
        return not is_instruction or (mark in _FENCES and not is_pair)

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
        if is_block and said("context", line) and (pairs := _PAIR_LINES.match(message, end)) is not None:
            self._skip = pairs.end()
            self._held = self._held or SplitMessage(message[: pairs.end()], message[pairs.end() :].strip())
            return None
        is_list = is_block and said("text", line) and said("follows", line) and not said("context", line)
        is_list = is_list or (is_block and words("label").fullmatch(line) is not None)
        if (
            len(line) > MAX_LINE
            or place < self._from
            or _opens(message, end)
            or (not is_list and _is_rules(message, end))
            or (is_block and (_HEADS_RULES.search(line) is not None or _is_list_before_label(message, end)))
        ):
            return None
        if not self._introduces(spaced(line), message[:start], is_block=is_block):
            return None
        return SplitMessage(message[:end], message[end:].lstrip("\r\n" if is_block else " "))

    def _introduces(self, line: str, before: str, *, is_block: bool) -> bool:
        """Whether a line introduces the text, and not rules, a format or an example. `is_block`: on the lines behind it."""
        sentence = re.split(r"[.!。]\s+", line)[-1]
        if said("no_text", sentence) and not chat_languages.read(sentence).targets:
            return False
        asks = said("asks", line)
        is_behind = bool(self._told) and _begins(before)
        if words("label").fullmatch(sentence) is not None and (sentence == line or chat_languages.commands(line)):
            return is_block or asks or not self._told or is_behind
        is_next = is_behind or self._held is not None or (bool(self._told) and not before.strip())
        if is_block and said("text", line) and said("follows", line) and (is_next or chat_languages.commands(line)):
            return True
        if _HERE.match(sentence) is not None and said("text", sentence) and not said("context", sentence):
            return True
        is_first = not before.strip() or said("context", before[:100])
        if self._told and not (is_first and chat_languages.tells(line)):
            return False
        targets = chat_languages.read(line).targets if asks else ()
        if is_block:
            if targets:
                return chat_languages.tells(line) or said("follows", line)
            return not said("context", sentence) and (asks or said("text", sentence))
        if self._told and not before.strip() and words("bare_request").fullmatch(line) is not None:
            return True
        is_plain = re.search(r"[\"“`「]", line) is None and not chat_languages.read(before[-2_000:]).targets
        follows = said("follows", sentence) or bool(targets)
        is_this = _OF_THIS.search(sentence) is not None and _SIGNED_LINE.search(self._message, 0, HEAD) is None
        is_clear = not self._told or said("text", sentence) or is_this
        return asks and is_plain and follows and is_clear and chat_languages.commands(sentence)


_SIGNED_LINE = re.compile(
    r"^[ \t]*(?P<mark>[^\w\s\"'`]{2,12}(?:[\w .-]{1,30}?[^\w\s\"'`]{2,12})?)[ \t]*$", re.MULTILINE
)


def named_lines(message: str, about: str) -> list[str]:
    """The lines of signs, with or without words between them, that a sentence of the instruction names, each once."""
    lines = (one["mark"] for one in islice(_SIGNED_LINE.finditer(message, 0, HEAD), MAX_MARKS))
    return [mark for mark in dict.fromkeys(lines) if _is_named(mark, about)]


def _is_named(mark: str, about: str) -> bool:
    """Whether one of the first places of a mark in an instruction is behind words on its line, and no part of longer signs."""
    end = 0
    for _ in range(MAX_MARKS):
        if (start := about.find(mark, end)) < 0:
            return False
        end = start + len(mark)
        before = about[max(start - MAX_LINE, 0) : start].rpartition("\n")[2]
        is_apart = before[-1:] in "\"'`“「(" or before[-1:].isspace()
        is_ended = about[end : end + 1] in "\"'`”」).,:;" or about[end].isspace()
        if is_apart and is_ended and any(map(str.isalnum, before)):
            return True
    return False


_OF_THIS = re.compile(r"\b(?:this|it|that|the following) (?:in)?to\b", re.IGNORECASE)
_SOURCE_LINE = re.compile(r"\s*\[(?:source|from|target|language)[^\]\n]{0,60}\]\s*\n", re.IGNORECASE)


def _opens(message: str, place: int) -> bool:
    """Whether the next line that is not blank opens a fence, quotes or a tag."""
    following = _BLANK.match(message, place)
    place = following.end() if following is not None else place
    if message.startswith(("```", "~~~", '"""', "'''"), place):
        return True
    tag = re.compile(r"<([A-Za-z][\w-]{0,40})>\s*\n").match(message, place)
    return tag is not None and said("text", spaced(tag[1]))


def _is_rules(message: str, place: int) -> bool:
    """Whether what stands behind a colon is a list of rules."""
    bullet = _BULLET.match(message[place : place + 300].lstrip())
    return bullet is not None and words("rule").match(bullet["line"].lstrip("*")) is not None


def _is_list_before_label(message: str, place: int) -> bool:
    """Whether a list, of which parts may have headings, stands behind a place and before the label of a text: it is rules."""
    items = 0
    for line in message[place : place + HEAD].splitlines():
        if _BULLET.match(line) is not None:
            items += 1
        elif line.strip():
            label = LABELS.match(line)
            if label is None or label["end"] is None:
                return False
            if label_kind(label["name"]) == "text":
                return items > 0
    return False


def _begins(message: str) -> bool:
    """Whether the first line of a message is a request as a whole."""
    first = message.lstrip()[:MAX_LINE].partition("\n")[0].rstrip()
    return first.endswith((".", ":", "。", "：")) and chat_languages.begins(first)


def is_instructed(message: str) -> bool:
    """Whether a message begins with a request, with rules behind it."""
    first, *lines = message.lstrip()[:TAIL].splitlines()[:12] or [""]
    sentences = [one for line in (first, *lines) for one in re.split(r"(?<=[.。])\s*", line)]
    if not any(map(words("rule_line").match, sentences[1:])):
        return False
    return _begins(first) or (chat_languages.tells(first) and any(map(_begins, lines)))


def ends_with_json(message: str) -> bool:
    """Whether a message has sentences, and behind them JSON to the end."""
    start = _JSON_START.search(message.lstrip(), 1, HEAD) if message.rstrip()[-1:] in ("]", "}") else None
    return start is not None and parsed_json(message.lstrip()[start.end() :]) is not None


def _has_rules(text: str) -> bool:
    """Whether what may be text tells how to translate: it is more of the instruction, at its beginning or its end."""
    if _STRUCTURED.match(text) is not None:
        return False
    lines = f"{text[:TAIL]}\n{text[-TAIL:]}" if len(text) > TAIL else text
    return any(
        words("rule_line").match(line) and words("asks").search(line, 0, MAX_LINE) for line in lines.splitlines()
    )


_STRUCTURED = re.compile(r"\s*(?:[\[{@]|#?\d+\b|<[^<>\n]{0,40}\d)")
_EXPLICIT = re.compile(
    r"\b(?:text[eo]?|testo)\b|translat|tradu|übers|перев|текст|译|訳|번역|原文|文本|テキスト|원문", re.IGNORECASE
)
_OF_ANSWER = re.compile(r"\b(?:output|answer|translat\w+)\b", re.IGNORECASE)
