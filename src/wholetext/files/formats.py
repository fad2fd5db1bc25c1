"""The formats of files: extensions, media types, limits, the module that reads each; and those that are refused, with why."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import PurePosixPath

from wholetext.errors import UnsupportedFile
from wholetext.files.content import Content, ReadOptions, replaced_parts, single_part

log = logging.getLogger("wholetext.files")

GROUP = "wholetext.formats"
"""Of entry points, by which an installed package adds a format: each names a `Format`."""
_MB = 1_000_000
_OPENXML = "application/vnd.openxmlformats-officedocument"
_ODF = "application/vnd.oasis.opendocument"


@dataclass(frozen=True, slots=True)
class Format:
    """One format. `extensions[0]` is its name; all its extensions are equal. `module`, which has the function `read`, is
    named absolutely, or with a dot before its name in this package."""

    extensions: tuple[str, ...]
    media_type: str
    module: str
    max_bytes: int = 30 * _MB
    outputs: tuple[str, ...] = ()  # other formats that it can be written as; empty: only itself

    @property
    def name(self) -> str:
        return self.extensions[0]


FORMATS: tuple[Format, ...] = (
    Format(("txt",), "text/plain", ".plaintext", 10 * _MB),
    Format(("md", "markdown"), "text/markdown", ".plaintext", 10 * _MB),
    Format(("mdx",), "text/mdx", ".plaintext", 10 * _MB),
    Format(("qmd", "rmd"), "text/markdown", ".plaintext", 10 * _MB),
    Format(("docx",), f"{_OPENXML}.wordprocessingml.document", ".docx"),
    Format(("docm",), "application/vnd.ms-word.document.macroEnabled.12", ".docx"),
    Format(("dotx",), f"{_OPENXML}.wordprocessingml.template", ".docx"),
    Format(("dotm",), "application/vnd.ms-word.template.macroEnabled.12", ".docx"),
    Format(("html", "htm"), "text/html", ".webpage", 10 * _MB),
    Format(("xhtml", "xht"), "application/xhtml+xml", ".webpage", 10 * _MB),
    Format(("srt",), "application/x-subrip", ".subtitles", 10 * _MB),
    Format(("vtt",), "text/vtt", ".subtitles", 10 * _MB),
    Format(("ass", "ssa"), "text/x-ssa", ".subtitles", 10 * _MB),
    Format(("odt",), f"{_ODF}.text", ".odf"),
    Format(("ott",), f"{_ODF}.text-template", ".odf"),
    Format(("fodt",), f"{_ODF}.text-flat-xml", ".odf"),
    Format(("ods",), f"{_ODF}.spreadsheet", ".odf"),
    Format(("ots",), f"{_ODF}.spreadsheet-template", ".odf"),
    Format(("fods",), f"{_ODF}.spreadsheet-flat-xml", ".odf"),
    Format(("odp",), f"{_ODF}.presentation", ".odf"),
    Format(("otp",), f"{_ODF}.presentation-template", ".odf"),
    Format(("fodp",), f"{_ODF}.presentation-flat-xml", ".odf"),
    Format(("epub",), "application/epub+zip", ".epub"),
    Format(("pdf",), "application/pdf", ".pdf", outputs=("docx", "md")),
    Format(("po", "pot"), "text/x-gettext-translation", ".gettext", 10 * _MB),
    Format(("json",), "application/json", ".jsonfile", 10 * _MB),
    Format(("arb",), "application/json", ".jsonfile", 10 * _MB),
    Format(("xliff", "xlf"), "application/xliff+xml", ".xliff"),
    Format(("xml",), "application/xml", ".android", 10 * _MB),
    Format(("properties",), "text/x-java-properties", ".properties", 10 * _MB),
    Format(("strings",), "text/x-apple-strings", ".apple", 10 * _MB),
    Format(("xcstrings",), "application/json", ".xcstrings", 10 * _MB),
    Format(("resx", "resw"), "application/xml", ".resx", 10 * _MB),
    Format(("ts",), "application/x-linguist", ".qt", 10 * _MB),
    Format(("yaml", "yml"), "application/yaml", ".yamlfile", 10 * _MB),
    Format(("csv",), "text/csv", ".table", 10 * _MB),
    Format(("tsv", "tab"), "text/tab-separated-values", ".table", 10 * _MB),
    Format(("pptx",), f"{_OPENXML}.presentationml.presentation", ".pptx"),
    Format(("pptm",), "application/vnd.ms-powerpoint.presentation.macroEnabled.12", ".pptx"),
    Format(("ppsx",), f"{_OPENXML}.presentationml.slideshow", ".pptx"),
    Format(("ppsm",), "application/vnd.ms-powerpoint.slideshow.macroEnabled.12", ".pptx"),
    Format(("potx",), f"{_OPENXML}.presentationml.template", ".pptx"),
    Format(("potm",), "application/vnd.ms-powerpoint.template.macroEnabled.12", ".pptx"),
    Format(("xlsx",), f"{_OPENXML}.spreadsheetml.sheet", ".xlsx"),
    Format(("xlsm",), "application/vnd.ms-excel.sheet.macroEnabled.12", ".xlsx"),
    Format(("xltx",), f"{_OPENXML}.spreadsheetml.template", ".xlsx"),
    Format(("xltm",), "application/vnd.ms-excel.template.macroEnabled.12", ".xlsx"),
)
"""The formats of this package. A module joins with its row here; other packages' formats are entry points of `GROUP`."""

