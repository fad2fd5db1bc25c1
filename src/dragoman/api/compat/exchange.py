"""What the APIs of others share: a request's fields, its account, and the way to a translation.

Their clients send a JSON object, a form or a query string, whichever their language's library makes easiest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from fastapi import Depends, Request

from dragoman import languages
from dragoman.api.answers import HeartbeatResponse, json_bytes
from dragoman.api.compat import RETRY_GRACE_S
from dragoman.api.forms import MAX_FORM_FIELDS, parse_form, receive_file
from dragoman.api.input import (
    Service,
    call_of,
    check_texts,
    key_first,
    key_in_headers,
    parse_json,
    worked,
)
from dragoman.errors import InvalidRequest, TooManyTexts, UnsupportedLanguage
from dragoman.service.alternatives import MAX_ALTERNATIVES
from dragoman.service.service import TranslationService
from dragoman.types import Account, ApiName, Detection, TextFormat, Translation, TranslationRequest

_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
MAX_CHARACTERS = 1_000
"""Of a parameter that is neither a text nor a key's."""
MAX_DETECTED_TEXTS = 1_000
"""Of one request: a third of a millisecond each, whatever their length. Google's API accepts 128, Microsoft's 100."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The parameters of one request by name, nulls left out. A name that a form or a query repeats has a list.

    `missing` is the API's sentence about a parameter that is not given. The methods raise `InvalidRequest`, which names the
    parameter, for what its value must not be.
    """

    values: Mapping[str, object]
    missing: str = "{} is missing"

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def text(self, name: str, *, most: int | None = MAX_CHARACTERS) -> str:
        """A string of at most so many characters; empty where it is not given."""
        value = self.values.get(name, "")
        if not isinstance(value, str):
            raise unsupported(name, "it is not a string")
        if most is not None and len(value) > most:
            raise unsupported(name, f"it has {len(value)} characters; at most {most}")
        return value

    def required(self, name: str, *, most: int | None = MAX_CHARACTERS) -> str:
        """A string that is not empty."""
        if not (value := self.text(name, most=most)):
            raise self.absent(name)
        return value

    def texts(self, name: str) -> str | list[str]:
        """A string, or a list of strings, which must be given."""
        value = self.values.get(name)
        if value is None:
            raise self.absent(name)
        if isinstance(value, list) and all(isinstance(item, str) for item in cast(list[object], value)):
            return cast(list[str], value)
        if not isinstance(value, str):
            raise unsupported(name, "it is neither a string nor a list of strings")
        return value

    def text_list(self, name: str) -> list[str]:
        """The strings of a list, or the one string; none where it is not given."""
        found = self.texts(name) if name in self.values else []
        return [found] if isinstance(found, str) else found

    def choice(self, name: str, *allowed: str, default: str = "") -> str:
        """One of the allowed values, in any case."""
        value = self.text(name).lower() or default
        if value != default and value not in allowed:
            raise unsupported(name, f"give one of {', '.join(allowed)}")
        return value

    def alternatives(self) -> int:
        """How many other translations of each text are wanted, as LibreTranslate reads it; at most `MAX_ALTERNATIVES`."""
        try:
            wanted = int(cast(str, self.values.get("alternatives", 0)))
        except (ValueError, TypeError, OverflowError):
            message = "Invalid request: alternatives parameter is not a number"
            raise InvalidRequest(message, param="alternatives") from None
        return min(max(wanted, 0), MAX_ALTERNATIVES)

    def flag(self, name: str) -> bool:
        """A boolean, also as a form writes it; false where it is not given."""
        value = str(self.values.get(name, "0")).lower()
        if value not in ("0", "1", "true", "false"):
            raise unsupported(name, "give true or false")
        return value in ("1", "true")

    def first(self, *names: str) -> str:
        """The first of these that is given; an empty string where none is."""
        return next((value for name in names if (value := self.text(name))), "")

    def absent(self, name: str) -> InvalidRequest:
        """The error for a parameter that is not given."""
        return InvalidRequest(self.missing.format(name), param=name)


def unsupported(name: str, reason: str) -> InvalidRequest:
    """A parameter has a value that the API, or this server, does not have."""
    return InvalidRequest(f"Value for '{name}' not supported: {reason}", param=name)


