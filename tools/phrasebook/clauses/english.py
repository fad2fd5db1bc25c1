"""English inflection: verbs by subject and tense, plurals, comparatives, contractions."""

import re

_IRREGULAR = {
    line.split()[0]: (line.split()[1], line.split()[2])
    for line in """
be was been;have had had;do did done;go went gone;come came come;become became become;eat ate eaten;drink drank drunk
see saw seen;buy bought bought;bring brought brought;catch caught caught;teach taught taught;think thought thought
fight fought fought;get got gotten;forget forgot forgotten;give gave given;take took taken;make made made;know knew known
grow grew grown;throw threw thrown;draw drew drawn;fly flew flown;write wrote written;ride rode ridden;drive drove driven
rise rose risen;wake woke woken;break broke broken;speak spoke spoken;steal stole stolen;choose chose chosen
wear wore worn;tear tore torn;begin began begun;sing sang sung;swim swam swum;ring rang rung;run ran run;sit sat sat
win won won;meet met met;feed fed fed;lead led led;read read read;sleep slept slept;keep kept kept;feel felt felt
leave left left;lend lent lent;send sent sent;spend spent spent;build built built;lose lost lost;pay paid paid;say said said
sell sold sold;tell told told;hear heard heard;hold held held;find found found;stand stood stood
understand understood understood;put put put;cut cut cut;shut shut shut;let let let;set set set;hit hit hit;hurt hurt hurt
cost cost cost;quit quit quit;lie lay lain;show showed shown;hang hung hung;bake baked baked;blow blew blown;fall fell fallen
freeze froze frozen;hide hid hidden;bite bit bitten;shake shook shaken;dig dug dug;stick stuck stuck;sweep swept swept
mean meant meant;light lit lit;bet bet bet;upset upset upset;spread spread spread;oversleep overslept overslept
shine shone shone;withdraw withdrew withdrawn;overeat overate overeaten
""".replace("\n", ";")
    .strip(";")
    .split(";")
}
_DOUBLED = frozenset(
    [
        "shop",
        "stop",
        "plan",
        "chat",
        "drop",
        "clap",
        "hug",
        "jog",
        "rub",
        "skip",
        "swim",
        "run",
        "sit",
        "get",
        "forget",
        "put",
        "cut",
        "shut",
        "let",
        "set",
        "hit",
        "win",
        "begin",
        "nap",
        "rip",
        "quit",
        "tap",
        "trip",
        "pet",
        "grab",
        "wrap",
        "hum",
        "knit",
        "beg",
        "bat",
        "dig",
        "bet",
        "upset",
        "mop",
        "unplug",
        "log",
    ]
)
_VOWELS = "aeiou"


def third_person(verb: str) -> str:
    """goes, studies, watches, has, is."""
    if verb in ("be", "have"):
        return {"be": "is", "have": "has"}[verb]
    if verb.endswith("y") and verb[-2] not in _VOWELS:
        return verb[:-1] + "ies"
    return verb + ("es" if verb.endswith(("s", "x", "z", "ch", "sh", "o")) else "s")


def past(verb: str) -> str:
    return _IRREGULAR[verb][0] if verb in _IRREGULAR else _regular_past(verb)


def participle(verb: str) -> str:
    return _IRREGULAR[verb][1] if verb in _IRREGULAR else _regular_past(verb)


def _regular_past(verb: str) -> str:
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in _VOWELS:
        return verb[:-1] + "ied"
    return verb + (verb[-1] if verb in _DOUBLED else "") + "ed"


def gerund(verb: str) -> str:
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")) and verb != "be":
        return verb[:-1] + "ing"
    return verb + (verb[-1] if verb in _DOUBLED else "") + "ing"


def plural(noun: str) -> str:
    """The regular plural of the last word."""
    if noun.endswith("y") and noun[-2] not in _VOWELS:
        return noun[:-1] + "ies"
    if noun.endswith(("fe", "leaf", "shelf", "half")):
        return re.sub(r"fe?$", "ves", noun)
    return noun + ("es" if noun.endswith(("s", "x", "z", "ch", "sh", "potato", "tomato")) else "s")


_COMPARED = {"good": ("better", "best"), "bad": ("worse", "worst"), "far": ("farther", "farthest")}
_LONG = frozenset(
    [
        "tired",
        "bored",
        "modern",
        "useful",
        "crowded",
        "worried",
        "boring",
        "famous",
        "careful",
        "expensive",
        "fun",
        "correct",
        "wrong",
    ]
)


def comparative(adjective: str) -> str:
    """better, bigger, easier, more expensive."""
    return _compared(adjective, 0, "er", "more")


def superlative(adjective: str) -> str:
    return _compared(adjective, 1, "est", "most")


def _compared(adjective: str, index: int, ending: str, word: str) -> str:
    if adjective in _COMPARED:
        return _COMPARED[adjective][index]
    syllables = len(re.findall(r"[aeiouy]+", re.sub(r"e$", "", adjective)))
    if " " in adjective or adjective in _LONG or syllables > 2:
        return f"{word} {adjective}"
    if adjective.endswith("y"):
        return adjective[:-1] + "i" + ending
    if syllables > 1 and adjective not in ("quiet", "narrow", "simple", "clever", "gentle"):
        return f"{word} {adjective}"
    if adjective.endswith("e"):
        return adjective + ending[1:]
    double = re.search(r"[^aeiou][aeiou][bdgmnpt]$", adjective)
    return adjective + (adjective[-1] if double else "") + ending


