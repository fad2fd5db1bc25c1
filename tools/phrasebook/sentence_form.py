"""Whether a sentence denies and whether it asks, in English, Japanese, Korean and Chinese, by its wording.

The checks of content words (`adequacy`) cannot see that a translation says the opposite or asks what should be stated. This
module sees it where the wording is plain, and answers `None` where it is not: a polite "ませんか", a tag question, "hardly",
"不如". A translation is compared with all references in all four languages, so that a form counts only where they agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns))


_DENIES_NOTHING = {  # wordings with a negation in them that deny nothing, or that are polite questions; they are removed first
    "en": _any(
        r"no (?:problem|worries|matter|doubt|wonder)",
        r"not (?:only|bad|at all)",
        r"why (?:not|don't)",
        r"can(?:'t|not) (?:wait|help)",
        r"never mind|no smoking|nothing but|whether or not",
        r"(?:^|[.,!?] *)(?:no|nope)(?=[,.!?]|$)",
        r"(?:^|[.,!] *)(?:do|does|did|is|are|was|were|ca|could|wo|would|have|has|should)n't (?:you|we|it|that|s?he|they|i)\b",
    ),
    "ja": _any(
        r"ませんか|ないです?か|ないでしょうか|ない(?=[?？])",
        r"な(?:いと|ければ|くては|くちゃ|きゃ)(?:なり?[らま]?|いけ|だめ)?(?:ない|せん|ません)?",
        r"かもしれ(?:ない|ません)|すみません|しか(?:ない|ありません)",
        r"(?:少|危|つまら|くだら|もったい|とんでも|切|汚|幼|違い|何気|さりげ|せつ)ない",
        r"申し訳(?:ない|ありません|ございません)|問題(?:ない|ありません)|ざるを得(?:ない|ません)",
        r"なく(?:し[てまた]|な[りっるら])|間もなく|間違いなく|ないように|いけ(?:ない|ません)|はず",
    ),
    "ko": _any(
        r"안(?:녕|내|전|경|심|개|부|에|으로|쪽|팎|정|과|색|주)|(?:동|집|편|불|미|제|해|보|방|눈|도)안|잘못|아니면",
        r"(?:^|[.,!?] ?)아니[요오]?(?=[,.!?]|$)",
        r"(?:수밖에|어쩔수|틀림|문제가?|상관|끊임|관계) ?없|못지않|야만? ?되",
        r"(?:않|없|못|안)[가-힣 ]{0,5}(?:까|나요|래요?|니)?\?",
    ),
    "zh": _any(
        r"不错|不好意思|差不多|不得不|不客气|不用谢|对不起|了不起|不得了|不一会|不小心|不知不觉|要不",
        r"没(?:关系|问题|事|错|准)|(?:特|分|区|性|告|个|级|派)别|别[人的处]|无[聊论线限]|不[但仅过久断少管止然已禁]",
        r"非常|除非|未来|(.)[不没]\1|有没有|是不是|能不能|可不可以",
    ),
}
_DENIES = {
    "en": _any(r"n't\b", r"\b(?:not|no|never|nothing|none|nobody|no one|nowhere|cannot|without|neither|nor)\b"),
    "ja": _any("ない", "ません", "なかっ", "なく", "なし", "ずに", "ぬ(?=[。 ]|$)", "抜き"),
    "ko": _any(
        "않", "없", "못", "(?:^|[^가-힣])안(?=[ 가-힣])", "모르", "몰[라랐]", "아니", "아닌", "아닙", "지 ?(?:마|말)"
    ),
    "zh": _any("[不没别無无未勿甭]"),
}
_MAY_DENY = {  # what can stand for a negation
    "en": _any(
        "n't",
        r"\b(?:no|not|hardly|barely|rarely|seldom|few|little|less|unable|impossible|missing|gone|empty|only|except|too|keep)\b",
        r"\b(?:fail\w*|refus\w*|stop\w*|avoid\w*|lack\w*|lost|instead|hate[sd]?|dislike\w*|un\w+|forg[eo]t\w*|remember)\b",
        r"\b(?:free|out|wrong|broken|down|bad)\b",
    ),
    "ja": _any(
        "[無不未嫌空違壊]",
        "だめ",
        "ダメ",
        "苦手",
        "しか",
        "だけ",
        "切れ",
        "やめ",
        "禁止",
        "忘れ",
        "ず",
        "な[くい]",
        "ません",
        "すぎ",
        "まだ",
    ),
    "ko": _any("[불무싫빈안못없않잊만말틀]", "금지", "부족", "떨어", "비[었어]", "너무", "고장", "다[르른]", "아직"),
    "zh": _any("[不没别无非未勿否免只少忘空缺错坏太还光完]", "禁止"),
}
_ASKS = {
    "en": _any(r"\?"),
    "ja": _any("[?？]", "か。?$"),
    "ko": _any(r"\?", "까요?[.]?$", "나요[.]?$"),
    "zh": _any("[?？]", "吗[。.]?$"),
}
_MAY_ASK = {
    "en": _any(
        r"^(?:what|where|when|who|why|how|which|whose|is|are|am|do|does|did|can|could|will|would|should|shall|may|have|has|was|were)\b"
    ),
    "ja": _any("(?:か|かな|かしら|の)[。.!！ 」]", "(?:か|かな|かしら)$"),
    "ko": _any("(?:까|까요|나요|가요|니|래요|죠)[.!]?$"),
    "zh": _any("[吗呢么][。.!！]?$", "^(?:谁|什么|哪|怎么|为什么|几|多少)"),
}
_REQUESTS = _any(  # which one language puts as a question, and another does not
    r"\bplease\b|\blet's\b",
    "ください|下さい|お願い|頂け|いただけ|ましょう",
    "주세요|주십|주시|부탁|세요|읍시다|자[.!]",
    "请|麻烦|吧",
)


@lru_cache(maxsize=65536)
def denies(text: str, language: str) -> bool | None:
    """Whether a normalised sentence is negative; None where its wording leaves it open."""
    if _DENIES[language].search(_DENIES_NOTHING[language].sub("", text)):
        return True
    return None if _MAY_DENY[language].search(text) else False


@lru_cache(maxsize=65536)
def asks(text: str, language: str) -> bool | None:
    """Whether a normalised text has a question; None where its wording leaves it open."""
    if _ASKS[language].search(text):
        return True
    return None if _MAY_ASK[language].search(text) else False


def same_form(text: str, language: str, references: Mapping[str, Sequence[str]]) -> bool:
    """Whether a translation denies where the references of all languages do, and asks where they do, and not where none does.

    All texts are normalised; `references` are by language. Requests may be questions.
    """
    if _contradicts(denies(text, language), [{denies(one, name) for one in some} for name, some in references.items()]):
        return False
    if any(_REQUESTS.search(one) for some in references.values() for one in some):
        return True
    return not _contradicts(
        asks(text, language), [{asks(one, name) for one in some} for name, some in references.items()]
    )


def _contradicts(found: bool | None, wanted: Iterable[set[bool | None]]) -> bool:
    """Whether the references of every language have the other form, and none has this one."""
    return found is not None and all(found not in forms and (not found) in forms for forms in wanted)
