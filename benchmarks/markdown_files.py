"""Translates Markdown files of real projects, and compares the structure of the pages that each project's own tool makes of them.

    python benchmarks/markdown_files.py --python TOOLS/bin/python --npm FOLDER [--clones DIR] --out results/markdown-files.json --page docs/markdown.md

`markdown_files.tsv` lists the files: repository, commit, path, SHA-256, tool, and the half that the SHA-256 puts a file into. One has
looked only at the differences of the development half; the other one is held out. Files are read from git clones: those in `--clones`, as
folders `owner+name` that hold a git directory, or else what `git clone` gets from GitHub.

Each file is read and written by `wholetext`; its texts are translated as the fake engine does, with circled letters in place of
letters. Source and translation become pages by `markdown_renderers.py` and `markdown_renderers.mjs`, which say what they need. Two
pages are equal if their elements, attributes that are not text, links, comments and code are equal, and their texts are when each letter counts as
the same one: what a reader would see of a broken notation, or of a backslash, is a difference. Ids that a tool makes of headings are not compared.

The last line of stdout is the JSON document that `--out` writes.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass
from html.parser import HTMLParser
from io import BytesIO
from itertools import groupby, product, zip_longest
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from dragoman_bench.bench.measurement import Measurement
from wholetext.files.content import ReadOptions
from wholetext.files.formats import extension_of, read, write
from wholetext.markup.spans import pseudolocalized

HERE = Path(__file__).parent
LIST = HERE / "markdown_files.tsv"
HALVES = ("held out", "development")
START, END = "<!-- markdown_files -->", "<!-- /markdown_files -->"
CPU_TURNS = 3


@dataclass(frozen=True)
class Source:
    """Where files are chosen: those of a repository whose path matches; of more than `most` those whose path has the lowest hash."""

    repository: str
    tool: str
    paths: str
    most: int = 36


SOURCES = (
    Source("jestjs/jest", "Docusaurus", r"(docs|website/blog)/.*\.mdx?"),
    Source("reduxjs/redux", "Docusaurus", r"docs/.*\.mdx?"),
    Source("algolia/docsearch", "Docusaurus", r"packages/website/docs/.*\.mdx?"),
    Source("squidfunk/mkdocs-material", "MkDocs", r"docs/.*\.md", 1000),
    Source("mkdocs/mkdocs", "MkDocs", r"docs/.*\.md", 1000),
    Source("blacksmithgu/obsidian-dataview", "MkDocs", r"docs/docs/.*\.md", 1000),
    Source("jekyll/jekyll", "Jekyll", r"docs/(_docs|_posts|_tutorials)/.*\.(md|markdown)"),
    Source("just-the-docs/just-the-docs", "Jekyll", r"docs/.*\.md"),
    Source("github/opensource.guide", "Jekyll", r"_articles/[^/]*\.md"),
    Source("gohugoio/hugoDocs", "Hugo", r"content/en/.*\.md"),
    Source("google/docsy", "Hugo", r"docsy\.dev/content/.*\.md"),
    Source("obsidianmd/obsidian-help", "Obsidian", r"en/.*\.md"),
    Source("obsidian-tasks-group/obsidian-tasks", "Obsidian", r"docs/(?!_meta/).*\.md"),
    Source("quarto-dev/quarto-web", "Quarto", r"docs/.*\.qmd"),
    Source("hadley/r4ds", "Quarto", r".*\.qmd"),
    Source("executablebooks/MyST-Parser", "MyST", r"docs/.*\.md", 1000),
    Source("executablebooks/sphinx-design", "MyST", r"docs/.*\.md", 1000),
    Source("executablebooks/sphinx-book-theme", "MyST", r"docs/.*\.md", 1000),
    Source("vuejs/vitepress", "VitePress", r"docs/en/.*\.md"),
    Source("vitejs/vite", "VitePress", r"docs/.*\.md"),
    Source("vuejs/docs", "VitePress", r"src/.*\.md"),
    Source("mermaid-js/mermaid", "VitePress", r"packages/mermaid/src/docs/.*\.md"),
)
FEWEST_BYTES = 600
BUILT = ("MkDocs", "MyST")
"""Tools whose sites are built whole."""


@dataclass(frozen=True)
class Listed:
    """A line of the list."""

    repository: str
    commit: str
    path: str
    sha256: str
    tool: str

    @property
    def half(self) -> str:
        return HALVES[int(self.sha256[:2], 16) % 2]

    @property
    def folder(self) -> str:
        return self.repository.replace("/", "+")

    @property
    def name(self) -> str:
        return f"{self.folder}/{self.path}"


# ---- files


def git_directory(clones: Path, repository: str) -> Path:
    """The repository's git directory, cloned if it is not there."""
    folder = clones / repository.replace("/", "+")
    if not folder.exists():
        address = f"https://github.com/{repository}"
        subprocess.run(["git", "clone", "--quiet", "--bare", "--filter=blob:none", address, str(folder)], check=True)
    return next(found.parent for found in sorted((*folder.glob("HEAD"), *folder.glob("*/HEAD"))))


