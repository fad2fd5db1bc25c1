"""What every API reads from a request: who calls, the body and its JSON within bounds, the texts and options of a call.

A key comes in a header (`Authorization: Bearer K`, `Authorization: DeepL-Auth-Key K`, or one of `_KEY_HEADERS`); the clients of
some APIs send it in the body or the query.

A body of a few megabytes can hold millions of values, which would take seconds to parse and to validate. What a body holds is
therefore counted before it is parsed; large bodies are parsed in a thread, one at a time. Forms are parsed in `forms.py`.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from secrets import token_hex
from time import perf_counter
from typing import Annotated, Any, TypeVar, cast

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel

from dragoman import languages
from dragoman.api.schemas import UNKNOWN_FIELD
from dragoman.errors import (
    BodyTooLarge,
    EmptyText,
    Forbidden,
    InvalidJson,
    InvalidRequest,
    QueueFull,
    TooManyTexts,
    TooManyValues,
    UnsupportedLanguage,
    UntranslatableText,
)
from dragoman.service.service import TranslationService
from dragoman.settings import ServerSettings
from dragoman.telemetry import requests
from dragoman.types import Account, ApiName, TranslationRequest

T = TypeVar("T")

# ---- who calls

_SCHEMES = frozenset({"bearer", "deepl-auth-key"})
_KEY_HEADERS = ("x-api-key", "x-goog-api-key", "ocp-apim-subscription-key")
MAX_KEYLESS_BODIES = 8
"""Large bodies that are read concurrently for clients whose key, if they have one, is in the body."""
MAX_KEYLESS_UPLOADS = 4
"""Of these, those that go to disk."""
SMALL_BYTES = 65_536
"""A body up to here is read at once, whoever sends it, and parsed where it is: in less than the time that a thread takes."""
_KEYLESS_WAIT_S = 5.0


async def service_of(request: Request) -> TranslationService:
    """The app's service. Async, though it awaits nothing: FastAPI runs a plain function in a thread."""
    return cast(TranslationService, request.app.state.service)


Service = Annotated[TranslationService, Depends(service_of)]


def key_in_headers(request: Request) -> str | None:
    """The key that a header carries, if one does."""
    headers = request.headers
    scheme, separator, key = headers.get("authorization", "").strip().partition(" ")
    if not separator and scheme.lower() not in _SCHEMES:  # without a scheme, as MTranServer's clients send it
        key, scheme = scheme, "bearer"
    if scheme.lower() in _SCHEMES and key.strip():
        return key.strip()
    return next((key for name in _KEY_HEADERS if (key := headers.get(name))), None)


@asynccontextmanager
async def key_first(
    request: Request, service: TranslationService, key: str = "", turns: asyncio.Semaphore | None = None
) -> AsyncGenerator[None]:
    """Around the reading of a body that may have the key: `key`, from the query, or one in a header is looked at before.

    Without either, large bodies are read a few at a time, as many as there are `turns`. Raises `Unauthenticated`,
    `InvalidKey`, and `QueueFull` where others keep all turns for too long.
    """
    if known_key := key or key_in_headers(request):
        await service.accounts.authenticate(known_key)
        yield
        return
    length = request.headers.get("content-length", "0")
    is_small = "transfer-encoding" not in request.headers and len(length) < 9 and int(length) <= SMALL_BYTES
    if is_small or not service.accounts.required:
        yield
        return
    turns = turns or cast(asyncio.Semaphore, request.app.state.keyless_bodies)
    try:
        async with asyncio.timeout(_KEYLESS_WAIT_S):
            await turns.acquire()
    except TimeoutError:
        message = "too many large bodies without a key in a header arrive together: send the key in X-API-Key"
        raise QueueFull(message, retry_after_s=_KEYLESS_WAIT_S) from None
    try:
        yield
    finally:
        turns.release()


