"""Finds spans that a translation must keep exactly: placeholders, tags, URLs, code, file names, versions, emoji.

What single tools write, games and frameworks, is a table: `tool_notations.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache, update_wrapper
from typing import TypeVar

from wholetext.markup.tool_notations import PATTERN, spans_by_context

T = TypeVar("T")

# Every part is bounded or anchored, so that a scan is linear for any text. Classes are ASCII, so that a span ends where
# Chinese or Japanese follows without a space. `_W` has the characters that continue a word of Latin, Greek or Cyrillic.
_W = r"A-Za-z0-9_\u00c0-\u024f\u0370-\u052f"
_NAME = rf"[{_W}@+%~-]"
_PATH = rf"[{_W}@+%~.-]"
_TOKEN_START = rf"(?<![{_W}][@+%~.-])"  # not inside of what was scanned from its beginning
_URL_TAIL = rf"[{_W}\-.~:/?#\[\]@!$&'()*+,;=%]"
_EXTENSIONS = (
    "7z|aac|apk|avi|bash|bat|bin|bmp|bz2|cfg|conf|config|cpp|css|csv|dat|deb|dll|dmg|docx?|dockerfile|env|eot|epub|exe|flac"
    "|gif|gitignore|go|gradle|gz|hpp|html?|ico|ini|ipa|ipynb|iso|jar|java|jpe?g|jsx?|json[5l]?|kts?|lock|log|lua|m4a|md|mdx"
    "|mjs|mkv|mov|mp[34]|mpe?g|msi|odp|ods|odt|ogg|otf|pdf|php|plist|png|pot|pptx?|properties|psd?|ps1|py|pyc|pyi|rar|rb"
    "|resx|rpm|rst|rtf|safetensors|scss|sh|sqlite|sql|srt|strings|svelte|svg|swift|tar|tgz|tiff?|toml|tsv|tsx?|ttf|txt|vtt"
    "|vue|wasm|wav|webm|webp|whl|wmv|woff2?|xcf|xhtml|xliff?|xlsx?|xml|xsd|xslt?|ya?ml|zip"
)
_DOMAINS = "com|org|net|edu|gov|info|io|dev|app|ai"
_PRE_RELEASE = (
    r"(?:[-.+]?(?i:alpha|beta|rc|dev|pre|preview|post|build|snapshot|canary|next|nightly)[.-]?[0-9]{0,8}|[abr][0-9]{1,4})"
    r"(?:\+[0-9A-Za-z.-]{1,30})?"
)
# Dates (5.3.2024), times (10.30.15) and grouped numbers (1.000.000) are written otherwise in another language.
_NO_DATE = (
    r"(?!(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])\.(?:\d{4}|\d\d)(?!\d|\.\d))(?!\d{4}\.\d{1,2}\.\d{1,2}(?!\d|\.\d))"
    r"(?!(?:[01]?\d|2[0-3])\.[0-5]\d\.[0-5]\d(?!\d|\.\d))(?!\d{1,3}(?:\.\d{3})+(?!\d|\.\d))"
)
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|\d\d?)"

_PICTURE = (
    "\u231a\u231b\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u26ff\u2702-\u275a\u2763"
    "\u2764\u2795-\u2797\u27a1\u27b0\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d"
    "\U0001f000-\U0001f0ff\U0001f170\U0001f171\U0001f17e\U0001f17f\U0001f18e\U0001f191-\U0001f19a\U0001f201-\U0001f265"
    "\U0001f300-\U0001f64f\U0001f680-\U0001faff"
)
_SYMBOLS = "\u00a9\u00ae\u2122\u2120"
_SELECTOR = r"[\ufe0e\ufe0f]?[\U0001f3fb-\U0001f3ff]?"
_EMOJI = "|".join(
    (
        r"[\U0001f1e6-\U0001f1ff]{2}",
        r"[0-9#*]\ufe0f?\u20e3",
        r"\U0001f3f4[\U000e0020-\U000e007e]{1,16}\U000e007f",
        rf"[{_PICTURE}{_SYMBOLS}]{_SELECTOR}(?:\u200d[{_PICTURE}\u2190-\u21ff]{_SELECTOR}){{0,9}}",
        r"[\u2139\u203c\u2049\u2194-\u2199\u21a9\u21aa\u24c2\u3297\u3299]\ufe0f",
    )
)

_BY_FIRST_CHARACTER = (
    PATTERN,
    # code
    rf"(?<![{_W}`])(?:```[^`]{{1,2000}}```|``(?:[^`\n]|`(?!`)){{1,200}}``|`[^`\s](?:[^`\n]{{0,198}}[^`\s])?`)(?![{_W}`])",
    "|".join(
        rf"<{tag}(?:\s[^<>]{{0,200}})?>[^<>]{{1,400}}</{tag}>" for tag in ("code", "kbd", "samp", "var", "tt", "pre")
    ),
    # tags (of React's and Lingui's messages, numbered), comments and what chat servers and Markdown write in angle brackets
    r"</?\d{1,5}\s{0,9}/?>|<3(?![\w.,]?\d|[A-Za-z_>])",
    r"</?[A-Za-z][\w.-]{0,63}(?::[\w.-]{1,63})?\s{0,9}/?>",
    r"<[A-Za-z][\w.-]{0,63}(?::[\w.-]{1,63})?\s[^<>=]{0,200}=[^<>]{0,400}>",
    r"<(?i:input|option|button|select|textarea|video|audio|details|script|iframe|form|ol|dialog|td|th)\s[^<>]{1,400}>",
    r"<!--[^<>]{0,400}-->|<\?[^<>]{1,400}\?>|<[a-z]{2,12}:[^<>\s]{2,2048}>|<\d{4}-\d\d-\d\d(?:\s[^<>\n]{1,40})?>",
    r"<(?:[@#][!&]?\w{1,32}|!\w{1,32}|a?:\w{2,32}:\d{1,20}|t:\d{1,12}(?::[a-zA-Z])?)(?:\|[^<>\n]{0,80})?>",
    # control tokens of language models, as text
    r"<\|[^|<>\n]{1,64}\|>|<｜[^｜<>\n]{1,64}｜>|<<</?\w{1,32}>>>|<</?\w{1,32}>>|<0x[0-9A-F]{2}>|<2[a-z]{2,3}>",
    rf"(?<![{_W}/.])/(?:no_)?think(?![{_W}/.-])",
    r"<[a-z]{1,20}_[\w\u2581]{1,60}>|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|CLS|SEP|MASK|PAD|UNK|BOS|EOS)\]",
    # placeholders
    r"<%[=#-]?[^<>%]{1,200}%>|\[\[[+*$%~!-]{0,2}(?:[a-z_]\w{0,63}|\d{1,5})\]\]|(?<!\S):[a-z_]{2,32}(?![\w:])",
    r"\[(?:[A-Za-z]{1,4}\d{1,5}[A-Za-z]{0,4}|\d{1,4})\]|\u27e6/?\w{1,32}/?\u27e7",
    # line breaks of subtitles and games, and those of strings that are still quoted; no commands of LaTeX
    r"\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})(?![0-9A-Za-z])|\\N|\\[rthpl](?![a-z])|\\n(?!ew[a-z]|oindent|onumber|ocite|abla|eq\b|ot\b|u\b)",
    # commands of a program, without an argument in braces
    r"(?<!\S)\\(?![nrt])[a-z]{3,20}(?![\w{\\])",
    # references to other messages (i18next, Vue)
    r"\$t\((?:[^()\n]{1,200}+|\([^()\n]{0,64}\)){1,9}+\)",
    rf"(?<![{_W}])@(?:\.[a-z]{{1,16}})?:(?:\{{[^{{}}\n]{{1,64}}\}}|\([\w.-]{{1,64}}\)|[A-Za-z_][\w-]{{0,63}}(?:\.[\w-]{{1,63}}){{0,9}})",
    r"\{\{[^{}\n]{1,64}\}\}|\{%[^{}\n]{1,200}%\}|\{#[^{}\n]{1,200}#\}",
    r"\{ [$-]?\w[\w.-]{0,62} \}|[$#@%]\{[^{}\n]{1,64}\}|\{[!-z|~]{0,64}\}|\{(?u:\w{1,32})\}",
    r"\{\s?\w{1,64}\s?,\s?(?:number|date|time|spellout|ordinal|duration|list)(?:\s?,[^{}\n]{0,64})?\}",
    r"(?<![\d%])%(?:\d{1,2}\$|\(\w{1,64}\))?[-+#0]{0,3}\d{0,3}(?:\.\d{1,3})?(?:hh|h|ll|l|z)?[sdiufFgGxXc@](?![A-Za-z]|[-/:.]%)",
    r"(?<![\w%])%[A-Za-z](?:[-/:., T]{1,2}%[A-Za-z]){1,9}(?![A-Za-z])|(?<![\w%])%[A-Za-z_]\w{1,63}%(?!\w)",
    rf"(?<![{_W}$])\$[A-Za-z_]\w{{0,63}}(?:->\w{{1,63}}){{0,4}}(?::(?:/{_PATH}{{1,64}}){{1,9}}){{0,9}}(?<!\.)",
    r"&(?:[A-Za-z][A-Za-z0-9]{1,30}|#[0-9A-Za-z]{1,7});",
    # mentions, tags of posts, short names of emoji
    rf"(?<![{_W}@.])@[A-Za-z_](?:[{_W}.-]{{0,62}}[{_W}])?(?:[@/][A-Za-z0-9](?:[\w.-]{{0,62}}\w)?)?",
    rf"(?<![{_W}&#/;])#(?=\d{{0,30}}[A-Za-z_]|(?u:[^\W\d])|[0-9a-fA-F]{{6}}(?!\w))(?u:[\w\u0300-\u036f\u0900-\u0dff\u0e31-\u0eff]{{1,100}}(?:#|(?:/\w{{1,60}}){{1,5}})?)",
    rf"(?<![{_W}:])::[0-9a-fA-F]{{1,4}}(?::[0-9a-fA-F]{{1,4}}){{0,6}}(?![{_W}:])",
    rf"(?<![{_W}:]):(?:[A-Za-z][\w+-]{{1,40}}(?:/[\w-]{{1,40}})?|[+-]1|100):(?![{_W}:])",
    # file paths that begin with a sign
    rf"(?<![{_W}.~:/)<])(?:~|\.{{1,2}})(?:/{_PATH}{{1,64}}){{1,16}}(?<!\.)/?",
    rf"(?<![{_W}.~:/)<])(?:/{_PATH}{{1,64}}){{2,16}}(?<!\.)/?|(?<![{_W}.~:/)<])/?\.(?:{_EXTENSIONS})(?![{_W}])",
    rf"\\\\[\w.-]{{1,63}}(?:\\[{_W}$.-]{{1,64}}){{1,16}}(?<!\.)\\?",
    _EMOJI,
)
_BY_WORD = (
    rf"(?P<url>(?:[a-z][a-z0-9+.-]{{1,14}}://(?=[{_W}/\[])|www\.(?=[A-Za-z]|\d[\w-]{{0,62}}\.[a-z])|mailto:(?=[\w.+%-]{{1,64}}@)|tel:(?=\+?\d{{3}})){_URL_TAIL}{{1,2048}})",
    rf"{_TOKEN_START}[A-Za-z0-9][A-Za-z0-9._%+'-]{{0,63}}@(?:[A-Za-z0-9-]{{1,63}}\.){{1,8}}[A-Za-z]{{2,24}}",
    rf"(?P<domain>{_TOKEN_START}(?:[A-Za-z0-9-]{{1,63}}\.){{1,8}}(?:{_DOMAINS})(?:\.[a-z]{{2}})?(?![{_W}])"
    rf"(?::\d{{1,5}})?(?:/{_URL_TAIL}{{0,2000}})?)",
    rf"[A-Za-z]:\\(?:(?:Program Files(?: \(x86\))?|[{_W}()$.~-]{{1,64}})\\){{0,16}}"
    rf"(?:[{_W}$~-](?:[{_W}$.~-]{{0,62}}[{_W}$~-])?)?",
    rf"{_TOKEN_START}(?:{_PATH}{{1,64}}/){{0,16}}{_PATH}{{0,79}}{_NAME}\.(?i:{_EXTENSIONS})(?![{_W}])",
    rf"(?<![\d.,]){_OCTET}(?:\.{_OCTET}){{3}}(?!\d|\.\d)(?<!\.000)(?:[:/]\d{{1,5}}(?!\d))?",
    rf"[vV]\d{{1,5}}(?:\.\d{{1,5}}){{0,4}}(?:{_PRE_RELEASE})?(?![{_W}])",
    rf"(?<![\d.,]){_NO_DATE}\d{{1,5}}\.\d{{1,5}}\.\d{{1,5}}(?:\.\d{{1,6}})?(?:{_PRE_RELEASE})?(?![{_W}]|[.,]\d)",
    rf"(?<![\d.,])\d{{1,5}}\.\d{{1,5}}{_PRE_RELEASE}(?![{_W}]|[.,]\d)",
    r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|0x[0-9a-fA-F]{1,64}",
    rf"(?=\d{{0,63}}[a-f])(?=[a-f]{{0,63}}\d)[0-9a-f]{{7,64}}(?![{_W}])",
    rf"(?:[0-9a-fA-F]{{1,4}}(?::[0-9a-fA-F]{{1,4}}){{0,6}})::[0-9a-fA-F]{{1,4}}(?::[0-9a-fA-F]{{1,4}}){{0,6}}(?![{_W}:])",
    # names with a sign in them (AT&T), comparisons and sums of whole numbers (5 < 7 && 9 > 3), other comparisons (a < b)
    rf"(?!Q&A)[A-Z][A-Za-z0-9]{{0,15}}(?:(?:&amp;|&)[A-Z][A-Za-z0-9]{{0,15}}){{1,3}}(?![{_W}])",
    rf"(?<![\d.,])\d{{1,12}}(?:\s?(?:[<>=!]=|&&|\|\||[<>+*=])\s?\d{{1,12}}){{1,9}}(?![{_W}]|[.,]\d)",
    rf"(?:[A-Za-z]|\d{{1,12}})(?:<=?| <=? )(?:[A-Za-z]|\d{{1,12}})(?![{_W}>/]|[.,]\d)",
    # issues of repositories, codes of orders, bank accounts and parcels, calls of functions
    rf"[A-Za-z0-9-]{{1,39}}/[\w.-]{{1,100}}#\d{{1,7}}(?![{_W}])|[A-Z]{{2,10}}-\d{{1,12}}(?![{_W}]|[-.]\d)|[A-Za-z_]\w{{0,63}}\(\d{{0,9}}\)",
    rf"[A-Z]{{2}}\d{{2}}(?: [A-Z0-9]{{4}}){{3,7}}(?: [A-Z0-9]{{1,3}})?(?![{_W}])",
    rf"(?=[A-Z]{{0,39}}\d)(?=\d{{0,39}}[A-Z])[A-Z0-9]{{8,40}}(?![{_W}])",
    rf"__[A-Za-z]\w{{0,62}}__(?![{_W}])",
    # names of programs' parts: service_type_browser (one underscore may be a menu's key), branch.autoSetup, std::vector
    rf"[A-Za-z][a-zA-Z0-9]{{0,40}}(?:(?:_[a-z0-9]{{1,40}}){{2,9}}|(?:::[A-Za-z_~][\w-]{{0,60}}){{1,6}}"
    rf"|(?:\.[a-z0-9]{{1,40}}){{0,4}}\.[a-z]{{1,40}}[A-Z][A-Za-z0-9]{{0,40}})(?![{_W}-])",
)
_SPAN = re.compile(
    rf"(?=[^A-Za-z \n\t,])(?:{'|'.join(_BY_FIRST_CHARACTER)})|(?<![{_W}])(?=[A-Za-z0-9\u00c0-\u052f_])(?:{'|'.join(_BY_WORD)})",
    re.ASCII,
)

_CONDITIONS = (
    r"(?<=:)(?=[/\\+\-]|[A-Za-z0-9][\w+-]{1,40}(?:/[\w-]{1,40})?:|\+?\d{3}|[\w.+-]{1,64}@)"
    r"|(?<![A-Za-z0-9_.~:/)<\u00c0-\u024f\u0370-\u052f]/)(?<=/)(?=[^\s/])|(?<=/)(?=(?:no_)?think)|(?<=\.)(?=[A-Za-z/]|\d{1,5}[.A-Za-z\-+])"
    r"|(?<=[vV]\d)|(?<=0)(?=x)|(?<=\d)(?=[a-f])|(?<=[a-f]\d)|(?<=[0-9a-fA-F]{8}-)"
    r"|(?<=\[)(?=[\[/A-Za-z0-9_*-])|(?<=\|)(?=[crnTtHh*]|[a-z][\w.-]{1,99}\|)|(?<=:)(?=[A-Z][A-Za-z])"
    r"|(?<=-)(?=-[a-z]|-\[no-|[A-Za-z][\w-]{1,63}(?:=\w|[ ]{3}))|(?<= -)(?=[A-Za-z](?![A-Za-z0-9_]))"
    r"|(?<=[\[|'\"`]-)(?=[A-Za-z0-9?])|(?<=_)(?=_[A-Za-z]|[a-z0-9]{1,40}_)|(?<=\()(?=\d{0,9}\))|(?<=:)(?=:[0-9a-fA-F]|:[A-Za-z_~]|[a-z_]{2,32}(?![\w:]))|(?<=[A-Z]-)(?=\d)"
    r"|(?<=\d)(?=[A-Z])|(?<=[A-Z]\d)|(?<=\d)(?=\s?[<>+*=!&|])"
)
_SIGN_ASCII = re.compile(rf"[{{<%@#$&`~\\:/.\-(\[_0-9|](?:(?<=[{{<%@#$&`~\\])|{_CONDITIONS})", re.ASCII)
_PICTURES = rf"{_SYMBOLS}{_PICTURE}\U0001f1e6-\U0001f1ff\u2194-\u21aa\u24c2\u3297\u3299"
_ALWAYS = rf"{{<%@#$&`~\xa3\xa7\\\u27e6\u20e3\u203c\u2049\u2139{_PICTURES}"
_SIGN = re.compile(rf"[{_ALWAYS}:/.\-(\[_0-9|](?:(?<=[{_ALWAYS}])|{_CONDITIONS})", re.ASCII)
"""Every span has a match of this pattern. Most texts have none, and need no scan for spans."""

MAX_SPAN_CHARACTERS = 2100
_MOST_CACHED_CHARACTERS = 2000


def _cached(function: Callable[[str], T]) -> Callable[[str], T]:
    """Remember the results for short texts: planning and each check of a segment ask for those of the same few."""
    remembered = lru_cache(maxsize=512)(function)

    def call(text: str) -> T:
        return function(text) if len(text) > _MOST_CACHED_CHARACTERS else remembered(text)

    return update_wrapper(call, function)


@_cached
def spans(text: str) -> tuple[tuple[int, int], ...]:
    """Return start and end of each span to keep, in order and not overlapping."""
    sign = _SIGN_ASCII if text.isascii() else _SIGN
    if not sign.search(text):
        return ()
    kept: list[tuple[int, int]] = []
    at = 0
    for begin, stop in (*spans_by_context(text), (len(text), len(text))):
        for found in _SPAN.finditer(text, at, begin):
            start, end = found.span()
            kept.append((start, _end_of_url(text, start, end) if found.lastgroup else end))
        if begin < stop:
            kept.append((begin, stop))
        at = stop
    return tuple(kept)


def keep_spans(text: str, terms: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Return `spans` and the occurrences of terms: with this exact spelling, and as whole words if the script has words.

    Of terms that begin at the same place the longest counts. Overlapping spans are joined.
    """
    found = [*spans(text), *_terms(terms).find(text)]
    found.sort()
    start = end = 0
    for next_start, next_end in found:
        if next_start >= end:
            if end > start:
                yield start, end
            start, end = next_start, next_end
        else:
            end = max(end, next_end)
    if end > start:
        yield start, end


