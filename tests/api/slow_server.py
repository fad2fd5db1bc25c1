"""A whole dragoman server over a slow fake engine, as a process: what `dragoman serve` runs, less the engine.

Run by test_server.py; prints its address when it is ready and leaves with the server's exit code.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

from dragoman.api.server import DragomanServer, listen
from dragoman.settings import ServerSettings, Settings
from tests.serving import fake_service


def main(drain_timeout_s: float) -> int:
    service = fake_service(lambda _: " ".join(["word"] * 60), step_s=0.02)
    service.settings = replace(Settings(), server=ServerSettings(drain_timeout_s=drain_timeout_s))
    server = DragomanServer(service, listen("127.0.0.1", 0), lambda url: print(url, flush=True))
    return asyncio.run(server.run())


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
