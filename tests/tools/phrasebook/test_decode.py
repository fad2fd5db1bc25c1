"""Greedy decoding in batches."""

import torch
from tokenizers import Tokenizer
from tools.phrasebook.decode import Job, translate
from tools.phrasebook.model import Phrasebook
from tools.phrasebook.tokenizer import EOS_ID, prompt_ids

JOBS = [
    Job("en", "ja", "Where is the train station?"),
    Job("ko", "zh", "밥을 주세요."),
    Job("zh", "en", "非常感谢。"),
    Job("ja", "ko", "どうもありがとうございます。値段は25ドルです。りんごをください。"),
]


def alone(model: Phrasebook, tokenizer: Tokenizer, job: Job) -> str:
    """The same answer without batch, padding or cache."""
    prompt = prompt_ids(tokenizer, job.source, job.target, job.text)
    ids = list(prompt)
    with torch.inference_mode():
        while len(ids) < 2 * len(prompt) + 32:
            ids.append(int(model.logits(model(torch.tensor([ids]))[0, -1]).argmax()))
            if ids[-1] == EOS_ID:
                return tokenizer.decode(ids[len(prompt) : -1], skip_special_tokens=False)
    return tokenizer.decode(ids[len(prompt) :], skip_special_tokens=False)


def test_a_batch_answers_each_job_as_if_it_were_alone(model: Phrasebook, fitted: Tokenizer) -> None:
    answers = translate(model, fitted, JOBS)
    assert len(set(answers)) > 1
    for job, answer in zip(JOBS, answers, strict=True):
        expected = alone(model, fitted, job)
        # An untrained model rarely ends: answers are compared as far as the shorter limit lets them go.
        shared = min(len(expected), len(answer)) - 2
        assert shared > 0
        assert answer[:shared] == expected[:shared]


def test_small_batches_give_the_same_answers_in_the_same_order(model: Phrasebook, fitted: Tokenizer) -> None:
    together, apart = translate(model, fitted, JOBS), translate(model, fitted, JOBS, batch=1)
    shared = [min(len(a), len(b)) - 2 for a, b in zip(together, apart, strict=True)]
    assert [a[:n] for a, n in zip(together, shared, strict=True)] == [b[:n] for b, n in zip(apart, shared, strict=True)]