@_cached
def without_spans(text: str) -> str:
    """Replace each span by a space."""
    between: list[str] = []
    end = 0
    for start, stop in spans(text):
        between.append(text[end:start])
        end = stop
    return " ".join([*between, text[end:]])


def has_letters(text: str) -> bool:
    """Whether a text has something to translate: a letter of any script outside of the spans."""
    return any(map(str.isalpha, text)) and any(map(str.isalpha, without_spans(text)))


def pseudolocalized(text: str) -> str:
    """Replace all letters but the first by circled ones, which belong to no language; spans are kept.

    A fake engine uses this: the result passes every check of a translation, for any languages.
    """
    made, end, first = list[str](), 0, 1
    for start, stop in (*spans(text), (len(text), len(text))):
        part = text[end:start]
        if first and (letter := _LETTER.search(part)):
            made.append(part[: letter.end()])
            part, first = part[letter.end() :], 0
        made += (part.translate(_CIRCLED), text[start:stop])
        end = stop
    return "".join(made)


_LETTER = re.compile(r"[^\W\d_]")


class _Circled(dict[int, int]):
    """Maps each letter to a circled letter; other characters stay."""

    def __missing__(self, code: int) -> int:
        self[code] = 0x24D0 + code % 26 if chr(code).isalpha() else code
        return self[code]


