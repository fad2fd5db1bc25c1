"""The client's ledger: what became of each call, and what the server must have stored and charged at the end.

Each call ends as one of `VERDICTS`. A call is *lost* if it has no answer by its deadline, or one that is cut without an error;
if its server was killed meanwhile, it has *failed*. *Duplicated* is what is charged or stored twice. What a client cannot know
(was a call charged whose connection it closed?) makes a range of what is right, which is as small as these calls.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal, get_args

from dragoman_bench.chaos.oracle import CIRCLED, AnswerTexts, Rule, SentCall, circled, error_code

Verdict = Literal["right", "refused", "failed", "lost", "duplicated", "wrong", "mixed_up", "left"]
"""`mixed_up`: somebody else's answer; `left`: the client closed the connection on purpose."""
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
FAULTY: tuple[Verdict, ...] = ("lost", "duplicated", "wrong", "mixed_up")
"""What must not be, whatever happens to the server."""
CHARGE_LOSS_S = 1.5
"""Of a server that is killed: the usage of its last second may be lost (docs/operating.md); and a half for the answer's way."""
REFUSALS = frozenset({401, 403, 404, 408, 409, 413, 429, 431, 456, 503, 529})
_MOST_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back from the server at `url`. `fault`: why it has no end (`cut`, `timeout`, `unreachable`, `left`), if so."""

    url: str
    status: int = 0
    body: bytes = b""
    fault: str = ""

    @property
    def is_certain(self) -> bool:
        """Whether it says what is stored now. An error of 5xx does not: a database may fail at the end of its commit."""
        return not self.fault and self.status < 500


@dataclass(slots=True)
class _Outage:
    began_s: float
    is_orderly: bool
    ended_s: float = float("inf")


@dataclass(slots=True)
class Outages:
    """When each server was ended, and when it served again: seconds of one clock. An orderly end excuses less."""

    _of: dict[str, list[_Outage]] = field(default_factory=lambda: defaultdict(list[_Outage]))

    def begin(self, url: str, now_s: float, *, is_orderly: bool = False) -> None:
        """`is_orderly`: what is in flight must be answered, and charged."""
        self._of[url].append(_Outage(now_s, is_orderly))

    def end(self, url: str, now_s: float) -> None:
        self._of[url][-1].ended_s = now_s

    @contextmanager
    def during(self, url: str, *, is_orderly: bool = False) -> Generator[None]:
        """Within: such a time, by the clock of `monotonic`."""
        self.begin(url, monotonic(), is_orderly=is_orderly)
        try:
            yield
        finally:
            self.end(url, monotonic())

    def excuse(self, url: str, began_s: float, ended_s: float) -> bool:
        """Whether a call of that time may have got no answer."""
        return any(
            began_s <= one.ended_s and ended_s >= one.began_s and not (one.is_orderly and began_s < one.began_s)
            for one in self._of[url]
        )

    def may_lose_charge(self, url: str, ended_s: float) -> bool:
        """Whether a call that was answered then may not be charged. An answer may be read after the server's end, from the
        socket."""
        return any(one.began_s - CHARGE_LOSS_S <= ended_s <= one.ended_s for one in self._of[url] if not one.is_orderly)


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A call whose answer came, which is charged."""

    characters: int
    url: str
    ended_s: float


@dataclass(slots=True)
class Charges:
    """Of one key. `unsure_characters`: of calls that may be charged."""

    answered: list[AnsweredCall] = field(default_factory=list[AnsweredCall])
    unsure_characters: int = 0

    def bounds(self, outages: Outages) -> tuple[int, int]:
        """The least and the most that is right, in characters."""
        characters = sum(one.characters for one in self.answered)
        at_risk = sum(one.characters for one in self.answered if outages.may_lose_charge(one.url, one.ended_s))
        return characters - at_risk, characters + self.unsure_characters


