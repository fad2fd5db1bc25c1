"""schemathesis over OpenAPI descriptions, the server's own and those of other APIs: no failure of the server, no undocumented
answer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.__main__ import Server, serving
from tests.openapi import FILES
from tests.uv import environment_with

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

SCHEMATHESIS = "schemathesis==4.32.5"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
CONFIGURATION = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "504"]  # 504: a deadline that the request itself names
"""


@pytest.fixture(scope="module")
def schemathesis(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command, in an environment of its own."""
    return environment_with(tmp_path_factory.mktemp("schemathesis"), SCHEMATHESIS) / "schemathesis"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("--pipeline", "fake") as server:
        yield server


@pytest.mark.parametrize("api", ["native", *FILES])
@pytest.mark.parametrize(
    ("with_key", "phases", "examples"),
    [(True, "examples,coverage,fuzzing,stateful", 12), (False, "examples,fuzzing", 4)],
)
def test_answers_are_as_documented(
    schemathesis: Path, tmp_path: Path, server: Server, api: str, with_key: bool, phases: str, examples: int
) -> None:
    (tmp_path / "schemathesis.toml").write_text(CONFIGURATION)
    described = str(FILES[api]) if api in FILES else f"{server.url}/openapi.json"
    line = [str(schemathesis), "--config-file", "schemathesis.toml", "run", described, "--url", server.url]
    line += [
        "--checks",
        CHECKS,
        "--phases",
        phases,
        "--max-examples",
        str(examples),
        "--seed",
        "1",
        "--no-color",
        "--continue-on-failure",
    ]
    if with_key:
        line += ["--header", f"Authorization: Bearer {server.operator_key}"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