def git(directory: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(directory), *arguments], check=True, capture_output=True).stdout


def choose(clones: Path) -> Iterator[Listed]:
    """The lines of a new list, of each repository's newest commit."""
    for source in SOURCES:
        directory = git_directory(clones, source.repository)
        commit = git(directory, "rev-parse", "HEAD").decode().strip()
        names = git(directory, "ls-tree", "-rz", "--name-only", commit).decode().split("\0")
        paths = [name for name in names if re.fullmatch(source.paths, name)]
        paths.sort(key=lambda path: hashlib.sha256(path.encode()).digest())
        chosen = 0
        for path in paths:
            data = git(directory, "show", f"{commit}:{path}")
            if chosen < source.most and len(data) >= FEWEST_BYTES:
                chosen += 1
                yield Listed(source.repository, commit, path, hashlib.sha256(data).hexdigest(), source.tool)


def listed() -> list[Listed]:
    with LIST.open(encoding="utf-8", newline="") as lines:
        return [Listed(*row[:5]) for row in list(csv.reader(lines, delimiter="\t"))[1:]]


def export(clones: Path, files: Iterable[Listed], tree: Path) -> None:
    """Write each listed file below its repository's folder of `tree`, and all files of a repository whose site is built."""
    for (repository, commit), of_one in groupby(files, lambda file: (file.repository, file.commit)):
        directory, listed_files = git_directory(clones, repository), list(of_one)
        if listed_files[0].tool in BUILT:
            archive = git(directory, "archive", "--format=tar", commit)
            with tarfile.open(fileobj=BytesIO(archive)) as unpacked:
                unpacked.extractall(tree / repository.replace("/", "+"), filter=_plain_files)
        for file in listed_files:
            path = tree / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(git(directory, "show", f"{commit}:{file.path}"))


