"""HTML and XML: what is a block, what is a mark, what is copied, and how characters are written."""

from __future__ import annotations

import pytest

from tests.wholetext import reading
from wholetext.markup import html
from wholetext.markup.html import TagRules
from wholetext.markup.marks import Block, Mark, Piece, restore
from wholetext.markup.spans import spans


def read(text: str, rules: TagRules | None = None, *, xml: bool = False) -> list[Piece]:
    pieces = [piece for piece in html.pieces(text, spans, rules, xml=xml) if piece is not None]
    assert reading.written(pieces) == text
    return pieces


def blocks(text: str, rules: TagRules | None = None, *, xml: bool = False) -> list[str]:
    return reading.texts(read(text, rules, xml=xml))


def marks(text: str, rules: TagRules | None = None, *, xml: bool = False) -> list[Mark]:
    return reading.marks(read(text, rules, xml=xml))


def translated(text: str, changes: dict[str, str], *, xml: bool = False) -> str:
    """The document with each block that is a key of `changes` translated."""
    return reading.written(read(text, xml=xml), lambda one: changes.get(one, one))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>Hello <b>big</b> world</p>", ["Hello <g1>big</g1> world"]),
        ("<p>One<p>two<br>three<div>four</div>five", ["One", "two", "three", "four", "five"]),
        ("<ul>\n<li>One</li>\n<li>Two</li>\n</ul>", ["One", "Two"]),
        ("<table><tr><td>a</td><th>b</th></tr></table>", ["a", "b"]),
        ("<h1><a href='/'><em>Home</em></a></h1>", ["Home"]),
        ("<P>Upper <B>case</b> names</P>", ["Upper <g1>case</g1> names"]),
        ("<my-part>One</my-part><my-part>Two</my-part>", ["One", "Two"]),
        ("<p>Hello <x id=1/>name</p>", ["Hello <x1/>name"]),
        ("<title>A <b> &amp; c</title>", ["A <x1/> & c"]),
        ("<textarea> Write\nhere </textarea>", ["Write\nhere"]),
        ("<select><option>One<option>Two</select>", ["One", "Two"]),
        ("Press <button>OK</button> now", ["Press <g1>OK</g1> now"]),
        ("<p>   \n </p><p>12:30</p>", []),
        # shown attributes
        ("<p><a title='A tip'><img alt='A dog'> One</a> <img alt='A cat'></p>", ["A tip", "A dog", "One", "A cat"]),
        ("<p>One</p><p><img alt='A bird'> 5</p>", ["One", "A bird"]),
        ("<meta name=description content='All of it'><meta name=viewport content='width one'>", ["All of it"]),
        ("<div title='A tip' aria-label='A label' data-title='x'>One</div>", ["A tip", "A label", "One"]),
        (
            "<select label=x><optgroup label='A group'><option label='An option' value=b></optgroup></select>",
            ["A group", "An option"],
        ),
        ("<video><track kind=captions label='In English' src=x></video>", ["In English"]),
        ("<table><tr><th abbr='Amount'>Amount in words<td abbr=x label=y>3</table>", ["Amount", "Amount in words"]),
        ("<p aria-valuetext='Half of it' aria-controls='an-id'>One</p>", ["Half of it", "One"]),
        ("<img translate=no alt='A dog'>", []),
        ("<img alt='One' alt='Two'>", ["One"]),
        # one text in two notations
        ("r&d <b>r&d</b> <i>r&amp;d</i>", ["r&d <g1>r&d</g1> <g2>r<x3/>d</g2>"]),
        ("<b>a</b>\n<b>b</b> <b>c</b>", ["<g1>a</g1>\n<g2>b</g2> <g3>c</g3>"]),
        # the branches of a message are blocks, and its syntax is copied
        (
            "<p>{n, plural, one {I have a <b>dog</b>.} other {I have # <b>dogs</b> &amp; cats.}}</p>",
            ["I have a <g1>dog</g1>.", "I have <x1/> <g2>dogs</g2> & cats."],
        ),
        (
            "<p>You, {name}, have {n, plural, one {# file} other {# files}} <i>here</i>.</p>",
            ["You, <x1/>, have", "<x1/> file", "<x1/> files", "<g1>here</g1>."],
        ),
        # what follows something that is not translated
        ("<!--> one --> <p translate=no>two<p>three", ["one -->", "three"]),
        ("<script></scripts>one</script>two<pre>three</pre>four", ["two", "four"]),
        ("<ul><li class=notranslate>one<li>two</ul>", ["two"]),
        ("<td translate=no>skip<td>two", ["two"]),
        ("<div translate=no>skip <p translate=yes>two</p> three</div>", ["two"]),
        # broken markup
        ("aa < b and c > d", ["aa < b and c > d"]),
        ("x <2 and <", ["x <2 and <"]),
        ("I <3 you", ["I <x1/> you"]),
        ("<b>one <i>two</b> three</i>", ["<g1>one <x2/>two</g1> three"]),
        ("one</p></div>two</b>", ["one", "two"]),
        ("<p<b>one</p>", ["one"]),
        ("<a href=\"x>y\" title='>'>one</a> two", ["<g1>one</g1> two"]),
        ("<a =='x>y'>one</a> two", ["<g1>one</g1> two"]),
        ("<a b='c'd=\"e\"f>one</a> two", ["<g1>one</g1> two"]),
        ("<a/b/c>one</a> two", ["<g1>one</g1> two"]),
        ("<>one</>two", ["<>one<x1/>two"]),
        ("one <b", ["one"]),
        ('<a href="x>one</a> two', ["<g1>one</g1> two"]),
        ('<p>one <a href="', ["one"]),
        # what is not translated
        ("<script>if (a < b) document.write('<p>Hello</p>')</script>", []),
        ("<script>var s = 'Hello'</SCRIPT >", []),
        ("<style>p { content: 'Hello' }</style>", []),
        ("<!-- Hello -->", []),
        ("<!--> <!---> <!-- <p>Hello --!>", []),
        ("<!-- Hello", []),
        ("<!DOCTYPE html><?php Hello ?>", []),
        ("</ Hello><!Hello>", []),
        ("<pre>Hello <b>you</b></pre>", []),
        ("<svg><text>Hello</text><title>Hello</title><style/>Hello</svg>", []),
        ("<svg><![CDATA[ Hello > </svg> ]]></svg>", []),
        ("<div translate='no'>Hello <p>you</p></div>", []),
        ("<div class='a notranslate b'>Hello</div>", []),
        ("<p translate=NO>Hello <b>you</b></p>", []),
        ("<p title='Hello", []),
        ("<p title='Hello'", []),
        ("<p Hello", []),
        ("<code>Hello</code>", []),
        ("<input type=text value='Hello'>", []),
        ("<a href='Hello' data-x=\"Hello\">12</a>", []),
    ],
)
def test_blocks_are_what_a_browser_lays_out_and_shows(text: str, expected: list[str]) -> None:
    assert blocks(text) == expected


