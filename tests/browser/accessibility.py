"""Axe-core, run in a page: what it finds against WCAG 2.2 and good practice. What it does not look at is in audit.js."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from playwright.async_api import Page

_CONTRAST = "color-contrast"
_ASIDE = ("duplicate-id", "target-size")
"""Rules that axe has switched off: ids that nothing names, and 2.5.8."""


@cache
def _script() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


async def _run(page: Page, options: dict[str, Any]) -> list[str]:
    if await page.evaluate("typeof axe === 'undefined'"):
        await page.evaluate(_script())
    found = await page.evaluate("options => axe.run(options)", {"resultTypes": ["violations"], **options})
    return [f"{one['id']}: {node['html'][:150]}" for one in found["violations"] for node in one["nodes"]]


async def structural(page: Page) -> list[str]:
    """What axe finds by all rules but those of contrast, which need two thirds of its time."""
    switched_on = {rule: {"enabled": True} for rule in _ASIDE}
    return await _run(page, {"rules": {**switched_on, _CONTRAST: {"enabled": False}}})


async def pale(page: Page) -> list[str]:
    """Texts without contrast, in the light page and in the dark one."""
    found: list[str] = []
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # no colour is half-way to another
        found += await _run(page, {"runOnly": [_CONTRAST]})
    await page.emulate_media(color_scheme="null", reduced_motion="null")
    return found


async def violations(page: Page) -> list[str]:
    """What axe finds by any rule. No rule but contrast depends on colours."""
    return [*await structural(page), *await pale(page)]