def _plain_files(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
    return tarfile.data_filter(member, path) if member.isfile() else None


# ---- translations


def options(file: Listed, name_dialects: bool) -> ReadOptions:
    dialect = "mdx" if file.tool == "Docusaurus" else file.tool.lower()
    return ReadOptions(extension_of(file.path), target="de", dialect=dialect if name_dialects else "")


def translated(data: bytes, read_options: ReadOptions) -> bytes:
    texts = [pseudolocalized(unit.block.text) for unit in read(data, read_options).units]
    return write(data, read_options, texts)[0]


def cpu_seconds(files: dict[Listed, bytes], name_dialects: bool) -> list[float]:
    """The CPU time in which a worker reads all files, and writes them with their own texts; each turn's."""
    turns: list[float] = []
    for _ in range(CPU_TURNS):
        began = process_time()
        for file, data in files.items():
            chosen = options(file, name_dialects)
            texts = [unit.block.text for unit in read(data, chosen).units]
            if write(data, chosen, texts)[0] != data:
                raise SystemExit(f"{file.name}: not the same file with its own texts")
        turns.append(process_time() - began)
    return turns


# ---- pages

Pages = dict[str, dict[str, str]]  # by path: `page` or `error`


def rendered(tree: Path, files: list[Listed], arguments: argparse.Namespace) -> Pages:
    """The pages that the files' tools make of a tree. Renderers run in the tools' own environments."""
    pages: Pages = {}
    for tool, of_tool in groupby(sorted(files, key=lambda file: file.tool), lambda file: file.tool):
        script = "mjs" if tool in NODE_TOOLS else "py"
        program = ["node"] if script == "mjs" else [str(arguments.python)]
        asked = json.dumps({"tool": tool, "tree": str(tree), "files": [file.name for file in of_tool]})
        environment = {**os.environ, "NPM_FOLDER": str(arguments.npm.resolve())}
        command = [*program, str(HERE / f"markdown_renderers.{script}")]
        done = subprocess.run(command, input=asked, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{tool}: {done.stderr[-4000:]}")
        pages.update(json.loads(done.stdout.splitlines()[-1]))
    return pages


NODE_TOOLS = ("Docusaurus", "Hugo", "Obsidian", "VitePress")
_EXACT = frozenset({"code", "pre", "kbd", "script", "style", "svg", "math"})
_EMPTY = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_TEXT_ATTRIBUTE = re.compile(
    r"(?:data-)?(?:aria-.*|(?:.*-)?(?:alt|caption|cap|title)|label|summary|description|placeholder|content|text)"
)
_MADE_CLASS = re.compile(r"\badmonition-[\w-]+")  # of a title
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_CONTENTS = frozenset({"toc", "table-of-contents", "markdown-toc"})
_QUOTES = str.maketrans("‘’“”", "''\"\"")


class Structure(HTMLParser):
    """The parts of a page that a translation must not change, in their order."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self._source = source
        self._open: list[str] = []
        self._skipped = 0
        self._text: list[str] = []
        self.parts: list[str] = []
        self.letters = self.circled = 0  # of the texts

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._end_text()
        values = {name: value or "" for name, value in attrs}
        marked = f"{values.get('class', '')} {values.get('id', '')}".split()
        is_contents = tag in ("ul", "ol", "nav", "div") and not _CONTENTS.isdisjoint(marked)
        if self._skipped or is_contents:
            self._skipped += tag not in _EMPTY
            return
        if tag not in _EMPTY:
            self._open.append("span" if "download" in marked else tag)  # Sphinx writes the text of a download as code
        shown = [f"{name}={self._value(name, value)}" for name, value in sorted(values.items())]
        self.parts.append(f"<{' '.join((tag, *shown))}>")

    def _value(self, name: str, value: str) -> str:
        if _TEXT_ATTRIBUTE.fullmatch(name):
            return shape(value)
        if name == "class":
            return _MADE_CLASS.sub("", value)
        if name == "href":
            page, sign, place = value.partition("#")
            return value if f"#{place}" in self._source else f"{page}{sign}…"
        return "…" if name in ("id", "name", "for") and not self._is_written(value) else value

    def _is_written(self, identifier: str) -> bool:
        """Whether the source names an id; others are made of texts."""
        named = rf"(?m)(?:\{{[^{{}}\n]*#|^\(|(?:id|name|for)=[\"']?|:name:\s+){re.escape(identifier)}(?![\w-])"
        return re.search(named, self._source) is not None

    def handle_endtag(self, tag: str) -> None:
        self._end_text()
        if self._skipped:
            self._skipped -= 1
            return
        if tag in self._open:  # what is left open in it ends, too
            while self._open.pop() != tag:
                pass
        if tag == "span" and self.parts[-1].startswith(
            "<span id="
        ):  # an empty one: a place that is made of a heading, too
            self.parts.pop()
        else:
            self.parts.append(f"</{tag}>")

    def handle_comment(self, data: str) -> None:
        self._end_text()
        self.parts.append(f"<!--{data}-->")

    def handle_data(self, data: str) -> None:
        self._text.append(data)

    def _end_text(self) -> None:
        text, self._text = "".join(self._text), []
        if text and not self._skipped:
            if _EXACT.isdisjoint(self._open):
                self.circled += sum(map(_is_circled, text))
                text = shape(text)
                self.letters += text.count("a")
            self.parts += [text] if text.strip() else []


def shape(text: str) -> str:
    """A text with one letter for all others; templates stay."""
    shown: list[str] = []
    at = 0
    for found in _TEMPLATE.finditer(text):
        shown += _letters(text[at : found.start()]), found[0]
        at = found.end()
    return " ".join("".join((*shown, _letters(text[at:]))).translate(_QUOTES).split())


def _letters(text: str) -> str:
    return "".join("a" if one.isalpha() or _is_circled(one) else one for one in text)


def _is_circled(character: str) -> bool:
    return "\u24d0" <= character <= "\u24e9"


def structure(page: str, source: str) -> Structure:
    found = Structure(source)
    found.feed(page)
    found.close()
    found.handle_comment("")
    return found


def difference(before: list[str], after: list[str]) -> str:
    """The first part that differs, with what is before it; empty: none does."""
    for at, (one, other) in enumerate(zip_longest(before, after, fillvalue="")):
        if one != other:
            return f"behind {''.join(before[max(at - 3, 0) : at])[-200:]!r}:\n    {one[:400]!r}\n    {other[:400]!r}"
    return ""


# ---- results


@dataclass(frozen=True)
class Compared:
    """What becomes of a file: `equal`, `different`, or `unread` where the tool does not read its source; letters of its texts."""

    file: Listed
    state: str
    letters: int = 0
    translated: int = 0


def compare(files: list[Listed], tree: Path, changed: Path, arguments: argparse.Namespace) -> Iterator[Compared]:
    """Compare the pages of each file, and print differences of the development half."""
    before, after = rendered(tree, files, arguments), rendered(changed, files, arguments)
    for file in files:
        source = (tree / file.name).read_text("utf-8")
        differs = before[file.name].get("error") or after[file.name].get("error")
        if differs:
            found = Compared(file, "unread" if "error" in before[file.name] else "different")
        else:
            one, other = (structure(pages[file.name]["page"], source) for pages in (before, after))
            differs = difference(one.parts, other.parts)
            found = Compared(file, "different" if differs else "equal", one.letters, other.circled)
        if arguments.show and differs and file.half == "development":
            print(f"{file.tool} {file.name}: {found.state}\n  {differs}")
        yield found


def counts(found: list[Compared]) -> Iterator[dict[str, Any]]:
    """Of each half and tool: how many files are equal, different and unread, and how many letters of the pages' texts changed."""
    tools = ("", *sorted({one.file.tool for one in found}))
    for half, tool in product(HALVES, tools):
        rows = [one for one in found if one.file.half == half and tool in ("", one.file.tool)]
        if rows:
            states = Counter(one.state for one in rows)
            yield {
                "half": half,
                "tool": tool,
                "repositories": len({one.file.repository for one in rows}),
                **{state: states[state] for state in STATES},
                "translated": round(sum(one.translated for one in rows) / max(sum(one.letters for one in rows), 1), 3),
            }


STATES = ("equal", "different", "unread")


def section(found: Measurement) -> str:
    """The tables of the page."""
    lines = [
        "| files | tool | repositories | equal | different | not read by the tool | letters translated |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {row['half']} | {row['tool'] or 'all'} | {row['repositories']} | {row['equal']} | {row['different']} "
            f"| {row['unread']} | {row['translated']:.1%} |"
            for row in found.data["counts"]
        ),
    ]
    cpu = found.data["cpu"]
    return "\n".join(lines) + (
        f"\n\nCPU time in which all {cpu['files']} files ({cpu['bytes'] / 1e6:.1f} MB) are read, and written with their own texts: "
        f"{cpu['seconds']:.1f} s, {cpu['ms_per_file']:.1f} ms a file ({found.conditions['machine']['cpu']})."
    )


def write_page(page: Path, text: str) -> None:
    before, _, rest = page.read_text("utf-8").partition(START)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{page} has no lines {START} and {END}")
    page.write_text(f"{before}{START}\n{text}\n{END}{after}", "utf-8")


def parsed(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="Python of the tools' environment")
    parser.add_argument("--npm", type=Path, default=Path(), help="folder with the tools' node_modules")
    parser.add_argument("--clones", type=Path, help="folder of git directories owner+name (default: clone from GitHub)")
    parser.add_argument("--choose", action="store_true", help="write a new list of files, and end")
    parser.add_argument("--half", choices=HALVES, help="only this half (default: both)")
    parser.add_argument("--tool", help="only this tool's files")
    parser.add_argument("--name-dialects", action="store_true", help="name each file's dialect, which is guessed else")
    parser.add_argument("--cpu-only", action="store_true", help="make no pages, and measure CPU time alone")
    parser.add_argument("--show", action="store_true", help="print the differences of the development half")
    parser.add_argument("--keep", type=Path, help="folder for sources and translations (default: a temporary one)")
    parser.add_argument("--out", type=Path, help="result file")
    parser.add_argument("--page", type=Path, help=f"Markdown page whose lines between {START} and {END} are written")
    return parser.parse_args(given)


def write_list(clones: Path) -> None:
    with LIST.open("w", encoding="utf-8", newline="") as out:
        lines = csv.writer(out, delimiter="\t", lineterminator="\n")
        lines.writerow(("repository", "commit", "path", "sha256", "tool", "half"))
        lines.writerows((*astuple(file), file.half) for file in choose(clones))


def measure(arguments: argparse.Namespace, clones: Path, work: Path) -> Measurement:
    files = [file for file in listed() if arguments.half in (None, file.half) and arguments.tool in (None, file.tool)]
    found = Measurement.begin(
        "markdown-files", dialects="named" if arguments.name_dialects else "guessed", tools=versions(arguments)
    )
    tree, changed = work / "source", work / "translation"
    data: dict[Listed, bytes] = {}
    for folder in (tree, changed):
        export(clones, files, folder)
    for file in files:
        data[file] = (tree / file.name).read_bytes()
        if hashlib.sha256(data[file]).hexdigest() != file.sha256:
            raise SystemExit(f"{file.name}: another file than listed")
        (changed / file.name).write_bytes(translated(data[file], options(file, arguments.name_dialects)))
    turns = cpu_seconds(data, arguments.name_dialects)
    found.data["counts"] = [] if arguments.cpu_only else list(counts(list(compare(files, tree, changed, arguments))))
    found.data["cpu"] = {
        "files": len(files),
        "bytes": sum(map(len, data.values())),
        "seconds": round(median(turns), 3),
        "turns_s": [round(turn, 3) for turn in turns],
        "ms_per_file": round(1000 * median(turns) / max(len(files), 1), 2),
    }
    return found


def versions(arguments: argparse.Namespace) -> dict[str, str]:
    """Versions of the parsers."""
    code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    names = ("mkdocs-material", "Markdown", "pymdown-extensions", "Sphinx", "myst-parser")
    done = subprocess.run([str(arguments.python), "-c", code, *names], capture_output=True, text=True)
    found = dict(zip(names, done.stdout.split(), strict=False))
    for name in ("@mdx-js/mdx", "@docusaurus/mdx-loader", "vitepress", "markdown-it"):
        package = arguments.npm / "node_modules" / name / "package.json"
        found |= {name: json.loads(package.read_text("utf-8"))["version"]} if package.exists() else {}
    for name, command in (
        ("kramdown", ["ruby", "-e", "require 'kramdown'; puts Kramdown::VERSION"]),
        ("pandoc", ["pandoc", "--version"]),
    ):
        with suppress(OSError):
            found[name] = subprocess.run(command, capture_output=True, text=True).stdout.split("\n")[0].split()[-1]
    return found


def main(given: list[str]) -> None:
    arguments = parsed(given)
    with TemporaryDirectory() as temporary:
        clones = arguments.clones or Path(temporary, "clones")
        if arguments.choose:
            write_list(clones)
            return
        found = measure(arguments, clones, arguments.keep or Path(temporary))
    print(section(found))
    if arguments.page:
        write_page(arguments.page, section(found))
    found.write(arguments.out)
    print(json.dumps(found.document))


if __name__ == "__main__":
    main(sys.argv[1:])
