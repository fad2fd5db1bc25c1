"""Finds text that a chat model adds to a translation, or returns instead: preambles, labels, notes, the source, refusals.

It is recognised by its form, and only if the source has nothing like it. Every pattern is bounded or anchored at an edge
of the output, so that the work is linear.
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from importlib import resources

import orjson

from dragoman import languages
from wholetext.markup.spans import without_spans


def _load_patterns() -> dict[str, str]:
    table = tomllib.loads(resources.files("dragoman.text").joinpath("data/commentary.toml").read_text(encoding="utf-8"))
    return {name: "|".join(alternatives) for name, alternatives in table.items()}


_PATTERNS = _load_patterns()
_TRANSLATION, _NOTE = _PATTERNS["translation"], _PATTERNS["note"]
_IS_ABOUT_TRANSLATION = re.compile(_TRANSLATION, re.IGNORECASE)
_MAX_PREAMBLE_CHARACTERS = 160
_HERE_IT_IS = re.compile(
    r"(?:(?:sure|certainly|of course|absolutely|okay|ok|great|yes)\b[!,.]? )?"
    r"(?:here(?:'s| is| are|’s)|the following is|voici|hier ist|aquí (?:está|tienes)|ecco|aqui está|вот"
    r"|以下是|以下为|こちらが|以下が|以下は|다음은)[^\n:：]{0,100}[:：]\s*",
    re.IGNORECASE,
)
_IS_ABOUT_TEXT = re.compile(r"version|text|sentence|result|answer|response|\n", re.IGNORECASE)
_AGREEMENT = re.compile(rf"(?:{_PATTERNS['agreement']})\s?(?:[!.。！:：]\s*|\n+\s*)", re.IGNORECASE)
_AGREES = re.compile(_PATTERNS["agrees"], re.IGNORECASE)
_MAX_AGREEMENT_CHARACTERS = 30
_IS_NOTE = re.compile(rf"\b(?:{_NOTE}|{_PATTERNS['note_elsewhere']})\b|注|説明|说明|참고|※", re.IGNORECASE)
_LAST_NOTE = re.compile(rf"\n[^\S\n]{{0,20}}[*_>(（\[【]{{0,4}}(?:{_NOTE})[*_]{{0,3}}\s?[:：]", re.IGNORECASE)
_NOTE_IN_BRACKETS = re.compile(
    rf"[(（\[【]\s?[*_]{{0,3}}(?:{_NOTE}|{_TRANSLATION}|literally|lit\.|直訳|直译|字面)[^()（）\[\]【】]{{0,600}}[)）\]】]\s*$",
    re.IGNORECASE,
)
_LONG_BRACKETS = re.compile(r"[(（](?:[^()（）]{30,600})[)）][.。]?\s*$")
_BRACKETS = re.compile(r"[()（）\[\]【】［］〔〕「」『』《》〈〉]")
_FENCE = re.compile(r"```\w{0,20}\n(.*)\n```", re.DOTALL)
_THINKING = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>\s*", re.DOTALL)
_QUOTES = dict(zip("\"“„«「『'‘”‹《", ('"', "”", "“”", "»", "」", "』", "'", "’", "”", "›", "》"), strict=True))
_ANY_QUOTE = re.compile(r"[\"“”„«»「」『』‹›《》〈〉‘’＂]|(?<!\w)'|'(?!\w)")
_ARROW = re.compile(r"\s*(?:[-=]+>|→|⇒|=|[:：]|\n|[(（])\s*")
_BEFORE_SOURCE = re.compile(r"\s*(?:[-=]+>|→|=|[:：]|\n|[(（])\s*$")
_MIN_ECHOED_LETTERS = 12


def without_commentary(source: str, output: str, target: str | None = None) -> str:
    """Return the output without commentary and without white space at its edges.

    `target`: the target language; models label answers with its name. If no letters would remain, nothing is removed.
    """
    text = output.strip()
    for _ in range(3):  # a preamble, quotes inside it, a label inside these
        cleaned = _without_ending(source, _without_beginning(source, text, target)).strip()
        if cleaned == text or not any(map(str.isalpha, cleaned)):
            break
        text = cleaned
    return text


def json_object(output: str) -> str | None:
    """Return the JSON object that an output is, without a fence around it or what the model thought; None: it is none."""
    text = _THINKING.sub("", output, count=1).strip()
    found = _FENCE.fullmatch(text)
    text = found[1].strip() if found is not None else text
    try:
        return text if isinstance(orjson.loads(text), dict) else None
    except orjson.JSONDecodeError:
        return None


def has_commentary(source: str, output: str, target: str | None = None) -> bool:
    """Whether the output has text beside the translation that does not come from the source."""
    return without_commentary(source, output, target) != output.strip()


def _without_beginning(source: str, text: str, target: str | None) -> str:
    if text.startswith("<think") and "<think" not in source and (found := _THINKING.match(text)):
        return text[found.end() :]
    if text.startswith("```") and "```" not in source and (found := _FENCE.fullmatch(text)):
        return found[1]
    head = re.split("[:：]", text[:_MAX_PREAMBLE_CHARACTERS], maxsplit=1)[0]
    if len(head) < min(_MAX_PREAMBLE_CHARACTERS, len(text) - 1) and "\n" not in head:
        if _IS_ABOUT_TRANSLATION.search(head) and not _IS_ABOUT_TRANSLATION.search(source):
            return text[len(head) + 1 :].removeprefix("**")
        if ":" not in source and "：" not in source:
            found = _HERE_IT_IS.match(text)
            if (found and _IS_ABOUT_TEXT.search(found[0])) or (target and (found := _label(target).match(text))):
                return text[found.end() :]
    found = _AGREEMENT.match(text)
    if found and found.end() < len(text) and not _AGREES.search(source[:_MAX_AGREEMENT_CHARACTERS]):
        return text[found.end() :]
    return _without_source(source, text)


@lru_cache(maxsize=256)
def _label(target: str) -> re.Pattern[str]:
    """Return a pattern for the target language's name before a colon."""
    names = {languages.name(target), languages.native_name(target), languages.name(languages.primary(target))}
    listed = "|".join(re.escape(name) for name in sorted(names))
    return re.compile(
        rf"[*_\[(]{{0,3}}(?:in |auf |en )?(?:{listed})[*_\])]{{0,3}}\s?[:：][*_]{{0,3}}\s*", re.IGNORECASE
    )