REFUSED: Mapping[str, str] = {
    "doc": "save it as docx",
    "xls": "save it as xlsx",
    "ppt": "save it as pptx",
    "rtf": "save it as docx",
}
"""Extensions of formats that are not read, and what to do."""

_BY_EXTENSION: Mapping[str, Format] = {extension: one for one in FORMATS for extension in one.extensions}


@cache
def installed() -> tuple[Format, ...]:
    """The formats that installed packages add, in the order of their names. An entry that cannot be loaded, or is none, is
    logged and left out: the files of others are read nevertheless."""
    found: list[Format] = []
    for entry in sorted(entry_points(group=GROUP)):
        try:
            added: object = entry.load()
        except Exception as error:  # noqa: BLE001 - of a package that this one does not know
            log.error("the entry point %s = %s of %s fails: %r", entry.name, entry.value, GROUP, error)
            continue
        if isinstance(added, Format):
            found.append(added)
        else:
            log.error("the entry point %s = %s of %s is not a Format", entry.name, entry.value, GROUP)
    return tuple(found)


def all_formats() -> tuple[Format, ...]:
    """All formats that are read: those of this package, and those of others."""
    return *FORMATS, *installed()


def find(extension: str) -> Format | None:
    """The format of an extension. None of another package takes one of this package's extensions."""
    if extension in _BY_EXTENSION:
        return _BY_EXTENSION[extension]
    return next((one for one in installed() if extension in one.extensions), None)


def extension_of(filename: str) -> str:
    """The extension of a file's name, in lower case and without its dot."""
    return PurePosixPath(filename).suffix[1:].lower()


def format_of(extension: str) -> Format:
    """The format of an extension. Raises `UnsupportedFile` with what to do."""
    found = find(extension)
    if found is not None:
        return found
    known = ", ".join(one.name for one in all_formats())
    hint = f"{REFUSED[extension]} and send that" if extension in REFUSED else f"this server reads {known}"
    named = f"file extension .{extension} is not supported" if extension else "the file's name has no file extension"
    raise UnsupportedFile(f"Invalid file: {named}; {hint}", param="file")


def import_reader(extension: str) -> None:
    """Import the module of this package that reads a format. Does nothing for an extension that is of none of its formats.

    Raises `ImportError`.
    """
    if extension in _BY_EXTENSION:
        import_module(_BY_EXTENSION[extension].module, __package__)


def read(data: bytes, options: ReadOptions) -> Content:
    """Read a file of any format. Raises `InvalidFile` with the place for one that is not what its extension says."""
    module = import_module(format_of(options.extension).module, __package__)
    content: Content = module.read(data, options)
    return content


def write(data: bytes, options: ReadOptions, translations: Sequence[str]) -> tuple[bytes, list[str]]:
    """Read a file again, and return it with the translations of its units, and warnings. Raises what `read` raises."""
    content = read(data, options)
    if [part.name for part in content.parts] == [""]:
        return single_part(content, translations)
    replaced, warnings = replaced_parts(content, translations)
    archive = import_module(".archive", __package__)
    return archive.rewrite(content.new_package or data, replaced, content.dropped), warnings
