"""A dragoman server as the commands that translate call it, over HTTP, with the standard library alone.

The server's key is in the variable `DRAGOMAN_API_KEY`, or in the file that `DRAGOMAN_API_KEY_FILE` names, because other users
could read a flag in the list of processes.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from typing import Any

from dragoman.errors import ConfigError, DragomanError, QueueFull, Unavailable
from dragoman.secretfile import read_secret

TIMEOUT_S = 600.0
KEY_VARIABLE = "DRAGOMAN_API_KEY"
KEY_SOURCE = f"the variable {KEY_VARIABLE}, or the file that {KEY_VARIABLE}_FILE names"


class Unreachable(ConfigError):
    """Nothing answers at the server's address."""


def base_url(url: str) -> str:
    """Return a server's address without a slash at its end; `host:port` is HTTP's. Raises `ConfigError` for other schemes."""
    scheme, mark, _ = url.partition("://")
    if not mark:
        return base_url(f"http://{url}")
    if scheme.lower() not in ("http", "https"):
        raise ConfigError(f"{url}: an address begins with http:// or https://")
    return url.rstrip("/")


class Server:
    """A server at `url`. Methods block."""

    def __init__(self, url: str) -> None:
        """Raises `ConfigError` for an address that is none of HTTP's, and for a file of the key that cannot be read."""
        self.url = base_url(url)
        key = read_secret(os.environ, KEY_VARIABLE)
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    def call(self, method: str, path: str, body: bytes | None = None, content_type: str = "application/json") -> bytes:
        """Return the body of an answer. Raises `ConfigError` if the server refuses the request or is none of dragoman's,
        `Unreachable` if nothing answers, `QueueFull` for 429, and `Unavailable` for a status from 500."""
        headers = self._headers | ({} if body is None else {"Content-Type": content_type})
        request = urllib.request.Request(f"{self.url}{path}", body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                content: bytes = answer.read()
                return content
        except urllib.error.HTTPError as error:
            raise self._refusal(error) from None
        except OSError as error:
            raise Unreachable(f"{self.url} does not answer: {getattr(error, 'reason', error)}") from None
        except ValueError as error:  # what is no URL
            raise ConfigError(f"{self.url}: {error}") from None

    def json(self, method: str, path: str, body: object = None) -> Any:
        """Send and receive JSON. Raises what `call` raises."""
        answer = self.call(method, path, None if body is None else json.dumps(body).encode())
        try:
            return json.loads(answer)
        except ValueError:
            raise ConfigError(f"{self.url} did not answer as a dragoman server: no JSON") from None

    def _refusal(self, error: urllib.error.HTTPError) -> DragomanError:
        try:
            message = json.load(error)["error"]["message"]
        except (OSError, ValueError, KeyError, TypeError):
            return ConfigError(f"{self.url} answered {error.code} and is no dragoman server")
        if error.code == 429:
            after = error.headers.get("Retry-After", "")
            return QueueFull(message, retry_after_s=float(after) if after.isdigit() else 5.0)
        if error.code == 401:
            message = f"{message}; this command takes it from {KEY_SOURCE}"
        return Unavailable(message) if error.code >= 500 else ConfigError(message)
