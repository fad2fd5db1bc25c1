"""The APIs of others in OpenAPI, as this server speaks them: a file each; LibreTranslate's is one that is served.

A server's own description (`/openapi.json`) has the native API alone. These drive schemathesis, and tests compare answers
with their schemas.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from dragoman.api.compat import libretranslate

FILES: Mapping[str, Path] = {
    "libretranslate": Path(libretranslate.__file__).with_suffix(".json"),
    **{file.stem: file for file in sorted(Path(__file__).parent.glob("*.json"))},
}


@cache
def description(api: str) -> dict[str, Any]:
    """An API's description."""
    return json.loads(FILES[api].read_text("utf-8"))


@cache
def validator(api: str, schema: str) -> Draft202012Validator:
    """What checks values against one of the schemas that an API's description names."""
    described = description(api)
    assert schema in described["components"]["schemas"]
    return Draft202012Validator({**described, "$ref": f"#/components/schemas/{schema}"})