@dataclass(eq=False, slots=True)
class SentDocument:
    """A file of paragraphs. `id`: empty if its upload was not acknowledged. `edits`: acknowledged ones; `unsure_edits`: those
    that may be stored."""

    key: str
    name: str
    paragraphs: list[str]
    id: str = ""
    edits: dict[int, str] = field(default_factory=dict[int, str])
    unsure_edits: dict[int, str] = field(default_factory=dict[int, str])
    has_failed: bool = False
    is_delivered: bool = False
    is_deleted: bool = False
    is_deletion_unsure: bool = False
    rule: Rule = CIRCLED

    @property
    def characters(self) -> int:
        return sum(map(len, self.paragraphs))

    @property
    def marks(self) -> list[str]:
        """Of its paragraphs."""
        return [f"{self.name.partition('.')[0]} {place}" for place in range(len(self.paragraphs))]

    @property
    def file(self) -> str:
        return "\n\n".join(map(self.rule.sent, self.paragraphs, self.marks)) + "\n"

    def wrong_paragraph(self, translations: list[str]) -> int | None:
        """The first that is not right; None: all are."""
        for place in range(max(len(self.paragraphs), len(translations))):
            if place >= len(self.paragraphs) or place >= len(translations):
                return place
            found, edit = translations[place], self.edits.get(place)
            is_right = found == edit if edit else self.rule.fits(self.paragraphs[place], found)
            if not is_right and found != self.unsure_edits.get(place):
                return place
        return None


