"""Versions by the state of version control: of commits, tags, changed files, and of trees without .git."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.version import Version

import dragoman
from dragoman.version import NEXT_RELEASE, tree_version, version

ROOT = Path(__file__).parents[1]
Git = Callable[..., str]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with the files that make a version, and one commit."""
    root = tmp_path / "tree"
    for name in (
        "src/dragoman/version.py",
        "src/dragoman/__init__.py",
        "scripts/version.py",
        ".gitattributes",
        "pyproject.toml",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    git(root, "init", "--quiet", "--initial-branch", "main")
    commit(root, "first")
    return root


def git(root: Path, *arguments: str) -> str:
    names = {f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | names
    command = ("git", "-c", "tag.gpgSign=false", "-c", "commit.gpgSign=false", *arguments)
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def commit(root: Path, text: str) -> str:
    """Commit a changed file, and return the version."""
    (root / "src/dragoman/changed.py").write_text(f"text = {text!r}\n")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", text)
    return tree_version(root)


def printed(root: Path, **environment: str) -> str:
    """What scripts/version.py prints: it runs the tree's own copy, in a process."""
    command = (sys.executable, "-B", "scripts/version.py")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment
    return subprocess.run(command, cwd=root, env=clean, capture_output=True, text=True, check=True).stdout.strip()


def test_each_commit_has_its_version_and_the_later_one_is_higher(tree: Path) -> None:
    versions = [tree_version(tree), commit(tree, "second"), commit(tree, "third")]
    assert versions == sorted(set(versions), key=Version)
    for one in versions:
        assert Version("0.1.0") < Version(one) < Version(NEXT_RELEASE)
    assert git(tree, "rev-parse", "--short", "HEAD") in versions[-1]


def test_a_tag_is_a_release_and_what_follows_is_higher(tree: Path) -> None:
    before = tree_version(tree)
    git(tree, "tag", "v0.2.0rc1")
    candidate = tree_version(tree)
    after_candidate = commit(tree, "second")
    git(tree, "tag", "v0.2.0")
    release = tree_version(tree)
    after_release = commit(tree, "third")
    assert (candidate, release) == ("0.2.0rc1", "0.2.0")
    versions = [before, candidate, after_candidate, release, after_release]
    assert versions == sorted(versions, key=Version)


def test_a_tag_of_something_else_is_no_release(tree: Path) -> None:
    before = tree_version(tree)
    git(tree, "tag", "v2-of-the-page")
    assert tree_version(tree) == before


def test_an_older_release_does_not_lower_the_next_one(tree: Path) -> None:
    git(tree, "tag", "v0.1.0")
    assert Version(commit(tree, "second")).release == Version(NEXT_RELEASE).release


@pytest.mark.parametrize("name", ["src/dragoman/changed.py", "src/dragoman/new.py"])
def test_a_changed_file_is_another_version_and_never_a_release(tree: Path, name: str) -> None:
    git(tree, "tag", "v0.2.0")
    file = tree / name
    versions = [tree_version(tree)]
    for seconds in (2_000_000_000, 2_000_000_001):
        file.write_text("text = 'changed'\n")
        os.utime(file, (seconds, seconds))
        versions.append(tree_version(tree))
    assert versions == sorted(set(versions), key=Version)
    assert versions[0] == "0.2.0" and Version(versions[1]).is_devrelease
    file.unlink()
    if name.endswith("new.py"):
        assert tree_version(tree) == "0.2.0"


def test_what_no_build_contains_changes_no_version(tree: Path) -> None:
    before = tree_version(tree)
    (tree / "notes.txt").write_text("x")
    assert tree_version(tree) == before


def test_an_export_has_the_version_of_its_commit(tree: Path, tmp_path: Path) -> None:
    expected = tree_version(tree)
    exported = export(tree, tmp_path / "export")
    assert Version(printed(exported)).public == Version(expected).public
    assert git(tree, "rev-parse", "--short", "HEAD") in printed(exported)
    git(tree, "tag", "v0.2.0")
    assert printed(export(tree, tmp_path / "release")) == "0.2.0"


def export(tree: Path, to: Path) -> Path:
    git(tree, "archive", "--output", f"{to}.tar", "HEAD")
    with tarfile.open(f"{to}.tar") as archive:
        archive.extractall(to, filter="data")
    return to


def test_a_tree_without_version_control_has_a_version_that_its_files_raise(tree: Path) -> None:
    shutil.rmtree(tree / ".git")
    first = printed(tree)
    newer = tree / "src/dragoman/changed.py"
    os.utime(newer, (2_000_000_000, 2_000_000_000))
    second = printed(tree)
    assert Version("0.1.0") < Version(first) < Version(second) < Version(NEXT_RELEASE)
    assert printed(tree, DRAGOMAN_BUILD_VERSION="1.2.3") == "1.2.3"
    (tree / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: dragoman\nVersion: 0.3.0\n")
    assert printed(tree) == "0.3.0"


def test_a_tree_inside_another_repository_does_not_take_its_commit(tree: Path) -> None:
    inner = tree / "vendor/dragoman"
    shutil.copytree(tree / "src", inner / "src")
    shutil.copytree(tree / "scripts", inner / "scripts")
    assert git(tree, "rev-parse", "--short", "HEAD") not in printed(inner)


def test_git_that_fails_is_no_failure(tree: Path) -> None:
    (tree / ".git/HEAD").write_text("nonsense")
    assert Version(printed(tree)) < Version(NEXT_RELEASE)


def test_variables_of_a_hook_do_not_lead_to_another_repository(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tree_version(tree)
    monkeypatch.setenv("GIT_DIR", str(ROOT / ".git"))
    assert tree_version(tree) == before


def test_the_running_code_reports_its_commit() -> None:
    assert dragoman.__version__ == version()
    if (ROOT / ".git").exists():
        assert Version(dragoman.__version__) > Version("0.1.0")
        assert git(ROOT, "rev-parse", "--short", "HEAD") in dragoman.__version__
    with pytest.raises(AttributeError):
        _ = dragoman.nothing  # type: ignore[attr-defined]
