"""`dragoman serve` as a process, over the fake pipeline: what it logs, what it traces, how it leaves."""

from __future__ import annotations

import gzip
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.processes import DRAGOMAN, ServerProcess
from tests.waiting import HANG_S

WITHOUT_OPENTELEMETRY = """
import sys
sys.modules["opentelemetry"] = None
from dragoman.cli.main import main
from tests.waiting import HANG_S
main()
"""

TELLS_OF_ITS_END = """
import atexit, sys
class Torn:
    def __del__(self, tell=sys.stderr.write):
        tell("the interpreter was torn down")
sys.torn = Torn()
atexit.register(lambda: print("exit functions ran", file=sys.stderr))
from dragoman.cli.main import main
main()
"""


class Collector(ThreadingHTTPServer):
    """The traces half of an OTLP collector, over HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taking)
        self.spans: list[Span] = []
        self.services: set[str] = set()
        self.paths: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Taking(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        collector = self.server
        assert isinstance(collector, Collector)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        collector.paths.add(self.path)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            names = (one.value.string_value for one in resource.resource.attributes if one.key == "service.name")
            collector.services.update(names)
            collector.spans += [span for scope in resource.scope_spans for span in scope.spans]
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def translated(server: ServerProcess) -> httpx.Response:
    async with httpx.AsyncClient(base_url=await server.listening(), trust_env=False, timeout=HANG_S) as client:
        body = {"text": "Good morning.", "source": "en", "target": "ja"}
        return await client.post("/v1/translate", json=body, headers={"X-Request-Id": "mine"})


async def test_json_on_every_line_and_spans_at_the_collector_when_it_has_left(
    tmp_path: Path, collector: Collector
) -> None:
    flags = ("--pipeline=fake", "--log-format=json", f"--tracing-endpoint={collector.url}")
    environment = {"NO_PROXY": "127.0.0.1", "OTEL_SERVICE_NAME": "translation"}
    with ServerProcess(tmp_path, *flags, environment=environment) as server:
        answer = await translated(server)
        assert (answer.status_code, answer.headers["x-request-id"]) == (200, "mine")
        assert await server.end() == 0
        records = [json.loads(line) for line in server.output.splitlines()]
    assert all({"time", "level", "logger", "message"} <= set(one) for one in records)
    [request] = [one for one in records if one["message"] == "request"]
    assert (request["request_id"], request["outcome"]) == ("mine", "ok")

    assert (collector.paths, collector.services) == ({"/v1/traces"}, {"translation"})
    assert {span.trace_id.hex() for span in collector.spans} == {request["trace_id"]}
    assert {span.name for span in collector.spans} == {
        *("POST /v1/translate", "admission", "segment", "sequence", "prompt", "queue", "prefill", "decode")
    }


async def test_one_line_for_people_a_request_and_a_collector_that_is_not_there_costs_nothing(tmp_path: Path) -> None:
    """Begun with few open files, of which it takes as many as it may have."""
    with Collector() as gone:
        url = gone.url  # nothing listens there afterwards
    flags, environment = ("--pipeline=fake", f"--tracing-endpoint={url}"), {"OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    program = ("sh", "-c", 'ulimit -Sn 300; exec "$@"', "sh", *DRAGOMAN)
    with ServerProcess(tmp_path, *flags, program=program, environment=environment) as server:
        assert (await translated(server)).status_code == 200
        allowed, most = psutil.Process(server.process.pid).rlimit(psutil.RLIMIT_NOFILE)
        assert allowed == most > 300
        assert await server.end() == 0
        [request] = [line for line in server.output.splitlines() if "/v1/translate" in line]
    assert " POST /v1/translate 200 in " in request
    assert ", 1 text en→ja, 13 characters, " in request
    assert request.endswith(", id mine")


async def test_tracing_that_cannot_be_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    program = (sys.executable, "-c", WITHOUT_OPENTELEMETRY)
    flags = ("--pipeline=fake", "--tracing-endpoint=http://localhost:4318")
    with ServerProcess(tmp_path, *flags, program=program) as server:
        assert await server.ended() == 2
        [line] = server.output.splitlines()
    assert line.startswith("error: ")
    assert "pip install 'dragoman[tracing]'" in line


async def test_a_stopped_server_does_not_wait_for_the_interpreter_s_end(tmp_path: Path) -> None:
    """The interpreter would search all objects of vLLM and torch for cycles: a minute on a busy machine."""
    with ServerProcess(tmp_path, "--pipeline=fake", program=(sys.executable, "-c", TELLS_OF_ITS_END)) as server:
        await server.listening()
        assert await server.end() == 0
        assert "exit functions ran" in server.output
        assert "torn down" not in server.output
