"""Makes pages of Markdown files for `markdown_files.py`, in an environment with the tools of their projects:

    python -m venv TOOLS; TOOLS/bin/pip install mkdocs-material markdown-callouts mdx-gh-links mkdocs-click myst-parser sphinx-design
    apt-get install ruby-kramdown-parser-gfm pandoc

It reads a JSON object with the tool's name, a folder (`tree`) with a folder for each repository, and files in it, from stdin; the last line
of stdout is an object with a `page` or an `error` for each file. mkdocs-material's and Sphinx's sites are built whole, with the projects' own
Markdown extensions, and with none of their plug-ins, hooks, themes and configuration that is code.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

Pages = dict[str, dict[str, str]]

FRONT_MATTER = re.compile(r"---[ \t]*\r?\n.*?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
TITLES = re.compile(
    r"(\"|')(?:(?!\1)[^\n])* (?:(?!\1)[^\n])*\1|\b(?:title|caption|alt|label|header|text|description)=\"[^\"\n]*\""
)


def templates_as_numbers(text: str, pattern: str) -> str:
    """The text with a number for each template, as the tools run templates before they read Markdown, or put such names in their place. Texts in quotes do not change the number."""

    def number(found: re.Match[str]) -> str:
        return str(int(hashlib.sha256(TITLES.sub("", found[0]).encode()).hexdigest()[:12], 16))

    return re.sub(pattern, number, text, flags=re.DOTALL)


def mkdocs(tree: Path, files: list[str]) -> Pages:
    from mkdocs.commands.build import build
    from mkdocs.config import load_config
    from mkdocs.structure.files import get_files
    from mkdocs.utils import yaml_load

    def site(folder: Path, names: list[str], out: Path) -> Pages:
        found = next(path for path in (folder / "mkdocs.yml", folder / "docs" / "mkdocs.yml") if path.exists())
        os.chdir(found.parent)
        own = yaml_load(found.read_text("utf-8"))
        extensions = [one for one in own.get("markdown_extensions", []) if "toc" not in one]
        config = load_config(
            str(found),
            plugins=[],
            hooks=[],
            theme={"name": "material", "features": []},
            markdown_extensions=[*extensions, {"toc": {"permalink": False}}],
            nav=None,
            site_dir=str(out),
            strict=False,
        )
        config.plugins.events["page_markdown"].append(lambda _, page, **__: page.meta.pop("template", "")[:0] or None)
        build(config)
        made = get_files(config)
        prefix = str(Path(config.docs_dir).relative_to(folder)) + "/"
        pages: Pages = {}
        for name in names:
            file = made.get_file_from_path(name.removeprefix(prefix))
            path = Path(file.abs_dest_path) if file else Path()
            found_page = (
                re.search(r"<article\b.*</article>", path.read_text("utf-8"), re.DOTALL) if path.is_file() else None
            )
            pages[name] = {"page": found_page[0]} if found_page else {"error": "not on the site"}
        return pages

    return each_repository(tree, files, site)


SPHINX = """
extensions = ["myst_parser", "sphinx_design"]
myst_enable_extensions = [
    "amsmath", "attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath", "fieldlist", "html_image",
    "replacements", "strikethrough", "substitution", "tasklist", "alert",
]
myst_heading_anchors = 4
html_theme = "basic"
html_permalinks = False
suppress_warnings = ["*"]
"""


def sphinx(tree: Path, files: list[str]) -> Pages:
    from sphinx.cmd.build import build_main

    def site(folder: Path, names: list[str], out: Path) -> Pages:
        (out / "conf.py").write_text(SPHINX, "utf-8")
        docs = folder / "docs"
        build_main(["-q", "-b", "html", "-c", str(out), str(docs), str(out / "site")])
        pages: Pages = {}
        for name in names:
            path = out / "site" / Path(name).relative_to("docs").with_suffix(".html")
            page = (
                re.search(r'<div class="body" role="main">.*<div class="clearer">', path.read_text("utf-8"), re.DOTALL)
                if path.exists()
                else None
            )
            pages[name] = {"page": page[0]} if page else {"error": "not on the site"}
        return pages

    return each_repository(tree, files, site)


def each_repository(tree: Path, files: list[str], site: Callable[[Path, list[str], Path], Pages]) -> Pages:
    pages: Pages = {}
    for repository, names in groupby(sorted(files), lambda name: name.split("/")[0]):
        with TemporaryDirectory() as out:
            found = site(tree / repository, [name.partition("/")[2] for name in names], Path(out))
        pages.update({f"{repository}/{name}": page for name, page in found.items()})
    return pages


KRAMDOWN = """
require "json"; require "kramdown"; require "kramdown-parser-gfm"
texts = JSON.parse(STDIN.read)
puts JSON.generate(texts.transform_values { |text|
  begin
    { page: Kramdown::Document.new(text, input: "GFM", hard_wrap: false, syntax_highlighter: nil).to_html }
  rescue StandardError => error
    { error: error.message }
  end
})
"""
LIQUID_CODE = re.compile(
    r"^([ \t]*)\{%-?[ \t]*highlight\b[^%]*%\}(.*?)\{%-?[ \t]*endhighlight[ \t]*-?%\}", re.DOTALL | re.MULTILINE
)


def kramdown(tree: Path, files: list[str]) -> Pages:
    texts: dict[str, str] = {}
    for name in files:
        text = FRONT_MATTER.sub("", (tree / name).read_text("utf-8"), count=1)
        text = LIQUID_CODE.sub(r"\1~~~\2\n\1~~~", text)
        texts[name] = templates_as_numbers(text, r"\{% raw %\}[^\n]*?\{% endraw %\}|\{\{.*?\}\}|\{%.*?%\}")
    done = subprocess.run(["ruby", "-e", KRAMDOWN], input=json.dumps(texts), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def pandoc(tree: Path, files: list[str]) -> Pages:
    pages: Pages = {}
    for name in files:
        text = FRONT_MATTER.sub("", (tree / name).read_text("utf-8"), count=1)
        text = templates_as_numbers(text, r"\{\{<.*?>\}\}")
        command = [
            "pandoc",
            "-f",
            "markdown-smart-auto_identifiers",
            "-t",
            "html",
            "--wrap=preserve",
            "--no-highlight",
            "--mathml",
        ]
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        pages[name] = {"error": done.stderr} if done.returncode else {"page": done.stdout}
    return pages


RENDERERS: dict[str, Callable[[Path, list[str]], Pages]] = {
    "MkDocs": mkdocs,
    "MyST": sphinx,
    "Jekyll": kramdown,
    "Quarto": pandoc,
}

if __name__ == "__main__":
    logging.disable(logging.WARNING)
    asked = json.load(sys.stdin)
    print(json.dumps(RENDERERS[asked["tool"]](Path(asked["tree"]), asked["files"])))
