"""Trees of XML parts: every offset is that of the bytes, and hostile parts are refused with their place."""

from __future__ import annotations

import pytest

from wholetext.errors import InvalidFile
from wholetext.files import xmlpart
from wholetext.files.xmlpart import Element, Namespaces, Text, attribute_spans, decoded, elements, tree

NAMES = Namespaces({"urn:one": "o", "urn:two": ""})


def sources(data: bytes, element: Element) -> list[tuple[str, str]]:
    """Name and source of everything below an element, in document order, tags apart."""
    found = [(element.name, data[element.start : element.content].decode())]
    for child in element.children:
        if isinstance(child, Text):
            found.append((child.shown, data[child.start : child.end].decode()))
        else:
            found += sources(data, child)
    if element.close < element.end:
        found.append(("/", data[element.close : element.end].decode()))
    return found


@pytest.mark.parametrize("chunk", [1, 7, 1 << 16])
def test_offsets_are_those_of_the_bytes(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xmlpart, "_CHUNK", chunk)
    data = (
        '<?xml version="1.0"?>\r\n<d xmlns:p="urn:one" xmlns="urn:two">skip<x/>'
        '<p:p a=">" p:b=\'"\'><p:r></p:r><p:r  /><y\n>a&amp;b\r\nü<![CDATA[<c>]]></y ><!-- > --><?go on?></p:p>'
        "<p:p/><x><p:p>z</p:p></x></d>"
    ).encode()
    found = list(elements(data, "d.xml", NAMES, {"o:p"}))
    assert [sources(data, element) for element in found] == [
        [
            ("o:p", '<p:p a=">" p:b=\'"\'>'),
            ("o:r", "<p:r>"),
            ("/", "</p:r>"),
            ("o:r", "<p:r  />"),
            ("y", "<y\n>"),
            ("a&b\nü<c>", "a&amp;b\r\nü<![CDATA[<c>]]>"),
            ("/", "</y >"),
            ("#", "<!-- > -->"),
            ("#", "<?go on?>"),
            ("/", "</p:p>"),
        ],
        [("o:p", "<p:p/>")],
        [("o:p", "<p:p>"), ("z", "z"), ("/", "</p:p>")],
    ]
    spans = attribute_spans(data, found[0])
    assert {name: data[span.value : span.stop].decode() for name, span in spans.items()} == {"a": ">", "o:b": '"'}
    assert data[spans["o:b"].start : spans["o:b"].end] == b" p:b='\"'"
    assert found[0].attributes == {"a": ">", "o:b": '"'}
    assert found[0].text == "a&b\nü<c>"
    assert [element.name for element in found[0].walk()] == ["o:r", "o:r", "y", "#", "#"]


@pytest.mark.parametrize(
    "data",
    [
        "\ufeff<a>ü</a>".encode(),
        "\ufeff<?xml version='1.0' encoding='UTF-16'?><a>ü</a>".encode("utf-16-le"),
        "\ufeff<a>ü</a>".encode("utf-16-be"),
        "<?xml version='1.0' encoding='UTF-16'?><a>ü</a>".encode("utf-16-le"),
        "<?xml version='1.0' encoding='windows-1252'?><a>ü</a>".encode("cp1252"),
        "<?xml version='1.0' encoding='gb18030'?><a>ü</a>".encode("gb18030"),  # expat refuses it
        "<?xml version='1.0' encoding='no-such'?><a>ü</a>".encode(),
    ],
)
def test_any_encoding_is_read_and_written_as_it_came(data: bytes) -> None:
    utf_8, encoding = decoded(data, "a.xml")
    assert tree(utf_8, "a.xml", NAMES).text == "ü"
    assert encoding.encode(utf_8) == (data, [])
    translated, _ = encoding.encode(utf_8.replace("ü".encode(), "日".encode()))
    assert tree(decoded(translated, "a.xml")[0], "a.xml", NAMES).text == "日"


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "a.xml: the file is empty"),
        (b"<a><b></a>", "a.xml is not well-formed XML at byte 8"),
        (b"<a>&x;</a>", "a.xml is not well-formed XML at byte 3"),
        (b"<a>" * 1001, "more than 1000 deep"),
        (b"<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>", "document type declaration"),
        (b"<!DOCTYPE a SYSTEM 'http://127.0.0.1/'><a/>", "document type declaration"),
        (b"\xff\xfe<\0a\0>", "a.xml: the file is not utf-16-le"),
        (b"<?xml version='1.0' encoding='ascii'?><a>\xff</a>", "a.xml: the file is not ascii"),
        (b"<a>\xff</a>", "a.xml is not well-formed XML at byte 3"),
    ],
)
def test_hostile_parts_are_refused_with_their_place(data: bytes, message: str) -> None:
    with pytest.raises(InvalidFile, match=message):
        list(elements(decoded(data, "a.xml")[0], "a.xml", NAMES, {"a"}))


def test_where_a_document_type_is_normal_it_still_declares_nothing() -> None:
    assert tree(b"<!DOCTYPE html PUBLIC 'x' 'y'><a>b</a>", "a.xml", NAMES, doctype=True).text == "b"
    with pytest.raises(InvalidFile, match="document type declaration"):
        tree(b"<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>", "a.xml", NAMES, doctype=True)


def test_an_attribute_of_two_namespaces_that_are_one_is_refused() -> None:
    data = b'<a xmlns:r="urn:one" xmlns:q="urn:two" r:id="1" q:id="2"/>'
    element = tree(data, "a.xml", Namespaces({"urn:one": "r", "urn:two": "r"}))
    with pytest.raises(InvalidFile, match="byte 0"):
        attribute_spans(data, element)


def test_an_encoding_in_which_its_declaration_is_none_is_not_believed() -> None:
    data = b'<?xml version="1.0" encoding="cp037"?><a>text</a>'
    assert decoded(data, "a.xml")[0] == data
