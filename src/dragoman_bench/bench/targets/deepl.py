"""DeepL's API: `POST /v2/translate` as its Python client sends it (JSON). It tells no token counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dragoman_bench.bench.targets.contract import Reply, Whole, text_at
from dragoman_bench.bench.workload import Item


@dataclass(frozen=True)
class DeepL(Whole):
    api_key: str | None = None
    path: str = "/v2/translate"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"DeepL-Auth-Key {self.api_key}"} if self.api_key else {}

    def body(self, item: Item) -> dict[str, Any]:
        body: dict[str, Any] = {"text": [item.text], "target_lang": item.target.upper()}
        return body | ({"source_lang": item.source.upper()} if item.source else {})

    def whole(self, payload: Any) -> Reply:
        return Reply(len(text_at(payload, "translations", 0, "text")))