def test_white_space_is_as_a_browser_shows_it_and_edges_are_copied() -> None:
    text = "<p>\n   Hello\n   <b>you</b>\n   there\n</p>"
    assert blocks(text) == ["Hello <g1>you</g1> there"]
    assert translated(text, {"Hello <g1>you</g1> there": "Da <g1>du</g1>"}) == "<p>\n   Da <b>du</b>\n</p>"


def test_an_inline_element_that_is_not_translated_is_one_mark_within_its_sentence() -> None:
    assert marks("Run <code>a <b>x</b></code> now") == [Mark("<code>a <b>x</b></code>", word=True)]
    [block, _] = read("<kbd class=k>Ctrl</kbd> stops it.<br>")
    assert block == Block("<x1/> stops it.", (Mark("<kbd class=k>Ctrl</kbd>", word=True),), block.writer)
    assert blocks("Click <svg><path/></svg> here") == ["Click <x1/> here"]
    assert blocks("one <code>a<div>b</div></code> two") == ["one", "two"]


def test_attributes_that_are_shown_are_translated_in_their_quotes() -> None:
    text = """<img src="a" alt="A &quot;red&quot; dog" title='the dog'><input type=Submit value=Send placeholder="Your name">"""
    assert blocks(text) == ['A "red" dog', "the dog", "Send", "Your name"]
    changes = {'A "red" dog': "Ein \"roter\" <Hund> & 'so'", "the dog": 'd\'Hund "x"', "Send": "Ab senden>"}
    assert translated(text, changes) == (
        '<img src="a" alt="Ein &quot;roter&quot; &lt;Hund> &amp; \'so\'" title=\'d&#39;Hund "x"\'>'
        '<input type=Submit value=Ab&#32;senden&gt; placeholder="Your name">'
    )