async def _caller(request: Request) -> Account:
    """The account, which `KeyFirstRoute` has set where it read a body."""
    known: Account | None = getattr(request.state, "account", None)
    service: TranslationService = request.app.state.service
    return known or await service.accounts.authenticate(key_in_headers(request))


Caller = Annotated[Account, Depends(_caller)]
"""The account of a call whose key is in a header."""
NEEDS_KEY = Depends(_caller)
"""Requires, on each route of a router, a key in a header where the server needs keys."""


async def _operator(account: Caller) -> None:
    if account.role != "operator":
        raise Forbidden("this needs an operator's key: dragoman keys create NAME --role operator")


NEEDS_OPERATOR = Depends(_operator)
"""Requires an operator's key on each route of a router."""


# ---- bodies

MAX_VALUES = 100_000
"""Items and entries in the JSON of a body, besides those of texts: as many as a stored glossary may have entries. With those of
texts they are `app.state.max_values`."""
_MAX_DIGITS = 100
_SLICE_BYTES = 500_000
_BEGINNING_BYTES = 50_000
_LONGEST_TOKEN = 10  # besides strings: what a beginning may end within
_PARSER = ThreadPoolExecutor(1, "bodies")


async def worked(size: int, work: Callable[..., T], *arguments: object) -> T:
    """What `work`, in proportion to a body of `size` bytes, returns; it runs where it does not hold up the event loop.
    Raises what it raises."""
    if size <= SMALL_BYTES:
        return work(*arguments)
    return await asyncio.get_running_loop().run_in_executor(_PARSER, work, *arguments)


