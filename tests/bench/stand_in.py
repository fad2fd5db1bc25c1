"""A server under test, for tests of those who start and stop servers: run as a script, it speaks dragoman's API.

`stand_in.py MANNER`: `well` serves; `exits` ends before it is ready, `starved` too, without memory; `mute` never says that
it is ready; `stubborn` ignores SIGTERM; `parent` starts a process in a session of its own, whose number it prints, and serves;
`fragile` exits after its third translation; `hollow` stays up after it with a crashed engine: it answers 503 to everything;
`preempts` says that each translation was preempted; `slow` takes 0.2 s for each.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

MANNER = sys.argv[1] if len(sys.argv) > 1 else "well"
ASKED = count(1)
CRASHED = threading.Event()
PREEMPTED: list[str] = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        answers: dict[str, Any] = {
            "/readyz": {"status": "ready"},
            "/v1/stats": {
                "state": "serving",
                "profile": "plain",
                "pipeline": "continuous",
                "device": "cpu",
                "engine": {
                    "running": 1,
                    "busy_s": time.monotonic(),
                    "preemptions": len(PREEMPTED),
                    "kv_cache_tokens": 4096,
                    "kv_cache_bytes_per_token": 2048,
                },
                "model": "stand-in",
                "settings": {"engine": {"max_num_seqs": 8, "gpu_memory_utilization": 0.5}},
            },
        }
        status = 503 if CRASHED.is_set() else 200 if self.path in answers else 404
        self._answer(status, answers.get(self.path, {}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if MANNER == "preempts":
            PREEMPTED.append(body["text"])
        if MANNER in ("fragile", "hollow") and next(ASKED) > 3:
            CRASHED.set()
        if CRASHED.is_set() and MANNER == "fragile":
            os._exit(7)
        if CRASHED.is_set():
            self._answer(503, {})
        else:
            self._translate(body)

    def _translate(self, body: dict[str, Any]) -> None:
        if MANNER == "slow":
            threading.Event().wait(0.2)
        usage = {"characters": 1, "prompt_tokens": 1, "completion_tokens": len(body["text"].split())}
        translation = {"text": body["text"], "finish_reason": "stop"}
        if not body.get("stream"):
            self._answer(200, {"translations": [translation], "usage": usage})
            return
        events = [{"index": 0, "delta": body["text"]}, {"index": 0, "translation": translation, "usage": usage}]
        lines = [*map(json.dumps, events), "[DONE]"]
        self._send(200, "text/event-stream", "".join(f"data: {event}\n\n" for event in lines).encode())

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        self._send(status, "application/json", json.dumps(document).encode())

    def _send(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main() -> None:
    say(f"stand-in, working in {Path.cwd()}, DRAGOMAN_SETTING={os.environ.get('DRAGOMAN_SETTING')}")
    if MANNER == "exits":
        sys.exit("no such model: it cannot be loaded")
    if MANNER == "starved":
        raise ValueError("No available memory for the cache blocks. Try increasing it.")
    if MANNER == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MANNER == "mute":
        signal.pause()
    if MANNER == "parent":
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
        say(f"child {child.pid}")
    server = Server(("127.0.0.1", 0), Handler)
    say(f"dragoman listens on http://127.0.0.1:{server.server_port}  (model stand-in)")
    server.serve_forever()


if __name__ == "__main__":
    main()
