"""`dragoman eval --adapt`: which messages are chosen of catalogues, what is sent for them, how the answers are scored."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner
from rapidfuzz import fuzz, process

from dragoman.errors import ConfigError
from dragoman_bench.bench.measurement import Measurement
from dragoman_bench.bench.progress import NoProgress
from dragoman_bench.bench.tables import Table
from dragoman_bench.cli.eval import command
from dragoman_bench.eval.adapt import Adapt, begin, chrf, tables, write_adapt_page
from dragoman_bench.eval.apis import ApiOptions, translation_api
from dragoman_bench.eval.catalogues import BANDS, EQUAL, MARKED, NONE, choose, normalised, read_catalogues, stored
from tests.bench.serving import Handler, serving, stats
from wholetext.files import tmx
from wholetext.files.exports import TMX_TAIL

NOW = datetime(2026, 11, 27, tzinfo=UTC)
VERBS = {"open": "öffnen", "save": "speichern", "print": "drucken", "delete": "löschen", "rename": "umbenennen"}
THINGS = {"file": "Datei", "folder": "Mappe", "page": "Seite", "image": "Bild", "selected layer": "gewählte Ebene"}
WHERE = {
    "": "",
    " again": " noch einmal",
    " in the window": " im Fenster",
    " of the other project": " des anderen Projekts",
}


def messages() -> dict[str, str]:
    found: dict[str, str] = {}
    for verb, german in VERBS.items():
        for thing, noun in THINGS.items():
            for where, wo in WHERE.items():
                found[f"Could not {verb} the {thing}{where}"] = f"{noun}{wo} konnte nicht {german[:-2]}et werden"
                found[f"The %s of {verb} is a <b>{thing}</b>{where}"] = f"%s von {german} ist <b>{noun}</b>{wo}"
                found[f"_{verb.title()} {thing}{where}…"] = f"{noun}{wo} _{german}…"
    draw = random.Random(1)
    for n in range(40):
        words = ["".join(draw.choices("bcdfghklmnprstvw", k=draw.randint(4, 8))) for _ in range(5)]
        found[" ".join(words)] = f"nichts Ähnliches {n}"
    found |= {"could not open the file!": "Die Datei geht nicht auf", "Two\nlines": "Zwei\nZeilen", "Same": "Same"}
    return found


@pytest.fixture
def catalogues(tmp_path: Path) -> Path:
    folder = tmp_path / "catalogues"
    (folder / "de" / "LC_MESSAGES").mkdir(parents=True)
    entries = [f"msgid {_quoted(source)}\nmsgstr {_quoted(text)}\n" for source, text in messages().items()]
    plural = 'msgid "%d pixel"\nmsgid_plural "%d pixels"\nmsgstr[0] "%d Punkt"\nmsgstr[1] "%d Punkte"\n'
    fuzzy = '#, fuzzy\nmsgid "Not sure about this one"\nmsgstr "Unsicher"\n'
    head = 'msgid ""\nmsgstr "Language: de\\nContent-Type: text/plain; charset=UTF-8\\n"\n'
    (folder / "de.po").write_text("\n".join([head, *entries, plural, fuzzy]), encoding="utf-8")
    units = (tmx.TranslationUnit("en", "fr", source, f"fr {text}", NOW, NOW) for source, text in messages().items())
    document = tmx.head("en", ("test", "1")) + "".join(tmx.written(units)) + TMX_TAIL
    (folder / "more.tmx").write_text(document, encoding="utf-8")
    return folder


def _quoted(text: str) -> str:
    return '"' + text.replace("\n", "\\n") + '"'


def test_catalogues_of_all_formats_are_read(catalogues: Path) -> None:
    found = read_catalogues([catalogues])
    assert {target: len(files) for target, files in found.items()} == {"de": 1, "fr": 1}
    [german] = found["de"].values()
    assert german["%d pixel"] == "%d Punkt"
    assert (german["Two\nlines"], "Same" in german, "Not sure about this one" in german) == (
        "Zwei\nZeilen",
        False,
        False,
    )
    assert found["de"].keys() == {str(catalogues / "de.po")}
    for path in (catalogues / "none.po", catalogues / "de.txt"):
        with pytest.raises(ConfigError):
            read_catalogues([path])


def test_messages_are_chosen_by_the_similarity_of_what_is_left_in_the_memory(catalogues: Path) -> None:
    inputs = choose(read_catalogues([catalogues]), [], 8, 20)
    counts = Counter((one.target, one.band) for one in inputs.texts)
    assert set(counts) <= {(target, band) for target in ("de", "fr") for band in (*BANDS, NONE, MARKED)}
    assert counts["de", NONE] == counts["de", MARKED] == counts["de", "85–97"] == 8
    memory = read_catalogues([catalogues])["de"][str(catalogues / "de.po")]
    left = [source.replace("<g1>", "<b>").replace("</g1>", "</b>") for source, _ in inputs.memories["de"]]
    for one in (one for one in inputs.texts if one.target == "de"):
        assert memory[one.source] == one.reference
        _, best, _ = process.extractOne(one.source, left, scorer=fuzz.ratio)
        assert one.similarity == (pytest.approx(best, abs=1e-4) if best >= 60 else 0)
        assert best < 97
        equal = [other for other in left if fuzz.ratio(normalised(one.source), normalised(other)) >= EQUAL]
        assert equal == []
        if one.band in BANDS:
            low, high = BANDS[one.band]
            assert low <= best < high
        if one.band != MARKED:
            assert not set("_%<\n") & set(one.source)
    assert len(inputs.growing["de"]) == 20
    assert (
        choose(read_catalogues([catalogues]), ["de"], 8, 20).texts
        == inputs.texts[: sum(count for (target, _), count in counts.items() if target == "de")]
    )
    with pytest.raises(ConfigError):
        choose(read_catalogues([catalogues]), ["ja"], 8, 20)


def test_a_pair_is_stored_with_marks_for_its_tags() -> None:
    assert stored("A <b>file</b> of %s", "<b>Datei</b> von %s") == ("A <g1>file</g1> of %s", "<g1>Datei</g1> von %s")
    assert stored("A <b>file</b>.", "Eine Datei.") == ("A <b>file</b>.", "Eine Datei.")


@dataclass
class Server:
    """Answers with the translation of the most similar entry of the memory that a call names, else with the text."""

    model: str = "m"
    memories: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def translate(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.asked.append(body)
        entries = self.memories[body["memory"]] if body["memory"] else {}
        best = process.extractOne(body["text"], entries.keys(), scorer=fuzz.ratio, score_cutoff=60)
        answer: dict[str, Any] = {"text": entries[best[0]] if best else body["text"], "warnings": []}
        if best:
            answer |= {"examples": {"count": 1, "best_similarity": best[1]}, "warnings": [{"code": "copied_example"}]}
        return web.json_response({"translations": [answer]})

    async def memory(self, request: web.Request) -> web.StreamResponse:
        self.memories[(await request.json())["name"]] = {}
        return web.json_response({}, status=201)

    async def forget(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=404 if self.memories.pop(request.match_info["name"], None) is None else 204)

    async def add(self, request: web.Request) -> web.StreamResponse:
        entries = (await request.json())["entries"]
        self.memories[request.match_info["name"]] |= {one["text"]: one["translation"] for one in entries}
        return web.json_response({})

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[str]:
        async def about(_: web.Request) -> web.StreamResponse:
            return web.json_response(stats(model=self.model))

        routes: dict[str, Handler] = {
            "/v1/translate": self.translate,
            "/v1/stats": about,
            "/v1/memories": self.memory,
            "/v1/memories/{name}": self.forget,
            "/v1/memories/{name}/entries": self.add,
        }
        async with serving(routes) as url:
            yield url


async def run(server: Server, catalogues: Path, out: Path, interrupted_after: int = 10**9) -> Measurement:
    inputs = choose(read_catalogues([catalogues]), ["de"], 8, 40)
    interrupted = asyncio.Event()

    class Watched(NoProgress):
        def update(self, done: int, failed: int, in_flight: int) -> None:
            if len(server.asked) >= interrupted_after:
                interrupted.set()

    async with server.running() as url, translation_api(ApiOptions(url, concurrency=2)) as api:
        results = begin(inputs, out, await api.settings(), ["catalogues"])
        await Adapt(api, results, out, Watched(), interrupted).run(inputs)
    return results


def cells(found: Table) -> dict[str, dict[str, str]]:
    names = [column.name for column in found.columns]
    return {row.cells[0].text: dict(zip(names, (cell.text for cell in row.cells), strict=True)) for row in found.rows}


async def test_answers_with_and_without_a_memory_are_scored_by_band(catalogues: Path, tmp_path: Path) -> None:
    server = Server()
    results = await run(server, catalogues, tmp_path / "out.json")
    bands, quarters = map(cells, tables(results))
    assert not results.partial
    for name in ("85–97", MARKED):
        assert bands[name]["texts"] == "8"
        assert float(bands[name]["with the memory"]) > float(bands[name]["without"]) + 20
        if name != MARKED:  # whose tags are marks in the memory
            assert float(bands[name]["with the memory"]) == pytest.approx(float(bands[name]["copied"]), abs=3)
        assert float(bands[name]["random examples"]) == pytest.approx(float(bands[name]["without"]), abs=0.1)
        assert (bands[name]["had examples"], bands[name]["copied_example"]) == ("100 %", "100.0 %")
        assert float(bands[name]["p"]) < 0.05
    assert (bands[NONE]["gain"], bands[NONE]["had examples"], bands[NONE]["p"]) == ("+0.0", "0 %", "1.000")
    assert [quarters[f"quarter {n}"]["texts"] for n in (1, 2, 3, 4)] == ["10"] * 4
    assert (quarters["quarter 1"]["gain"], quarters["quarter 1"]["had examples"]) == ("+0.0", "0 %")
    assert float(quarters["quarter 4"]["gain"]) > 10
    at_random = [body["examples"] for body in server.asked if "examples" in body]
    assert {len(examples) for examples in at_random} == {3}
    rows = results.data["texts"]
    assert len(at_random) == len(rows)
    write_adapt_page(tmp_path / "page.md", results)
    assert bands["85–97"]["gain"] in (tmp_path / "page.md").read_text(encoding="utf-8")


async def test_a_run_goes_on_where_it_was_interrupted(catalogues: Path, tmp_path: Path) -> None:
    await run(Server(), catalogues, tmp_path / "whole.json")
    whole = Measurement.read(tmp_path / "whole.json")
    first, out = Server(), tmp_path / "out.json"
    part = await run(first, catalogues, out, interrupted_after=50)
    assert part.partial and len(first.asked) < 60
    second = Server()
    await run(second, catalogues, out)
    again = Measurement.read(out)
    assert (again.data, again.partial) == (whole.data, False)
    third = Server()
    await run(third, catalogues, out)
    assert third.asked == [] and third.memories == {}
    with pytest.raises(ConfigError, match=r"out\.json"):
        await run(Server("another"), catalogues, out)


def test_scores_are_of_all_texts_together() -> None:
    assert chrf(["ein Hund"], ["ein Hund"]) == pytest.approx(100)
    assert chrf([], []) is None


@pytest.mark.parametrize("arguments", [["--adapt"], ["--adapt", "none.po"], ["--adapt", "x.mo", "--target", "deepl"]])
def test_faults_of_the_command_are_one_line(arguments: list[str]) -> None:
    result = CliRunner().invoke(command, arguments)
    assert isinstance(result.exception, ConfigError)