def _without_source(source: str, text: str) -> str:
    """Remove a copy of the source that the model wrote before or after the translation."""
    plain = source.strip()
    if len(text) <= len(plain) + 2 or sum(map(str.isalpha, plain)) < _MIN_ECHOED_LETTERS:
        return text
    if text.startswith(plain) and (found := _ARROW.match(text, len(plain))):
        return text[found.end() :]
    ending = text.rstrip(")）")
    if ending.endswith(plain) and (found := _BEFORE_SOURCE.search(text[: len(ending) - len(plain)][-20:])):
        return text[: len(ending) - len(plain) - len(found[0])]
    return text


def _without_ending(source: str, text: str) -> str:
    """Remove notes after the translation, and quotation marks around all of it."""
    if "\n" in text and text.count("\n") > source.strip().count("\n") and not _IS_NOTE.search(source):
        found = _LAST_NOTE.search(text)
        if found and found.start() > 0:
            return text[: found.start()]
        paragraph = text.rfind("\n\n")
        last = text[paragraph + 2 :] if paragraph > 0 else ""
        if last and _IS_ABOUT_TRANSLATION.search(last) and not _IS_ABOUT_TRANSLATION.search(source):
            return text[:paragraph]
    if text[-1:] in ")）]】.。" and not _BRACKETS.search(without_spans(source)):
        found = _last_brackets(text)
        if found is not None:
            return text[:found]
    closing = _QUOTES.get(text[:1])
    if closing and len(text) > 2 and text[-1] in closing and not _ANY_QUOTE.search(source):
        inner = text[1:-1]
        if not _ANY_QUOTE.search(inner):
            return inner
    return text


def _last_brackets(text: str) -> int | None:
    """Return where the brackets at the end begin, if they seem to hold a note."""
    opening = max(text.rfind(one) for one in "(（[【")
    if opening <= 0:
        return None
    found = _NOTE_IN_BRACKETS.match(text, opening) or _LONG_BRACKETS.match(text, opening)
    return found.start() if found else None


# ---- refusals

_REFUSAL = re.compile(_PATTERNS["refusal"], re.IGNORECASE)
_APOLOGY = re.compile(_PATTERNS["apology"], re.IGNORECASE)
_REFUSAL_CHARACTERS = 300
_REFUSAL_SIGNS = (
    *(
        "sorry",
        "afraid",
        "unable",
        "cannot",
        "can't",
        "can’t",
        "can not",
        "won't",
        "won’t",
        "not able",
        "as an ai",
        "language",
    ),
    *(
        "artificial",
        "apologies",
        "guidelines",
        "抱歉",
        "对不起",
        "對不起",
        "遗憾",
        "我无法",
        "我不能",
        "我無法",
        "作为",
        "申し訳",
    ),
    *(
        "恐れ入り",
        "すみません",
        "ごめんなさい",
        "aiとして",
        "aiなので",
        "aiですので",
        "言語モデル",
        "죄송",
        "미안",
        "유감",
        "leid",
    ),
    *(
        "ich kann",
        "désolé",
        "je ne peux",
        "siento",
        "no puedo",
        "dispiace",
        "desculpe",
        "não posso",
        "извините",
        "простите",
    ),
    *("к сожалению", "не могу"),
)
"""Every refusal has one of them; a search for these takes a hundredth of the pattern's time."""


_ANSWER = re.compile(_PATTERNS["answer"], re.IGNORECASE)
_OFFER = re.compile(_PATTERNS["offer"], re.IGNORECASE)
_HELP = re.compile(_PATTERNS["help"], re.IGNORECASE)
_SOURCE_IS_ABOUT_TRANSLATION = re.compile(f"{_TRANSLATION}|{_PATTERNS['translation_elsewhere']}", re.IGNORECASE)
_ANSWER_SIGNS = ("translat", "übersetz", "tradu", "перев", "翻", "번역")
_OFFER_SIGNS = ("help", "assist")


def _is_answer(source: str, head: str) -> bool:
    """Whether the model asks for a text or offers help, and the source does not."""
    if any(sign in head for sign in _ANSWER_SIGNS) and _ANSWER.search(head):
        return not _SOURCE_IS_ABOUT_TRANSLATION.search(source)
    return any(sign in head for sign in _OFFER_SIGNS) and bool(_OFFER.search(head)) and not _HELP.search(source)


def is_refusal(source: str, output: str) -> bool:
    """Whether the output begins with a refusal or an answer that is not in the source."""
    head = output[:_REFUSAL_CHARACTERS].lower()
    if _is_answer(source, head):
        return True
    if not any(sign in head for sign in _REFUSAL_SIGNS):
        return False
    if _REFUSAL.search(head) is None:
        return False
    if _TRANSLATING.search(head) and not _TRANSLATING.search(source):  # no source of its own says that
        return True
    return not _APOLOGY.search(source)


_TRANSLATING = re.compile("translat|übersetz|tradui|traduc|tradurre|перев[её]|翻訳|翻译|翻譯|번역", re.IGNORECASE)
