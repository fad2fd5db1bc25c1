"""Whether a value of a file of data (JSON, YAML, a table's cell, front matter) is text, and if not, what it is.

Only the value decides, with one exception: a language's code is also a word (`no`, `it`), so that its key decides too.
Where it is doubtful the value is text: what looks like a word is translated.
"""

from __future__ import annotations

import re

from wholetext import languages
from wholetext.markup.spans import has_letters

_LONGEST_WITHOUT_TEXT = 500
_WORD = re.compile(r"[^\W\d_]{2}|[\u0900-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")

# ---- patterns of dates
# Fields of CLDR (https://unicode.org/reports/tr35/tr35-dates.html#Date_Field_Symbol_Table), moment, date-fns, Luxon, .NET.
_FIELD = (
    r"(?:y{1,6}|Y{1,6}|u{1,6}|M{1,5}|L{1,5}|d{1,4}|D{1,4}|E{1,6}|e{2,6}|c{3,6}|H{1,2}|h{1,2}|k{1,2}|K{1,2}|m{1,2}|s{1,2}"
    r"|S{1,9}|f{2,9}|a{1,5}|A{1,2}|t{1,2}|z{1,4}|Z{1,5}|X{1,5}|x{1,5}|O{1,4}|v{1,4}|G{1,5}|Q{1,4}|q{1,4}|w{1,2}|W{1,2})"
)
_LONG_FIELD = r"(?:y{2,4}|Y{2,4}|MM|dd|DD|HH|hh|mm|ss|S{2,9}|f{2,9})"
_AFTER_TIME = r"(?:(?<=mm|ss|SS)(?:a|A|tt|z|Z{1,2}|X{1,3}|x{1,3}))"
_SEPARATOR = (
    r"(?:[-/:.,;() \u00a0\u202f\u2013\u2014\u5e74\u6708\u65e5\u6642\u65f6\u5206\u79d2\ub144\uc6d4\uc77c\uc2dc\ubd84\ucd08]"
    r"|T(?=[HhK])|'[^'\n]{0,40}'|\[[^\[\]\n]{1,40}\])"
)
_RUN = (
    rf"(?:{_LONG_FIELD}++{_AFTER_TIME}?|{_FIELD}(?:(?<=[DMQwWd])o(?![a-z])|{_AFTER_TIME})?)(?![^\W\d_T\u1100-\uffff])"
)
_DATE_PATTERN = (
    r"(?=.*?(?:(?P<field>[A-Za-z])(?P=field)|[\u5e74\ub144]))"
    rf"(?:{_SEPARATOR})*+{_RUN}(?:(?:{_SEPARATOR})++{_RUN})++(?:{_SEPARATOR})*+"
)
"""At least two fields, one of them of two letters or with a unit: what has no two letters side by side is no word anyway."""
_ONE_FIELD = r"M{3,5}|L{3,5}|d{3,4}|D{3,4}|E{3,6}|c{3,6}|y{4}|Y{4}"
_BY_LOCALE = r"(?:L{1,4}|l{2,4}|LTS?)(?:[ ,]{1,2}LTS?)?|P{2,4}p{1,4}"  # moment and date-fns
_STRFTIME = r"(?:%[-_0^#:EO]{0,2}\d{0,2}[A-Za-z%+]|[^\w%]|T(?=%)|(?<=%[SMT])Z){2,}"
_PHP = r"(?=.*(?:jS|\bi[aA]\b))(?:(?:jS|i[aA]|[A-Za-z])(?![A-Za-z])|[^\w])++"