class Ledger:
    """All calls of a run. `fault` is the one that was injected last: verdicts are counted by it."""

    def __init__(self, outages: Outages | None = None) -> None:
        self.outages = outages or Outages()
        self.fault = ""
        self.verdicts: dict[str, Counter[str]] = defaultdict(Counter)
        self.codes: dict[str, Counter[str]] = defaultdict(Counter)
        self.findings: list[str] = []
        self.charges: dict[str, Charges] = defaultdict(Charges)
        self.documents: list[SentDocument] = []
        self.memories: dict[str, dict[str, str]] = defaultdict(dict)  # by key: acknowledged entries
        self.unsure_memories: dict[str, dict[str, str]] = defaultdict(dict)
        self._owner_of: dict[str, int] = {}  # of each right text, the call's number

    @property
    def totals(self) -> Counter[str]:
        return sum(self.verdicts.values(), Counter[str]())

    @property
    def has_fault(self) -> bool:
        return any(self.totals[one] for one in FAULTY)

    def count(self, verdict: Verdict, what: str, code: str = "") -> Verdict:
        """Count one verdict. `what` says of which call, for the findings."""
        self.verdicts[self.fault][verdict] += 1
        if code:
            self.codes[self.fault][f"{verdict}: {code}"] += 1
        if verdict in FAULTY and len(self.findings) < _MOST_SHOWN:
            self.findings.append(f"{verdict} after {self.fault or 'the start'}: {what}")
        return verdict

    # ---- calls

    def sending(self, call: SentCall) -> None:
        """A call is about to be sent."""
        self._owner_of.update(dict.fromkeys(call.expected, call.number))

    def record(self, call: SentCall, reply: Reply, began_s: float, ended_s: float) -> Verdict:
        """Judge a call by what came back."""
        charges = self.charges[call.key]
        what = f"{call.kind} {call.number} of {call.key} at {reply.url}, {began_s:.1f} to {ended_s:.1f} s"
        verdict, detail = self._judge(call, reply, is_away=self.outages.excuse(reply.url, began_s, ended_s))
        if verdict in ("right", "wrong", "mixed_up"):
            charges.answered.append(AnsweredCall(call.characters, reply.url, ended_s))
        elif reply.fault or reply.status < 400:
            charges.unsure_characters += call.characters
        return self.count(verdict, f"{what}: {detail}", detail if verdict in ("refused", "failed") else "")

    def _judge(self, call: SentCall, reply: Reply, *, is_away: bool) -> tuple[Verdict, str]:
        """The verdict, with the code of an error, or what is wrong."""
        if reply.fault:
            return _unanswered(reply.fault, is_away=is_away)
        if reply.status >= 400:
            return refusal(reply)
        try:
            answer = call.read(reply.body)
        except (ValueError, KeyError, TypeError, IndexError):
            answer = AnswerTexts(("",))
        if answer.code:
            return "failed", answer.code
        if answer.texts is None:
            return _unanswered("cut", is_away=is_away)
        if answer.texts in (call.expected, call.or_else):
            return "right", ""
        others = {self._owner_of.get(one, call.number) for one in answer.texts} - {call.number}
        return "mixed_up" if others else "wrong", f"{answer.texts} instead of {call.expected}"

    def delivered(self, sent: SentDocument, url: str, ended_s: float) -> None:
        """A document was downloaded, which charges it once."""
        if not sent.is_delivered:
            sent.is_delivered = True
            self.charges[sent.key].answered.append(AnsweredCall(sent.characters, url, ended_s))

    # ---- what is stored and charged at the end

    def charged(self, key: str) -> tuple[int, int]:
        """The least and the most that a key may be charged. A document that was not downloaded may count."""
        least, most = self.charges[key].bounds(self.outages)
        return least, most + sum(one.characters for one in self.documents if one.key == key and not one.is_delivered)

    def audit_usage(self, key: str, characters: int) -> None:
        """Compare what a key was charged with what it was answered."""
        least, most = self.charged(key)
        if characters > most:
            self.count("duplicated", f"{key} is charged {characters} characters, and was answered {most} at most")
        elif characters < least:
            self.count("lost", f"{key} is charged {characters} characters, and was answered {least} at least")

    def audit_memory(self, key: str, entries: list[tuple[str, str]]) -> None:
        """Compare the entries of a key's memory with those that were acknowledged."""
        acknowledged, unsure = self.memories[key], self.unsure_memories[key]
        stored = Counter(text for text, _ in entries)
        for text, translation in entries:
            if text not in acknowledged and text not in unsure:
                self.count("mixed_up", f"the memory of {key} has an entry of another: {text}")
            elif translation != (acknowledged.get(text) or unsure[text]):
                self.count("wrong", f"the memory of {key} has {translation} for {text}")
        for text in acknowledged:
            if stored[text] != 1:
                verdict: Verdict = "duplicated" if stored[text] else "lost"
                self.count(verdict, f"the memory of {key} has {stored[text]} entries of {text}")

    def audit_documents(self, key: str, names: list[str]) -> None:
        """Compare the names of a key's documents with those that it has sent."""
        own = {one.name: one for one in self.documents if one.key == key}
        stored = Counter(names)
        for name in stored.keys() - own.keys():
            self.count("mixed_up", f"{key} is shown a document of another: {name}")
        for name, one in own.items():
            is_unsure = not one.id or one.is_deletion_unsure
            if stored[name] > 1 or (stored[name] and one.is_deleted):
                self.count("duplicated", f"{key} has {stored[name]} documents {name} (deleted: {one.is_deleted})")
            elif not stored[name] and not one.is_deleted and not is_unsure:
                self.count("lost", f"{key} has no document {name}")

    def audit_document(self, sent: SentDocument, translations: list[str]) -> Verdict:
        """Judge a document's translations, from its segments or its file."""
        place = sent.wrong_paragraph(translations)
        if place is None:
            return self.count("right", "")
        found = translations[place] if place < len(translations) else None
        others = {circled(text) for one in self.documents if one is not sent for text in one.paragraphs}
        verdict: Verdict = "mixed_up" if found in others else "wrong"
        return self.count(verdict, f"document {sent.name} of {sent.key}, paragraph {place}: {found}")


def refusal(reply: Reply) -> tuple[Verdict, str]:
    """The verdict about an error that the server answered, with its code."""
    code = error_code(reply.body, reply.status)
    return "refused" if reply.status in REFUSALS and code != "engine_dead" else "failed", code


def _unanswered(fault: str, *, is_away: bool) -> tuple[Verdict, str]:
    if fault == "left":
        return "left", ""
    return ("failed", f"server_away_{fault}") if is_away else ("lost", fault)
