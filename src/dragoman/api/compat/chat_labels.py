"""Labels: what a line or a word before a text says of it, and what an instruction says of terms.

A label is a short phrase with a colon, in brackets or bold. By its nouns it introduces a text, an answer, something in a
language, or what programs say besides a text: context, terms, keys, lengths. Nothing here reads a request.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import islice

from dragoman.api.compat import chat_languages
from dragoman.api.compat.chat_languages import words

HEAD, TAIL = 20_000, 3_000  # characters in which an instruction may be
MAX_LINE = 600
MAX_COLONS, MAX_MARKS = 500, 50


def said(kind: str, text: str) -> bool:
    """Whether a text has one of the words of a kind (`chat_words.toml`)."""
    return words(kind).search(text) is not None


def spaced(name: str) -> str:
    """A name of several words, with spaces between these."""
    return re.sub(r"[_-]", " ", name)


def is_labelled(message: str) -> bool:
    """Whether a message begins with the label of a text, or of what is known besides one."""
    label = FIRST_LABEL.match(message)
    if label is None or label["end"] is None:
        return False
    return label_kind(label["name"]) == "text" or _BESIDES.fullmatch(label["name"]) is not None


def is_open(message: str) -> bool:
    """Whether a message ends with the label of an answer, or begins with a paragraph that asks for one of what follows."""
    last = LAST_LABEL.search(message[-TAIL:])
    if last is not None and "\n" in message.strip():
        name = re.sub(r"[(（][^()（）]{0,60}[)）]", "", last["name"]).strip()
        if label_kind(name) in ("answer", "language") or name.lower() == "target":
            return True
    line, rest = (*re.split(r"(?<=[:：])[ \t]*\n", message.lstrip()[:TAIL], maxsplit=1), "")[:2]
    line = line if "\n\n" not in line else ""
    asked = words("asks").search(line, 0, MAX_LINE) if line.rstrip().endswith((":", "：")) and rest.strip() else None
    return asked is not None and asked.lastgroup != "en"


def has_label(message: str) -> bool:
    """Whether a line of a message is the label of a text, with nothing behind it."""
    labels = islice(LABELS.finditer(message, 0, HEAD), MAX_COLONS)
    return any(one["end"] is not None and words("label").fullmatch(one["name"]) is not None for one in labels)


def has_inner_label(text: str) -> bool:
    """Whether the first line has a label within: "Source text: hello. Translated text: …" is one text."""
    line = text.partition("\n")[0][:MAX_LINE]
    return any(label_kind(name) is not None for name in re.findall(r"([A-Z][\w ]{2,40})[:：]\s", line))


LABELS = re.compile(
    r"^[ \t]*+(?P<style>[#*\[【]{0,4})[ \t]*+(?P<name>[^\W\d_][^\n:：\]】]{1,58}?)[ \t*\]】]*"
    r"(?:[(（][^()（）\n:：]{0,60}[)）])?[:：]\*{0,2}[ \t]*(?P<end>\r?\n|\Z)?",
    re.MULTILINE,
)
LAST_LABEL = re.compile(r"(?:\n|\A)[ \t#*\[]{0,8}(?P<name>[^\s:：][^\n:：]{1,59}?)[ \t*]*+[:：][ \t*\]]*+\s*\Z")
FIRST_LABEL = re.compile(
    r"\s*+[#*\[]{0,4}[ \t]*+(?P<name>[^\s:：][^\n:：]{1,59}?)[ \t*\]]*+[:：][ \t*]*(?P<end>\r?\n)?"
)


@lru_cache(maxsize=4096)
def label_kind(name: str) -> str | None:
    """What a label says that follows: a `text`, an `answer`, something in a `language`, or `context`; None: it says nothing."""
    name = spaced(name).strip(" #*(")
    language, _, rest = name.partition(" ")
    is_of_language = len(language) > 3 and words("label").fullmatch(rest) and chat_languages.tag_of(language)
    if is_of_language or words("label").fullmatch(name) is not None:
        return "text"
    if words("answer_label").fullmatch(name) is not None:
        return "answer"
    is_word = words("names_like_words").fullmatch(name) is not None or re.fullmatch(r"[A-Za-z]{3}", name) is not None
    if not is_word and chat_languages.tag_of(name) is not None:
        return "language"
    return "context" if said("context", name) or _NEXT.match(name) is not None else None


_BESIDES = re.compile(
    r"[^\n]{0,20}?(?:\b(?:context|glossary|terminology|(?:previous|preceding|prior|earlier) (?P<before>[\w ]{0,30}))"
    r"|上下文|术语表|前文)[^\n]{0,20}",
    re.IGNORECASE,
)


def is_besides(name: str) -> bool:
    """Whether a label, or the name of an element, says what programs add to a text: context, terms, its key, a length."""
    name = spaced(name).strip(" #*")
    if (found := _BESIDES.fullmatch(name)) is not None:
        return found["before"] is None or said("text", found["before"]) or said("asks", found["before"])
    found = _NEXT.match(name)
    return found is not None and (said("text", rest := name[found.end() :]) or " " not in rest.rstrip())


_NEXT = re.compile(
    r"(?:string )?(?:key|id|type|path|file|comment|channel|author|speaker|domain|category|url)\Z"
    r"|max\w* length|next|upcoming|following|surrounding|(?:source|target)[_ ]?lang",
    re.IGNORECASE,
)


@cache
def _term_heading() -> re.Pattern[str]:
    return re.compile(rf"^[^\n]{{0,120}}(?:{words('terms').pattern})[^\n]{{0,120}}\n", re.IGNORECASE | re.MULTILINE)


_TERM = re.compile(
    r"[ \t]*(?!\d+[.)、])(?:[-*•|][ \t]*)?(?P<source>[^\n|=:：→>]{1,80}?)[ \t]*(?:->|=>|→|=|[:：]|\|)"
    r"[ \t]*(?![\[{])(?P<target>[^\n|#]{1,80}?)[ \t]*(?:[|#][^\n]*)?(?:\n|\Z)"
)


def terms(about: str) -> dict[str, str]:
    """The terms of an instruction's glossaries, with their translations."""
    found: dict[str, str] = {}
    for heading in islice(_term_heading().finditer(about, 0, 2 * HEAD), 20):
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