_PRONOUNS = {
    # subject: object, possessive, reflexive, be, past of be
    "I": ("me", "my", "myself", "am", "was"),
    "you": ("you", "your", "yourself", "are", "were"),
    "he": ("him", "his", "himself", "is", "was"),
    "she": ("her", "her", "herself", "is", "was"),
    "it": ("it", "its", "itself", "is", "was"),
    "we": ("us", "our", "ourselves", "are", "were"),
    "they": ("them", "their", "themselves", "are", "were"),
}
_CONTRACTED = {"am": "'m", "are": "'re", "is": "'s"}


def agreement(subject: str, grammar: str) -> tuple[str, str, str, str, str]:
    """(object, possessive, reflexive, be, past of be) of a pronoun, or of a noun by its grammar: m, f, p (plural), n, e
    (everyone)."""
    if subject in _PRONOUNS:
        return _PRONOUNS[subject]
    if grammar == "e":  # everyone
        return (subject, "their", "themselves", "is", "was")
    pronoun = _PRONOUNS[{"m": "he", "f": "she", "p": "they", "n": "it"}[grammar]]
    return (subject, *pronoun[1:])


def subject_form(subject: str, grammar: str, form: str) -> str:
    """The subject with an auxiliary: "be" (I'm), "have" (he has), "dont" (she doesn't), "doq" (does he), "obj" (him)."""
    obj, poss, reflexive, be, was = agreement(subject, grammar)
    single = be == "is"
    pronoun = subject in _PRONOUNS
    contracted = subject + _CONTRACTED[be] if pronoun else f"{subject} {be}"
    plain = {
        "": subject,
        "obj": obj,
        "poss": poss,
        "whose": poss if pronoun else f"{subject}'{'' if subject.endswith('s') else 's'}",
        "self": reflexive,
        "be": contracted,
        "is": be,
        "was": f"{subject} {was}",
        "wasnt": f"{subject} {was}n't",
        "arent": f"{contracted} not" if pronoun else f"{subject} {be}n't",
        "have": f"{subject} has" if single else f"{subject}'ve" if pronoun else f"{subject} have",
        "own": f"{subject} {'has' if single else 'have'}",
        "havent": f"{subject} {'has' if single else 'have'}n't",
        "will": f"{subject}'ll" if pronoun else f"{subject} will",
        "dont": f"{subject} {'does' if single else 'do'}n't",
        "do": f"{subject} {'does' if single else 'do'}",
        "need": f"{subject} need{'s' if single else ''}",
        "want": f"{subject} want{'s' if single else ''}",
        "like": f"{subject} like{'s' if single else ''}",
        "beq": f"{be} {subject}",
        "wasq": f"{was} {subject}",
        "doq": f"{'does' if single else 'do'} {subject}",
        "haveq": f"{'has' if single else 'have'} {subject}",
    }
    return plain[form]


def verb_form(phrase: str, form: str, subject: str, grammar: str) -> str:
    """`phrase` (head first; "one's" and "oneself" agree with the subject) as base, s, past, pp, ing or exp
    (the participle of an experience: been to)."""
    _, poss, reflexive, be, was = agreement(subject, grammar)
    head, space, rest = phrase.partition(" ")
    if form == "s":
        head = be if head == "be" else third_person(head) if be == "is" else head
    elif form == "past":
        head = was if head == "be" else past(head)
    elif form == "pp":
        head = participle(head)
    elif form == "exp":
        head = "been" if head == "go" else participle(head)
    elif form == "ing":
        head = gerund(head)
    rest = re.sub(r"\bone's\b", poss, rest)
    return head + space + re.sub(r"\boneself\b", reflexive, rest)


_EXPANSIONS = (
    (r"\bcan't\b", "cannot"),
    (r"\bwon't\b", "will not"),
    (r"\blet's\b", "let us"),
    (r"\bLet's\b", "Let us"),
    (r"n't\b", " not"),
    (r"\b([Ii]|[Yy]ou|[Ww]e|[Tt]hey)'(?:ve)\b", r"\1 have"),
    (r"\b([Yy]ou|[Ww]e|[Tt]hey)'re\b", r"\1 are"),
    (r"\bI'm\b", "I am"),
    (r"\b(I|[Yy]ou|[Hh]e|[Ss]he|[Ii]t|[Ww]e|[Tt]hey)'ll\b", r"\1 will"),
    (r"\b([Hh]e|[Ss]he|[Ii]t|[Tt]hat|[Tt]here|[Ww]hat|[Ww]here|[Hh]ow|[Ww]ho|[Ww]hen)'s\b", r"\1 is"),
    (r"\bI'd like\b", "I would like"),
)


def expanded(sentence: str) -> str:
    """`sentence` without contractions; unchanged where a negative stands before its subject ("Why don't you")."""
    if re.search(r"n't (you|it|he|she|they|we)\b", sentence):
        return sentence
    for pattern, full in _EXPANSIONS:
        sentence = re.sub(pattern, full, sentence)
    return sentence
