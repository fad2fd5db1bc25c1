"""Notations of Markdown's tools: what stays, what is text, what is plain CommonMark."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path

import pytest
import yaml

from tests.wholetext import reading
from wholetext.files import formats
from wholetext.files.content import ReadOptions, keep_nothing
from wholetext.markup import markdown
from wholetext.markup.dialects import DIALECTS, NOTATIONS, guessed
from wholetext.markup.marks import MARK, Piece
from wholetext.markup.masks import Masks

_EXAMPLES = json.loads(Path(__file__, "../commonmark.json").resolve().read_text("utf-8"))["examples"]
DOCS = Path(__file__, "../../../docs/markdown.md").resolve()


def read(text: str, dialect: str = "") -> list[Piece]:
    pieces = [piece for piece in markdown.pieces(text, keep_nothing, dialect=dialect) if piece is not None]
    assert reading.written(pieces) == text
    return pieces


def swapped(text: str) -> str:
    """A text with other letters between its marks."""
    parts = re.split(rf"({MARK.pattern.replace('(', '(?:')})", text)
    return "".join(part if at % 2 else part.swapcase() for at, part in enumerate(parts))


# Of each notation: a text, the blocks that it has, and the dialect where it must be named. `Words` are text; all else stays.
FOUND = {
    "fenced code": ("```{note} Title words\n:class: x\nWords\n```", ["Title words", "Words"], ""),
    "contents list": ("1. Words of it\n{:toc .x}\n\nWords", ["Words"], ""),
    "contents": ("[TOC]\n\n@[toc](Title)\n\n${toc}\n\nWords", ["Words"], ""),
    "admonition": (
        '!!! note\n\n    Words\n\n    ```\n    code\n    ```\n\n??? tip "Title words"\n    - Words',
        ["Words", "Title words", "Words"], "",
    ),
    "tab": ('=== "Title words"\n\n    Words\n\n    !!! note\n\n        Words', ["Title words", "Words", "Words"], ""),
    "block": ("/// note | Title words\n    open: True\nWords\n///", ["Title words", "Words"], ""),
    "block's end": ("Words\n///", ["Words"], ""),
    "inserted file": (
        '--8<-- "words.md"\n\n<<< @/words.js{1}\n\n{!words.md!}\n\n@import "words.md"\n\n!include words.md\n\n!include words',
        ["!include words"], "",
    ),
    "container's end": ("Words\n:::", ["Words"], ""),
    "block of one line": (':::image source="a.png" alt-text="Words here":::', ["Words here"], ""),
    "documented object": ("::: module.words\n    options:\n      words: true\n\nWords", ["Words"], ""),
    "diagram": ("::: mermaid\nwords --> words\n:::\n\nWords", ["Words"], ""),
    "directive": (":::{figure} words.png\n:alt: Alt words\n:name: words\nWords\n:::", ["Alt words", "Words"], ""),
    "fenced div": ('::: {.callout-note title="Title words"}\nWords\n:::', ["Title words", "Words"], ""),
    "labelled directive": (":::note[Title *words*]{.x}\nWords\n:::", ["Title <g1>words</g1>", "Words"], ""),
    "leaf directive": ("::words{id=words}\n\nWords", ["Words"], ""),
    "container": (
        ":::caution Title words\nWords\n:::\n\n::: details Title words {open}\n:::",
        ["Title words", "Words", "Title words"], "",
    ),
    "abbreviation": ("*[HTML]: Long words\n*[CSS]: More words", ["Long words", "More words"], ""),
    "callout": (
        "> [!tip]- Title [[a|words]]\n> Words\n>> [!x|y]\n>> Words",
        ["Title <g1>words</g1>", "Words", "Words"], "",
    ),
    "definition": ("Term\n:   Words\n\n    Words\n: Words", ["Term", "Words", "Words", "Words"], ""),
    "field": (":param words: Words\n    and words\n:return: Words", ["Words\nand words", "Words"], "myst"),
    "target": ("(words)=\n# Words", ["Words"], ""),
    "comment line": ("% words\n\nWords", ["Words"], "myst"),
    "break of blocks": ('+++ {"words": "words"}\n\nWords', ["Words"], ""),
    "command": ("\\newpage\n\nWords", ["Words"], ""),
    "statement": (
        'import {\n  Words\n} from "words"\n\nexport const words = {\n\n  a: "words",\n}\n\nWords',
        ["Words"], "",
    ),
    "block of a forum": ('[details="Title words"]\nWords\n[/details]', ["Title words", "Words"], ""),
    "comment": ("%%\nwords\n\nwords\n%%\n\nWords {/* words */}\n\n{# words #}", ["Words"], ""),
    "code": ("Words `{{` and `}}` words", ["Words <x1/> and <x2/> words"], ""),
    "formula": (
        "Words \\(a_1 + b\\)\n\n\\[\nwords = a_1\n\\]\n\nWords \\[note\\] \\(see words\\)"
        "\n\nWords \\[\na = b\n\\] \\[key=words\\]",
        ["Words <x1/>", "Words [note] (see words)", "Words <x1/> [key=words]"], "",
    ),
    "label of a formula": ("$$\na_1\n$$ (words)\n\nWords $$a$$ (words:a)", ["Words <x1/>"], ""),
    "environment": ("\\begin{align}\nwords\n\nwords\n\\end{align}\n\nWords \\begin{a}b\\end{a}", ["Words <x1/>"], ""),
    "escape": ("Words \\{{ words \\[[words]]", ["Words {{ words [[words]]"], ""),
    "tag": (
        '<Tabs>\n  <Tab value="words" label="Title words">\n    Words <b className={x}>words</b>\n'
        '\n    - Words\n  </Tab>\n</Tabs>',
        ["Title words", "Words <g1>words</g1>", "Words"], "mdx",
    ),
    "expression": (
        'Words {words.map(a => "}")} words\n\n<A b={() => { return "x > y" }} {...words} />',
        ["Words <x1/> words"], "mdx",
    ),
    "raw block": ("{::comment}\nwords\n\nwords\n{:/comment}\n\nWords", ["Words"], ""),
    "Markdown in HTML": ('<div class="x" markdown="1">\n- Words\n</div>\n```\nwords\n```', ["Words"], ""),
    "shortcode": (
        '{{< figure src="words" caption="Title words" >}}\n\nWords [gallery ids="words"]\n\n'
        '{{% note "Title words" %}}\nWords\n{{% /note %}}\n\n{{< highlight go >}}\nwords\n\nwords\n'
        '{{< /highlight >}}',
        ["Title words", "Words <x1/>", "Title words", "Words"], "",
    ),
    "nesting": ('Words $t(words, {"count": {{words}} }) words', ["Words <x1/> words"], ""),
    "value": (
        '[Words]({{ "/words/" | url }}) ![Words]({{ words }}) {{ words }}',
        ["<g1>Words</g1> <g2>Words</g2> <x3/>"], "",
    ),
    "suggestion": (
        "Words {++words++} {--words--} {==words==}{~~words~>words~~}",
        ["Words <g1>words</g1> <x2/> <g3>words</g3><x4/>"], "",
    ),
    "role": (
        "Words {ref}`words <words>` {doc}`words` {abbr}`W (words here)`",
        ["Words <g1>words</g1> <x2/> <g3>words here</g3>"],
        "",
    ),
    "attribute list": (
        'Words *words*{: .x}\n{: .words}\n\n# Words {#words .x}\n\n![Words](a){ width="3" title="Title words" }',
        ["Words <g1>words</g1>", "Words", "Words", "Title words"], "",
    ),
    "subscript": ("H~2~O words~words~ 1~2, 3~", ["H<g1>2</g1>O words<g2>words</g2> 1~2, 3~"], ""),
    "callout of a word": ("NOTE: Words\nand words\n\n> WARNING:\n> Words", ["Words\nand words", "Words"], "mkdocs"),
    "span": ("Words [words]{.x}", ["Words <g1>words</g1>"], ""),
    "reference apart": ("Words [more words] [a b] [c d]\n\n[a b]: words", ["Words <g1>more words</g1> [c d]"], "mkdocs"),
    "reference to elsewhere": (
        "Words [`words` words][words.words] [more\nwords]\n[words.words] [`words`][]",
        ["Words <g1><x2/> words</g1> <g3>more\nwords</g3> <x4/>"], "",
    ),
    "address with spaces": (
        "Words [more words](Some words.md), ![](a b.png) [words](see words)",
        ["Words <g1>more words</g1>, <x2/> [words](see words)"], "",
    ),
    "embedded page": ("![[words#words|300]]\n\n@[youtube](words)\n\n%[words]", [], ""),
    "wiki link": (
        "Words [[words]] [[words|words]]\n\n| [[words\\|words]] |\n|---|",
        ["Words <x1/> <g2>words</g2>", "words"], "",
    ),
    "slide's picture": ("![bg left:40%](words.png) ![w:3 h:5%](words.png)\n\n![a: Words](b)", ["a: Words"], ""),
    "property": ("title:: Words\nwords:: true\n- words:: Words\n\na::words x", ["Words", "Words", "a::words x"], ""),
    "reference to a block": ("Words ((64f1abcd-00ff)) ((words))", ["Words <x1/> ((words))"], ""),
    "inclusion": ("[!INCLUDE [words](words.md)]\n\nWords", ["Words"], ""),
    "citation": ("Words [@words2020, p. 3]", ["Words <x1/>"], ""),
    "reference": ("Words @fig-words words", ["Words <x1/> words"], "quarto"),
    "lettered item": (
        "1.  Words\n\n    a.  More words\n    b)  Words\n\n        Even more\n\n(iv) Words\n\nB.  Words\n\nI. Words",
        ["Words", "More words", "Words", "Even more", "Words", "Words", "I. Words"], "quarto",
    ),
    "numbered example": (
        "(@good) Words\n\nMore words (@good)\n\n(@) Even more\n(@)  Most\n     words\n\n     All words\n\n> (@) Words",
        ["<x1/> Words", "More words <x1/>", "Even more", "Most\nwords", "All words", "Words"], "",
    ),
    "note in the text": ("Words^[more words]", ["Words<g1>more words</g1>"], ""),
    "text directive": ("Words :abbr[words]{title=x}", ["Words <g1>words</g1>"], ""),
    "icon": ("Words :material-check:", ["Words <x1/>"], ""),
    "annotation": ("Words (1)!", ["Words <x1/>"], ""),
    "keys": ("Words ++ctrl+alt++", ["Words <x1/>"], ""),
    "highlight": ("Words ==words here==", ["Words <g1>words here</g1>"], ""),
    "insertion": ("Words ^^words^^", ["Words <g1>words</g1>"], ""),
    "block's name": ("Words ^words-1", ["Words"], ""),
    "emphasis": ("这是**重点：**请 **「引」**好 *正常*", ["这是<g1>重点：</g1>请 <g2>「引」</g2>好 <g3>正常</g3>"], ""),
}  # fmt: skip


def test_each_notation_has_an_example() -> None:
    assert {row.name for row in NOTATIONS} == set(FOUND)


@pytest.mark.parametrize("name", FOUND)
def test_a_notation_stays_and_its_text_is_found(name: str) -> None:
    text, expected, dialect = FOUND[name]
    pieces = read(text, dialect)
    assert reading.texts(pieces) == expected
    result = reading.written(pieces, swapped)
    assert reading.texts(read(result, dialect or guessed(text))) == [swapped(block) for block in expected]
    for sign in "{}[]`:%!|":
        assert result.count(sign) == text.count(sign)


@pytest.mark.parametrize("dialect", [*DIALECTS, ""])
def test_bytes_that_no_text_covers_are_the_source(dialect: str) -> None:
    for text, _, _ in FOUND.values():
        for document in (
            text,
            f"> {text}".replace("\n", "\n> "),
            f"- {text}".replace("\n", "\n  "),
            text.replace("\n", "\r\n"),
        ):
            read(document, dialect)


@pytest.mark.parametrize(
    "text",
    [
        "a == b == c, C++ and D++, 5 ++ 6, x^2 and y^2",
        "100%% of 50%% and 3 % 4 % 5",
        "Import the parts. Export them later.\nexport the rest",
        "\\[1\\] \\[note\\] \\(see there\\) \\[x\\](y)",
        "Note: this, name :) and :( at 10:30:15, a::b",
        "user@example.com and (1) and [1] and [x] (y)",
        "!!! Attention please\n\nWords",
        "=== not a title",
        "Write to us (@) or (@",
        "a | b || c",
        "a. Words\nb) Words\nNOTE: Words", "1~2 or ~3 and foo~/bar~1",
        "3 < 4 > 2, {", "} a {", "[[", "]]", "{{ a", "\\begin{a} b", "*a* **b** c：**d** e",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_notation_is_text(text: str) -> None:
    assert not Masks(text, "")


def test_a_text_that_looks_like_a_token_comes_back() -> None:
    token = Masks("{{ a }}", "").text
    assert token != "{{ a }}"
    for text in (token, f"{token} {{{{ a }}}} {token}", f"<!--{token}-->", f"- {token} words", f"[{token}]({token})"):
        assert reading.written(read(text), swapped).count(token) == text.count(token)


def test_a_translation_does_not_begin_javascript() -> None:
    assert (
        reading.written(read("Words {x}", "mdx"), lambda block: f"{block} {{a}} <b <5 3 < 4")
        == "Words {x} \\{a\\} \\<b \\<5 3 < 4"
    )


def test_a_value_does_not_end_its_quotes() -> None:
    text = "{{< figure caption=\"Two words\" alt='Alt words' >}}"
    assert reading.written(read(text), lambda block: f"{block} \"a\" 'b'") == (
        "{{< figure caption=\"Two words 'a' 'b'\" alt='Alt words \"a\" ’b’' >}}"
    )


@pytest.mark.parametrize(
    ("text", "extension", "dialect"),
    [
        ("words", "md", ""),
        ("words", "mdx", "mdx"),
        ("words", "qmd", "quarto"),
        ('import a from "b"\n\nwords', "md", "mdx"),
        ("words {/* a */}", "", "mdx"),
        ("Import words from here", "md", ""),
        ("```{note}\nwords\n```", "md", "myst"),
        ("words {ref}`a`", "md", "myst"),
        ("```{r}\nwords\n```", "md", "myst"),
        ("words [@a]", "md", "quarto"),
        ("words [@a][]", "md", ""),
        ("words [@a]\n\n[@a]: words", "md", ""),
        ('words\n\n```ts\nimport a from "b"\n```', "md", ""),
        ("<script setup>\nimport a from 'b'\n</script>\n\nwords", "md", ""),
        ("import a from 'b'\n\n<!-- words -->", "md", ""),
        ("````md\n```{note}\n````", "md", ""),
        ("!!! note\n    words", "md", "mkdocs"),
        ("Words {{% include a %}}", "md", ""),
        ("```{note}\n~~~\n{% link a %}\n~~~\n{% include a %}\n```", "md", "myst"),
    ],
)
def test_a_dialect_is_guessed(text: str, extension: str, dialect: str) -> None:
    assert guessed(text, extension) == dialect


def digest(text: str) -> str:
    """Of what is found in a text, and of the text with other letters."""
    pieces = read(text)
    found = [
        (block.text, [(mark.opening, mark.closing, mark.word) for mark in block.marks])
        for block in reading.blocks(pieces)
    ]
    return sha256(repr((found, reading.written(pieces, swapped))).encode()).hexdigest()[:16]


def test_the_examples_of_commonmark_are_read_as_they_were() -> None:
    """All 652 of the specification: what is found in them, and what is written for other letters, is what it was before
    notations of tools were known, but for links whose text is their own label."""
    assert len(_EXAMPLES) == 652
    assert [text for text, expected in _EXAMPLES if digest(text) != expected] == []


def test_the_notations_are_documented() -> None:
    listed = DOCS.read_text("utf-8")
    assert [row.name for row in NOTATIONS if f"| {row.name} | {row.tools} |" not in listed] == []
    assert [name for name in DIALECTS if f"`{name}`" not in listed] == []


# ---- links whose text is their label

_LABELS = "\n\n[the words]: a\n[An *image*]: b\n[1]: c\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See [the words], please.", "sEE [THE WORDS][the words], PLEASE."),
        ("[the words]", "[THE WORDS][the words]"),
        ("See [the words][] and ![An *image*].", "sEE [THE WORDS][the words] AND ![aN *IMAGE*][An *image*]."),
        ("- **[The Words]**: x", "- **[tHE wORDS][The Words]**: X"),
        ("> See [the\n> words] x", "> sEE [THE\n> WORDS][the words] X"),
        ("[![An *image*]][the words]{: .btn }", "[![aN *IMAGE*][An *image*]][the words]{: .btn }"),
        ("[the words]{ .md-button }", "[THE WORDS][the words]{ .md-button }"),
        ("| [the words] |\n|---|", "| [THE WORDS][the words] |\n|---|"),
        ("Words [1] and [[the words]]", "wORDS [1] AND [[the words]]"),
    ],
)
def test_a_link_keeps_the_label_that_was_its_text(text: str, expected: str) -> None:
    assert reading.written(read(text + _LABELS), swapped) == expected + _LABELS


def test_a_link_whose_text_stays_needs_no_label() -> None:
    assert reading.written(read(f"[the words] and more{_LABELS}"), lambda block: block.replace("more", "x")) == (
        f"[the words] and x{_LABELS}"
    )


# ---- code that CommonMark does not find


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ('=== "Title"\n\n    ```\n    code\n    ```\n\nWords', ""),
        ('``` title\n=== "A"\n\n    ``` c\n    code\n    ```\n```\n\n=== "B"\n\n    Words', ""),
        ("<div>\n<b>Words</b>\n</div>\n```html\n<b>code</b>\n```\n\nWords", "jekyll"),
        ("```\n{% raw %}code\n{% endraw %}```\n\nWords\n\n```\ncode\n```", "jekyll"),
        ("Words\n<!-- code --> [words] words\n\n[words]: code", "mkdocs"),
        ("```{image} code\n:label: code\n:alt: Words\n```\n\n```{note}\n:label: code\nWords\n```", ""),
        (":::{words}\n:highlight: code\n\nWords\n:::", ""),
    ],
)
def test_code_stays(text: str, dialect: str) -> None:
    result = reading.written(read(text, dialect), swapped)
    assert "code" in result
    assert "CODE" not in result
    assert "Words" not in result


def test_a_backslash_is_written_as_the_source_does() -> None:
    assert reading.written(read("Type \\\\u00a0\\", "quarto"), swapped) == "tYPE \\\\U00A0\\"
    assert reading.written(read("(a) one\nB\\)\nx", "quarto"), swapped) == "(a) ONE\nb\\)\nX"


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("[Applause]\n[A door opens] Welcome.", ""),
        ("UNESCO: a list\nROMEO: Come here.", "mkdocs"),
        ("The weather\n(mild) was\ncivil. And\nmix) it", "quarto"),
    ],
)
def test_words_that_look_like_a_notation_are_text(text: str, dialect: str) -> None:
    assert reading.written(read(text, dialect), swapped) == text.swapcase()


@pytest.mark.parametrize(
    "text",
    [
        "See [the `a` text][a.b] and [`a.b`][].\n\n[c]: d",
        "See [the text][c] and [one]\n[more_1].",
        "> See [the\n> text][a.b]",
    ],
)
def test_a_label_that_the_file_does_not_define_stays(text: str) -> None:
    read_again = reading.written(read(text), swapped)
    for kept in re.findall(r"\[a\.b\]|`[^`]*`|\[c\]|\[more_1\]", text):
        assert kept in read_again
    assert "\\" not in read_again
    assert "text" not in read_again


def test_lines_between_brackets_are_two_texts_where_a_label_is_defined() -> None:
    assert reading.texts(read("[one]\n[two]\n\n[two]: a")) == ["[one]\n<g1>two</g1>"]


def test_braces_that_the_source_escapes_are_escaped() -> None:
    assert reading.written(read("Some \\{words\\} here"), swapped) == "sOME \\{WORDS\\} HERE"


# ---- front matter


def front_matter(text: str, extension: str = "md") -> tuple[list[str], str]:
    """The texts of a file, and the file with other letters in them; the same texts give the same bytes."""
    options = ReadOptions(extension, "de")
    texts = [unit.block.text for unit in formats.read(text.encode(), options).units]
    assert formats.write(text.encode(), options, texts)[0].decode() == text
    return texts, formats.write(text.encode(), options, [swapped(one) for one in texts])[0].decode()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("title: >-\n  A folded title\n  goes on\nid: first-page", ["A folded title\ngoes on"]),
        ("title: A plain title\n  that goes on\nslug: /a", ["A plain title\nthat goes on"]),
        ("description: |\n  One\n  two\n\n  Three\nlayout: a b c d", ["One\ntwo", "Three"]),
        ("hero:\n  name: Words\n  tagline: Some words\n  actions:\n    - text: Go on\n      link: /a", ["Some words", "Go on"]),
        ("features:\n- title: \"Quick \\\"x\\\"\"\n  details: 'It''s so'\n  icon: a", ['Quick "x"', "It's so"]),
        ("sidebar_label: Words\nogTitle: More words\nhide_title: true\ntitle_case: false", ["Words", "More words"]),
        ("remark: These are some longer words.\nauthor: Ann van der Berg\ntags: [one, two]", ["These are some longer words."]),
        ("summary: page.title\nlabel: some_key\nalt: /a/b", []),
        ("title: One # two\nimage: a.png", ["One"]),
        ("title: One\n  [two: three\nid: a", []),
    ],
)  # fmt: skip
def test_values_of_front_matter_that_are_text(values: str, expected: list[str]) -> None:
    texts, result = front_matter(f"---\n{values}\n---\n\n1\n")
    assert texts == expected
    keys = [line.split(":")[0] for line in values.split("\n") if ":" in line]
    assert [key in result for key in keys] == [True] * len(keys)


def test_a_translation_of_front_matter_is_the_value() -> None:
    text = "---\ntitle: >\n  One\n  two\nsummary: Aa bb\nsubtitle: |\n  Words\n---\n"
    options = ReadOptions("md", "de")
    texts = ["A: b # c\n\nd", 'Say: "x"', " - a\n- b"]
    written = formats.write(text.encode(), options, texts)[0].decode()
    assert yaml.safe_load(written.split("---")[1]) == {
        "title": "A: b # c d\n",
        "summary": 'Say: "x"',
        "subtitle": "- a\n- b\n",
    }
