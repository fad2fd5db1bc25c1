"""Japanese inflection of verbs and of i- and na-adjectives, and the plain variant of a polite sentence."""

import re

_VOWEL_ROWS = {
    # dictionary ending: a, i, e, o stems, te form, ta form
    "う": ("わ", "い", "え", "お", "って", "った"),
    "く": ("か", "き", "け", "こ", "いて", "いた"),
    "ぐ": ("が", "ぎ", "げ", "ご", "いで", "いだ"),
    "す": ("さ", "し", "せ", "そ", "して", "した"),
    "つ": ("た", "ち", "て", "と", "って", "った"),
    "ぬ": ("な", "に", "ね", "の", "んで", "んだ"),
    "ぶ": ("ば", "び", "べ", "ぼ", "んで", "んだ"),
    "む": ("ま", "み", "め", "も", "んで", "んだ"),
    "る": ("ら", "り", "れ", "ろ", "って", "った"),
}
_ICHIDAN_KANJI = frozenset("見着寝出煮似得診居経")
_BEFORE_ICHIDAN = frozenset("いきぎしじちにひびみりえけげせぜてでねへべめれ")
_GODAN_KANA = ("しゃべる",)


def _is_ichidan(verb: str) -> bool:
    if verb.endswith(_GODAN_KANA):
        return False
    return verb[-2] in _ICHIDAN_KANJI or verb[-2] in _BEFORE_ICHIDAN


def _suru(base: str, form: str) -> str:
    if form == "pot":
        return re.sub("を$", "が", base) + "でき"
    return base + {"a": "し", "i": "し", "ba": "すれば", "vol": "しよう", "te": "して", "ta": "した"}[form]


def _kuru(base: str, form: str) -> str:
    endings = {"a": "来", "i": "来", "ba": "来れば", "vol": "来よう", "pot": "来られ", "te": "来て", "ta": "来た"}
    return base + endings[form]


def _ichidan(verb: str, form: str) -> str:
    stem = verb[:-1]
    return stem + {"a": "", "i": "", "ba": "れば", "vol": "よう", "pot": "られ", "te": "て", "ta": "た"}[form]


def _godan(verb: str, form: str) -> str:
    stem = verb[:-1]
    a, i, e, o, te, ta = _VOWEL_ROWS[verb[-1]]
    if verb.endswith(("行く", "いく")):
        te, ta = "って", "った"
    if form == "a" and verb.endswith("ある"):
        return stem[:-1]
    return stem + {"a": a, "i": i, "ba": e + "ば", "vol": o + "う", "pot": e, "te": te, "ta": ta}[form]


def stem(verb: str, form: str) -> str:
    """`verb` (in dictionary form, anything before it kept) as "a" (before ない), "i" (before ます), "te", "ta", "ba", "vol" or
    "pot" (the potential, an ichidan stem)."""
    if verb.endswith("する"):
        return _suru(verb[:-2], form)
    if verb.endswith("来る"):
        return _kuru(verb[:-2], form)
    if verb.endswith(("てくる", "でくる")):
        spelled = stem("来る", form)
        return (
            verb[:-2]
            + {"a": "こ", "i": "き", "vol": "こ", "pot": "こ", "te": "き", "ta": "き", "ba": "く"}[form]
            + spelled[1:]
        )
    return _ichidan(verb, form) if verb.endswith("る") and _is_ichidan(verb) else _godan(verb, form)


def verb_form(verb: str, form: str, plain: bool = False) -> str:
    """`verb` in one of the forms of `stem`, in dictionary form (""), or as "masu", "masen", "mashita", "masendeshita", which
    `plain` turns into 食べる, 食べない, 食べた, 食べなかった."""
    if not form:
        return verb
    if form == "masu":
        return verb if plain else stem(verb, "i") + "ます"
    if form == "masen":
        return stem(verb, "a") + "ない" if plain else stem(verb, "i") + "ません"
    if form == "mashita":
        return stem(verb, "ta") if plain else stem(verb, "i") + "ました"
    if form == "masendeshita":
        return stem(verb, "a") + "なかった" if plain else stem(verb, "i") + "ませんでした"
    return stem(verb, form)


