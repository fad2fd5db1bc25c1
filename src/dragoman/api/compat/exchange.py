"""What the APIs of browsers' plug-ins and simple clients share: parameters in any place, and large answers in JSON.

Their clients send a JSON object, a form or a query string, whichever their language's library makes easiest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from fastapi import Request

from dragoman import languages
from dragoman.api.access import key_first
from dragoman.api.bodies import MAX_FORM_FIELDS, max_values, parse_form, parse_json, parsed
from dragoman.api.compat import RETRY_GRACE_S
from dragoman.api.input import deadline_of
from dragoman.api.middleware import current_id, while_connected
from dragoman.errors import InvalidRequest, UnsupportedLanguage
from dragoman.service.service import TranslationService
from dragoman.types import Account, ApiName, Detection, TextFormat, Translation, TranslationRequest

_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
MAX_CHARACTERS = 1_000
"""Of a parameter that is neither a text nor a key's."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The parameters of one request by name, nulls left out. A name that a form or a query repeats has a list."""

    values: Mapping[str, object]

    @classmethod
    async def read(cls, http: Request, service: TranslationService, *key_names: str) -> Fields:
        """From the body and the query; where both have a name, the body's. Raises `InvalidRequest`, and what `key_first`
        raises for a key in the headers or, with one of these names, in the query."""
        values = _joined(http.query_params.multi_items())
        async with key_first(http, service, cls(values).first(*key_names)):
            if body := await http.body():
                kind = http.headers.get("content-type", "")
                if kind.lower().startswith(_FORMS):
                    most = service.settings.server.max_texts + MAX_FORM_FIELDS
                    values |= _joined(await parsed(parse_form, body, kind, most))
                else:
                    values |= _named(await parsed(parse_json, body, max_values(service)))
        return cls(values)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def text(self, name: str, *, most: int | None = MAX_CHARACTERS) -> str:
        """A string of at most so many characters; empty where it is not given. Raises `InvalidRequest`."""
        value = self.values.get(name, "")
        if not isinstance(value, str):
            raise InvalidRequest(f"{name} is not a string", param=name)
        if most is not None and len(value) > most:
            raise InvalidRequest(f"{name} has {len(value)} characters; at most {most}", param=name)
        return value

    def texts(self, name: str) -> str | list[str]:
        """A string, or a list of strings; an empty string where it is not given. Raises `InvalidRequest`."""
        value = self.values.get(name, "")
        if isinstance(value, list) and all(isinstance(item, str) for item in cast(list[object], value)):
            return cast(list[str], value)
        if not isinstance(value, str):
            raise InvalidRequest(f"{name} is neither a string nor a list of strings", param=name)
        return value

    def first(self, *names: str) -> str:
        """The first of these that is given; an empty string where none is."""
        return next((value for name in names if (value := self.text(name))), "")


def _joined(items: Iterable[tuple[str, Any]]) -> dict[str, object]:
    values: dict[str, object] = {}
    repeated: dict[str, list[object]] = {}
    for name, value in items:
        if name in repeated:
            repeated[name].append(value)
        elif name in values:
            values[name] = repeated[name] = [values[name], value]
        else:
            values[name] = value
    return values


def _named(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InvalidRequest("the body is not a JSON object")
    return {name: one for name, one in cast(dict[str, object], value).items() if one is not None}


def served_tag(service: TranslationService, code: str, name: str) -> str:
    """The model's tag for a language code, the parameter `name`. Raises `UnsupportedLanguage`."""
    try:
        found = languages.match(code, tuple(service.model.profile.languages))
    except UnsupportedLanguage:
        found = None
    if found is None:
        raise UnsupportedLanguage(f"{code[: languages.MAX_TAG_CHARACTERS]} is not supported", param=name)
    return found


def regional_code(tag: str) -> str:
    """A model's tag as Google and the plug-ins spell it: Chinese by region."""
    if languages.primary(tag) != "zh":
        return tag
    return "zh-CN" if languages.script(tag) == "Hans" else "zh-TW"


async def translated(
    http: Request,
    service: TranslationService,
    account: Account,
    api: ApiName,
    texts: tuple[str, ...],
    *,
    target: str,
    source: str | None,
    format: TextFormat,
) -> list[Translation]:
    """The texts' translations, in order. Raises `ClientGone`, and the service's errors."""
    request = TranslationRequest(
        texts,
        target,
        source,
        format=format,
        request_id=current_id(),
        priority=account.priority,
        account=account,
        api=api,
        deadline_s=deadline_of(http),
    )
    return await while_connected(http, service.translate(request), grace_s=RETRY_GRACE_S)


async def detected(service: TranslationService, texts: tuple[str, ...]) -> list[Detection]:
    """The texts' languages; other calls run in between."""
    pace, found = service.pace(), list[Detection]()
    for text in texts:
        found.append(service.detect(text))
        await pace.pause()
    return found


async def json_array(service: TranslationService, items: Iterable[object]) -> str:
    """A JSON array, serialised item by item; other calls run in between."""
    pace, parts = service.pace(), list[str]()
    for item in items:
        parts.append(json.dumps(item, ensure_ascii=False))
        await pace.pause()
    return f"[{','.join(parts)}]"
