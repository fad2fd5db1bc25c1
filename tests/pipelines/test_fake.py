"""What the fake guarantees beyond the contract."""

from __future__ import annotations

from dragoman.pipelines.fake import FakePipeline
from tests.pipelines.building import running
from tests.pipelines.scripted import sequence


async def test_a_slot_is_free_when_the_answer_is_returned() -> None:
    async with running(FakePipeline(lambda _: "one two", slots=1)) as pipeline:
        await pipeline.generate(sequence(1))
        assert pipeline.stats().running == 0
