"""The formats of files: extensions, media types, limits, the module that reads each; and those that are refused, with why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePosixPath

from wholetext.errors import UnsupportedFile
from wholetext.files.content import Content, ReadOptions, replaced_parts, single_part

_MB = 1_000_000
_OPENXML = "application/vnd.openxmlformats-officedocument"
_ODF = "application/vnd.oasis.opendocument"


@dataclass(frozen=True, slots=True)
class Format:
    """One format. `extensions[0]` is its name; all its extensions are equal. `module` is read by `read`."""

    extensions: tuple[str, ...]
    media_type: str
    module: str
    max_bytes: int = 30 * _MB
    outputs: tuple[str, ...] = ()  # other formats that it can be written as; empty: only itself

    @property
    def name(self) -> str:
        return self.extensions[0]


FORMATS: tuple[Format, ...] = (
    Format(("txt",), "text/plain", "plaintext", 10 * _MB),
    Format(("md", "markdown"), "text/markdown", "plaintext", 10 * _MB),
    Format(("docx",), f"{_OPENXML}.wordprocessingml.document", "docx"),
    Format(("docm",), "application/vnd.ms-word.document.macroEnabled.12", "docx"),
    Format(("dotx",), f"{_OPENXML}.wordprocessingml.template", "docx"),
    Format(("dotm",), "application/vnd.ms-word.template.macroEnabled.12", "docx"),
    Format(("html", "htm"), "text/html", "webpage", 10 * _MB),
    Format(("xhtml", "xht"), "application/xhtml+xml", "webpage", 10 * _MB),
    Format(("srt",), "application/x-subrip", "subtitles", 10 * _MB),
    Format(("vtt",), "text/vtt", "subtitles", 10 * _MB),
    Format(("ass", "ssa"), "text/x-ssa", "subtitles", 10 * _MB),
    Format(("odt",), f"{_ODF}.text", "odf"),
    Format(("ott",), f"{_ODF}.text-template", "odf"),
    Format(("fodt",), f"{_ODF}.text-flat-xml", "odf"),
    Format(("ods",), f"{_ODF}.spreadsheet", "odf"),
    Format(("ots",), f"{_ODF}.spreadsheet-template", "odf"),
    Format(("fods",), f"{_ODF}.spreadsheet-flat-xml", "odf"),
    Format(("odp",), f"{_ODF}.presentation", "odf"),
    Format(("otp",), f"{_ODF}.presentation-template", "odf"),
    Format(("fodp",), f"{_ODF}.presentation-flat-xml", "odf"),
    Format(("epub",), "application/epub+zip", "epub"),
    Format(("pdf",), "application/pdf", "pdf", outputs=("docx", "md")),
    Format(("po", "pot"), "text/x-gettext-translation", "gettext", 10 * _MB),
    Format(("json",), "application/json", "jsonfile", 10 * _MB),
    Format(("arb",), "application/json", "jsonfile", 10 * _MB),
    Format(("xliff", "xlf"), "application/xliff+xml", "xliff"),
    Format(("xml",), "application/xml", "android", 10 * _MB),
    Format(("csv",), "text/csv", "table", 10 * _MB),
    Format(("tsv", "tab"), "text/tab-separated-values", "table", 10 * _MB),
    Format(("pptx",), f"{_OPENXML}.presentationml.presentation", "pptx"),
    Format(("pptm",), "application/vnd.ms-powerpoint.presentation.macroEnabled.12", "pptx"),
    Format(("ppsx",), f"{_OPENXML}.presentationml.slideshow", "pptx"),
    Format(("ppsm",), "application/vnd.ms-powerpoint.slideshow.macroEnabled.12", "pptx"),
    Format(("potx",), f"{_OPENXML}.presentationml.template", "pptx"),
    Format(("potm",), "application/vnd.ms-powerpoint.template.macroEnabled.12", "pptx"),
    Format(("xlsx",), f"{_OPENXML}.spreadsheetml.sheet", "xlsx"),
    Format(("xlsm",), "application/vnd.ms-excel.sheet.macroEnabled.12", "xlsx"),
    Format(("xltx",), f"{_OPENXML}.spreadsheetml.template", "xlsx"),
    Format(("xltm",), "application/vnd.ms-excel.template.macroEnabled.12", "xlsx"),
)
"""All formats that are read. A module joins with its row here."""

REFUSED: Mapping[str, str] = {
    "doc": "save it as docx",
    "xls": "save it as xlsx",
    "ppt": "save it as pptx",
    "rtf": "save it as docx",
    "yaml": "convert it to json",
    "yml": "convert it to json",
    "properties": "convert it to po (prop2po)",
    "strings": "export xliff from Xcode",
    "xcstrings": "export xliff from Xcode",
    "resx": "convert it to po (resx2po)",
    "ts": "convert it to xliff (lconvert)",
}
"""Extensions of formats that are not read, and what to do."""

BY_EXTENSION: Mapping[str, Format] = {extension: one for one in FORMATS for extension in one.extensions}


def extension_of(filename: str) -> str:
    """The extension of a file's name, in lower case and without its dot."""
    return PurePosixPath(filename).suffix[1:].lower()


def format_of(extension: str) -> Format:
    """The format of an extension. Raises `UnsupportedFile` with what to do."""
    found = BY_EXTENSION.get(extension)
    if found is not None:
        return found
    known = ", ".join(one.name for one in FORMATS)
    hint = f"{REFUSED[extension]} and send that" if extension in REFUSED else f"this server reads {known}"
    named = f"file extension .{extension} is not supported" if extension else "the file's name has no file extension"
    raise UnsupportedFile(f"Invalid file: {named}; {hint}", param="file")


def read(data: bytes, options: ReadOptions) -> Content:
    """Read a file of any format. Raises `InvalidFile` with the place for one that is not what its extension says."""
    module = import_module(f"wholetext.files.{format_of(options.extension).module}")
    content: Content = module.read(data, options)
    return content


def write(data: bytes, options: ReadOptions, translations: Sequence[str]) -> tuple[bytes, list[str]]:
    """Read a file again, and return it with the translations of its units, and warnings. Raises what `read` raises."""
    content = read(data, options)
    if [part.name for part in content.parts] == [""]:
        return single_part(content, translations)
    replaced, warnings = replaced_parts(content, translations)
    archive = import_module("wholetext.files.archive")
    return archive.rewrite(content.new_package or data, replaced, content.dropped), warnings