@dataclass(frozen=True, slots=True)
class Call:
    """One request of a foreign API with its fields, authenticated by `authenticated`."""

    http: Request
    service: TranslationService
    fields: Fields
    account: Account

    def tag(self, name: str) -> str:
        """The model's tag for the language code of a field. Raises `UnsupportedLanguage`."""
        return served_tag(self.service, self.fields.text(name), name)

    async def translate(
        self,
        api: ApiName,
        texts_name: str,
        target: str,
        source: str | None,
        format: TextFormat,
        render: Callable[[list[Translation]], Awaitable[object]],
        *,
        alternatives: int = 0,
    ) -> HeartbeatResponse:
        """Answer with the JSON of what `render` makes of the translations of a field's texts, which come in order.

        Raises what `check_texts` and `call_of` raise.
        """

        async def body(translations: list[Translation]) -> bytes:
            return json_bytes(await render(translations))

        texts = await self.texts(texts_name, alternatives)
        request = TranslationRequest(texts, target, source, format=format, alternatives=alternatives)
        request = call_of(self.http, self.account, api, request, consecutive=self.fields.flag("consecutive"))
        heartbeat = self.service.settings.server.heartbeat == "all"
        return HeartbeatResponse(self.service.calls.events(request), body, grace_s=RETRY_GRACE_S, heartbeat=heartbeat)

    async def texts(self, name: str, alternatives: int = 0) -> tuple[str, ...]:
        """The texts of a field, within the server's limits. Raises what `check_texts` raises."""
        given = self.fields.texts(name)
        return await check_texts(self.service, given, name, allow_empty=True, alternatives=alternatives)

    async def detect(self, texts: tuple[str, ...]) -> list[Detection]:
        """The texts' languages. Raises `TooManyTexts`."""
        return await detect(self.service, texts, "q")


async def detect(service: TranslationService, texts: Sequence[str], name: str) -> list[Detection]:
    """The languages of a field's texts; other calls run in between. Raises `TooManyTexts`."""
    if len(texts) > MAX_DETECTED_TEXTS:
        message = f"{len(texts)} texts whose language is to be detected; this server accepts {MAX_DETECTED_TEXTS}"
        raise TooManyTexts(message, param=name)
    pace, found = service.calls.pace(), list[Detection]()
    for text in texts:
        found.append(service.calls.detect(text))
        await pace.pause()
    return found


async def read_fields(
    http: Request, service: TranslationService, *key_names: str, missing: str = "{} is missing"
) -> Fields:
    """The fields of the body and of the query; where both have a name, the body's. Raises `InvalidRequest`, and what
    `key_first` raises for a key in the headers or, with one of these names, in the query."""
    values = _joined(http.query_params.multi_items()) if http.scope["query_string"] else {}
    async with key_first(http, service, Fields(values).first(*key_names)):
        if body := await http.body():
            kind = http.headers.get("content-type", "")
            if kind.lower().startswith(_FORMS):
                most = service.settings.server.max_texts + MAX_FORM_FIELDS
                values |= _joined(await worked(len(body), parse_form, body, kind, most))
            else:
                value = await worked(len(body), parse_json, body, http.app.state.max_values)
                if not isinstance(value, dict):
                    raise InvalidRequest("the body is not a JSON object")
                named = cast(dict[str, object], value)
                values |= {name: one for name, one in named.items() if one is not None}
    return Fields(values, missing)


async def authenticated(http: Request, service: TranslationService, fields: Fields, *key_names: str) -> Call:
    """The call of the account whose key one of these fields or a header has. Raises `Unauthenticated`, `InvalidKey`."""
    key = fields.first(*key_names) or key_in_headers(http)
    return Call(http, service, fields, await service.accounts.authenticate(key))


async def receive_upload(
    http: Request, service: TranslationService, path: Path, *key_names: str, missing: str = "{} is missing"
) -> tuple[Call, str]:
    """The call of a form whose file is written to `path`, and the file's name; a key may come after the file.

    Raises what `key_first`, `receive_file` and `authenticated` raise, and `InvalidRequest` for a form without a file.
    """
    values = _joined(http.query_params.multi_items())
    async with key_first(http, service, Fields(values).first(*key_names), http.app.state.keyless_uploads):
        form = await receive_file(http, path, service.documents.max_bytes)
        values |= _joined((name, value) for name, found in form.fields.items() for value in found)
        fields = Fields(values, missing)
        call = await authenticated(http, service, fields, *key_names)
    if form.file_name is None:
        raise fields.absent("file")
    return call, form.file_name


def caller(*key_names: str, missing: str = "{} is missing") -> Any:
    """A dependency of routes: the call with the fields of `read_fields`, authenticated."""

    async def call(http: Request, service: Service) -> Call:
        fields = await read_fields(http, service, *key_names, missing=missing)
        return await authenticated(http, service, fields, *key_names)

    return Depends(call)


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


def served_tag(service: TranslationService, code: str, name: str) -> str:
    """The model's tag for a language code, the parameter `name`. Raises `UnsupportedLanguage`."""
    try:
        return languages.served(code, tuple(service.model.profile.languages), name)
    except UnsupportedLanguage:  # in these APIs' words
        raise UnsupportedLanguage(f"{code[: languages.MAX_TAG_CHARACTERS]} is not supported", param=name) from None


def scripted_code(tag: str) -> str:
    """A model's tag as LibreTranslate and Microsoft spell it: Chinese by script."""
    return f"zh-{languages.script(tag)}" if languages.primary(tag) == "zh" else tag


def regional_code(tag: str) -> str:
    """A model's tag as Google and the plug-ins spell it: Chinese by region."""
    if languages.primary(tag) != "zh":
        return tag
    return "zh-CN" if languages.script(tag) == "Hans" else "zh-TW"
