"""Training, from messages to an exported model, on a tiny budget."""

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import pytest
import torch
from click.testing import CliRunner
from tests.tools.phrasebook.conftest import SMALL
from tokenizers import Tokenizer
from tools.phrasebook.batches import Batch, Pair, Stream, batched, paired
from tools.phrasebook.corpus import Corpus
from tools.phrasebook.generator import Generator
from tools.phrasebook.model import export, load, parameters_total
from tools.phrasebook.render import DIRECTIONS
from tools.phrasebook.tokenizer import BOS_ID, EOS_ID, SEP_ID, language_id
from tools.phrasebook.train import Learner, Plan, run
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from tools.phrasebook import train

pytestmark = pytest.mark.acceptance


@pytest.fixture
def stream(data: Path, fitted: Tokenizer, tmp_path: Path) -> Stream:
    fitted.save(str(tmp_path / "tokenizer.json"))
    return Stream(data, tmp_path / "tokenizer.json", "train", seed=1, tokens=2048, messages=40)


@pytest.fixture
def plan(data: Path, tmp_path: Path) -> Plan:
    return Plan(
        tmp_path / "out",
        steps=3,
        tokens=1024,
        rate=3e-2,
        data=data,
        sizes=SMALL,
        tokenizer_messages=300,
        held_out_messages=8,
    )


def quiet(progress: float, text: str) -> None:
    """Reports nothing."""


def contents(batches: list[Batch]) -> list[list[list[int]]]:
    return [batch.ids.tolist() for batch in batches]


def weights(directory: Path) -> dict[str, torch.Tensor]:
    return load(directory, torch.float32).state_dict()


def test_a_pair_is_a_prompt_and_its_answer(corpus: Corpus, fitted: Tokenizer) -> None:
    message = Generator("train", 1, corpus).message(2)
    pairs = list(paired(message, fitted, list(DIRECTIONS)))
    assert len(pairs) == 12
    for (source, target), pair in zip(DIRECTIONS, pairs, strict=True):
        assert pair.ids[:3] == [BOS_ID, language_id(source), language_id(target)]
        assert pair.ids[pair.start - 1] == SEP_ID
        assert pair.ids[-1] == EOS_ID
        assert fitted.decode(pair.ids[3 : pair.start - 1]) == message.sources[source]
        assert fitted.decode(pair.ids[pair.start : -1]) == message.texts[target]


