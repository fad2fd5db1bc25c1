"""Tags and placeholders of every notation come back as they are, in their order, in every API and format, or with a warning."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from dragoman.types import EngineSequence
from tests.serving import fake_service, served, source_of
from wholetext.markup.spans import pseudolocalized

TEXTS = {
    "Click <0>here</0> now.": ("<0>", "</0>"),
    "Click <0>here <1>or there</1></0>, then<2/> go.": ("<0>", "<1>", "</1>", "</0>", "<2/>"),
    "This is <bold>very</bold> nice.": ("<bold>", "</bold>"),
    "Good <b0></b0> morning.": ("<b0>", "</b0>"),
    "Only if a<0>b is it right.": ("<0>",),
    "Please open [X6X] and [[0]] and ⟦1⟧ now.": ("[X6X]", "[[0]]", "⟦1⟧"),
    "Please open __PH0__ now.": ("__PH0__",),
    "Please read $t(common.terms) now.": ("$t(common.terms)",),
    'You have $t(boys, {"count": {{boys}} }) and friends.': ('$t(boys, {"count": {{boys}} })',),
    "I never thought\\Nthat you would come.": ("\\N",),
    "Please read @:message.hello now.": ("@:message.hello",),
    "Hello %{name}, {{count}} and %1$s and %2$s and {0}.": ("%{name}", "{{count}}", "%1$s", "%2$s", "{0}"),
    "{n, plural, one {# letter came} other {# letters came}}": ("{n, plural, one {#", "} other {#", "}}"),
    "The river is long [1], and if a < b, I love you <3 so.": ("[1]", "a < b", "<3"),
}
PLAIN_SINGLES = re.compile(r"<x\d+/>|\{[^{}]*\}|\[\[?\w+\]?\]|⟦\w+⟧|\$t\([^)]*\)|@:[\w.]+|%\d\$s|a < b|<3|__\w+__|\\N")


def good(sequence: EngineSequence) -> str:
    return pseudolocalized(source_of(sequence))


def dropping(sequence: EngineSequence) -> str:
    return re.sub(r"</?[^<>]*>", "", PLAIN_SINGLES.sub("", good(sequence)))


def inventing(sequence: EngineSequence) -> str:
    first, _, rest = good(sequence).partition(" ")
    return f"<0>{first}</0> <b>{rest}</b> <7/><g9>"


def swapping(sequence: EngineSequence) -> str:
    """The first two tags in each other's place."""
    answer = good(sequence)
    tags = list(re.finditer(r"<[^<>]*>", answer))
    if len(tags) < 2:
        return answer
    one, other = tags[:2]
    return answer[: one.start()] + other[0] + answer[one.end() : other.start()] + one[0] + answer[other.end() :]


@pytest.fixture(scope="module", params=[good, dropping, inventing, swapping])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[httpx.AsyncClient]:
    answer: Callable[[EngineSequence], str] = request.param
    async with served(fake_service(answer)) as client:
        yield client


def native(text: str, form: str) -> tuple[str, dict[str, Any]]:
    return "/v1/translate", {"text": text, "source": "en", "target": "ko", "format": form}


def deepl(text: str, **handling: str) -> tuple[str, dict[str, Any]]:
    return "/v2/translate", {"text": [text], "source_lang": "EN", "target_lang": "KO", **handling}


def libre(text: str, form: str) -> tuple[str, dict[str, Any]]:
    return "/translate", {"q": text, "source": "en", "target": "ko", "format": form}


APIS: dict[str, Callable[[str], tuple[str, dict[str, Any]]]] = {
    **{form: lambda text, form=form: native(text, form) for form in ("text", "html", "xml", "markdown")},
    "deepl": deepl,
    "deepl html": lambda text: deepl(text, tag_handling="html"),
    "deepl xml": lambda text: deepl(text, tag_handling="xml"),
    "immersive": lambda text: ("/immersive/translate", {"text_list": [text], "source_lang": "en", "target_lang": "ko"}),
    "libretranslate": lambda text: libre(text, "text"),
    "libretranslate html": lambda text: libre(text, "html"),
}


def translation(answer: dict[str, Any]) -> tuple[str, list[Any]]:
    if "translatedText" in answer:
        return answer["translatedText"], []
    [one] = answer["translations"]
    return one["text"], one.get("warnings", [])


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("api", APIS)
async def test_what_a_text_holds_in_brackets_comes_back(client: httpx.AsyncClient, api: str, text: str) -> None:
    path, body = APIS[api](text)
    answer = await client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    translated, warnings = translation(answer.json())
    at = 0
    for token in TEXTS[text]:
        assert token in translated[at:] or warnings, translated
        at = max(translated.find(token, at), 0) + len(token)
    # No tag of the model's own.
    assert sorted(re.findall(r"</?\w+/?>", translated)) == sorted(re.findall(r"</?\w+/?>", text))