def test_attributes_of_tags_in_a_sentence_are_translated_and_the_tags_are_marks() -> None:
    text = '<p>See <a href="x" title="The &quot;map&quot;">our <img src=a alt="A map"> of it</a>, <input placeholder=Name> or'
    assert blocks(text) == ["See <g1>our <x2/> of it</g1>, <x3/> or"]
    changes = {
        'The "map"': 'Unsere "Karte"',
        "A map": "Eine Karte",
        "Name": "Der Name",
        "See <g1>our <x2/> of it</g1>, <x3/> or": "<g1>Von <x2/></g1> oder <x3/> hier",
    }
    assert translated(text, changes) == (
        '<p><a href="x" title="Unsere &quot;Karte&quot;">Von <img src=a alt="Eine Karte"></a>'
        " oder <input placeholder=Der&#32;Name> hier"
    )


@pytest.mark.parametrize(
    ("text", "translation", "expected"),
    [
        ("Tom &amp; Ann", "A & B &lt; <b>", "A &amp; B &amp;lt; &lt;b>"),
        ("Tom & Ann", "A & B &lt; <b>", "A & B &amp;lt; &lt;b>"),
        ("caf&eacute; here", "là é", "là &eacute;"),
        ("caf&eacute; é", "à é", "à é"),
        ("it&#39;s and it&#x27;s", "l'un", "l&#39;un"),
        ("it&rsquo;s here", "l’un “x”", "l&rsquo;un “x”"),
        ("a &gt; b", "b > a", "b &gt; a"),
        ("a > b", "b > a", "b > a"),
        ("aa < b", "b < aa <b", "b < aa &lt;b"),
        ("at&t here", "bei at&t &copy at&t;", "bei at&t &amp;copy at&t;"),
        ("here is at&t", "hier ist at&t", "hier ist at&t"),
        ("here is at&t", "at&t ist r&d", "at&t ist r&amp;d"),
        ("more <", "mehr <", "mehr <"),
        ("more < <b>x</b>", "mehr <", "mehr &lt;"),
    ],
)
def test_characters_are_written_as_the_block_writes_them(text: str, translation: str, expected: str) -> None:
    [block] = read(text)
    assert isinstance(block, Block)
    assert restore(translation, block.marks, block.writer) == expected


