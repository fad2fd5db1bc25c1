"""Requests of commands to a running server, and its refusals as errors of the command line.

A server that needs keys gets the one in the variable `DRAGOMAN_API_KEY`: a flag could be read in the list of processes.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from typing import Any

from dragoman.errors import ConfigError, DragomanError, Unavailable

TIMEOUT_S = 600.0
KEY_VARIABLE = "DRAGOMAN_API_KEY"


def request(
    url: str,
    path: str,
    *,
    method: str = "GET",
    body: bytes | None = None,
    content_type: str = "application/json",
    accept: str = "application/json",
) -> bytes:
    """The body of the answer. Raises `ConfigError` for a refusal and for no server, `Unavailable` for a status from 500."""
    headers = {"Accept": accept} | ({"Content-Type": content_type} if body is not None else {})
    if key := os.environ.get(KEY_VARIABLE):
        headers["Authorization"] = f"Bearer {key}"
    try:
        sent = urllib.request.Request(f"{url.rstrip('/')}{path}", body, headers, method=method)
        with urllib.request.urlopen(sent, timeout=TIMEOUT_S) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        raise _refusal(error, url) from None
    except (OSError, ValueError) as error:
        raise no_server(url, getattr(error, "reason", error)) from None


def request_json(url: str, path: str, *, method: str = "GET", body: object = None) -> Any:
    """The answer's JSON; `body` is sent as JSON. Raises as `request` does."""
    answer = request(url, path, method=method, body=None if body is None else json.dumps(body).encode())
    try:
        return json.loads(answer)
    except ValueError as error:
        raise no_server(url, error) from None


def no_server(url: str, reason: object) -> ConfigError:
    """The error for an answer that is not one of dragoman's."""
    return ConfigError(f"{url} did not answer as a dragoman server: {reason}")


def _refusal(error: urllib.error.HTTPError, url: str) -> DragomanError:
    try:
        message = json.load(error)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return ConfigError(f"{url} answered {error.code} and is no dragoman server")
    return Unavailable(message) if error.code >= 500 else ConfigError(message)