def parse_json(body: bytes, most: int) -> Any:
    """A body's value. It has no lone surrogates, and no number that is not finite.

    Raises `InvalidJson`, `UntranslatableText` for a lone surrogate, and `TooManyValues` for over `most` items of lists and
    entries of objects.
    """
    if len(body) > most:
        _check_number_of_values(body, most)
    try:
        value = _DECODER.decode(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidJson(f"the body is not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise InvalidJson("the body is not JSON: nested too deeply") from None
    except ValueError as error:
        raise InvalidJson(f"the body is not JSON: {error}") from None
    if b"\\ud" in body or b"\\uD" in body:
        _check_unicode(value)
    return value


def _values(structure: bytes) -> int:
    """At most as many items and entries are in this."""
    return structure.count(b",") + structure.count(b"[") + structure.count(b"{")


def _check_number_of_values(body: bytes, most: int) -> None:
    """Raises `TooManyValues`, and `InvalidJson` for a body whose beginning shows that it has no values, but is a text."""
    if _values(body) <= most:
        return
    _check_beginning(body)
    for part in (body[:_SLICE_BYTES], body):  # the beginning of a body shows far too many
        without_escapes = part.replace(b"\\\\", b"").replace(b'\\"', b"")
        has_space = without_escapes.count(b'"') <= 4 * (most + 1)  # two strings for each entry
        if not has_space or _values(b"".join(without_escapes.split(b'"')[::2])) > most:
            raise TooManyValues(f"the body has more than {most} values in its lists and objects")


def _check_beginning(body: bytes) -> None:
    """Raises `InvalidJson` where a body begins as no JSON does, whatever follows."""
    beginning = body[:_BEGINNING_BYTES].decode("utf-8-sig", "ignore").rstrip()
    try:
        _DECODER.decode(beginning)
    except RecursionError:
        return
    except ValueError as error:
        is_cut = isinstance(error, json.JSONDecodeError) and (
            error.msg.startswith("Unterminated string") or error.pos >= len(beginning) - _LONGEST_TOKEN
        )
        if not is_cut:
            raise InvalidJson(f"the body is not JSON: {error}") from None


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number has over {_MAX_DIGITS} digits")
    return int(digits)


def _float(digits: str) -> float:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number has over {_MAX_DIGITS} digits")
    if not math.isfinite(number := float(digits)):
        raise ValueError(f"the number {digits} is too large")
    return number


def _constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_float, parse_constant=_constant)


def _check_unicode(value: object) -> None:
    """Raises `UntranslatableText` for half of a surrogate pair, which JSON can express and which is not a character."""
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        place, one = waiting.pop()
        if isinstance(one, dict):
            entries = cast(dict[str, object], one)
            waiting += ((place or name, part) for name, item in entries.items() for part in (name, item))
        elif isinstance(one, list):
            waiting += ((place, item) for item in cast(list[object], one))
        elif isinstance(one, str):
            try:
                one.encode()
            except UnicodeEncodeError as error:
                message = f"{place or 'the body'} is not Unicode text: a lone surrogate at character {error.start}"
                raise UntranslatableText(message.encode(errors="replace").decode(), param=place or None) from None


class _BoundedRequest(Request):
    """A request whose JSON is parsed within bounds. `known_fields`: those that an object may have; None: any."""

    known_fields: frozenset[str] | None = None

    async def json(self) -> Any:
        """Raises what `parse_json` raises, and `RequestValidationError` for the first field that is not known."""
        body = await self.body()
        value: Any = await worked(len(body), parse_json, body, self.app.state.max_values)
        if isinstance(value, dict) and self.known_fields is not None:
            unknown = next((name for name in cast(dict[str, object], value) if name not in self.known_fields), None)
            if unknown is not None:
                raise RequestValidationError(
                    [{"type": UNKNOWN_FIELD, "loc": ("body", unknown), "msg": "unknown field"}]
                )
        return cast(Any, value)


class KeyFirstRoute(APIRoute):
    """A route that reads its body after the key in its headers; FastAPI itself reads it before all dependencies."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler after the key was looked at."""
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle
        model = cast(type[BaseModel], self.body_field.field_info.annotation)
        known_fields = frozenset(model.model_fields) if model.model_config.get("extra") == "forbid" else None

        async def after_key(request: Request) -> Response:
            service: TranslationService = request.app.state.service
            request.state.account = await service.accounts.authenticate(key_in_headers(request))
            bounded = _BoundedRequest(request.scope, request.receive)
            bounded.known_fields = known_fields
            return await handle(bounded)

        return after_key


# ---- the server's address

_HOST = re.compile(r"[\w.-]{1,253}(?::\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](?::\d{1,5})?", re.ASCII)


def base_url(http: Request) -> str:
    """This server's address as the client knows it, also behind a proxy whose headers are trusted."""
    server: ServerSettings = http.app.state.service.settings.server
    host = http.headers.get("x-forwarded-host", "").partition(",")[0].strip()
    if not (host and server.trusted_proxies and _HOST.fullmatch(host)):
        host = http.base_url.netloc
    return f"{http.base_url.scheme}://{host}/{server.root_path.strip('/')}".rstrip("/")


# ---- calls

DEADLINE_HEADER = "X-Request-Timeout"
"""Seconds, with decimals, that the client waits for the answer."""
LONGEST_DEADLINE_S = 86_400.0


def call_of(
    http: Request,
    account: Account,
    api: ApiName,
    request: TranslationRequest,
    deadline_s: float | None = None,
    *,
    consecutive: bool = False,
) -> TranslationRequest:
    """The request of a call: with its id, account and deadline. `deadline_s`: of the call's body. `consecutive`: each text
    follows the one before it.

    The calls of an account of priority `bulk` are bulk, whatever they say.

    Raises `InvalidRequest` and `UnsupportedLanguage` for languages and options that are not within the limits.
    """
    check_direction(request.target, request.source)
    request.options.check()
    if deadline_s is not None or DEADLINE_HEADER in http.headers:
        deadline_s = deadline_of(http, deadline_s)
    trace = requests.current.get()
    request_id = trace.request_id if trace is not None else token_hex(8)
    priority = "bulk" if account.priority == "bulk" else request.priority
    return replace(
        request,
        follows=(False, *(True,) * (len(request.texts) - 1)) if consecutive else (),
        request_id=request_id,
        account=account,
        api=api,
        deadline_s=deadline_s,
        priority=priority,
    )


def check_direction(target: str, source: str | None) -> None:
    """Raise `UnsupportedLanguage` for a name of a language that is too long to be looked for."""
    for name, tag in (("target", target), ("source", source)):
        if tag is not None and len(tag) > languages.MAX_TAG_CHARACTERS:
            raise UnsupportedLanguage(f"{name} has over {languages.MAX_TAG_CHARACTERS} characters", param=name)


def deadline_of(http: Request, given_s: float | None = None) -> float | None:
    """The seconds that are left for the answer: of those that a body gives, else a header. Raises `InvalidRequest`."""
    trace = requests.current.get()
    if given_s is None and (header := http.headers.get(DEADLINE_HEADER)) is not None:
        given_s = _seconds(header)
    if given_s is None or trace is None:
        return given_s
    return max(given_s - (perf_counter() - trace.began_s), 0.0)  # the request has run since it arrived


def parse_terms(value: str) -> dict[str, str]:
    """The terms that a field of a form has as JSON, within the bounds of a body. Raises `InvalidRequest`."""
    try:
        entries: Any = parse_json(value.encode(errors="surrogatepass"), MAX_VALUES)
    except InvalidJson:
        entries = None
    except UntranslatableText as error:
        raise UntranslatableText(f"glossary: {error.message}", param="glossary") from None
    if not isinstance(entries, dict):
        raise InvalidRequest("glossary is not a JSON object of terms", param="glossary")
    terms = cast(dict[str, object], entries)
    if not all(isinstance(one, str) for one in terms.values()):
        raise InvalidRequest("glossary: translations are strings", param="glossary")
    return cast(dict[str, str], terms)


async def memories_of(service: TranslationService, account: Account, chosen: bool | str) -> tuple[str, ...] | None:
    """The ids of the memories that a call uses: the one that it names, none, or None for all. Raises `UnknownMemory`."""
    if isinstance(chosen, bool):
        return None if chosen else ()
    return (await service.memories.id_of(account.id, chosen),)


def _seconds(header: str) -> float:
    """The value of `DEADLINE_HEADER`. Raises `InvalidRequest` for what is not a number of seconds within the limits."""
    try:
        given_s = float(header)
    except ValueError:
        given_s = 0.0
    if not 0 < given_s <= LONGEST_DEADLINE_S:  # nor is it "nan"
        raise InvalidRequest(
            f"{DEADLINE_HEADER} is {header[:40]!r}; give seconds, above 0 and up to {LONGEST_DEADLINE_S:g}",
            param=DEADLINE_HEADER,
        )
    return given_s


async def check_texts(
    service: TranslationService,
    given: str | list[str],
    name: str = "text",
    *,
    allow_empty: bool = False,
    alternatives: int = 0,
) -> tuple[str, ...]:
    """The texts of a call, whose field is called `name`, each with so many `alternatives`, which count as texts.

    Raises `EmptyText` (unless empty ones are allowed), `TooManyTexts` and `BodyTooLarge`.
    """
    limits, pace = service.settings.server, service.calls.pace()
    texts = (given,) if isinstance(given, str) else tuple(given)
    if not texts:
        raise EmptyText(f"{name} is an empty list", param=name)
    if len(texts) * (1 + alternatives) > limits.max_texts:
        and_alternatives = f" with {alternatives} alternatives each" if alternatives else ""
        raise TooManyTexts(
            f"{len(texts)} texts{and_alternatives} in one call; this server accepts {limits.max_texts}", param=name
        )
    for index, text in enumerate(texts):
        place = name if isinstance(given, str) else f"{name}.{index}"
        if not text and not allow_empty:
            raise EmptyText(f"{place} is empty", param=place)
        if len(text) > limits.max_text_characters:
            raise BodyTooLarge(
                f"{place} has {len(text)} characters; this server accepts {limits.max_text_characters}", param=place
            )
        await pace.pause()
    return texts
