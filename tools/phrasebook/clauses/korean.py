"""Korean inflection of verbs and descriptive verbs, with the irregular classes, and other registers of a 해요 sentence."""

import re

_BASE, _CODAS, _VOWELS = 0xAC00, 28, 21
_NO_CODA, _N, _D, _L, _B, _S, _SS, _H = 0, 4, 7, 8, 17, 19, 20, 27
_VOWEL_NAMES = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
_FUSED = {
    # vowel of an open stem: vowel with 아/어
    "ㅏ": "ㅏ",
    "ㅓ": "ㅓ",
    "ㅐ": "ㅐ",
    "ㅔ": "ㅔ",
    "ㅕ": "ㅕ",
    "ㅗ": "ㅘ",
    "ㅜ": "ㅝ",
    "ㅣ": "ㅕ",
    "ㅚ": "ㅙ",
}
# Regular stems that end like an irregular class.
_REGULAR_D = frozenset("받믿닫쏟얻묻뜯굳뻗")  # 묻다 of the earth; 묻다 "ask" is written 물어보다 in the data
_REGULAR_B = frozenset("입잡씹뽑접집좁업꼽")
_IRREGULAR_S = frozenset("낫짓붓젓잇긋")
_IRREGULAR_H = re.compile(r"(파랗|빨갛|노랗|까맣|하얗|그렇|이렇|저렇|어떻)$")


def _split(syllable: str) -> tuple[int, str, int]:
    code = ord(syllable) - _BASE
    return code // (_CODAS * _VOWELS), _VOWEL_NAMES[code // _CODAS % _VOWELS], code % _CODAS


def _join(onset: int, vowel: str, coda: int) -> str:
    return chr(_BASE + (onset * _VOWELS + _VOWEL_NAMES.index(vowel)) * _CODAS + coda)


def _with_coda(text: str, coda: int) -> str:
    onset, vowel, _ = _split(text[-1])
    return text[:-1] + _join(onset, vowel, coda)


def _coda(text: str) -> int:
    return _split(text[-1])[2]


def _is_d(stem: str) -> bool:
    return _coda(stem) == _D and stem[-1] not in _REGULAR_D


def _is_b(stem: str) -> bool:
    return _coda(stem) == _B and stem[-1] not in _REGULAR_B


def _before_vowel(stem: str) -> tuple[str, str]:
    """The stem before an ending that starts with 으, and the 으 itself or what replaces it."""
    coda = _coda(stem)
    if coda in (_NO_CODA, _L):
        return stem, ""
    if _is_d(stem):
        return _with_coda(stem, _L), "으"
    if _is_b(stem):
        return _with_coda(stem, _NO_CODA) + "우", ""
    if coda == _S and stem[-1] in _IRREGULAR_S:
        return _with_coda(stem, _NO_CODA), "으"
    if _IRREGULAR_H.search(stem):
        return _with_coda(stem, _NO_CODA), ""
    return stem, "으"


def _with_eo(stem: str) -> str:
    """먹어, 가, 해, 봐, 마셔, 불러, 들어, 도와."""
    if stem.endswith("하"):
        return stem[:-1] + "해"
    if stem.endswith(("이르", "푸르")):
        return stem + "러"
    if _IRREGULAR_H.search(stem):
        onset, vowel, _ = _split(stem[-1])
        return stem[:-1] + _join(onset, "ㅒ" if vowel == "ㅑ" else "ㅐ", _NO_CODA)
    onset, vowel, coda = _split(stem[-1])
    if coda == _NO_CODA:
        return _open_with_eo(stem, onset, vowel)
    if _is_d(stem):
        stem = _with_coda(stem, _L)
    elif _is_b(stem):
        bright = stem[-1] in "돕곱"
        return _with_coda(stem, _NO_CODA) + ("와" if bright else "워")
    elif coda == _S and stem[-1] in _IRREGULAR_S:
        stem = _with_coda(stem, _NO_CODA)
    return stem + ("아" if vowel in "ㅏㅑㅗ" else "어")


def _open_with_eo(stem: str, onset: int, vowel: str) -> str:
    if stem.endswith("르") and len(stem) > 1 and not stem.endswith(("따르", "치르", "들르")):
        bright = _split(stem[-2])[1] in "ㅏㅗ"
        return _with_coda(stem[:-1], _L) + ("라" if bright else "러")
    if vowel == "ㅡ":
        bright = len(stem) > 1 and "가" <= stem[-2] <= "힣" and _split(stem[-2])[1] in "ㅏㅗ"
        return stem[:-1] + _join(onset, "ㅏ" if bright else "ㅓ", _NO_CODA)
    if vowel in _FUSED:
        return stem[:-1] + _join(onset, _FUSED[vowel], _NO_CODA)
    return stem + "어"


def _copula(noun: str, form: str) -> str:
    """Forms of 이다 after `noun`; some fuse after a vowel."""
    opened = _coda(noun) == _NO_CODA
    forms = {
        "": "이",
        "어": "여" if opened else "이어",
        "요": "예요" if opened else "이에요",
        "었": "였" if opened else "이었",
        "으": "이",
        "을": "일",
        "은": "인",
        "는": "인",
        "니": "이니",
        "아니": "이 아니" if not opened else "가 아니",
        "세": "이세",
        "습": "입",
        "다": "이다",
    }
    return noun + forms[form]