def test_every_pair_is_in_one_batch_and_only_its_answer_is_learnt() -> None:
    rng = Random(1)
    pairs = [Pair([rng.randrange(16, 99) for _ in range(n)], start=n // 2) for n in rng.choices(range(4, 60), k=100)]
    rows: list[tuple[list[int], list[int]]] = []
    for batch in batched(pairs, 512, rng):
        assert batch.ids.numel() <= 512
        width, flat = batch.ids.shape[1], batch.ids.flatten()
        for row, ids in enumerate(batch.ids.tolist()):
            learnt = [int(flat[at + 1]) for at in batch.learn.tolist() if at // width == row]
            rows.append(([token for token in ids if token], learnt))
    assert sorted(rows) == sorted((pair.ids, pair.ids[pair.start :]) for pair in pairs)


def test_a_stream_repeats_by_seed_goes_on_and_differs_by_worker(stream: Stream) -> None:
    count = len(stream.chunk())
    first = contents(list(islice(stream.batches(0), 2 * count)))
    assert first == contents(list(islice(stream.batches(0), 2 * count)))
    assert first[:count] != first[count:]
    assert first != contents(list(islice(stream.batches(1), 2 * count)))


def test_transformers_loads_the_export(model: LlamaForCausalLM, fitted: Tokenizer, tmp_path: Path) -> None:
    export(model, SMALL, fitted, tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    assert isinstance(loaded, LlamaForCausalLM)
    ids = torch.randint(0, 1024, (3, 40), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = model(ids).logits
        assert expected.std() > 0.05
        torch.testing.assert_close(loaded(ids).logits, expected, rtol=0.1, atol=0.1)  # exported in bfloat16
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    text = "Where is Zorvina's <b0>train station</b0>? 駅はどこ？"
    assert theirs.encode(text, add_special_tokens=False) == fitted.encode(text, add_special_tokens=False).ids
    assert (theirs.pad_token_id, theirs.bos_token_id, theirs.eos_token_id) == (0, 1, 2)


def test_the_loss_falls_and_the_model_is_exported(plan: Plan) -> None:
    learner = run(replace(plan, steps=50), quiet)
    record = json.loads((plan.out / "training.json").read_text(encoding="utf-8"))
    assert record["used"]["step"] == learner.used.step == 50
    untrained = float(torch.tensor(SMALL["vocab_size"]).log())
    assert record["losses"][-1]["held_out_loss"] < untrained - 1.0
    assert parameters_total(load(plan.out)) == record["parameters"]


def test_the_same_seed_trains_the_same_model_and_a_resumed_run_goes_on(plan: Plan, tmp_path: Path) -> None:
    run(plan, quiet)
    run(replace(plan, out=tmp_path / "again"), quiet)
    before, again = weights(plan.out), weights(tmp_path / "again")
    assert all(torch.equal(before[name], again[name]) for name in before)

    resumed = run(replace(plan, steps=5, resume=True), quiet)
    assert (resumed.used.step, resumed.used.sessions) == (5, 2)
    assert not torch.equal(weights(plan.out)["model.embed_tokens.weight"], before["model.embed_tokens.weight"])


def test_a_run_starts_from_an_exported_model(plan: Plan, tmp_path: Path) -> None:
    first = run(replace(plan, steps=30), quiet)
    went_on = replace(plan, out=tmp_path / "on", steps=1, rate=0.0, init_from=plan.out, typed_first=0.5)
    second = run(went_on, quiet)
    assert second.tokenizer.to_str() == first.tokenizer.to_str()
    before, after = weights(plan.out), weights(went_on.out)
    assert all(torch.equal(before[name], after[name]) for name in before)  # nothing learnt at a rate of 0
    record = json.loads((went_on.out / "training.json").read_text(encoding="utf-8"))
    assert (record["used"]["step"], record["init_from"]["used"]["step"]) == (1, 30)


def test_the_export_is_a_mean_of_the_weights_before_and_after(plan: Plan, tmp_path: Path) -> None:
    run(plan, quiet)
    first, name = weights(plan.out), "model.embed_tokens.weight"
    after = {
        share: weights(
            run(replace(plan, out=tmp_path / str(share), init_from=plan.out, keep_initial=share), quiet).plan.out
        )
        for share in (0.0, 0.5, 1.0)
    }
    assert not torch.allclose(after[0.0][name], first[name], atol=1e-4)
    torch.testing.assert_close(after[0.5][name], (first[name] + after[0.0][name]) / 2, rtol=0.01, atol=1e-4)
    torch.testing.assert_close(after[1.0][name], first[name], rtol=0.01, atol=1e-6)


def test_an_interrupted_run_saves_and_exports(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Learner.step

    def interrupted(self: Learner, batch: Batch, progress: float) -> torch.Tensor:
        if self.used.step == 2:
            raise KeyboardInterrupt
        return step(self, batch, progress)

    monkeypatch.setattr(Learner, "step", interrupted)
    assert run(plan, quiet).used.step == 2
    assert load(plan.out)
    monkeypatch.undo()
    assert run(replace(plan, steps=4, resume=True), quiet).used.step == 4


@pytest.mark.parametrize(
    ("flags", "named"), [(["--resume"], "checkpoint.pt"), (["--keep-initial", "0.3"], "--init-from")]
)
def test_what_has_nothing_to_start_from_is_one_line_and_exit_code_2(
    tmp_path: Path, flags: list[str], named: str
) -> None:
    result = CliRunner().invoke(train.main, ["--out", str(tmp_path / "out"), "--steps", "1", "--workers", "0", *flags])
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert named in line
    assert not (tmp_path / "out").exists()
