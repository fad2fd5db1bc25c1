"""The aligned units of `data/clauses/*.tsv`, and what each says in a language in a given form.

A unit in use is one of `SubjectUse`, `VerbUse`, `AdjectiveUse`, `NounUse`, `Phrase` and `Event`: each answers
`form(language, name, style)` for the forms that frames name. Invalid rows are refused with file and line.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol, TypeVar, cast

from tools.phrasebook import data_dir
from tools.phrasebook.clauses import chinese, english, japanese, korean
from tools.phrasebook.corpus import CorpusError
from tools.phrasebook.grammar import indefinite

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Style:
    """How a source differs from the canonical text: `plain` Japanese, and subjects written that usually are dropped."""

    plain: bool = False
    explicit: bool = False


CANONICAL = Style()


class Unit(Protocol):
    """A unit in use."""

    def form(self, language: str, name: str, style: Style) -> str:
        """Its text. Raises KeyError for a form that it does not have."""
        ...


@dataclass(frozen=True, slots=True)
class Subject:
    en: str
    ja: str
    ko: str
    zh: str
    grammar: str
    tags: frozenset[str]

    def form(self, language: str, name: str, style: Style) -> str:
        if language == "en":
            return english.subject_form(self.en, self.grammar, name)
        text = {"ja": self.ja, "ko": self.ko, "zh": self.zh}[language]
        if language == "zh" or not name:
            return text
        if language == "ja":
            dropped = self.en in ("I", "you") and name == "は" and not (style.explicit and self.en == "I")
            return "" if dropped else text + name
        return self._korean(name, style)

    def _korean(self, name: str, style: Style) -> str:
        first = self.en == "I"
        if name == "은":
            if self.en == "you" or (first and not style.explicit):
                return ""
            return f"{self.ko}[은/는] "
        if name == "이":
            return "제가 " if first else f"{self.ko}[이/가] "
        return {"을": f"{self.ko}[을/를] ", "의": "제 " if first else f"{self.ko}의 "}[name]


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb phrase; `flags`: n not volitional, s state, p no progressive, h no habit, r no request, g not together,
    l place can be added; y welcome though not volitional;
    from its text follow k skill (zh 会), x no 过, b be, q speaks a language."""

    en: str
    ja: str
    ko: str
    zh: str
    flags: frozenset[str]


