"""Tasks of a translator can be done, and take what docs/page.md says."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from tests.browser.stage import Stage
from tests.browser.tables import PAGE
from tests.browser.walks import TASKS, Task, row, walk

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.title)
async def test_a_task_takes_what_the_page_says(chromium: Browser, documents_stage: Stage, task: Task) -> None:
    steps = await walk(chromium, documents_stage, task)
    assert row(task, steps) in PAGE.read_text(encoding="utf-8").splitlines()