# Of an expression: `a && !b.c`, `{first} = 'yes'`.
_OPERAND = r"(?:[\w.$/:-]{1,64}+|\{[\w.]{1,64}\}|'[^'\n]{0,64}')"
_NUMBER = r"-?(?:\d{1,12}(?:\.\d{1,12})?|[Ii]nf(?:inity)?|\*)"
_NO_TEXT = {
    "colour": r"#[0-9a-fA-F]{3,8}|(?:rgb|hsl)a?\([\d\s.,%/]{1,40}\)",
    "date": rf"\d{{1,4}}[-./]\d{{1,2}}[-./]\d{{1,4}}(?:[T ]\d\d?:\d\d.{{0,16}})?"
    rf"|{_LONG_FIELD}{{2,7}}{_AFTER_TIME}?|{_DATE_PATTERN}|{_ONE_FIELD}|{_BY_LOCALE}|{_STRFTIME}|{_PHP}",
    "interval": rf"(?=\D*\d)[\[\](]?\s?{_NUMBER}\s?(?:[-–,;]|\.{{2,3}})\s?[+]?{_NUMBER}?\s?[\[\])]?"
    r"|P(?=[\dT])(?:\d{1,9}Y)?(?:\d{1,9}M)?(?:\d{1,9}W)?(?:\d{1,9}D)?(?:T(?:\d{1,9}H)?(?:\d{1,9}M)?(?:\d{1,9}(?:\.\d{1,9})?S)?)?"
    r"|-?\d{1,9}(?:\.\d{1,9})?(?:px|r?em|v[hw]|vmin|vmax|ms|deg|dpi|fr)",
    "address": r"(?:[a-z][a-z0-9+.-]{0,15}://|mailto:|data:|\.{0,2}/|@[a-z]+/|www\.)\S+"
    r"|(?:application|audio|font|image|multipart|text|video)/[a-z0-9][\w.+*-]*(?:; ?charset=[\w-]+)?"
    r"|\??[\w.-]{1,64}=[\w.%+:-]{0,200}(?:&[\w.-]{1,64}=[\w.%+:-]{0,200})+",
    "key": r"[a-z_$][\w$-]*(?:[.:][\w$-]+)+|[a-z]+[a-z0-9]*[A-Z]\w*|[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+"
    r"|_[A-Za-z]\w*|[a-z]{2,32}\d{1,6}",
    "code": r"[A-Z]{1,3}|(?=[A-Z0-9_+:-]*\d)[A-Z0-9]+(?:[-_+:][A-Z0-9]+)*|[a-z]{2,3}[-_](?:[A-Z][a-z]{3}[-_])?[A-Z]{2}"
    rf"|!?{_OPERAND}(?:\s{{0,3}}(?:&&|\|\||[!=]==?|=~)\s{{0,3}}!?{_OPERAND})+|!?\{{[\w.]{{1,64}}\}}\s?[<>=]\s?{_OPERAND}",
}
_PATTERNS = {reason: re.compile(pattern) for reason, pattern in _NO_TEXT.items()}

_OF_ADDRESS = re.compile(r"(?:\A|(?<=[_-])|(?<=[a-z])(?=[A-Z]))(?i:ur[il]|href|src|path|file|slug|permalink)\Z")
_PATH = re.compile(r"[a-z0-9][\w.]*(?:[/-][\w.]+)+/?")
_OF_LANGUAGE = re.compile(r"(?:locale|lang(?:uage)?|culture)(?:[-_]?(?:code|tag|id))?s?", re.IGNORECASE)
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z]{4})?(?:[-_](?:[A-Za-z]{2}|\d{3}))?")


def reason_to_leave(value: str, key: str = "") -> str | None:
    """Why a value is not translated, as a code: it looks like a key, an address, a colour, a date or its pattern, an interval,
    or a code. None for text. `key` is the name that the value has, if any."""
    value = value.strip()
    if len(value) > _LONGEST_WITHOUT_TEXT:
        return None
    found = next((reason for reason, pattern in _PATTERNS.items() if pattern.fullmatch(value)), None)
    if found:
        return found
    if key and _PATH.fullmatch(value) and _OF_ADDRESS.search(key):
        return "address"
    if key and _LANGUAGE.fullmatch(value) and _names_a_language(key) and languages.find(value):
        return "code"
    return None if _WORD.search(value) and has_letters(value) else "code"


def _names_a_language(key: str) -> bool:
    """Whether the last word of a key says that its value is a language: `locale`, `defaultLang`, `source_language`."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", key)
    return any(_OF_LANGUAGE.fullmatch("".join(words[-count:])) for count in (1, 2)) if words else False
