"""The version of dragoman: of an installed package its metadata, of a source tree the state of its version control.

A commit with a tag `v1.2.3` is 1.2.3. Any other is `NEXT.devTIME+COUNT.gHASH`: the next release, the commit's time in UTC, the
number of commits up to it, and its hash, so that two commits have two versions, and the later one has the higher. Changed
files add `.dTIME`, the newest of their times.

The build evaluates `build_version` (pyproject.toml), and scripts/version.py prints it: this module imports the standard library
alone. A tree without `.git` has a version too: that of `DRAGOMAN_BUILD_VERSION`, of an sdist's PKG-INFO, or of the commit
that `git archive` has written into this file; otherwise its files' newest time stands for the commit's.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterable
from functools import lru_cache
from importlib import metadata
from pathlib import Path

NEXT_RELEASE = "0.2.0"
"""The release that follows, where it is not the last tag's next patch."""
BUILD_VARIABLE = "DRAGOMAN_BUILD_VERSION"
ROOT = Path(__file__).resolve().parents[2]
"""The source tree, where this is one."""
_BUILT = ("src", "pyproject.toml", "README.md", "LICENSE", "NOTICE")
"""What a build contains, and so what makes its version another one."""
_COMMIT = "%ct %h %(describe:tags=true,match=v[0-9]*)"
_ARCHIVED = "$Format:%ct %h %(describe:tags=true,match=v[0-9]*)$"
"""`git archive` replaces it (.gitattributes)."""
_TAG = re.compile(r"v(?P<release>(?P<final>\d+\.\d+\.\d+)((?P<pre>a|b|rc)(?P<number>\d+))?)(?P<past>-\d+-g[0-9a-f]+)?")
"""What `git describe` returns for a release: its tag, and how far past it this commit is. Other tags are none of releases."""


@lru_cache(maxsize=1)
def version() -> str:
    """Return the version of the running code."""
    if (ROOT / "pyproject.toml").is_file() and Path(__file__).resolve().is_relative_to(ROOT / "src"):
        return tree_version(ROOT)
    return metadata.version("dragoman")


def writer() -> tuple[str, str]:
    """Return name and version as a file says which program wrote it."""
    return "dragoman", version()


def build_version() -> str:
    """Return the version for a build of this tree, whose variable may state one."""
    return os.environ.get(BUILD_VARIABLE) or tree_version(ROOT)


def tree_version(root: Path, archived: str = _ARCHIVED) -> str:
    """Return the version of a source tree. It always has one, whatever is missing.

    Args:
        root: The folder of pyproject.toml.
        archived: What `git archive` has written: the commit's time, its hash and `git describe`, which is empty without a tag.
    """
    if (root / ".git").exists() and (found := _from_git(root)):
        return found
    if found := _from_sdist(root / "PKG-INFO"):
        return found
    if not archived.startswith("$Format"):
        return _of_commit(archived, count="", changed="")
    files = (file for name in _BUILT for file in ((root / name).rglob("*") if name == "src" else (root / name,)))
    return f"{NEXT_RELEASE}.dev{_newest(file for file in files if '__pycache__' not in file.parts)}+unknown"


def _from_git(root: Path) -> str | None:
    try:
        commit = _git(root, "log", "-1", f"--format={_COMMIT}")
        count = _git(root, "rev-list", "--count", "HEAD")
        status = _git(root, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", *_BUILT)
    except (OSError, subprocess.SubprocessError):  # no git, no commit, or a git before 2.32
        return None
    files = [root / line[3:] for line in status.split("\0") if line]
    return _of_commit(commit, f"{count}.", f".d{_newest(files)}" if files else "")


def _git(root: Path, *arguments: str) -> str:
    """Run git in a tree whose code is running already, whoever owns it; variables of a hook's git say another tree."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ("git", "-c", f"safe.directory={root}", "-c", "core.fsmonitor=false", *arguments)
    return subprocess.run(
        command,
        cwd=root,
        env={**environment, "GIT_OPTIONAL_LOCKS": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
        timeout=10,
    ).stdout.strip("\n")


def _of_commit(commit: str, count: str, changed: str) -> str:
    """`commit` is in the form of `_COMMIT`; `count` ends with a full stop, `changed` begins with one, or they are empty."""
    seconds, hash_, described = commit.split(" ", 2)
    tag = _TAG.fullmatch(described.strip())
    if tag and not tag["past"] and not changed:
        return tag["release"]
    next_ = max(map(_order, (NEXT_RELEASE, *([_after(tag)] if tag else ()))))[-1]
    return f"{next_}.dev{_stamp(int(seconds))}+{count}g{hash_}{changed}"


def _after(tag: re.Match[str]) -> str:
    """Return the lowest release after a tag's: the next candidate, or the next patch."""
    if tag["pre"]:
        return f"{tag['final']}{tag['pre']}{int(tag['number']) + 1}"
    major, minor, patch = tag["final"].split(".")
    return f"{major}.{minor}.{int(patch) + 1}"


def _order(release: str) -> tuple[list[int], str, int, str]:
    """Return what puts versions under development in their order: those of 1.2.3 precede those of 1.2.3rc1."""
    tag = _TAG.fullmatch(f"v{release}")
    assert tag, release
    return [int(part) for part in tag["final"].split(".")], tag["pre"] or "", int(tag["number"] or 0), release


def _from_sdist(information: Path) -> str | None:
    try:
        found = re.search(r"^Version: (.+)$", information.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return None
    return found[1] if found else None


def _newest(files: Iterable[Path]) -> str:
    """Return the newest time of files, of which some may be gone."""
    return _stamp(max((int(file.lstat().st_mtime) for file in files if file.exists()), default=0))


def _stamp(seconds: int) -> str:
    return time.strftime("%Y%m%d%H%M%S", time.gmtime(seconds))
