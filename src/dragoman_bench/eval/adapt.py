"""`dragoman eval --adapt`: what translations gain from similar ones in a memory, on catalogues of human translations.

Each message is translated without a memory, with the memory of its language, and with three other pairs as examples; beside
stands the most similar one's translation, copied. One catalogue of each language is translated from its beginning with a memory
to which a person's translations are added, `STEP` messages at a time. Scores are chrF++ over all texts of a band; two are
compared by paired bootstrap. The results file has all answers: a run that is given it goes on where it ended.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError
from dragoman_bench.bench.measurement import Measurement, write_text
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.tables import Table, markdown, number, percent, table
from dragoman_bench.eval.apis import Answer, Ask, TranslationApi
from dragoman_bench.eval.catalogues import BANDS, MARKED, NONE, SOURCE, AdaptInputs
from dragoman_bench.eval.quality import bootstrapped

KIND = "adapt"
WITHOUT, RANDOM, MEMORY = "without", "random", "memory"
STEP = 10
"""Messages of a growing memory that are translated, and then corrected, at a time."""
_SAVED_AFTER = 500
_ENTRIES = 1_000  # of one call
_INDEX_TRIES, _INDEX_WAIT_S = 40, 0.5

Row = dict[str, Any]
"""A text with its answers: `AdaptText`'s fields, and by condition the text; null: no answer yet."""
Fields = tuple[tuple[str, Any], ...]
"""Of a request, besides text and languages."""


