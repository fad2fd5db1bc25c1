"""LibreTranslate's API, which LTEngine and dragoman speak too: `POST /translate`. It tells no token counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dragoman_bench.bench.targets.contract import Reply, Whole, text_at
from dragoman_bench.bench.workload import Item


@dataclass(frozen=True)
class LibreTranslate(Whole):
    api_key: str | None = None
    path: str = "/translate"

    @property
    def headers(self) -> dict[str, str]:
        return {}

    def body(self, item: Item) -> dict[str, Any]:
        body: dict[str, Any] = {
            "q": item.text,
            "source": item.source or "auto",
            "target": item.target,
            "format": "text",
        }
        return body | ({"api_key": self.api_key} if self.api_key else {})

    def whole(self, payload: Any) -> Reply:
        return Reply(len(text_at(payload, "translatedText")))