def conjugated(verb: str, form: str, descriptive: bool = False) -> str:
    """`verb` (in dictionary form, anything before it kept) before an ending.

    Forms: "" stem (고, 지, 게), "어" (요, 서, 야, 주다), "었" (past), "으" (면, 려고, 러), "을", "은" (past modifier; the
    present one of a descriptive verb), "는" (present modifier), "세" (요), "니" (까), "습" (니다), "다" (plain present, before
    고), "요" (polite present).
    """
    if not verb.endswith("다"):
        raise ValueError(f"{verb!r} is no dictionary form")
    stem = verb[:-1]
    if stem.endswith("이") and verb.endswith(
        ("생이다", "처음이다", "무료이다", "색이다", "휴일이다", "생일이다", "세일이다")
    ):
        return _copula(stem[:-1], form)
    existing = stem.endswith(("있", "없"))
    if verb == "오래되다" and form == "요":  # it states what has become so
        return "오래됐어요"
    if form == "다":
        return verb if descriptive or existing else _plain_present(stem)
    if form == "는" and descriptive and not existing:
        form = "은"
    if form == "은" and existing:
        form = "는"
    return _with_ending(stem, form)


def _plain_present(stem: str) -> str:
    coda = _coda(stem)
    return _with_coda(stem, _N) + "다" if coda in (_NO_CODA, _L) else stem + "는다"


def _with_ending(stem: str, form: str) -> str:
    if form == "":
        return stem
    if form in ("어", "요", "었"):
        base = _with_eo(stem)
        return base if form == "어" else base + "요" if form == "요" else _past(stem, base)
    dropped = _with_coda(stem, _NO_CODA) if _coda(stem) == _L else stem
    if form == "는":
        return dropped + "는"
    if form == "습":
        return _with_coda(dropped, _B) if _coda(dropped) == _NO_CODA else stem + "습"
    base, eu = _before_vowel(stem)
    if form == "으":
        return base + eu
    if form in ("을", "은"):
        final = _L if form == "을" else _N
        return base + _join(11, "ㅡ", final) if eu else _with_coda(base, final)
    if _coda(base) == _L and not eu:
        base = _with_coda(base, _NO_CODA)
    return base + eu + form


def _past(stem: str, base: str) -> str:
    return _with_coda(base, _SS) if _coda(base) == _NO_CODA else stem + "었"


_FORMAL = (
    (r"아니에요\.$", "아닙니다."),
    (r"아니에요\?$", "아닙니까?"),
    (r"거예요\.$", "것입니다."),
    (r"거예요\?$", "것입니까?"),
    (r"이에요\.$", "입니다."),
    (r"예요\.$", "입니다."),
    (r"예요\?$", "입니까?"),
    (r"([가-힣])어요([.?])$", None),
    (r"해요\.$", "합니다."),
    (r"해요\?$", "합니까?"),
    (r"(않|좋|많)아요\.$", r"\1습니다."),
    (r"(않|좋|많)아요\?$", r"\1습니까?"),
)


def formal(sentence: str) -> str | None:
    """`sentence` with a 합니다 ending where that can be read off it; None otherwise."""
    for pattern, ending in _FORMAL:
        match = re.search(pattern, sentence)
        if match is None:
            continue
        if ending is not None:
            return re.sub(pattern, ending, sentence)
        if _coda(match[1]) == _SS or match[1] == "싶":
            return sentence[: match.start()] + match[1] + ("습니다." if match[2] == "." else "습니까?")
    return None


_CASUAL = (
    (r"아니에요([.?])$", r"아니야\1"),
    (r"거예요([.?])$", r"거야\1"),
    (r"이에요([.?])$", r"이야\1"),
    (r"예요([.?])$", r"야\1"),
    (r"(?<=[가-힣])아 주세요\.$", "아 줘."),
    (r"주세요\.$", "줘."),
    (r"(?<!세)(?<!죠)요([.?!])$", r"\1"),
)


def casual(sentence: str) -> str | None:
    """`sentence` without its polite ending; None for endings that have no such variant, and for humble pronouns."""
    if re.search(r"(세요|죠)[.?]$", sentence) and not sentence.endswith("주세요."):
        return None
    for pattern, ending in _CASUAL:
        changed = re.sub(pattern, ending, sentence)
        if changed != sentence:
            return re.sub(r"\b저는", "나는", re.sub(r"\b제가", "내가", re.sub(r"\b제 ", "내 ", changed)))
    return None


def short_negative(sentence: str, stem: str) -> str | None:
    """먹지 않아요 as 안 먹어요, for a stem of one word that is no noun with 하다; None otherwise."""
    last = stem.rsplit(" ", 1)[-1]
    if last.endswith("하") and last != "하":
        return None
    return sentence.replace(f"{last}지 않았", f"안 {_past(last, _with_eo(last))}").replace(
        f"{last}지 않아요", f"안 {_with_eo(last)}요"
    )