def begin(inputs: AdaptInputs, out: Path | None, server: Mapping[str, Any], files: Iterable[str]) -> Measurement:
    """Return the results of a test, with the answers of a results file of the same test and model, where it is there.

    Raises ConfigError where it is of another one.
    """
    document = json.dumps([*map(asdict, inputs.texts), inputs.growing], ensure_ascii=False)
    sha256 = hashlib.sha256(document.encode()).hexdigest()[:16]
    if out is not None and out.is_file():
        found = Measurement.read(out)
        old = found.conditions
        if found.kind != KIND or (old.get("inputs_sha256"), old.get("model")) != (sha256, server.get("model")):
            raise ConfigError(f"{out} has results of other texts or another model: choose another --out", param="out")
        return found
    results = Measurement.begin(
        KIND, server=dict(server), model=server.get("model"), files=[*files], inputs_sha256=sha256
    )
    blank = {WITHOUT: None, MEMORY: None}
    results.data["texts"] = [{**asdict(one), **blank, RANDOM + "_answer": None} for one in inputs.texts]
    results.data["growing"] = [
        {"target": target, "source": source, "reference": text, "quarter": 1 + 4 * place // len(pairs), **blank}
        for target, pairs in inputs.growing.items()
        for place, (source, text) in enumerate(pairs)
    ]
    return results


class Adapt:
    """Asks a server for the answers that results lack, and writes them to a file as they come."""

    def __init__(
        self,
        api: TranslationApi,
        results: Measurement,
        out: Path | None,
        observer: Observer,
        interrupted: asyncio.Event,
    ) -> None:
        self._api = api
        self._results = results
        self._out = out
        self._observer = observer
        self._interrupted = interrupted

    async def run(self, inputs: AdaptInputs) -> None:
        """Raises ConfigError if the server cannot be reached, or stores no memories."""
        texts, growing = self._results.data["texts"], self._results.data["growing"]
        self._results.partial = True
        await self._ask("without a memory", [*texts, *growing], WITHOUT, _no_memory)
        await self._ask("random examples", texts, RANDOM + "_answer", _random_examples)
        if any(row[MEMORY] is None for row in texts):
            for target, pairs in inputs.memories.items():
                await self._make_memory(name_of(target), target, pairs)
                await self._until_used(name_of(target), target, [row for row in texts if row["target"] == target])
        await self._ask("with the memory", texts, MEMORY, _memory)
        self._observer.phase("a growing memory", len(growing))
        by_target: dict[str, list[Row]] = {}
        for row in growing:
            by_target.setdefault(row["target"], []).append(row)
        await asyncio.gather(*(self._grow(target, rows) for target, rows in by_target.items()))
        self._results.partial = self._interrupted.is_set()
        self._results.write(self._out)

    async def _ask(
        self, phase: str, rows: Sequence[Row], answer: str, fields: Callable[[Row], tuple[tuple[str, Any], ...]]
    ) -> None:
        missing = [row for row in rows if row[answer] is None]
        for begin in range(0, len(missing), _SAVED_AFTER):
            if self._interrupted.is_set():
                break
            some = missing[begin : begin + _SAVED_AFTER]
            self._observer.phase(f"{phase}, {begin} of {len(missing)}", len(some))
            asks = [Ask(row["source"], SOURCE, row["target"], extra=fields(row)) for row in some]
            may_fail = answer != WITHOUT  # a server without examples in requests refuses them
            found = await self._api.translate_all(asks, self._observer, self._interrupted, raises=not may_fail)
            for row, one in zip(some, found, strict=True):
                _take(row, answer, one)
            self._results.write(self._out)

    async def _make_memory(self, name: str, target: str, pairs: Sequence[tuple[str, str]]) -> None:
        await self._api.call("DELETE", f"/v1/memories/{name}", allowed=(404,))
        await self._api.call("POST", "/v1/memories", {"name": name})
        for begin in range(0, len(pairs), _ENTRIES):
            await self._add(name, target, pairs[begin : begin + _ENTRIES])

    async def _add(self, name: str, target: str, pairs: Iterable[tuple[str, str]]) -> None:
        entries = [{"text": source, "translation": text} for source, text in pairs]
        body = {"source": SOURCE, "target": target, "entries": entries}
        await self._api.call("POST", f"/v1/memories/{name}/entries", body)

    async def _until_used(self, name: str, target: str, rows: Sequence[Row]) -> None:
        """Wait until the server's index of a memory is there: an answer says that it had examples."""
        probe = max(rows, key=lambda row: row["similarity"], default=None)
        for _ in range(_INDEX_TRIES if probe else 0):
            ask = Ask(probe["source"] if probe else "", SOURCE, target, extra=(("memory", name),))
            if self._interrupted.is_set() or (await self._api.translate(ask)).examples:
                return
            await asyncio.sleep(_INDEX_WAIT_S)
        if probe:
            self._observer.note(f"{target}: no answer says that it had examples; does the model's profile take any?")

    async def _grow(self, target: str, rows: Sequence[Row]) -> None:
        """Translate a catalogue, and add the person's translations to its memory after each `STEP` messages."""
        if all(row[MEMORY] is not None for row in rows):
            return
        name = f"{name_of(target)}-growing"
        done = next(place for place, row in enumerate(rows) if row[MEMORY] is None) // STEP * STEP
        await self._make_memory(name, target, [(row["source"], row["reference"]) for row in rows[:done]])
        for begin in range(done, len(rows), STEP):
            if self._interrupted.is_set():
                break
            some = rows[begin : begin + STEP]
            asks = (Ask(row["source"], SOURCE, target, extra=(("memory", name),)) for row in some)
            for row, found in zip(some, await asyncio.gather(*map(self._api.translate, asks)), strict=True):
                _take(row, MEMORY, found)
            await self._add(name, target, [(row["source"], row["reference"]) for row in some])


def name_of(target: str) -> str:
    """The memory of a target."""
    return f"eval-adapt-{target}"


def _no_memory(_: Row) -> Fields:
    return (("memory", False),)


def _memory(row: Row) -> Fields:
    return (("memory", name_of(row["target"])),)


def _random_examples(row: Row) -> Fields:
    examples = [{"source": source, "translation": text} for source, text in row["random"]]
    return (("memory", False), ("examples", examples))


def _take(row: Row, answer: str, found: Answer | None) -> None:
    """Keep an answer; one that failed is asked for again by the next run."""
    if found is None or found.error:
        return
    row[answer] = found.text
    if answer == MEMORY:
        row["used"], row["warnings"] = found.examples, [*found.warnings]


# ---- scores


def tables(results: Measurement) -> list[Table]:
    """The texts by band, and the growing memories by quarter."""
    texts, growing = results.data["texts"], results.data["growing"]
    found = [_bands(texts)]
    quarters = [(f"quarter {n}", [row for row in growing if row["quarter"] == n]) for n in (1, 2, 3, 4)]
    rows = [(name, *_gain(some)) for name, some in quarters]
    title = "A memory that grows as a person corrects a catalogue"
    return [
        *found,
        table(title, ("messages", "texts", "without", "with it", "gain", "range", "p", "had examples"), rows),
    ]


def _bands(texts: Sequence[Row]) -> Table:
    rows: list[tuple[str, ...]] = []
    for band in (*BANDS, NONE, MARKED):
        some = [row for row in texts if row["band"] == band]
        size, without, memory, *compared = _gain(some)
        whole = [row for row in some if row[WITHOUT] is not None]
        references = [row["reference"] for row in whole]
        at_random = [row[RANDOM + "_answer"] for row in whole]
        chance = None if None in at_random else chrf(at_random, references)
        copied = chrf([row["similar"] for row in whole], references)
        answered = [row for row in some if row[MEMORY] is not None]
        warned = Counter(code for row in answered for code in set(row["warnings"]))["copied_example"]
        share = percent(warned / len(answered), 1) if answered else "–"
        rows.append((band, size, without, number(chance), number(copied), memory, *compared, share))
    columns = ("most similar", "texts", "without", "random examples", "copied", "with the memory", "gain", "range", "p")
    note = (
        "chrF++ over all texts of a row. Paired bootstrap: the range is that of the score with the memory in 95 % of samples; "
        "below p = 0.05 the difference is unlikely to be chance."
    )
    return table("Similar translations", (*columns, "had examples", "copied_example"), rows, note=note)


def _gain(rows: Sequence[Row]) -> tuple[str, ...]:
    """Number of texts, chrF++ without and with the memory, the difference, its significance, and how many had examples."""
    whole = [row for row in rows if row[WITHOUT] is not None and row[MEMORY] is not None]
    if not whole:
        return ("0", *["–"] * 6)
    outputs = [[row[name] for row in whole] for name in (WITHOUT, MEMORY)]
    one, other, spread, p = bootstrapped(_metric(), outputs[0], outputs[1], [row["reference"] for row in whole])
    used = percent(sum(bool(row["used"]) for row in whole) / len(whole))
    return str(len(whole)), f"{one:.1f}", f"{other:.1f}", f"{other - one:+.1f}", spread, p, used


def _metric() -> Any:
    return import_module("sacrebleu.metrics").CHRF(word_order=2)


def chrf(outputs: Sequence[str], references: Sequence[str]) -> float | None:
    """chrF++ over all texts; None without texts."""
    return float(_metric().corpus_score([*outputs], [[*references]]).score) if outputs else None


def write_adapt_page(page: Path, results: Measurement) -> None:
    """Write the results as a Markdown page."""
    conditions = results.conditions
    targets = sorted({row["target"] for row in results.data["texts"]})
    head = (
        f"{conditions['started_at'][:10]}, {conditions['model']}, {len(results.data['texts'])} messages in "
        f"{len(targets)} languages ({', '.join(targets)}), catalogues of {', '.join(conditions['files'])}."
    )
    parts = ["# Similar translations as examples", head, *map(markdown, tables(results))]
    write_text(page, "\n\n".join(parts) + "\n", "page")
