"""The notations of Markdown's tools that CommonMark leaves as text, as data: each with its tools, its grammar and its source.

`masks` replaces what is found here before the Markdown is parsed. A row says how the notation looks (a pattern) and what
becomes of it (its form); how far it reaches, where a pattern cannot say that, is found in `masks`. Where a notation is
doubtful, it is kept. A dialect that is not named is guessed: nearly all notations cannot be anything else, and are found in
each dialect but `commonmark`; those of `only` need theirs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

DIALECTS = ("commonmark", "mdx", "myst", "quarto", "mkdocs", "jekyll", "hugo", "obsidian", "vitepress")
"""What can be named. `commonmark`: no notation of a tool is looked for."""
_BY_EXTENSION = {"mdx": "mdx", "qmd": "quarto", "rmd": "quarto"}

Form = Literal[
    "copied",  # code, an escape: nothing in it is a notation
    "word",  # a part of a sentence that stays
    "single",  # stays, and is no part of the sentence where it begins or ends it
    "line",  # whole lines that stay; the text before and after them is not one paragraph
    "pair",  # stays around its group `text`; without it: a word
    "title",  # the beginning of a line, which stays; its group `text`, or what follows, is a text of its own
    "item",  # the same, and what is indented under it is Markdown
    "until",  # stays up to `closer`: a line if it is alone on its lines, otherwise a word
    "fence",  # a block of code; of MyST, Markdown under a directive
    "code",  # a span of code
    "role",  # MyST's `{name}` before a span of code
    "formula",  # what looks like a formula up to `closer`
    "environment",  # of LaTeX, up to its end
    "emphasis",  # of CJK texts, where CommonMark does not read it
    "tag",  # JSX
    "expression",  # JavaScript in braces
    "statement",  # import or export
    "enclosing",  # a tag around Markdown
]


@dataclass(frozen=True, slots=True)
class Notation:
    """A row. `pattern` has no groups with names but `text`. `first` says that it begins a line, behind indentation and `>`."""

    name: str
    tools: str
    source: str
    form: Form
    pattern: str
    first: bool = False
    quoted: bool = False  # and only behind a `>`
    closer: str = ""
    only: frozenset[str] = frozenset()


_ATTRIBUTE = r"(?:[.#][\w:.-]++|[\w:.-]++=(?:\"[^\"\n]*+\"|'[^'\n]*+'|[^\s\"'{}]++)|-(?=[ \t}]))"
ATTRIBUTE_LIST = rf"\{{:?[ \t]*+(?:{_ATTRIBUTE}[ \t]*+)++\}}"
_KRAMDOWN_LIST = r"\{:[^{}\n]{0,300}\}"
_END = r"[ \t]*+(?=\r?$)"
_MDX = frozenset({"mdx"})
WITH_OLD_RULES = frozenset({"mkdocs", "jekyll"})
"""Dialects in which a space or a line end may be between the text of a link and its label."""
_CITING = frozenset({"quarto", "myst"})
_NAME = r"[A-Za-z][\w-]*+"
_ROMAN = r"(?:x{1,3}(?:ix|iv|v?i{1,3}|v)|x{2,3}|ix|iv|vi{1,3}|i{2,3})"
"""From 2 to 39, of several letters: of more letters there are words such as mix and civil."""
_CALLOUTS = (
    "ABSTRACT|ATTENTION|BUG|CAUTION|DANGER|ERROR|EXAMPLE|FAILURE|HINT|IMPORTANT|INFO|NOTE|QUESTION|QUOTE|SUCCESS|SUMMARY|TIP"
    "|TLDR|WARNING"
)
"""Kinds of admonitions: other words in capitals are of the text."""
_PATH = r"[^\s()\[\]]"

_PYTHON_MARKDOWN = "https://python-markdown.github.io/extensions/"
_PYMDOWNX = "https://facelessuser.github.io/pymdown-extensions/extensions/"
_KRAMDOWN = "https://kramdown.gettalong.org/syntax.html"
_PANDOC = "https://pandoc.org/MANUAL.html"
_OBSIDIAN = "https://help.obsidian.md/"
_MYST = "https://mystmd.org/guide/"
_MDXJS = "https://mdxjs.com/docs/what-is-mdx/"
_LEARN = "https://learn.microsoft.com/contribute/content/markdown-reference"
_DIRECTIVES = "https://talk.commonmark.org/t/generic-directives-plugins-syntax/444"


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


# The order is that of precedence, of what begins at the same place.
NOTATIONS: tuple[Notation, ...] = (
    # ---- what begins a line
    Notation("fenced code", "CommonMark, MyST, Quarto", f"{_MYST}directives", "fence",
        r"(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)*+(?:`{3,}(?=[^`\n]*+$)|~{3,})", first=True),
    Notation("contents list", "kramdown", f"{_KRAMDOWN}#automatic-toc-generation", "line",
        rf"(?:[-*+]|1\.)[ \t]++[^\n]{{1,200}}\n[ \t]*+\{{:[ \t]*+toc\b[^{{}}\n]{{0,100}}\}}{_END}", first=True),
    Notation("contents", "Python-Markdown, VitePress, Markdown All in One, CSDN", f"{_PYTHON_MARKDOWN}toc/", "line",
        rf"(?:\[(?i:toc)(?:[ =:][^\]\n]{{0,60}})?\]|@\[toc\](?:\([^)\n]{{0,60}}\))?|\$\{{toc\}}){_END}", first=True),
    Notation("admonition", "Python-Markdown, MkDocs", f"{_PYMDOWNX}details/", "item",
        rf"(?:!!!|\?\?\?\+?)[ \t]++{_NAME}(?:[ \t]++{_NAME})*+"
        rf"(?:[ \t]++\"(?P<text>[^\"\n]*+)\"{_END}|{_END}(?=\r?\n(?:[ \t>]*+\r?\n){{0,3}}[ >]*(?:[ ]{{4}}|\t)))", first=True),
    Notation("tab", "MkDocs", f"{_PYMDOWNX}tabbed/", "item",
        rf"===[+!]{{0,2}}[ \t]++(?:\"(?P<text>[^\"\n]*+)\"|'[^'\n]*+'){_END}", first=True),
    Notation("block", "MkDocs", f"{_PYMDOWNX}blocks/", "title",
        rf"/{{3,}}[ \t]++{_NAME}(?:[ \t]*+\|[ \t]*+(?P<text>[^\n]*?[^\s]))?{_END}(?:\r?\n[ ]{{4}}\w+:[^\n]*+)*+", first=True),
    Notation("block's end", "MkDocs", f"{_PYMDOWNX}blocks/", "line", rf"/{{3,}}{_END}", first=True),
    Notation("inserted file", "MkDocs, VitePress, others", f"{_PYMDOWNX}snippets/", "line",
        r"(?:;*--8<--|<<<[ \t]*+[@.\w]|@import[ \t]++[\"']|!(?:include|INCLUDE)[ \t]++(?=\S*[./\"']))[^\n]*+", first=True),
    Notation("container's end", "Docusaurus, VitePress, Pandoc, MyST", _DIRECTIVES, "line", rf":{{3,}}{_END}", first=True),
    Notation("block of one line", "Microsoft Learn", _LEARN, "line", rf":::[A-Za-z][^\n]*?:::{_END}", first=True),
    Notation("documented object", "mkdocstrings", "https://mkdocstrings.github.io/usage/", "line",
        rf":::[ \t]++\w+(?:\.\w+)++{_END}(?:\r?\n[ ]{{4}}[^\n]*+)*+", first=True),
    Notation("diagram", "Azure DevOps, GitLab", f"{_LEARN}#mermaid", "line",
        rf":::[ \t]*+mermaid{_END}(?:\r?\n(?![ \t]*+:::)[^\n]*+)*+\r?\n[ \t]*+:::{_END}", first=True),
    Notation("directive", "MyST", f"{_MYST}directives", "fence", r":{3,}[ \t]*+(?=\{[\w:-]++\})", first=True),
    Notation("fenced div", "Pandoc, Quarto", f"{_PANDOC}#extension-fenced_divs", "line",
        rf":{{3,}}[ \t]*+\{{[^{{}}\n]{{0,500}}\}}[ \t]*+:*+{_END}", first=True),
    Notation("labelled directive", "Docusaurus, remark", _DIRECTIVES, "title",
        rf":{{2,}}[ \t]*+{_NAME}\[(?P<text>[^\[\]\n]{{1,300}})\](?:\{{[^{{}}\n]{{0,300}}\}})?{_END}", first=True),
    Notation("leaf directive", "remark", _DIRECTIVES, "line", rf"::{_NAME}(?:\{{[^{{}}\n]{{0,300}}\}})?{_END}", first=True),
    Notation("container", "Docusaurus, VitePress, Zenn", "https://docusaurus.io/docs/markdown-features/admonitions", "title",
        rf":{{3,}}[ \t]*+{_NAME}(?:[ \t]++(?P<text>[^\s{{][^\n{{]*?))?"
        rf"[ \t]*+(?:\{{[^{{}}\n]{{0,300}}\}})?[ \t]*+:*+{_END}", first=True),
    Notation("abbreviation", "Python-Markdown, kramdown, PHP Markdown Extra", f"{_PYTHON_MARKDOWN}abbreviations/", "title",
        r"\*\[[^\[\]\n]{1,100}\]:[ \t]*+", first=True),
    Notation("callout", "Obsidian, GitHub, Microsoft Learn", f"{_OBSIDIAN}callouts", "title",
        r"\[![A-Za-z][\w /-]{0,40}(?:\|[^\[\]\n]{0,100})?\][+-]?[ \t]*+", first=True, quoted=True),
    Notation("callout of a word", "markdown-callouts", "https://oprypin.github.io/markdown-callouts/", "single",
        rf"(?:{_CALLOUTS}):(?=\s)", first=True, only=frozenset({"mkdocs"})),
    Notation("definition", "PHP Markdown Extra, kramdown, Pandoc, MkDocs", f"{_KRAMDOWN}#definition-lists", "item",
        r"(?<![^\n]):[ \t]{1,3}(?=[^\s:|-])", first=True),
    Notation("field", "MyST", "https://myst-parser.readthedocs.io/en/latest/syntax/optional.html#field-lists", "item",
        r"(?<![^\n]):[A-Za-z][\w .*-]{0,60}:[ \t]{1,3}(?=\S)", first=True, only=frozenset({"myst"})),
    Notation("numbered example", "Pandoc, Quarto", f"{_PANDOC}#numbered-example-lists", "item",
        r"\(@\)[ \t]++(?=\S)", first=True),
    Notation("lettered item", "Pandoc, Quarto", f"{_PANDOC}#extension-fancy_lists", "item",
        rf"(?:\(?(?:[A-Za-z]|{_ROMAN}|{_ROMAN.upper()})\)|(?:[a-z]|{_ROMAN}|#)\."
        rf"|(?:[A-Z]|{_ROMAN.upper()})\.(?=[ \t]{{2}}))"
        r"(?:[ \t]++(?=\S)|(?=\r?\n[ \t>]*+\S))", first=True, only=frozenset({"quarto"})),
    Notation("property", "Logseq, Obsidian's Dataview", "https://docs.logseq.com/#/page/properties", "title",
        r"[A-Za-z][\w-]{0,40}::[ \t]++(?:(?:true|false)(?=[ \t]*+\r?$))?(?=\S|\r?$)", first=True),
    Notation("target", "MyST", f"{_MYST}cross-references", "line", rf"\([^()\s]{{1,100}}\)={_END}", first=True),
    Notation("comment line", "MyST", f"{_MYST}typography", "line", r"%[ \t][^\n]*+", first=True, only=frozenset({"myst"})),
    Notation("break of blocks", "MyST", f"{_MYST}blocks", "line", rf"\+\+\+(?:[ \t]++[\[{{][^\n]*+)?{_END}", first=True),
    Notation("command", "LaTeX in Pandoc, Quarto", f"{_PANDOC}#extension-raw_tex", "line",
        rf"\\(?!begin\b|end\b)[A-Za-z]{{3,30}}\*?(?:\[[^\[\]\n]*+\])*+(?:\{{[^{{}}\n]*+\}})*+{_END}", first=True),
    Notation("statement", "MDX", f"{_MDXJS}#esm", "statement", r"(?<![^\n])(?:import|export)(?=[\s{*\"'])", first=True),
    Notation("block of a forum", "Discourse", "https://meta.discourse.org/t/hide-details-summary/27103", "title",
        r"\[(?:details=\"(?P<text>[^\"\n]*+)\"|/?(?:quote|details|spoiler|poll|chat|wrap|grid)(?:[ =][^\[\]\n]*+)?)\]"
        rf"{_END}", first=True),
    Notation("comment", "Obsidian", f"{_OBSIDIAN}syntax#Comments", "until", r"%%(?=[ \t]*+\r?$)", first=True, closer="%%"),
    # ---- code and escapes, in which nothing is a notation
    Notation("comment", "HTML", "https://spec.commonmark.org/0.31.2/#html-comment", "until", "<!--", closer="-->"),
    Notation("code", "CommonMark", "https://spec.commonmark.org/0.31.2/#code-spans", "code", "`++"),
    Notation("formula", "MathJax, KaTeX", "https://docs.mathjax.org/en/latest/input/tex/delimiters.html", "formula",
        r"\\[(\[]"),
    Notation("formula", "Jekyll with MathJax", f"{_KRAMDOWN}#math-blocks", "formula", r"\\\\[(\[]", only=frozenset({"jekyll"})),
    Notation("label of a formula", "MyST", f"{_MYST}math", "single",
        r"(?:(?<=\$\$)|(?<=\$\$[ ]))\([A-Za-z][\w:.-]{0,80}\)(?=[ \t]*+\r?$)"),
    Notation("environment", "LaTeX", "https://docs.mathjax.org/en/latest/input/tex/eqnumbers.html", "environment",
        r"\\begin\{[A-Za-z]+\*?\}"),
    Notation("escape", "CommonMark", "https://spec.commonmark.org/0.31.2/#backslash-escapes", "copied", r"\\[!-/:-@\[-`{-~]"),
    # ---- templates
    Notation("comment", "MDX", f"{_MDXJS}#expressions", "until", r"\{[ \t]*+/\*", closer="*/}"),
    Notation("tag", "MDX", f"{_MDXJS}#jsx", "tag",
        r"</?(?:[A-Za-z_$][\w.$-]*+(?::[A-Za-z][\w-]*+)?+(?=[\s/>{])|(?=>))", only=_MDX),
    Notation("expression", "MDX", f"{_MDXJS}#expressions", "expression", r"\{", only=_MDX),
    Notation("Markdown in HTML", "kramdown, Python-Markdown", f"{_PYTHON_MARKDOWN}md_in_html/", "enclosing",
        r"</?[a-z][\w-]{0,20}(?:[ \t][^<>\n]*+)?>"),
    Notation("raw block", "kramdown", f"{_KRAMDOWN}#extensions", "until",
        r"\{::(?:comment|nomarkdown)\b[^{}\n]*+(?<!/)\}", closer="{:/"),
    Notation("shortcode", "Hugo", "https://gohugo.io/content-management/shortcodes/", "until", r"\{\{<", closer=">}}"),
    Notation("shortcode", "Hugo", "https://gohugo.io/content-management/shortcodes/", "until", r"\{\{%", closer="%}}"),
    Notation("nesting", "i18next", "https://www.i18next.com/translation-function/nesting", "word",
        r"\$t\((?:[^()\n]{1,200}+|\([^()\n]{0,64}\)){1,9}+\)"),
    Notation("value", "Liquid, Jinja, Vue, Mustache", "https://shopify.github.io/liquid/basics/introduction/", "until",
        r"\{\{", closer="}}"),
    Notation("tag", "Liquid, Jinja, GitBook", "https://shopify.github.io/liquid/basics/introduction/", "until",
        r"\{%", closer="%}"),
    Notation("comment", "Jinja", "https://jinja.palletsprojects.com/templates/#comments", "until",
        r"\{#(?=[\s-])", closer="#}"),
    Notation("inserted file", "markdown-include", "https://github.com/cmacmackin/markdown-include", "until",
        r"\{!(?=[\s\w./])", closer="!}"),
    Notation("tag", "ERB, EJS", "https://docs.ruby-lang.org/en/master/ERB.html", "until", "<%", closer="%>"),
    # ---- braces
    Notation("suggestion", "CriticMarkup", "https://github.com/CriticMarkup/CriticMarkup-toolkit", "pair",
        r"\{(?:(?:\+\+|==)(?P<text>[^+={}|\n]{1,500})(?:\+\+|==)|(?:--|==|~~)[^{}|\n]{1,500}(?:--|==|~~)|>>[^{}|\n]{1,500}<<)\}"),
    Notation("role", "MyST", f"{_MYST}roles", "role", r"\{[A-Za-z][\w:+-]*+\}(?=`)"),
    Notation("attribute list", "kramdown, Python-Markdown, Pandoc, MyST", f"{_KRAMDOWN}#inline-attribute-lists", "single",
        rf"{ATTRIBUTE_LIST}|{_KRAMDOWN_LIST}|\{{=\w++\}}"),
    # ---- brackets
    Notation("span", "Pandoc, MyST", f"{_PANDOC}#extension-bracketed_spans", "pair",
        rf"(?<![!\]\\])\[(?P<text>[^\[\]\n]{{1,300}})\]{ATTRIBUTE_LIST}"),
    Notation("reference apart", "Python-Markdown, kramdown", "https://daringfireball.net/projects/markdown/syntax#link", "pair",
        r"(?<![!\]\\])\[(?P<text>[^\[\]\n]{1,300})\][ ](?:\r?\n[ ]{0,3})?\[[^\[\]\n]{1,200}\](?![(\[:])",
        only=WITH_OLD_RULES),
    Notation("reference to elsewhere", "mkdocs-autorefs, MkDocs with snippets", "https://mkdocstrings.github.io/autorefs/",
        "pair",
        r"(?<![!\]\\])\[(?:(?P<text>(?:[^\[\]\n]|\n(?![ \t>]*+\r?$)){1,300})\](?:\r?\n[ \t>]*+)?\[(?!\^)[^\[\]\n\\]{1,200}"
        r"|`[^`\n]{1,200}`\]\[)\](?![(\[])"),
    Notation("address with spaces", "Pandoc, Typora, Obsidian", f"{_PANDOC}#inline-links-1", "pair",
        r"(?<![!\]\\])!?\[(?P<text>[^\[\]\n]{0,300})\]\("
        r"(?=[^()\n ]{1,300}+[ ])(?=[^()\n]{0,300}(?:://|\.[A-Za-z0-9]{2,5}[ ]?\)))"
        r"[^()\n\"<>]{1,400}+\)"),
    Notation("embedded page", "Obsidian", f"{_OBSIDIAN}embeds", "word", r"!\[\[[^\[\]\n]{1,300}\]\]"),
    Notation("wiki link", "Obsidian, Foam, GitHub's wikis", f"{_OBSIDIAN}links", "pair",
        r"\[\[[^\[\]|\n]{1,200}(?:\|(?P<text>[^\[\]|\n]{1,200}))?\]\](?![(\[])"),
    Notation("slide's picture", "Marp", "https://marpit.marp.app/image-syntax", "word",
        r"!\[(?:bg(?:[ ][^\[\]\n]{0,100})?|(?:[a-z-]{1,20}:[\w%.,-]{1,40}[ ]?){1,9})\]\([^()\n]{0,500}\)"),
    Notation("inclusion", "Microsoft Learn", _LEARN, "word",
        r"\[![A-Za-z][\w-]{1,30}[ ]?\[[^\[\]\n]{0,200}\]\([^()\n]{0,300}\)[ \t]*+\]|\[!(?:div|VIDEO)[ ][^\[\]\n]{0,300}\]"),
    Notation("embedded page", "Zenn, CSDN, HackMD, Hashnode", "https://zenn.dev/zenn/articles/markdown-guide", "word",
        r"@\[[A-Za-z][\w-]{0,30}\]\([^()\n]{0,300}\)|(?<!\w)%\[[^\[\]\s]{1,300}\]|\{%[A-Za-z][^{}\n]{0,300}%\}"),
    Notation("citation", "Pandoc, Quarto, MyST", f"{_PANDOC}#citations", "word",
        r"(?<!\w)\[-?@[A-Za-z0-9_{][^\[\]\n]{0,300}\](?![(\[:])"),
    Notation("reference", "Pandoc, Quarto, MyST", f"{_PANDOC}#citations", "word",
        r"(?<![\w@.])@(?:\{[^{}\n]{1,200}\}|[A-Za-z0-9_](?:[\w:.#$%&+?<>~/-]{0,100}[\w/])?)", only=_CITING),
    Notation("numbered example", "Pandoc, Quarto", f"{_PANDOC}#numbered-example-lists", "word",
        r"\(@[A-Za-z0-9_-]{1,60}\)"),
    Notation("reference to a block", "Logseq, Roam", "https://docs.logseq.com/#/page/block%20reference", "word",
        r"\(\([0-9a-f][0-9a-f-]{7,40}\)\)"),
    Notation("note in the text", "Pandoc, Obsidian", f"{_PANDOC}#extension-inline_notes", "pair",
        r"(?<!\\)\^\[(?P<text>[^\[\]\n]{1,1000})\](?![(\[])"),
    Notation("shortcode", "WordPress", "https://codex.wordpress.org/Shortcode", "word",
        r"(?<![\]!\\])\[/?[a-z][\w-]{1,30}(?:[ ][\w-]{1,30}=(?:\"[^\"\n]*+\"|'[^'\n]*+'))++[ ]?/?\](?![(\[:])"
        r"|\[/[a-z][\w-]{1,30}\](?![(\[:])"),
    Notation("text directive", "remark", _DIRECTIVES, "pair",
        rf"(?<![\w:]):{_NAME}\[(?P<text>[^\[\]\n]{{1,300}})\](?:\{{[^{{}}\n]{{0,300}}\}})?"),
    # ---- signs. None has a border between a table's cells in it.
    Notation("icon", "MkDocs Material, Hugo", "https://squidfunk.github.io/mkdocs-material/reference/icons-emojis/", "word",
        r"(?<![^\W_])(?<!:):[a-z][a-z0-9_]*+-[a-z0-9_-]{1,80}:(?![\w:])"),
    Notation("annotation", "MkDocs Material", "https://squidfunk.github.io/mkdocs-material/reference/annotations/", "word",
        r"\(\d{1,2}\)!"),
    Notation("keys", "MkDocs", f"{_PYMDOWNX}keys/", "word", r"(?<![\w+])\+\+[\w-]{1,30}(?:\+[\w-]{1,30}){0,8}\+\+(?![\w+])"),
    Notation("highlight", "Obsidian, MkDocs, Typora", f"{_OBSIDIAN}syntax", "pair",
        r"(?<![=\w])==(?P<text>[^\s=|](?:[^=|\n]{0,500}[^\s=|])?)==(?![=\w])"),
    Notation("subscript", "Pandoc, MkDocs, markdown-it", f"{_PANDOC}#extension-superscript-subscript", "pair",
        r"(?<=[^\W_])~(?P<text>[^\s~|\\/]{1,60})~(?!~)"),
    Notation("insertion", "MkDocs", f"{_PYMDOWNX}caret/", "pair",
        r"(?<!\^)\^\^(?P<text>[^\s^|](?:[^\^|\n]{0,500}[^\s^|])?)\^\^(?!\^)"),
    Notation("comment", "Obsidian", f"{_OBSIDIAN}syntax#Comments", "until",
        r"(?<![\w%])%%(?![%\w]*+%[^%])(?=[^\n%])", closer="%%"),
    Notation("block's name", "Obsidian", f"{_OBSIDIAN}links#Link+to+a+block+in+a+note", "single",
        r"(?<=[ \t])\^(?=[\d_-]{0,60}[A-Za-z])[\w-]{2,60}[ \t]*+(?=\r?$)"),
    Notation("emphasis", "of CJK texts", "https://github.com/commonmark/commonmark-spec/issues/650", "emphasis",
        r"(?<![*~\\])(?:\*{1,3}|~~)(?=[^\s*~])[^*~|\n]{1,400}+(?<=\S)(?:\*{1,3}|~~)(?![*~])"),
)  # fmt: skip

MARKDOWN_DIRECTIVES = _names(
    "admonition attention caution danger error hint important note seealso tip warning todo versionadded "
    "versionchanged deprecated versionremoved dropdown details topic sidebar margin aside epigraph pull-quote "
    "highlights compound container div card card-header card-footer grid grid-item grid-item-card tab-set tab-item "
    "figure table list-table glossary definition exercise solution exercise-start exercise-end solution-start "
    "solution-end rubric centered blockquote "
)
"""Directives of MyST whose body is Markdown. Others hold code, data or paths (https://mystmd.org/guide/directives)."""
_UNTITLED = frozenset({"figure", "container", "div", "grid", "glossary", "tab-set", "list", "compound"})
"""Those of them that are given something else than a title."""


def has_markdown(directive: str) -> bool:
    """Whether the body of one of MyST's directives is Markdown."""
    return directive in MARKDOWN_DIRECTIVES or directive.startswith("prf:")


def has_title(directive: str) -> bool:
    """Whether what follows the name of one of MyST's directives is its title."""
    return has_markdown(directive) and directive not in _UNTITLED


RAW = frozenset(
    {"code", "codeblock", "highlight", "comment", "mermaid", "plantuml", "diagram", "math", "katex", "chart"}
)
"""Templates whose content, up to the one that closes them, is code, by a part of their names."""

TEXT_PARAMETERS = (
    "title|subtitle|alt|alt-text|caption|label|description|summary|text|tooltip|heading|placeholder|aria-label|content"
    "|fig-cap|fig-alt|fig-subcap|tbl-cap|lst-cap|header|button|message|cta|excerpt"
)
"""Names of what a template, a tag or an attribute list is given, whose values are text if they look like it."""

_TELL_TALES = (
    ("mdx", ("{/*", "import ", "export "), r"^(?:import[ \t]+[\w{*\"'][^\n]*(?:[\"'];?|\{)[ \t]*\r?$"
        r"|export[ \t]+(?:const|default|function)\b)|\{/\*"),
    ("myst", ("`{", ":{", ": {", "}`", ")="), r"^(?:`{3,}|:{3,})[ \t]*\{[a-z][\w:-]*\}|^\([^()\s]{1,100}\)=[ \t]*\r?$"
        r"|\{(?:ref|doc|term|numref|eq|cite[:\w]*|py:\w+)\}`"),
    ("jekyll", ("{% ", "{:", "_url"), r"(?<!\{)\{% (?:include|link|post_url|assign|highlight)\b"
        r"|\|[ ]?(?:relative|absolute)_url\b|^\{:[ ]?[.#]"),
    ("mkdocs", ("!!! ", "??? ", "=== \"", ":material-", ":octicons-", "{ .md-"),
        r"^[ ]*(?:!!! [a-z]|\?\?\?\+? [a-z]|===[+!]? \")|:(?:material|octicons)-[a-z-]+:|\{ \.md-"),
    ("quarto", ("{.callout-", "```{", "[@", "{#"), r"^```\{(?:r|python|julia|ojs)\b|\[@[\w:-]+\](?![(\[:])|\{\.callout-"
        r"|\{#(?:fig|tbl|sec|eq)-"),
)  # fmt: skip
"""Of a dialect: what a text must have for its pattern to be tried, and notations that no other one has."""


def guessed(text: str, extension: str = "") -> str:
    """The dialect of a text, as its file's extension or notations that only one dialect has say; empty: none does."""
    if extension in _BY_EXTENSION:
        return _BY_EXTENSION[extension]
    if not any(sign in text for _, signs, _ in _TELL_TALES for sign in signs):
        return ""
    text = _without_code(text)
    for name, signs, pattern in _TELL_TALES:
        if any(sign in text for sign in signs) and re.search(pattern, text, re.MULTILINE):
            return name if name not in _EXCLUDED or not _EXCLUDED[name].search(text) else ""
    return ""


_FENCE = re.compile(r"[ \t>]*+(?:[-*+][ \t]++|\d{1,9}[.)][ \t]++)?(`{3,}|~{3,})[ \t]*+([^`\r\n]*+)")
_SCRIPT = re.compile(r"[ \t]*+<(script|style)\b", re.IGNORECASE)
_NO_MDX = re.compile(r"^[ \t]*+<(?:!--|script\b|style\b)", re.MULTILINE | re.IGNORECASE)
"""HTML that MDX refuses."""
_EXCLUDED = {"mdx": _NO_MDX, "quarto": re.compile(r"^ {0,3}\[@[^\[\]\n]{1,200}\]:", re.MULTILINE)}
"""What a file of a dialect cannot have; where a label begins with `@`, what looks like a citation is a link to it."""


def _without_code(text: str) -> str:
    """The text without what is in blocks of code, scripts and styles, whose first lines stay, as do MyST's directives."""
    if "```" not in text and "~~~" not in text and not _NO_MDX.search(text):
        return text
    lines: list[str] = []
    signs = closing_tag = ""
    for line in text.split("\n"):
        if signs:
            if line.strip(" \t>\r").startswith(signs) and not line.strip(f" \t>\r{signs[0]}"):
                signs = ""
        elif closing_tag:
            closing_tag = "" if closing_tag in line.lower() else closing_tag
        else:
            lines.append(line)
            if fence := _FENCE.match(line):
                directive = re.match(r"\{([\w:-]+)\}", fence[2])
                signs = "" if directive and has_markdown(directive[1].lower()) else fence[1]
            elif script := _SCRIPT.match(line):
                end = f"</{script[1].lower()}"
                closing_tag = "" if end in line.lower() else end
    return "\n".join(lines)