def _i_adjective(word: str, form: str) -> str:
    base = word[:-1]
    if word.endswith("いい") and not word.endswith(("かわいい", "可愛いい")):
        base = word[:-2] + "よ"
    endings = {
        "ku": "く",
        "kute": "くて",
        "ta": "かった",
        "nai": "くない",
        "ba": "ければ",
        "sou": "さそう" if base != word[:-1] else "そう",
        "sugi": "すぎ",
        "neg": "くありません",
        "past": "かったです",
        "pastneg": "くなかったです",
        "kereba": "ければ",
    }
    if form in ("", "na", "node", "da"):
        return word
    if form == "desu":
        return word + "です"
    if word.endswith("ない") and form == "sou":
        return word[:-1] + "さそう"
    return base + endings[form]


def _na_adjective(word: str, form: str) -> str:
    endings = {
        "": "",
        "na": "な",
        "node": "な",
        "da": "だ",
        "desu": "です",
        "ku": "に",
        "kute": "で",
        "ta": "だった",
        "nai": "ではない",
        "ba": "なら",
        "sou": "そう",
        "sugi": "すぎ",
        "neg": "ではありません",
        "past": "でした",
        "pastneg": "ではありませんでした",
    }
    return word + endings[form]


def _state(word: str, form: str) -> str:
    base = word[:-1]
    endings = {
        "": "る",
        "na": "る",
        "node": "る",
        "da": "る",
        "desu": "ます",
        "kute": "て",
        "ta": "た",
        "nai": "ない",
        "ba": "れば",
        "neg": "ません",
        "past": "ました",
        "pastneg": "ませんでした",
        "sou": "るよう",
    }
    return base + endings[form]


def adjective_form(word: str, form: str) -> str:
    """`word` ends in い (難しい), in な (静かな), in の (病気の) or is a state in ている (混んでいる). Forms: "desu", "neg",
    "past", "pastneg" (polite predicates), "da", "ta", "nai" (plain ones), "na" (before a noun), "node" (before ので),
    "ku", "kute", "ba", "sou", "sugi". A state has no "ku" and no "sugi" (KeyError)."""
    if word.endswith("いる"):
        return _state(word, form)
    if word.endswith("な"):
        return _na_adjective(word[:-1], form)
    if word.endswith("の"):
        return word if form == "na" else _na_adjective(word[:-1], form)
    return _i_adjective(word, form)


_PLAIN_ENDINGS = (
    (r"てください。$", "て。"),
    (r"でください。$", "で。"),
    (r"ていますか？$", "てる？"),
    (r"でいますか？$", "でる？"),
    (r"ています。$", "てる。"),
    (r"でいます。$", "でる。"),
    (r"たいですか？$", "たい？"),
    (r"(い|た)ですか？$", r"\1？"),
    (r"(い|かった|た)です。$", r"\1。"),
    (r"(い|た)ですね。$", r"\1ね。"),
    (r"がありますか？$", "がある？"),
    (r"はありますか？$", "ある？"),
    (r"ことができますか？$", "ことができる？"),
    (r"と思います。$", "と思う。"),
    (r"そうです。$", "そうだ。"),
)
_POLITE = re.compile(r"(です|ます|ません|でした|ました|ください|ましょう)(か|ね|よ|よね)?[。？]")


def plain(sentence: str) -> str | None:
    """`sentence` with a plain ending; None if a polite form would remain."""
    for pattern, ending in _PLAIN_ENDINGS:
        changed = re.sub(pattern, ending, sentence)
        if changed != sentence:
            sentence = changed
            break
    else:
        if _POLITE.search(sentence):
            return None
        sentence = re.sub(r"(?<=[るたいうくすつむぶぐぬ])か？$", "？", sentence)
    return None if _POLITE.search(sentence) else sentence
