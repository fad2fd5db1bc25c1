#!/usr/bin/env python3
"""Lists what an installation of dragoman consists of: a CycloneDX SBOM, and THIRD-PARTY.md with licences and what to know.

    scripts/sbom.py dist --engine cpu                        installs dragoman[cpu] as the image has it, into a temporary folder
    scripts/sbom.py /opt/dragoman --python /opt/dragoman/bin/python             what is installed there

It needs uv, and the packages of constraints/release.txt, which uv fetches. Debian's packages of an image are not in it: run a
scanner such as syft over the image for those.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = "mcp,pdf,postgres,ray,tracing"
"""Those of a server; `bench`, `dev` and `train` are tools beside it."""
_METADATA = """
import json
from importlib.metadata import distributions
print(json.dumps({d.metadata["Name"]: [d.version, d.metadata.get("License") or ""] for d in distributions()}))
"""
_ALTERNATIVES = re.compile(r"\(([^()]* OR [^()]*)\)")


@dataclass(frozen=True)
class Licences:
    """What scripts/licences.toml says of licences and packages."""

    permissive: frozenset[str]
    notes: tuple[tuple[tuple[str, ...], str], ...]

    @classmethod
    def read(cls, file: Path) -> Licences:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
        notes = tuple((tuple(note["packages"]), note["text"]) for note in document["note"])
        return cls(frozenset(document["permissive"]), notes)

    def is_permissive(self, expression: str) -> bool:
        """Whether a licence, or an SPDX expression, asks for no more than its notice in one of its alternatives."""
        if expression in self.permissive:
            return True
        while alternatives := _ALTERNATIVES.search(expression):
            chosen = next(filter(self.is_permissive, alternatives[1].split(" OR ")), "")
            if not chosen:
                return False
            expression = expression.replace(alternatives[0], chosen)
        if "(" in expression:
            return False
        return any(
            all(one.strip() in self.permissive for one in re.split(r" AND | WITH ", alternative))
            for alternative in expression.split(" OR ")
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Write both files, and print their paths."""
    parser = argparse.ArgumentParser(description="Write the SBOM and the list of third parties.")
    parser.add_argument("out", type=Path, help="folder")
    parser.add_argument("--engine", choices=("cpu", "cuda"), default="cpu", help="what to install, without --python")
    parser.add_argument("--python", type=Path, help="interpreter of an installation to list")
    parser.add_argument("--extras", default=EXTRAS, help="what to install besides the engine, without --python")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dragoman-sbom-") as folder:
        python = options.python or _install(Path(folder), options.engine, options.extras)
        suffix = "" if options.python else f"-{options.engine}"
        document = bill(python)
    sbom = options.out / f"sbom{suffix}.cdx.json"
    sbom.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    listed = options.out / f"THIRD-PARTY{suffix}.md"
    listed.write_text(third_party(document, Licences.read(ROOT / "scripts/licences.toml")), encoding="utf-8")
    print(sbom, listed, sep="\n")


def _uv() -> str:
    """Return uv's path. Raises `SystemExit` where there is none."""
    beside = (str(Path(sys.executable).parent), str(ROOT / ".venv/bin"), os.environ.get("PATH", ""))
    found = shutil.which("uv", path=os.pathsep.join(beside))
    if found is None:
        raise SystemExit(f"sbom: uv is not installed: pip install -r {ROOT / 'constraints/tools.txt'}")
    return found


def _run(*command: str | Path, **variables: str) -> str:
    links = os.environ.get("UV_FIND_LINKS") or os.environ.get("PIP_FIND_LINKS")
    environment = {name: value for name, value in os.environ.items() if name not in ("UV_FIND_LINKS", "PYTHONPATH")}
    environment |= {"UV_FIND_LINKS": links} if links else {}
    done = subprocess.run(
        [*map(str, command)], env=environment | variables, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"sbom: {command[0]} failed")
    return done.stdout