@pytest.mark.parametrize(
    ("text", "shown", "kept"),
    [
        ("10&nbsp;km &copy;&reg; here", "10<x1/>km <x2/> here", ["&nbsp;", "&copy;&reg;"]),
        ("Donau&shy;dampf", "Donau<x1/>dampf", ["&shy;"]),
        ("a &#x1F600; b", "a <x1/> b", ["&#x1F600;"]),
        ("write &lt;b&gt; here", "write <x1/> here", ["&lt;b&gt;"]),
        ("see http://a.b/?c=1&amp;d=2 now", "see <x1/> now", ["http://a.b/?c=1&amp;d=2"]),
        ("one &notit; two", "one <x1/>it; two", ["&not"]),
        ("from &euro;9.50 on", "from <x1/> on", ["&euro;9.50"]),
        ("if &euro;5 &le; &euro;9 &rarr; A&amp;B", "if <x1/>", ["&euro;5 &le; &euro;9 &rarr; A&amp;B"]),
        ("ask {a} {b} <img> {c} now", "ask <x1/> <x2/> <x3/> <x4/> now", ["{a}", "{b}", "<img>", "{c}"]),
        ("one &#xZZ; two &#xFFFFFFFF;!", "one <x1/> two <x2/>!", ["&#xZZ;", "&#xFFFFFFFF;"]),
    ],
)
def test_symbols_and_escaped_markup_are_marks(text: str, shown: str, kept: list[str]) -> None:
    [block] = read(text)
    assert isinstance(block, Block)
    assert block.text == shown
    assert [mark.opening for mark in block.marks] == kept


def test_tags_by_name() -> None:
    rules = TagRules(frozenset({"var-x"}), frozenset({"b"}), frozenset({"li"}))
    assert blocks("one <var-x>two</var-x> three", rules) == ["one", "three"]
    assert blocks("one <b>two</b> three", rules) == ["one", "two", "three"]
    assert blocks("one <li>two</li> three", rules) == ["one <g1>two</g1> three"]
    rules = TagRules(ignore=frozenset({"x"}))
    assert marks("one <x>two <x>y</x></x> three", rules) == [Mark("<x>two <x>y</x></x>", word=True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<r><p>Hello <b>big</b> world</p><p><B>all</B></p></r>", ["Hello <g1>big</g1> world", "all"]),
        ("<r><a>one</a><a>two</a></r>", ["one", "two"]),
        ("<p>See <a><b>this</b></a> now</p>", ["See <g1>this</g1> now"]),
        ("one <b>two</b>", ["one <g1>two</g1>"]),
        ('<p>Hi <x id="9"/><x id="9"></x> you</p>', ["Hi <x1/> you"]),
        ("<p>a <b>c</B> d</b> e</p>", ["a <g1>c<x2/> d</g1> e"]),
        ("<p>one <![CDATA[two < ]] three]]> four</p><q><![CDATA[five]]></q>", ["one <x1/> four"]),
        ("<!DOCTYPE a [<!ENTITY b '>]'> <!-- ' -->]><a>one</a><?pi two > ?>", ["one"]),
        ("<p>T &lt; &name; &amp; &#39;x&apos;</p>", ["T < <x1/> & 'x'"]),
        ("<pre>one</pre><code>two</code><p>three<br/>four</p>", ["one", "two", "three<x1/>four"]),
        ("<p translate='no'>one</p><title>two</title>", ["two"]),
        ("<r><p>one <b>two</p><p>three</p></r>", ["one <x1/>two", "three"]),
        ('<p>at <say-as as="time">6:30</say-as>, <b>now</b></p>', ["at <x1/>, <g2>now</g2>"]),
    ],
)
def test_xml(text: str, expected: list[str]) -> None:
    assert blocks(text, xml=True) == expected


def test_xml_entities_are_written_so_that_the_document_stays_well_formed() -> None:
    assert translated("<p>a</p>", {"a": "<b> & ]]> \" '"}, xml=True) == "<p>&lt;b> &amp; ]]&gt; \" '</p>"


def test_xml_tags_by_name_override_the_outline() -> None:
    assert blocks("<p>one <b>two</b></p>", TagRules(splitting=frozenset({"b"})), xml=True) == ["one", "two"]
    assert blocks("<p><b>one</b><b>two</b></p>", TagRules(non_splitting=frozenset({"b"})), xml=True) == [
        "<g1>one</g1><g2>two</g2>"
    ]
    ignoring = TagRules(ignore=frozenset({"x"}))
    assert marks("<p>one <x>two<y/></x></p>", ignoring, xml=True) == [Mark("<x>two<y/></x>", word=True)]