@dataclass(frozen=True, slots=True)
class VerbUse:
    verb: Verb
    subject: Subject

    def form(self, language: str, name: str, style: Style) -> str:
        verb = self.verb
        if language == "en":
            return english.verb_form(verb.en, name, self.subject.en, self.subject.grammar)
        if language == "ja":
            return japanese.verb_form(verb.ja, name, style.plain)
        return korean.conjugated(verb.ko, name) if language == "ko" else chinese.verb_form(verb.zh, name)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens by itself: English is "subject|verb phrase", the others are verb phrases with their subject."""

    en: str
    ja: str
    ko: str
    zh: str
    flags: frozenset[str]

    def form(self, language: str, name: str, style: Style) -> str:
        if language == "ja":
            return japanese.verb_form(self.ja, name, style.plain)
        if language == "ko":
            return korean.conjugated(self.ko, name)
        return self._chinese(name) if language == "zh" else self._english(name)

    def _chinese(self, name: str) -> str:
        """`+word` puts that word before the verb, behind a subject that ends in "^"."""
        subject, _, phrase = self.zh.rpartition("^")
        word = name.removeprefix("+") if name.startswith("+") else ""
        return subject + word + chinese.verb_form(phrase, "" if name.startswith("+") else name)

    def _english(self, name: str) -> str:
        subject, _, phrase = self.en.partition("|")
        grammar = "p" if "p" in self.flags else "n"
        if name in ("s", "past"):
            return f"{subject} {english.verb_form(phrase, name, subject, grammar)}"
        if name in ("", "ing", "pp"):
            return english.verb_form(phrase, name, subject, grammar)
        if name == "subject":
            return subject
        return english.subject_form(subject, grammar, name)


@dataclass(frozen=True, slots=True)
class Adjective:
    en: str
    ja: str
    ko: str
    zh: str
    tags: frozenset[str]

    def form(self, language: str, name: str, style: Style) -> str:
        del style
        if language == "en":
            return {"": str, "er": english.comparative, "est": english.superlative, "a": indefinite}[name](self.en)
        if language == "ja":
            return japanese.adjective_form(self.ja, name)
        if language == "ko":
            verb = self.ko.endswith(("나다", "붐비다", "헷갈리다", "끼다"))
            return korean.conjugated(self.ko, "는" if verb and name == "은" else name, descriptive=not verb)
        return chinese.predicate(self.zh) if name == "pred" else self.zh.removesuffix("=")


@dataclass(frozen=True, slots=True)
class Noun:
    """`plural` is "-" for what is not counted, "*" for a plural (shoes). Chinese classifier, and counters of ja and ko."""

    en: str
    plural: str
    ja: str
    ko: str
    zh: str
    classifier: str
    counter_ja: str
    counter_ko: str
    tags: frozenset[str]


_NUMBERS_EN = ("two", "three", "four", "five")
_NUMBERS_JA = ("二", "三", "四", "五")
_NUMBERS_KO = ("두", "세", "네", "다섯")
_NUMBERS_ZH = ("两", "三", "四", "五")
_DEMONSTRATED = {
    # with a singular or a mass noun, with a plural
    "thisis": ("this is", "these are"),
    "isthis": ("is this", "are these"),
    "thisisnt": ("this isn't", "these aren't"),
    "thats": ("that's", "those are"),
    "thatsnot": ("that's not", "those aren't"),
    "its": ("it's", "they're"),
}
_DETERMINERS: Mapping[str, tuple[str, str, str, str, str]] = {
    # in English, in English before a plural, in Japanese, Korean and Chinese
    "the": ("the", "the", "", "", ""),
    "this": ("this", "these", "この", "이 ", "这"),
    "that": ("that", "those", "あの", "저 ", "那"),
    "my": ("my", "my", "私の", "제 ", "我的"),
    "your": ("your", "your", "あなたの", "당신의 ", "你的"),
}


@dataclass(frozen=True, slots=True)
class NounUse:
    """A noun with a determiner of _DETERMINERS and a number from 2 to 5."""

    noun: Noun
    determiner: str
    number: int

    @property
    def plural(self) -> bool:
        return self.noun.plural == "*"

    def form(self, language: str, name: str, style: Style) -> str:
        del style
        if language == "en":
            return self._english(name)
        noun = self.noun
        text = {"ja": noun.ja, "ko": noun.ko, "zh": noun.zh}[language]
        if name == "det":
            return self._determined(language, text)
        if name in ("a", "obj", "this", "count"):
            return self._chinese(name) if language == "zh" else self._counted(language, name, text)
        if name == "counter":
            return self._counted(language, "counter", text)
        if not name:
            return text
        raise KeyError(name)

    def _english(self, name: str) -> str:
        noun = self.noun
        if name in _DEMONSTRATED:
            return _DEMONSTRATED[name][self.plural]
        mass = noun.plural in ("-", "*")
        many = noun.en if mass else noun.plural or english.plural(noun.en)
        determiner = f"{_DETERMINERS[self.determiner][self.plural]} {noun.en}"
        subject = noun.en if "u" in noun.tags else determiner
        forms = {
            "": noun.en,
            "a": f"some {noun.en}" if mass else indefinite(noun.en),
            "obj": noun.en if mass else indefinite(noun.en),
            "any": f"any {many}",
            "pl": many,
            "one": "them" if self.plural else "it",
            "count": f"{_NUMBERS_EN[self.number - 2]} {many}",
            "det": subject,
        }
        return forms[name] if name in forms else english.subject_form(subject, "p" if self.plural else "n", name)

    def _determined(self, language: str, text: str) -> str:
        if "u" in self.noun.tags:
            return text
        determiner = _DETERMINERS[self.determiner][{"ja": 2, "ko": 3, "zh": 4}[language]]
        if language == "zh" and self.determiner in ("this", "that"):
            return f"{determiner}{self.noun.classifier}{text}"
        return determiner + text

    def _chinese(self, name: str) -> str:
        noun = self.noun
        if name == "this":
            return f"这{noun.classifier}{noun.zh}"
        if name == "count":
            return f"{_NUMBERS_ZH[self.number - 2]}{noun.classifier}{noun.zh}"
        bare = noun.plural == "-" or (name == "obj" and self.plural)
        return noun.zh if bare else f"一{noun.classifier}{noun.zh}"

    def _counted(self, language: str, name: str, text: str) -> str:
        if name == "a":
            return text
        if name == "this":
            return f"この{text}" if language == "ja" else f"이 {text}"
        noun = self.noun
        if language == "ko":
            return f"{_NUMBERS_KO[self.number - 2]} {noun.counter_ko}"
        if noun.counter_ja == "人":
            return f"{_NUMBERS_JA[self.number - 2]}人"
        return f"{_NUMBERS_JA[self.number - 2]}{noun.counter_ja}"


@dataclass(frozen=True, slots=True)
class Phrase:
    """A time, a frequency or a place; a place has the forms "at" (with the preposition of its tag) and "to" in English."""

    en: str
    ja: str
    ko: str
    zh: str
    tags: frozenset[str]

    def form(self, language: str, name: str, style: Style) -> str:
        del style
        if language == "en" and name == "at":
            preposition = "in" if "in" in self.tags else "on" if "on" in self.tags else "at"
            return f"{preposition} {self.en}"
        if language == "en" and name == "to":
            return self.en if self.en == "home" else f"to {self.en}"
        return {"en": self.en, "ja": self.ja, "ko": self.ko, "zh": self.zh}[language]


@dataclass(frozen=True, slots=True)
class Lexicon:
    subjects: tuple[Subject, ...]
    verbs: tuple[Verb, ...]
    events: tuple[Event, ...]
    adjectives: tuple[Adjective, ...]
    nouns: tuple[Noun, ...]
    times: tuple[Phrase, ...]
    places: tuple[Phrase, ...]

    _memo: dict[tuple[str, str], tuple[object, ...]] = field(
        default_factory=dict[tuple[str, str], tuple[object, ...]], repr=False, compare=False
    )

    def draw_subject(self, rng: Random, spec: str) -> Subject:
        """`spec` names tags joined by "|"; "any" is I, we or a third person."""
        if spec == "any":
            spec = "I" if rng.random() < 0.4 else "we|3"
        return choose(rng, self._found("subject", spec, lambda: _tagged(self.subjects, spec)))

    def draw_verb(self, rng: Random, spec: str) -> Verb:
        """`spec` is act (volitional), any (no state) or state, then flags to ask for (+l), then flags to leave out (-ph)."""
        return choose(rng, self._found("verb", spec, lambda: _verbs(self.verbs, spec)))

    def draw_event(self, rng: Random, spec: str) -> "Event":
        """`spec` is any, then flags to leave out (-n)."""
        excluded = frozenset(spec.partition("-")[2])
        return choose(rng, self._found("event", spec, lambda: tuple(e for e in self.events if not e.flags & excluded)))

    def draw_noun(self, rng: Random, spec: str) -> NounUse:
        """`spec` names tags joined by "|", and may end in "!" and a determiner."""
        tags, _, determiner = spec.partition("!")
        noun = choose(rng, self._found("noun", tags, lambda: _tagged(self.nouns, tags)))
        if not determiner:
            own = ("my",) if "own" in noun.tags else ()
            determiner = rng.choice(("the", "the", "this", "this", "that", *own))
        return NounUse(noun, determiner, rng.randint(2, 5))

    def draw_adjective(self, rng: Random, spec: str) -> Adjective:
        """`spec` names classes joined by "|"."""
        return choose(rng, self._found("adjective", spec, lambda: _tagged(self.adjectives, spec)))

    def draw_phrase(self, rng: Random, kind: str, spec: str) -> Phrase:
        """A time (kind "w") or a place ("p") with one of the tags."""
        phrases = self.times if kind == "w" else self.places
        return choose(rng, self._found(kind, spec, lambda: _tagged(phrases, spec)))

    def _found(self, kind: str, spec: str, search: Callable[[], tuple[T, ...]]) -> tuple[T, ...]:
        known = self._memo.get((kind, spec))
        if known is None:
            known = self._memo[kind, spec] = search()
            if not known:
                raise CorpusError(f"clauses: no {kind} is {spec!r}")
        return cast("tuple[T, ...]", known)


def choose(rng: Random, choices: tuple[T, ...]) -> T:
    """One of them, each as likely."""
    return choices[int(rng.random() * len(choices))]


class _Tagged(Protocol):
    @property
    def tags(self) -> frozenset[str]: ...


_TaggedT = TypeVar("_TaggedT", bound=_Tagged)


def _tagged(units: tuple[_TaggedT, ...], spec: str) -> tuple[_TaggedT, ...]:
    wanted = frozenset(spec.split("|"))
    return tuple(unit for unit in units if unit.tags & wanted)


def _verbs(verbs: tuple[Verb, ...], spec: str) -> tuple[Verb, ...]:
    kind, _, without = spec.partition("-")
    kind, _, with_flags = kind.partition("+")
    excluded = frozenset(without) | {"act": {"n", "s"}, "any": {"s"}, "state": set[str]()}[kind]
    wanted = frozenset(with_flags) | ({"s"} if kind == "state" else frozenset[str]())
    return tuple(verb for verb in verbs if not verb.flags & excluded and wanted <= verb.flags)


def rows(path: Path, columns: int) -> list[list[str]]:
    """The rows of a table, comments and blank lines left out; missing cells at the end are empty. Raises CorpusError."""
    table: list[list[str]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) > columns or len(cells) < 4 or not all(cells[:4]):
            raise CorpusError(f"{path.name}:{number}: {len(cells)} cells, wanted 4 to {columns}")
        table.append(cells + [""] * (columns - len(cells)))
    return table


def _table(directory: Path, name: str, columns: int, make: Callable[[list[str]], T]) -> tuple[T, ...]:
    units: dict[str, T] = {}
    for path in sorted(directory.glob(f"{name}*.tsv")):
        for cells in rows(path, columns):
            units.setdefault(cells[0], make(cells))
    return tuple(units.values())


def load(directory: Path | None = None) -> Lexicon:
    """The tables of `directory` (the packaged ones without it). Raises CorpusError for an invalid row."""
    source = directory or data_dir() / "clauses"

    def phrase(c: list[str]) -> Phrase:
        return Phrase(c[0], c[1], c[2], c[3], frozenset(c[4].split()))

    return Lexicon(
        _table(source, "subjects", 6, lambda c: Subject(c[0], c[1], c[2], c[3], c[4], frozenset(c[5].split()))),
        _table(source, "verbs", 5, _verb),
        _table(source, "events", 5, lambda c: Event(c[0], c[1], c[2], c[3], frozenset(c[4]))),
        _table(source, "adjectives", 5, lambda c: Adjective(c[0], c[1], c[2], c[3], frozenset(c[4].split()))),
        _table(source, "nouns", 9, _noun),
        _table(source, "times", 5, phrase),
        _table(source, "places", 5, phrase),
    )


_SKILLS = (
    "swim",
    "drive a car",
    "ride a bike",
    "ride a horse",
    "cook",
    "sing",
    "dance",
    "ski",
    "skate",
    "paint",
    "write code",
)


def _verb(cells: list[str]) -> Verb:
    """A row of the verbs' tables, with the flags that follow from its text."""
    en, ja, ko, zh, flags = cells
    languages = ("speak English", "speak Japanese", "speak Korean", "speak Chinese")
    if en in (*_SKILLS, *languages) or en.startswith(("play the ", "play chess", "play tennis", "knit ")):
        flags += "k"
    if en in languages:
        flags += "q"
    if en.startswith("be "):
        flags += "b"
    if "|" not in zh and "/" not in zh:
        flags += "x"
    return Verb(en, ja, ko, zh, frozenset(flags))


def _noun(cells: list[str]) -> Noun:
    """Columns: en, ja, ko, zh, tags, zh classifier, ja counter, ko counter, plural."""
    en, ja, ko, zh, tags, classifier, counter_ja, counter_ko, plural = cells
    return Noun(
        en=en,
        plural=plural,
        ja=ja,
        ko=ko,
        zh=zh,
        classifier=classifier or "个",
        counter_ja=counter_ja or "つ",
        counter_ko=counter_ko or "개",
        tags=frozenset(tags.split()),
    )