def _install(folder: Path, engine: str, extras: str) -> Path:
    """Install dragoman with its pinned versions, as the image does; return the interpreter."""
    python = folder / "bin/python"
    options = ["--python", python, "--constraint", ROOT / f"constraints/{engine}.txt"]
    if engine == "cpu":
        options += ["--override", ROOT / "constraints/overrides.txt"]
    if index := os.environ.get("TORCH_INDEX"):
        options += ["--index", index, "--index-strategy", "unsafe-best-match"]
    _run(_uv(), "venv", "--quiet", "--python", sys.executable, folder)
    _run(_uv(), "pip", "install", "--quiet", *options, f"{ROOT}[{engine},{extras}]")
    return python


def bill(python: Path) -> dict[str, Any]:
    """Return the SBOM of an installation: CycloneDX's own, of dragoman, and licences that only a text names."""
    tool = next(
        line for line in (ROOT / "constraints/release.txt").read_text().splitlines() if line.startswith("cyclonedx-bom")
    )
    command = (
        _uv(),
        "tool",
        "run",
        "--quiet",
        "--from",
        tool,
        "cyclonedx-py",
        "environment",
        "--output-reproducible",
        python,
    )
    document: dict[str, Any] = json.loads(_run(*command))
    installed: dict[str, tuple[str, str]] = json.loads(_run(python, "-c", _METADATA))
    for component in document["components"]:
        stated = installed.get(component["name"], ("", ""))[1].strip()
        if stated and "\n" not in stated and not component.get("licenses"):
            component["licenses"] = [{"license": {"name": stated, "acknowledgement": "declared"}}]
    subject = next((one for one in document["components"] if one["name"] == "dragoman"), None)
    if subject is None:
        raise SystemExit(f"sbom: dragoman is not installed for {python}")
    document["components"].remove(subject)
    document["metadata"]["component"] = {**subject, "type": "application"}
    return document


def licences_of(component: Mapping[str, Any]) -> list[str]:
    """Return a component's licences, as SPDX where its metadata has that."""
    entries = [
        one.get("expression") or one["license"].get("id") or one["license"]["name"]
        for one in component.get("licenses", ())
    ]
    return list(dict.fromkeys(entry.strip() for entry in entries))


def third_party(document: Mapping[str, Any], licences: Licences) -> str:
    """Return the list of third parties: what to know first, then everything."""
    subject = document["metadata"]["component"]
    components = sorted(document["components"], key=lambda one: one["name"].lower())
    conditions = [one for one in components if not all(map(licences.is_permissive, licences_of(one) or [""]))]
    names = {one["name"].lower() for one in components}
    notes = [
        f"- **{', '.join(present)}**: {text}"
        for packages, text in licences.notes
        if (present := [package for package in packages if package.lower() in names])
    ]
    return "\n".join(
        [
            f"# Third parties of dragoman {subject['version']}",
            "",
            "dragoman itself is under the Apache License 2.0. These packages are installed with it; each has its licence's "
            "text in its `*.dist-info` folder. An image has Debian's packages too, theirs in `/usr/share/doc/*/copyright`. "
            "Models have licences of their own: `dragoman models`.",
            "",
            "## What to know",
            "",
            *notes,
            "",
            "## Licences that ask for more than their notice, or that a package does not state",
            "",
            *_table(conditions),
            "",
            "## All packages",
            "",
            *_table(components),
            "",
        ]
    )


def _table(components: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "| package | version | licence | |"
    yield "|---|---|---|---|"
    for one in components:
        licences = ", ".join(
            name.removeprefix("License :: ").removeprefix("OSI Approved :: ") for name in licences_of(one)
        )
        links = {link["type"]: link["url"] for link in one.get("externalReferences", ())}
        page = links.get("website") or links.get("vcs") or links.get("other") or ""
        yield f"| {one['name']} | {one['version']} | {licences or 'not stated'} | {page} |"


if __name__ == "__main__":
    main()