_CIRCLED = _Circled()


def _end_of_url(text: str, start: int, end: int) -> int:
    """Return a URL's end: before the sentence's punctuation, and before a closing bracket that is not opened in it."""
    excess = {")": _excess(text, "()", start, end), "]": _excess(text, "[]", start, end)}
    while (last := text[end - 1]) in ".,;:!?'*)]":
        if last in excess:
            if excess[last] <= 0:
                break
            excess[last] -= 1
        end -= 1
    return end


def _excess(text: str, brackets: str, start: int, end: int) -> int:
    """Count by how many closing brackets exceed opening ones."""
    opening, closing = brackets
    return text.count(closing, start, end) - text.count(opening, start, end)


# ---- terms that are not to be translated

_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    r"\U00020000-\U0003ffff"
)
"""Scripts in which the end of a word cannot be seen. Hangul is one: particles follow a word without a space."""

_WORD = rf"(?:[^\W{_UNSPACED}]|[\u0300-\u036f\u0900-\u0dff\u064b-\u065f])"
_IN_WORD = re.compile(_WORD)


class _Terms:
    """Finds terms: looks up, at each place where a word may begin, the next characters for each length of a term."""

    def __init__(self, terms: tuple[str, ...]) -> None:
        self._terms = frozenset(filter(None, terms))
        self._lengths: dict[str, list[int]] = {}
        for length in sorted(set(map(len, self._terms)), reverse=True):
            for first in {term[0] for term in self._terms if len(term) == length}:
                self._lengths.setdefault(first, []).append(length)
        classes = ["", ""]
        for first in self._lengths:
            classes[bool(_IN_WORD.match(first))] += re.escape(first)
        others, words = classes
        places = [rf"(?<!{_WORD})[{words}]"] * bool(words) + [f"[{others}]"] * bool(others)
        self._place = re.compile("|".join(places) or r"(?!)")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the terms in order, not overlapping; of those at one place the longest."""
        end = 0
        for place in self._place.finditer(text):
            start = place.start()
            if start < end:
                continue
            for length in self._lengths[place[0]]:
                term = text[start : start + length]  # shorter where the text ends
                if len(term) == length and term in self._terms and self._is_word_end(text, start + length):
                    end = start + length
                    yield start, end
                    break

    def _is_word_end(self, text: str, stop: int) -> bool:
        return stop >= len(text) or not (_IN_WORD.match(text[stop - 1]) and _IN_WORD.match(text[stop]))


_terms = lru_cache(maxsize=64)(_Terms)
