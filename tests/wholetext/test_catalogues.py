"""Catalogues of programs: properties, strings, string catalogs, resx, Qt Linguist and YAML, as their platforms read them."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.wholetext.catalogues import apple_strings, java_properties
from tests.wholetext.rewriting import changed, read, rewritten, texts
from wholetext.errors import InvalidFile, UnsupportedFile
from wholetext.markup.marks import CONTROL

PROPERTIES = r"""# The title of the page
title = Welcome
! Another comment
key\ with\ spaces : Some words, \
    and more of them
greeting=It''s {0}, isn''t it?
quoted=Don't do this
lines=First line\n\
      Second line
count={0,choice,0#no files|1#one file|1<{0} files} found
unicode=Gr\u00fc\u00dfe \ud83d\ude00 there
colour=#ff0000
class=com.example.Main
blank Some text
# NOI18N
kept=Kept words
empty=
"""
STRINGS = r"""/* The title */
"title" = "Say \"hello\" to %@\n";
// two
two = "Two
lines"; /* after */ "three" = "%1$#@files@ and \U00e9";
"four"
 =
 "Four words"
;
"alone";
/* Do not translate */
"kept" = "Kept words";
"""
RESX = """<?xml version="1.0" encoding="utf-8"?>
<root>
  <!-- A comment -->
  <xsd:schema xmlns:xsd="http://www.w3.org/2001/XMLSchema"><xsd:element name="root"/></xsd:schema>
  <resheader name="resmimetype"><value>text/microsoft-resx</value></resheader>
  <data name="Hello" xml:space="preserve"><value>Hello &lt;b&gt;{0:N2}&lt;/b&gt;
two</value><comment>Said first</comment></data>
  <data name="button1.Text"><value>Save &amp;As</value></data>
  <data name="&gt;&gt;button1.Name"><value>button words</value></data>
  <data name="button1.Size" type="System.Drawing.Size, System.Drawing"><value>75, 23</value></data>
  <data name="icon" mimetype="application/x-microsoft.net.object.bytearray.base64"><value>AAEA some words</value></data>
  <data name="kept"><value>Kept words</value><comment>{Locked}</comment></data>
  <data name="empty"><value/></data>
</root>
"""
QT = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1"{language}>
<context>
    <name>Window</name>
    <message>
        <location filename="a.cpp" line="1"/>
        <source>&amp;Open %1 &lt;now&gt;</source>
        <extracomment>A menu</extracomment>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>%n file(s)</source>
        <translation type="unfinished">{forms}</translation>
    </message>
    <message><source>Done words</source><translation>Fertig</translation></message>
    <message><source>A draft</source><translation type="unfinished">Ein Entwurf</translation></message>
    <message><source>Gone words</source><translation type="vanished">Weg</translation></message>
    <message><source>Old words</source><translation type="obsolete"></translation></message>
    <message><source>New words</source></message>
    <message><source>Empty tag</source><translation type="unfinished"/></message>
</context>
</TS>
"""
RAILS = """# Of the page
en:
  title: "Hello, \\u201cyou\\u201d"  # said first
  plain: Some words and more
  yes_word: yes
  single: 'It''s here'
  symbols:
  - :year
  - :month
  flow: {one: "One word", other: Some words}
  files:
    one: "%{count} file"
    other: "%{count} files"
  formats:
    default: "%Y-%m-%d"
  text: |
    First paragraph
    of two lines.

    Second one.
  folded: >-
    Folded words
    of one line
  wrapped: Words that
    go on
  list:
  - An item
  - key: Of an item
  default: &default
    a: Anchored
  other:
    <<: *default
"""


def catalog(localizations: str = "", more: str = "") -> str:
    return f"""{{
  "sourceLanguage" : "en",
  "strings" : {{
    "%lld files" : {{{more}
      "localizations" : {{{localizations}
        "en" : {{
          "variations" : {{
            "plural" : {{
              "one" : {{
                "stringUnit" : {{
                  "state" : "translated",
                  "value" : "%lld file"
                }}
              }},
              "other" : {{
                "stringUnit" : {{
                  "state" : "translated",
                  "value" : "%lld files"
                }}
              }}
            }}
          }}
        }}
      }}
    }},
    "Hello, \\"%@\\"" : {{

    }}
  }},
  "version" : "1.0"
}}"""


SOURCES = {
    "properties": PROPERTIES,
    "strings": STRINGS,
    "resx": RESX,
    "yml": RAILS.replace("en:", "de:", 1),
    "ts": QT.format(language=' language="de"', forms="<numerusform></numerusform><numerusform></numerusform>"),
}


@pytest.mark.parametrize("extension", SOURCES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_identity_gives_the_same_bytes(extension: str, encoding: str, end: str) -> None:
    source = SOURCES[extension].replace("\n", end)
    source = source.replace('encoding="utf-8"', 'encoding="utf-16"') if encoding == "utf-16" else source
    data = source.encode(encoding)
    result = rewritten(data, extension, lambda text: text)
    assert (result == data) is (extension != "ts")
    content = read(data, extension)
    assert [text.replace("\r\n", "\n") for text in texts(content)] == texts(
        read(SOURCES[extension].encode(), extension)
    )
    again = read(rewritten(data, extension, changed), extension)
    assert texts(again) == ([] if extension == "ts" else [changed(text) for text in texts(content)])
    assert again.left == content.left


# ---- properties


def test_properties_are_read_as_java_reads_them() -> None:
    content = read(PROPERTIES.encode(), "properties")
    assert [(unit.place, unit.block.text) for unit in content.units] == [
        ("title", "Welcome"),
        ("key with spaces", "Some words, and more of them"),
        ("greeting", "It's {0}, isn't it?"),
        ("quoted", "Don't do this"),
        ("lines", "First line\nSecond line"),
        ("count", "<x1/> found"),
        ("unicode", "Grüße 😀 there"),
        ("blank", "Some text"),
    ]
    assert content.units[0].context == "The title of the page"
    assert {(left.place, left.reason) for left in content.left} == {
        ("colour", "colour"),
        ("class", "key"),
        ("kept", "untranslatable"),
        ("count", "choice"),
    }
    result = rewritten(PROPERTIES.encode(), "properties", lambda text: f"=l'été: \\ {text}")
    assert result.isascii()  # as its source
    values = java_properties(result)
    assert values["title"] == "=l'été: \\ Welcome"
    assert values["greeting"] == "=l''été: \\ It''s {0}, isn''t it?"
    assert values["blank"] == "=l'été: \\ Some text"
    assert values["lines"] == "=l'été: \\ First line\nSecond line"
    assert list(values) == list(java_properties(PROPERTIES.encode()))


def test_the_encoding_of_properties_is_kept() -> None:
    latin = "a=Größe der Welt\n".encode("latin-1")
    assert texts(read(latin, "properties")) == ["Größe der Welt"]
    assert rewritten(latin, "properties", lambda _: "ß–日") == b"a=\xdf\\u2013\\u65e5\n"
    assert rewritten("a=Größe der Welt\n".encode(), "properties", lambda _: "日") == "a=日\n".encode()
    assert rewritten(b"a=Some words\n", "properties", lambda _: "😀") == b"a=\\ud83d\\ude00\n"


@given(
    st.text(st.sampled_from("\\=: #!\n\r\tab'{}0é\u2028😀") | st.characters(codec="utf-8"), min_size=1),
    st.sampled_from(["=", " = ", ":", " "]),
)
def test_any_text_is_a_value_of_properties(text: str, separator: str) -> None:
    data = f"a{separator}Some words\nb=1\n".encode()
    result = java_properties(rewritten(data, "properties", lambda _: f"a{text}b"))
    assert result == {"a": CONTROL.sub(lambda found: " " if found[0].isspace() else "", f"a{text}b"), "b": "1"}


# ---- strings


def test_strings_are_read_as_apples_platforms_read_them() -> None:
    content = read(STRINGS.encode("utf-16"), "strings")
    assert [(unit.place, unit.block.text) for unit in content.units] == [
        ("title", 'Say "hello" to %@'),
        ("two", "Two\nlines"),
        ("three", "<x1/> and é"),
        ("four", "Four words"),
    ]
    assert [unit.context for unit in content.units] == ["The title", "two", "after", ""]
    assert [(left.place, left.reason) for left in content.left] == [("kept", "untranslatable")]
    result = rewritten(STRINGS.encode(), "strings", lambda text: f'"\\{text}').decode()
    values = apple_strings(result.replace('"alone";', ""))
    assert values["title"] == '"\\Say "hello" to %@\n'
    assert values["two"] == '"\\Two\nlines'
    assert values["three"] == '"\\%1$#@files@ and é'


@pytest.mark.parametrize("source", ['"a" = "b"', '"a" "b";', "{ a = b; }", '"a" = ("b");', '"' * 3, "/* a"])
def test_what_is_no_strings_file_is_refused_with_its_line(source: str) -> None:
    with pytest.raises(InvalidFile, match="line 2"):
        read(f'"x" = "Some words";\n{source}'.encode(), "strings")


def test_a_property_list_in_xml_is_refused() -> None:
    with pytest.raises(UnsupportedFile, match="plutil"):
        read(b'<?xml version="1.0"?><plist version="1.0"><dict/></plist>', "strings")


# ---- string catalogs


@pytest.mark.parametrize(
    ("target", "categories"), [("ja", ["other"]), ("de", ["one", "other"]), ("ru", ["few", "many", "one", "other"])]
)
def test_a_catalog_gets_the_plural_categories_of_the_target(target: str, categories: list[str]) -> None:
    data = catalog().encode()
    result = json.loads(rewritten(data, "xcstrings", str.upper, target))
    found = result["strings"]["%lld files"]["localizations"]
    assert found["en"] == json.loads(data)["strings"]["%lld files"]["localizations"]["en"]
    plural = found[target]["variations"]["plural"]
    assert {key: one["stringUnit"]["value"] for key, one in plural.items()} == {
        key: "%LLD FILE" if key == "one" else "%LLD FILES" for key in categories
    }
    assert list(plural) == categories
    assert {one["stringUnit"]["state"] for one in plural.values()} == {"needs_review"}
    hello = result["strings"]['Hello, "%@"']["localizations"][target]
    assert hello == {"stringUnit": {"state": "needs_review", "value": 'HELLO, "%@"'}}
    assert bool(read(data, "xcstrings", target).warnings) == (target == "ru")


def test_a_localization_is_written_as_xcode_writes_it() -> None:
    result = rewritten(catalog().encode(), "xcstrings").decode()
    assert result == catalog(
        """
        "de" : {
          "variations" : {
            "plural" : {
              "one" : {
                "stringUnit" : {
                  "state" : "needs_review",
                  "value" : "%lld file"
                }
              },
              "other" : {
                "stringUnit" : {
                  "state" : "needs_review",
                  "value" : "%lld files"
                }
              }
            }
          }
        },"""
    ).replace(
        '"Hello, \\"%@\\"" : {\n\n    }',
        """"Hello, \\"%@\\"" : {
      "localizations" : {
        "de" : {
          "stringUnit" : {
            "state" : "needs_review",
            "value" : "Hello, \\"%@\\""
          }
        }
      }
    }""",
    )
    assert rewritten(result.encode(), "xcstrings", str.upper).decode() == result


def unit(value: str, state: str) -> str:
    return f'{{"stringUnit": {{"state": "{state}", "value": "{value}"}}}}'


@pytest.mark.parametrize(
    ("german", "wanted"),
    [
        (unit("Dateien", "translated"), "Dateien"),
        (unit("Dateien", "needs_review"), "Dateien"),
        (unit("", "new"), None),
        (unit("%lld files", "new"), None),
    ],
)
def test_what_a_catalog_has_is_kept_by_its_state(german: str, wanted: str | None) -> None:
    source = catalog(f'\n"de": {german},')
    found = json.loads(rewritten(source.encode(), "xcstrings", str.upper))["strings"]["%lld files"]["localizations"][
        "de"
    ]
    assert found.get("stringUnit", {}).get("value") == wanted
    assert bool(found.get("variations")) is (wanted is None)


def test_forms_that_a_localization_lacks_are_filled() -> None:
    german = f'{{"variations": {{"plural": {{"one": {unit("Datei", "translated")}, "other": {unit("", "new")}}}}}}}'
    source = catalog(f'\n"de": {german},')
    found = json.loads(rewritten(source.encode(), "xcstrings", str.upper))["strings"]["%lld files"]["localizations"][
        "de"
    ]
    assert [one["stringUnit"] for one in found["variations"]["plural"].values()] == [
        {"state": "translated", "value": "Datei"},
        {"state": "needs_review", "value": "%LLD FILES"},
    ]


@pytest.mark.parametrize(
    ("flag", "reason"), [('"shouldTranslate" : false,', "untranslatable"), ('"extractionState" : "stale",', "obsolete")]
)
def test_what_a_catalog_says_is_not_translated_is_left(flag: str, reason: str) -> None:
    content = read(catalog(more=flag).encode(), "xcstrings")
    assert texts(content) == ['Hello, "%@"']
    assert [one.reason for one in content.left] == [reason]


@pytest.mark.parametrize("source", ["[]", '{"strings": {}}', '{"strings": {}, "sourceLanguage": "de"}', "{"])
def test_what_is_no_catalog_is_refused(source: str) -> None:
    with pytest.raises(InvalidFile):
        read(source.encode(), "xcstrings")


# ---- resx


def test_resources_that_are_strings() -> None:
    content = read(RESX.encode(), "resx")
    assert [(unit.place, unit.block.text, unit.context) for unit in content.units] == [
        ("Hello", "Hello <b>{0:N2}</b>\ntwo", "Said first"),
        ("button1.Text", "Save &As", ""),
    ]
    assert [(left.place, left.reason) for left in content.left] == [("kept", "untranslatable")]
    root = etree.fromstring(rewritten(RESX.encode(), "resx", lambda text: f"<&]]>{text}"))
    assert root.findtext("data[@name='button1.Text']/value") == "<&]]>Save &As"
    with pytest.raises(InvalidFile):
        read(b"<other/>", "resx")


# ---- Qt


@pytest.mark.parametrize(("target", "forms"), [("ja", 1), ("de", 2), ("ru", 3), ("sl", 4), ("ar", 6)])
def test_unfinished_messages_of_qt_are_filled_and_stay_unfinished(target: str, forms: int) -> None:
    data = QT.format(language="", forms="<numerusform></numerusform>").encode()
    content = read(data, "ts", target)
    assert texts(content) == ["&Open <x1/> <now>", "<x1/> file(s)", "New words", "Empty tag"]
    assert content.units[0].context == "Window\nA menu"
    result = etree.fromstring(rewritten(data, "ts", lambda text: text.upper().replace("<X1/>", "<x1/>"), target))
    assert result.get("language") == target
    translations = {one.findtext("source"): one.find("translation") for one in result.iter("message")}
    assert translations["&Open %1 <now>"].text == "&OPEN %1 <NOW>"
    assert [one.text for one in translations["%n file(s)"]] == ["%n FILE(S)"] * forms
    assert translations["New words"].text == "NEW WORDS"
    assert {one.get("type") for one in translations.values()} == {"unfinished", None, "vanished", "obsolete"}
    assert [translations[name].text for name in ("Done words", "A draft", "Gone words", "Old words")] == [
        "Fertig",
        "Ein Entwurf",
        "Weg",
        None,
    ]


@pytest.mark.parametrize("data", [b"import { a } from 'b';\nexport const c = 1;\n", b"G@\x00\x10" + bytes(184) + b"G"])
def test_typescript_and_videos_are_no_translations(data: bytes) -> None:
    with pytest.raises(UnsupportedFile, match="Qt"):
        read(data, "ts")


def test_a_ts_file_of_another_language_is_refused() -> None:
    with pytest.raises(InvalidFile, match="fr"):
        read(QT.format(language=' language="fr_FR"', forms="").encode(), "ts")


# ---- yaml


def test_yaml_of_rails() -> None:
    content = read(RAILS.encode(), "yml", "ru")
    assert [(unit.place, unit.block.text) for unit in content.units] == [
        ("en.title", "Hello, “you”"),
        ("en.plain", "Some words and more"),
        ("en.single", "It's here"),
        ("en.flow.one", "One word"),
        ("en.flow.other", "Some words"),
        ("en.files.one", "%{count} file"),
        ("en.files.other", "%{count} files"),
        ("en.text", "First paragraph\nof two lines."),
        ("en.text", "Second one."),
        ("en.folded", "Folded words\nof one line"),
        ("en.wrapped", "Words that go on"),
        ("en.list.[0]", "An item"),
        ("en.list.[1].key", "Of an item"),
        ("en.default.a", "Anchored"),
    ]
    assert any("few" in warning for warning in content.warnings)
    result = rewritten(RAILS.encode(), "yml", lambda text: f"No: {text} #1", "ru").decode()
    found, source = yaml.safe_load(result)["ru"], yaml.safe_load(RAILS)["en"]
    assert found.keys() == source.keys()
    assert (found["plain"], found["single"]) == ("No: Some words and more #1", "No: It's here #1")
    assert (found["yes_word"], found["symbols"], found["formats"]) == (True, source["symbols"], source["formats"])
    assert found["text"] == "No: First paragraph\nof two lines. #1\n\nNo: Second one. #1\n"
    assert found["folded"] == "No: Folded words of one line #1"
    assert found["other"] == {"a": "No: Anchored #1"}
    assert "# said first" in result


STYLES = (
    "a: Some words\n",
    "a: 'Some words'\n",
    'a: "Some words"\n',
    "- Some words\n",
    "{a: Some words, b: 1}\n",
    "[Some words]\n",
)


@given(
    st.text(st.sampled_from("-:#'\"\\,[]{}&*!|>%@` \n\tab0\u2028") | st.characters(codec="utf-8"), min_size=1),
    st.sampled_from(STYLES),
)
def test_any_text_is_a_value_of_yaml(text: str, source: str) -> None:
    result = yaml.safe_load(rewritten(source.encode(), "yaml", lambda _: f"a{text}b"))
    value = next(iter(result.values())) if isinstance(result, dict) else result[0]
    assert value == CONTROL.sub(lambda found: " " if found[0].isspace() else "", f"a{text}b")
    assert result == yaml.safe_load(source) or len(result) == len(yaml.safe_load(source))


@given(
    st.lists(
        st.text(st.sampled_from("-:#'\"ab{}[] ") | st.characters(codec="utf-8", categories=["L", "N", "P"])), min_size=1
    ),
    st.sampled_from("|>"),
)
def test_any_lines_are_a_block_of_yaml(lines: list[str], sign: str) -> None:
    source = f"a: {sign}-\n  Some words\nb: 1\n"
    result = yaml.safe_load(rewritten(source.encode(), "yaml", lambda _: "\n".join(["a", *lines, "b"])))
    assert result.keys() == {"a", "b"}
    assert sign == ">" or re.sub(r"[ \t]*\n", "\n", result["a"]) == re.sub(
        r"[ \t]*\n", "\n", "\n".join(["a", *lines, "b"])
    )


@pytest.mark.parametrize(
    "source",
    [
        "- &x key: Some words\n  other: More words\n- *x\n",
        "a:\n  - &x key: Some words\n    b: &y\n      c: More words\n",
        "- - &z !!str k: Some words\n    l: More words\n",
        "- !!str &x 'a b': Some words\n  &y \"c\": More words\n",
        "&x a: Some words\n&y b:\n- &z More words\n",
    ],
)
def test_a_key_may_have_an_anchor_and_a_tag(source: str) -> None:
    assert texts(read(source.encode(), "yaml")) == ["Some words", "More words"]
    result = rewritten(source.encode(), "yaml", lambda text: text.replace("words", "Worte"))
    assert result.decode() == source.replace("words", "Worte")
    assert yaml.compose(result.decode()) is not None


@pytest.mark.parametrize(
    "source",
    [
        "\ta: b",
        "k: &a b: c",
        "- &a b: c\n   d: e",
        "? a\n: b",
        "a: b: c",
        "a: [b",
        "a: {b: c]",
        "a: 'b",
        "a: [b: c]",
        "- a\nb",
        "a: b\n c: d",
        "[" * 100_000,
        "- " * 50_000,
    ],
)
def test_what_is_not_yaml_or_is_rarely_used_is_refused_with_its_line(source: str) -> None:
    with pytest.raises(InvalidFile, match="line"):
        read(f"x: Some words\n---\n{source}\n".encode(), "yaml")


def test_only_a_language_is_written_as_the_key_of_a_file() -> None:
    assert rewritten(b"en:\n  a: Some words\n", "yml", str, "pt-BR") == b"pt-BR:\n  a: Some words\n"
    assert rewritten(b"&x en:\n  a: Some words\n", "yml", str, "fr") == b"&x fr:\n  a: Some words\n"
    assert rewritten(b"en:\n  a: Some words\n", "yml", str, "no") == b'"no":\n  a: Some words\n'
    for source in (b"en: Some words\n", b"en:\n  a: Some words\nde:\n  a: Worte\n", b"it:\n  a: b c\n---\na: Words\n"):
        assert rewritten(source, "yml", str, "fr") == source
