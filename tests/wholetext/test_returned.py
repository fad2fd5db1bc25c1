"""An export of segments that a translator's tool has changed, read again."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from wholetext.errors import InvalidFile
from wholetext.files.exports import BilingualSegment, digest, export, read_again
from wholetext.files.returned import ReturnedSegment, read

SEGMENTS = [
    BilingualSegment(0, "line 1", "The <g1>train</g1> & <x2/>bus", "Der <g1>Zug</g1> & <x2/>Bus"),
    BilingualSegment(1, "line 2", "a\r\nb\x1b", "c\rd", doubtful=True, notes=("doubt",)),
    BilingualSegment(7, "line 3", "<g1><g2>x</g2></g1>", "<g1><g2>y</g2></g1>", edited=True),
]

SOURCE = 'The <g id="1">train</g> &amp; <x id="2"/>bus'
TARGET = '<target state="translated">Der <g id="1">Zug</g> &amp; <x id="2"/>Bus</target>'


def file(old: str = "", new: str = "") -> bytes:
    return "".join(export(SEGMENTS, "xliff", "a.md", "en", "de", ("dragoman", "1"))).replace(old, new).encode()


def test_what_was_exported_is_read_as_it_was() -> None:
    found = [*read(file())]
    assert [replace(one, base="") for one in found] == [
        ReturnedSegment(0, SEGMENTS[0].source, SEGMENTS[0].target),
        ReturnedSegment(1, read_again("a\r\nb\x1b"), read_again("c\rd"), is_open=True),
        ReturnedSegment(7, SEGMENTS[2].source, SEGMENTS[2].target, is_approved=True),
    ]
    assert [one.base_digest for one in found] == [digest(one.target) for one in SEGMENTS]
    assert len({one.base.partition("-")[0] for one in (*found, *read(file()))}) == 2  # two exports


@pytest.mark.parametrize("written", ["", ' extradata="of a tool"'])
def test_a_tool_may_drop_what_is_kept_of_the_export(written: str) -> None:
    data = re.sub(' extradata="[^"]*"', written, file().decode()).encode()
    assert [one.base for one in read(data)] == ["", "", ""]


@pytest.mark.parametrize(
    ("old", "new", "target"),
    [
        ("Der ", '<mrk mtype="seg" mid="0">Die </mrk>', "Die <g1>Zug</g1> & <x2/>Bus"),
        ("Der ", '<bpt id="3">b</bpt>Der ', None),
        ('<x id="2"/>Bus', "Bus", "Der <g1>Zug</g1> & Bus"),
        ("Zug", "<![CDATA[<Zug>]]>", "Der <g1><Zug></g1> & <x2/>Bus"),
        ("Zug", "Z<!-- a note -->ug<?tool a?>", "Der <g1>Zug</g1> & <x2/>Bus"),
        (TARGET, "<target/>", None),
        (TARGET, "<target> \n</target>", None),
        (TARGET, f'<target state="new">{SOURCE}</target>', None),
        (TARGET, f'<target state="needs-translation">{SOURCE}</target>', None),
        (TARGET, f'<target state="translated">{SOURCE}</target>', SEGMENTS[0].source),
        (TARGET, f"<target>{SOURCE}</target>", SEGMENTS[0].source),
    ],
)
def test_a_changed_translation_is_read_with_its_marks(old: str, new: str, target: str | None) -> None:
    assert next(read(file(old, new))).target == target


@pytest.mark.parametrize(
    ("old", "new"),
    [("<xliff", "<tmx"), ('id="7"', 'id="x"'), ('id="7"', f'id="{"9" * 40}"'), ("</body>", ""), ("The ", "<ph>a</ph>")],
)
def test_a_file_that_is_no_export_is_refused(old: str, new: str) -> None:
    with pytest.raises(InvalidFile):
        list(read(file(old, new)))


def test_entities_of_a_file_are_not_expanded() -> None:
    declared = '<!DOCTYPE xliff [<!ENTITY a "aaaaaaaa">]><xliff'
    with pytest.raises(InvalidFile):
        list(read(file("<xliff", declared)))
