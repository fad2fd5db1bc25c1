"""What holds for each format of files: a test class that each format's inherits, with a file, and what another reader sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from tests.wholetext.rewriting import MARKS, changed
from wholetext.errors import InvalidFile, UnsupportedFile
from wholetext.files import formats
from wholetext.files.archive import Archive
from wholetext.files.content import Content, ReadOptions
from wholetext.markup.marks import CONTROL

TEXT = "Qzq"
"""Stands for a text of the source."""

# fmt: off
HOSTILE = (
    "a ]]> b", "]]>", "]]", ">", "> b", "]", "]>", "<![CDATA[a", "a\x00b", "\x01a", "a\x0bb", "\x1b[31mred\x1b[0m",
    "a\x7fb", "a\x85b", "a\x9b31mb", "\ufffea", "a\uffff", "\U0001fffea", "a\ud800b", "\udfff", "a\x1cb", "a\x0cb",
    "a\x023\x03b", "<b>a</b>", "</p>", "<script>alert(1)</script>", "a & b", "&amp;", "&lt;script&gt;", "&#0;",
    "&unknown;", "<!-- a", "-->", "a -- b", "<?xml a?>", "<!DOCTYPE a>", "00:00:09,000 --> 00:00:10,000",
    "a\n\n3\n00:00:09,000 --> 00:00:10,000\nb", "\\N{\\i1}", "\"", "'", "\"a", "a\"b", "a\tb\"", "a\nb", "a\r\nb",
    "a\\", "\\\"", "\",\n\"x\": \"y", "\"\n\nmsgid \"x\"\nmsgstr \"y\"", "=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0",
    "-2+3", "a,b;c\td|e", "| a | b |", "# a", "- a", "1. a", "```", "[a](javascript:b)", "`a", "___", "$a$", "{a}",
    "{0, plural, other {b}}", "%s", "@string/a", "?a", "\\u0000", "&L&P", "_x0000_", "\u2028a", "\u202ea",
    "a" * 3000, " ",
)
# fmt: on

for_each_class = settings(suppress_health_check=[HealthCheck.differing_executors])


def cleaned(text: str) -> str:
    return CONTROL.sub(lambda found: " " if found[0].isspace() else "", text)


def between_marks(text: str, translate: Callable[[str], str]) -> str:
    """The text with what is between its marks translated."""
    return "".join(part if MARKS.fullmatch(part) else translate(part) for part in MARKS.split(text))


def collapsed(text: str) -> str:
    return " ".join(text.split())


def parts(data: bytes) -> Iterator[bytes]:
    """The parts of a package that are XML; or the file."""
    if not data.startswith(b"PK"):
        yield data
        return
    archive = Archive(data)
    yield from (archive.read(name) for name in archive.names if name.endswith(("ml", ".rels", ".opf")))


class FormatTests:
    """Of one format: `data` is a file with the text `TEXT` in several places, whose language is the target's."""

    extension: ClassVar[str]
    data: ClassVar[bytes]
    is_catalogue: ClassVar[bool] = False  # it has translations beside its texts, and what has one is not read again

    def shape(self, data: bytes) -> object:
        """What of a file tells whether something was added to it, as another reader sees it."""
        raise NotImplementedError

    def options(self) -> ReadOptions:
        return ReadOptions(self.extension, "de")

    def read(self, data: bytes) -> Content:
        return formats.read(data, self.options())

    def written(self, data: bytes, translate: Callable[[str], str]) -> bytes:
        """The file with each of its texts translated, their marks as they were."""
        translations = [between_marks(unit.block.text, translate) for unit in self.read(data).units]
        return formats.write(data, self.options(), translations)[0]

    def texts(self, data: bytes) -> list[tuple[str, str]]:
        """Places and texts, with white space as one space."""
        return [(unit.place, collapsed(unit.block.text)) for unit in self.read(data).units]

    def with_text(self, text: str) -> bytes:
        return self.written(self.data, lambda part: part.replace(TEXT, text))

    def test_its_own_texts_give_the_same_bytes(self) -> None:
        once = self.written(self.data, str)  # with the target's language, where the format names one
        assert self.written(once, str) == once
        assert self.is_catalogue or self.texts(once) == self.texts(self.data)

    def test_nothing_but_letters_of_texts_changes(self) -> None:
        result = self.written(self.data, changed)
        translated = [(place, between_marks(text, changed)) for place, text in self.texts(self.data)]
        assert self.texts(result) == ([] if self.is_catalogue else translated)
        assert self.read(result).left == self.read(self.data).left

    def test_no_text_changes_what_another_reader_sees_of_the_file(self) -> None:
        with_text, without = (self.shape(self.with_text(text)) for text in ("Zz", ""))
        for text in HOSTILE:
            assert self.shape(self.with_text(text)) == (with_text if cleaned(text) else without), ascii(text)

    def test_no_control_is_written(self) -> None:
        for text in HOSTILE:
            for part in parts(self.with_text(text)):
                assert not CONTROL.search(part.decode("utf-8")), ascii(text)

    @for_each_class
    @given(noise=st.binary(min_size=1, max_size=6), at=st.floats(0, 1), taken=st.integers(0, 6))
    def test_any_bytes_come_back_or_are_refused(self, noise: bytes, at: float, taken: int) -> None:
        start = int(at * len(self.data))
        data = self.data[:start] + noise + self.data[start + taken :]
        try:
            once = self.written(data, str)
        except (InvalidFile, UnsupportedFile):
            return
        assert self.written(once, str) == once


class XmlTests(FormatTests):
    """Of a format of XML, or of a package of XML."""

    def shape(self, data: bytes) -> object:
        return [[element.tag for element in etree.fromstring(part).iter()] for part in parts(data)]


class ShownXmlTests(XmlTests):
    """Of one whose readers show the texts as they are written: without escapes of its own, or one file for each text."""

    def shown(self, data: bytes) -> list[str]:
        """All texts and values of attributes that a reader of XML gets, with white space as one space."""
        return [
            collapsed(
                "\n".join(["".join(root.itertext()), *(value for one in root.iter() for value in one.attrib.values())])
            )
            for root in map(etree.fromstring, parts(data))
        ]

    @for_each_class
    @given(text=st.text(st.characters() | st.sampled_from("]]>><&\"'\x00\x1b\x85\ufffe\ud800"), min_size=1, max_size=8))
    def test_any_text_is_shown_as_it_is(self, text: str) -> None:
        text = f"a{text}b"  # white space at the edges of a text is the source's
        wanted = [one.replace("Zz", collapsed(cleaned(text))) for one in self.shown(self.with_text("Zz"))]
        assert self.shown(self.with_text(text)) == wanted
