"""Second readers of formats that no library in the tests reads: character by character, as their platforms do."""

from __future__ import annotations

from itertools import takewhile


def java_properties(data: bytes) -> dict[str, str]:
    """Keys and values as `java.util.Properties.load` reads them, from UTF-8 or else ISO-8859-1."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    found: dict[str, str] = {}
    for line in _logical_lines(text.replace("\r\n", "\n").replace("\r", "\n").split("\n")):
        at = 0
        while at < len(line) and line[at] not in "=: \t\f":
            at += 2 if line[at] == "\\" else 1
        key, rest = line[:at], line[at:].lstrip(" \t\f")
        value = rest[1:].lstrip(" \t\f") if rest[:1] in ("=", ":") else rest
        found[_unescaped(key)] = _unescaped(value)
    return found


def _logical_lines(lines: list[str]) -> list[str]:
    logical: list[str] = []
    continued = False
    for line in lines:
        stripped = line.lstrip(" \t\f")
        if not continued and (not stripped or stripped[0] in "#!"):
            continue
        backslashes = len(list(takewhile("\\".__eq__, reversed(stripped))))
        content = stripped[:-1] if backslashes % 2 else stripped
        if continued:
            logical[-1] += content
        else:
            logical.append(content)
        continued = backslashes % 2 == 1
    return logical


def _unescaped(text: str) -> str:
    units: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\":
            units.append(text[at])
            at += 1
        elif text[at + 1 : at + 2] == "u":
            units.append(chr(int(text[at + 2 : at + 6], 16)))
            at += 6
        else:
            units.append({"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(text[at + 1 : at + 2], text[at + 1 : at + 2]))
            at += 2
    return "".join(units).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def apple_strings(text: str) -> dict[str, str]:
    """Keys and values of a strings file, as an old-style property list has them."""
    found: dict[str, str] = {}
    words: list[str] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
        elif text.startswith("/*", at):
            at = text.index("*/", at) + 2
        elif text.startswith("//", at):
            at = text.find("\n", at) % (len(text) + 1)
        elif text[at] == '"':
            word, at = _quoted(text, at + 1)
            words.append(word)
        elif text[at] == ";":
            key, equals, value = words
            assert equals == "="
            found[key] = value
            words, at = [], at + 1
        elif text[at] == "=":
            words.append("=")
            at += 1
        else:
            word = "".join(takewhile(lambda sign: sign.isalnum() or sign in "_$/:.-", text[at:]))
            assert word, text[at:][:20]
            words.append(word)
            at += len(word)
    assert not words
    return found


def _quoted(text: str, at: int) -> tuple[str, int]:
    word: list[str] = []
    while text[at] != '"':
        if text[at] == "\\":
            at += 1
            escape = text[at]
            if escape in "uU":
                word.append(chr(int(text[at + 1 : at + 5], 16)))
                at += 4
            else:
                word.append({"n": "\n", "t": "\t", "r": "\r"}.get(escape, escape))
        else:
            word.append(text[at])
        at += 1
    return "".join(word), at + 1
