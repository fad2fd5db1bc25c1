"""A web page of another origin in a headless Chromium, whose scripts call the server (CORS)."""

from __future__ import annotations

import json
import os
import shutil
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from cells import JA, KEY, TEXT, URL, cell, equal, main, refused
from playwright.sync_api import Page, sync_playwright

BEARER = {"Authorization": f"Bearer {KEY}"}
FETCH = """async ([url, method, headers, body]) => {
    const type = body === null ? {} : {"Content-Type": "application/json"};
    const text = body === null ? undefined : JSON.stringify(body);
    const answer = await fetch(url, {method, headers: {...headers, ...type}, body: text});
    return {status: answer.status, id: answer.headers.get("x-request-id"), text: await answer.text()};
}"""

SEND_FILE = """([url, key, text]) => new Promise((done) => {
    const form = new FormData();
    form.append("file", new File([text], "Guide.TXT"));
    form.append("source", "en");
    form.append("target", "ja");
    form.append("api_key", key);
    const request = new XMLHttpRequest();
    request.open("POST", url + "/translate_file", true);
    request.onload = async () => {
        const {translatedFileUrl, error} = JSON.parse(request.response);
        const answer = error ? null : await fetch(translatedFileUrl);
        done({status: request.status, text: answer ? await answer.text() : error});
    };
    request.send(form);
})"""


class _EmptyPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>another origin</title>")

    def log_message(self, *_: Any) -> None: ...


origin = HTTPServer(("127.0.0.1", 0), _EmptyPage)
threading.Thread(target=origin.serve_forever, daemon=True).start()
playwright = sync_playwright().start()
names = ("chromium", "chromium-browser", "google-chrome")
path = os.environ.get("DRAGOMAN_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
browser = playwright.chromium.launch(executable_path=path)
page: Page = browser.new_page()
page.goto(f"http://127.0.0.1:{origin.server_port}/")


def fetched(path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
    method = "GET" if body is None else "POST"
    return page.evaluate(FETCH, [URL + path, method, BEARER if headers is None else headers, body])


def parsed(answer: dict[str, Any]) -> Any:
    equal(answer["status"], 200)
    return json.loads(answer["text"])


@cell("text", "the native API, with X-Request-Timeout; X-Request-ID can be read")
def native() -> None:
    body = {"text": TEXT, "source": "en", "target": "ja"}
    found = fetched("/v1/translate", body, {**BEARER, "X-Request-Timeout": "20"})
    equal(parsed(found)["translations"][0]["text"], JA)
    assert found["id"], "no id"


@cell("text", "LibreTranslate's API, the key in the body")
def libretranslate() -> None:
    body = {"q": TEXT, "source": "en", "target": "ja", "api_key": KEY}
    equal(parsed(fetched("/translate", body, {}))["translatedText"], JA)


@cell("text", "DeepL's API")
def deepl() -> None:
    headers = {"Authorization": f"DeepL-Auth-Key {KEY}"}
    found = fetched("/v2/translate", {"text": [TEXT], "source_lang": "EN", "target_lang": "JA"}, headers)
    equal(parsed(found)["translations"][0]["text"], JA)


@cell("text", "OpenAI's API, with X-Target-Language")
def openai() -> None:
    body = {"model": "any", "messages": [{"role": "user", "content": TEXT}]}
    found = fetched("/v1/chat/completions", body, {**BEARER, "X-Target-Language": "ja"})
    equal(parsed(found)["choices"][0]["message"]["content"], JA)


@cell("text", "Google's API and the plug-ins'")
def others() -> None:
    found = fetched("/language/translate/v2", {"q": TEXT, "target": "ja", "format": "text"}, {"X-Goog-Api-Key": KEY})
    equal(parsed(found)["data"]["translations"][0]["translatedText"], JA)
    found = fetched("/immersive/translate", {"text_list": [TEXT], "source_lang": "en", "target_lang": "ja"})
    equal(parsed(found)["translations"][0]["text"], JA)


@cell("documents", "a file as LibreTranslate's page sends it: XMLHttpRequest, the key after the file")
def file() -> None:
    found = page.evaluate(SEND_FILE, [URL, KEY, TEXT])
    equal((found["status"], found["text"]), (200, JA))


@cell("streaming", "the native API's events")
def streaming() -> None:
    found = fetched("/v1/translate", {"text": TEXT, "source": "en", "target": "ja", "stream": True})
    equal((found["status"], found["text"].rstrip().endswith("data: [DONE]")), (200, True))
    assert JA in found["text"], found["text"]


@cell("languages", "the languages of each API")
def languages() -> None:
    for path in ("/v1/languages", "/languages", "/v2/languages?type=target", "/language/translate/v2/languages"):
        assert "ja" in fetched(path)["text"].lower(), path


@cell("errors", "operators' endpoints and stored glossaries cannot be read")
def closed() -> None:
    for path in ("/v1/stats", "/metrics", "/v1/glossaries", "/v2/glossaries"):
        try:
            found = fetched(path)
        except Exception as error:  # noqa: BLE001 - playwright's own class of it
            assert "Failed to fetch" in str(error), error
        else:
            raise AssertionError(f"{path}: {found['status']}")


@refused
def translate(key: str) -> str:
    """`fetch` raises nothing: a page reads the status."""
    found = fetched("/translate", {"q": TEXT, "source": "en", "target": "ja", "api_key": key}, {})
    return f"status {found['status']}"


main()
browser.close()
playwright.stop()
