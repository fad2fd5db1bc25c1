"""Notations of tools that stand in plain texts: tags and codes of games, placeholders of frameworks, options of commands.

`NOTATIONS` is a table: what a tool calls it, its pattern, examples, and where the tool describes it. All of it is kept in a
translation, tags that open and close as pairs. `spans_by_context` finds what the rest of a text must say: what is in brackets
is a tag where the text closes it, too, and a name where the text has other notations of the tool: by itself `[door opens]` is
text, as in subtitles; and `&c` is a colour where the text has another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ToolNotation:
    """A notation. `pattern` begins with a character that is no letter, and is linear: each of its parts is bounded."""

    tool: str
    what: str
    pattern: str
    examples: tuple[str, ...]
    source: str


_NAME = r"[A-Za-z_][\w.:-]{0,40}"
_W = r"A-Za-z0-9_\u00c0-\u024f\u0370-\u052f"
_OPTION = r"[a-z][A-Za-z0-9]{0,63}(?:-[A-Za-z0-9]{1,63}){0,9}"
_ANY_OPTION = rf"(?:-[A-Za-z0-9?]|--{_OPTION})(?:[ =]<?[A-Z][A-Z_]{{0,31}}>?)?"
"""An option of an outline of a command's use, where it stands in brackets."""
_NO_WORD = r"[b-df-hj-np-tv-xzB-DF-HJ-NP-TV-XZ]"
"""An option of one letter in prose: no vowel, which is a word in many languages (Spanish `y` and `o`, Italian `e`)."""
_CLOSING_DASH = r"(?![^\n]{0,100}\w--?(?:[\s.,;:!?)]|\Z))"
"""None ends a phrase that a dash begins."""
_CLOSING_DASHES = r"(?![^\n]{0,100}\w--(?:[\s.,;:!?)]|\Z))"
"""The same behind two options, which a hyphen of a later word (German `Ein- und Ausgabe`) does not make a phrase."""
_VALUE = r"(?:\"[^\"<>\[\]\n]{0,200}\"|'[^'<>\[\]\n]{0,200}'|[^\s<>\[\]{}\"']{1,200})"

NOTATIONS: tuple[ToolNotation, ...] = (
    ToolNotation(
        "Unity, TextMesh Pro, Bethesda's games",
        "tags with a value",
        rf"<[?!]?{_NAME}={_VALUE}(?:\s[^<>\n]{{0,200}})?/?>|<#[0-9A-Fa-f]{{3,8}}>",
        ("<color=#B00>", "<size=30>", "<sprite=3>", '<link="a b">', "<Alias=Player>", "<#F00>", "<?event=boom>"),
        "https://docs.unity3d.com/Packages/com.unity.textmeshpro@4.0/manual/RichTextSupportedTags.html",
    ),
    ToolNotation(
        "Unreal Engine", "the end of any tag", r"</>", ("</>",),
        "https://dev.epicgames.com/documentation/en-us/unreal-engine/umg-rich-text-blocks-in-unreal-engine",
    ),
    ToolNotation(
        "BBCode (forums, Godot, Steam), WordPress",
        "tags with a value or attributes, items and ends of lines",
        rf"\[(?![A-Z]+=[A-Z]+\]|[a-z]+=[A-Z]\])[A-Za-z][\w:-]{{0,40}}(?:={_VALUE}|(?:\s[\w-]{{1,40}}={_VALUE}){{1,9}})\s?/?\]|\[(?:\*|/\*|hr|br|lb|rb)\]",
        ("[color=#f00]", "[url=https://example.com]", '[gallery ids="1"]', "[font size=12]", "[*]", "[br]"),
        "https://docs.godotengine.org/en/stable/tutorials/ui/bbcode_in_richtextlabel.html",
    ),
    ToolNotation(
        "RPG Maker",
        "control codes",
        r"\\[A-Za-z]{1,8}\[[\w.,:#-]{0,32}\]|\\[.|!^><$](?![\w/])",
        (r"\C[0]", r"\N[1]", r"\V[12]", r"\FS[24]", r"\.", r"\|", r"\!"),
        "https://rpgmakerofficial.com/product/MZ_help-en/#/01_11_01",
    ),
    ToolNotation(
        "Ren'Py and others",
        "names with a point, an index, a flag or an underscore in brackets",
        r"\[(?=[\w.]{0,64}[_.!:\[])(?=[a-z_]|\w{1,64}\.|[A-Z]{2,32}_[A-Z])[A-Za-z_]\w{0,63}(?:\.[A-Za-z_]\w{0,63}|\[[\w'\"]{1,32}\]){0,4}"
        r"(?:![a-z]{1,4})?(?::[\w.,+-]{1,12})?\]",
        ("[player_name]", "[player.name]", "[items[0]]", "[name!t]", "[points:.2f]", "[Root.GetName]", "[FIRST_NAME]"),
        "https://www.renpy.org/doc/html/text.html#interpolating-data",
    ),
    ToolNotation(
        "Minecraft, Paradox's games", "colours", r"§(?:[0-9a-fk-or](?=[^\s\d.,;:)]|$)|r\b|[A-Z!])",
        ("§aHello", "§r", "§Y", "§!"), "https://minecraft.wiki/w/Formatting_codes",
    ),
    ToolNotation(
        "Paradox's games", "values and icons", r"\$[A-Za-z_]\w{0,63}(?:\|[^$\s]{1,8})?\$|£[a-z_]{2,32}£?",
        ("$VALUE$", "$VALUE|+=1$", "£energy£"), "https://stellaris.paradoxwikis.com/Localisation_modding",
    ),
    ToolNotation(
        "World of Warcraft, The Elder Scrolls Online", "colours, links, pictures",
        r"\|c[0-9A-Fa-f]{6}(?:[0-9A-Fa-f]{2})?|\|[rn](?![a-z])|\|(?:T|t(?=\d))[^|\n]{1,100}\|t|\|H[^|\n]{1,100}\|h|\|h(?![a-z])",
        ("|cffff0000", "|r", "|TInterface/Icons/a:16|t", "|t32:32:a.dds|t", "|Hitem:7073|h"), "https://warcraft.wiki.gg/wiki/UI_escape_sequences",
    ),
    ToolNotation(
        "Wesnoth", "variables", r"\$[A-Za-z_]\w{0,63}(?:\.[A-Za-z_]\w{0,63}){1,4}\|?|\$[A-Za-z_]\w{0,63}\|",
        ("$unit.name|", "$unit.name", "$name|"), "https://wiki.wesnoth.org/VariablesWML",
    ),
    ToolNotation(
        "Twine", "macros", r"<</?[A-Za-z_][^<>\n]{0,100}>>", ("<<print $x>>", "<<endif>>"),
        "https://twinery.org/cookbook/terms/terms_macros.html",
    ),
    ToolNotation(
        "GameMaker (Scribble), Bitsy", "tags with numbers",
        r"\[[a-z_]\w{1,32}(?:,[ ]?-?[\d.]{1,9}){1,4}\]|\{[a-z_]\w{1,32}(?:[ ]-?[\d.]{1,9}){1,4}\}",
        ("[scale,2]", "{clr 1}"), "https://www.jujuadams.com/Scribble/",
    ),
    ToolNotation(
        "Apple's stringsdict", "variables", r"%(?:\d{1,2}\$)?#@\w{1,64}@", ("%#@count@", "%1$#@days@"),
        "https://developer.apple.com/documentation/xcode/localizing-strings-that-contain-plurals",
    ),
    ToolNotation(
        "mail services, SAP, Template Toolkit, Sphinx and others", "names between signs",
        r"\*\|[^|*\n]{1,100}\|\*|(?<![\w%])(?:%%[A-Za-z_][\w.]{1,62}%%(?!%)|%[A-Za-z_]\w{0,63}(?:[.:]\w{1,63}){1,9}%)(?!\w)"
        r"|(?<![\w&])&[A-Z][A-Z0-9_]{1,62}&(?!\w)|(?<![\w!])![A-Z]!(?!\w)|(?<!#)#{2,3}[A-Z][A-Z0-9_]{1,62}#{2,3}(?!#)"
        r"|(?<![\w@])@@[A-Za-z_]\w{1,62}@@(?!\w)"
        r"|\[%[-+=~]?[ ][^%\[\]\n]{1,200}%\]"
        r"|(?<![\w|)])\|[a-z]\w{1,40}(?:[.-]\w{1,40}){0,4}\|(?![\w|(])",
        ("*|FNAME|*", "%%First_Name%%", "%recipient.name%", "##AMOUNT##", "###CODE###", "&NUMBER&", "[% total %]", "|release|"),
        "https://mailchimp.com/help/all-the-merge-tags-cheat-sheet/",
    ),
    ToolNotation(
        "C, Go, Python, gettext", "conversions with a width from an argument, and others",
        r"(?<![\d%])(?:%(?:\d{1,2}\$)?[-+#0]{0,3}(?:\d{0,3}|\*)(?:\.(?:\d{1,3}|\*))?(?:hh|ll|I64|[hlLjzt])?[diouxXeEfFgGaAcspTvqr]"
        r"|%'\d{0,3}(?:\.\d{1,3})?l{0,2}[diufFgG])(?![A-Za-z])",
        ("%*d", "%.*s", "%v", "%q", "%T", "%ld", "%jd", "%I64d", "%r"), "https://pkg.go.dev/fmt",
    ),
    ToolNotation(
        "Windows", "conversions of numbered arguments",
        r"%\d{1,2}![-+#0]{0,3}\d{0,3}(?:\.\d{1,3})?[A-Za-z]{1,4}!", ("%1!s!", "%2!08lX!"),
        "https://learn.microsoft.com/windows/win32/api/winbase/nf-winbase-formatmessage",
    ),
    ToolNotation(
        "Qt, KDE", "placeholders", r"(?<![\d%])%L?(?:\d{1,2}(?![\d%$])|n(?!\w))", ("%1", "%L2", "%n"),
        "https://doc.qt.io/qt-6/qstring.html#arg",
    ),
    ToolNotation(
        "Ruby", "named conversions", r"%<\w{1,64}>[-+0 #]{0,3}\d{0,3}(?:\.\d{1,3})?[sdifgexXc]", ("%<count>d", "%<price>.2f"),
        "https://docs.ruby-lang.org/en/master/format_specifications_rdoc.html",
    ),
    ToolNotation(
        "Swift, make, MSBuild", "values",
        r"\\\([A-Za-z_][\w.]{0,63}\)|\$\([A-Za-z_][\w.]{0,63}\)", (r"\(user.name)", "$(NAME)"),
        "https://docs.swift.org/swift-book/documentation/the-swift-programming-language/stringsandcharacters/",
    ),
    ToolNotation(
        ".NET", "placeholders with a format",
        r"\{\d{1,2}(?:,-?\d{1,3})?:[^{}\n]{1,40}\}", ("{0:yyyy-MM-dd HH:mm}", "{1,10:N2}"),
        "https://learn.microsoft.com/dotnet/standard/base-types/composite-formatting",
    ),
    ToolNotation(
        "Python", "placeholders with a format",
        r"\{[A-Za-z_][\w.]{0,63}(?:![rsa])?:[ <>^+,.\d%A-Za-z-]{1,12}\}", ("{name: >10}", "{x!r:^12}"),
        "https://docs.python.org/3/library/string.html#format-string-syntax",
    ),
    ToolNotation(
        "Handlebars", "unescaped values", r"\{\{\{[^{}\n]{1,64}\}\}\}", ("{{{html}}}",), "https://handlebarsjs.com/guide/",
    ),
    ToolNotation(
        "FreeMarker, Blade, Razor", "tags and calls",
        r"</?[#@][A-Za-z][\w.]{0,40}(?:\s[^<>\n]{0,200})?/?>|(?<![\w@.])@[A-Za-z][\w.]{0,40}\([^()\n]{0,200}\)",
        ("<#if a??>", "</#if>", '<@spring.message "a.b"/>', "@lang('a.b')"),
        "https://freemarker.apache.org/docs/dgui_template_directives.html",
    ),
    ToolNotation(
        "NSIS", "line ends", r"\$\\[rnt](?![a-z])", (r"$\r$\n",), "https://nsis.sourceforge.io/Docs/Chapter4.html#strings",
    ),
    ToolNotation(
        "Fluent", "functions", r"\{ ?[A-Z]{2,20}\([^{}\n]{0,100}\) ?\}", ("{ NUMBER($n, minimumFractionDigits: 2) }",),
        "https://projectfluent.org/fluent/guide/functions.html",
    ),
    ToolNotation(
        "Maketext (Perl)", "arguments", r"\[_\d{1,2}\]", ("[_1]",), "https://perldoc.perl.org/Locale::Maketext",
    ),
    ToolNotation(
        "Drupal, LibreOffice", "placeholders",
        r"(?<![\w%~])%(?:[a-z]{3,32}(?:_[a-z]{1,32}){0,4}|[A-Z]{4,32}(?:_[A-Z]{1,32}){0,4})(?![\w%-])",
        ("%name", "%file_name", "%PRODUCTNAME"), "https://api.drupal.org/api/drupal/core!lib!Drupal!Component!Render!FormattableMarkup.php",
    ),
    ToolNotation(
        "Laravel", "placeholders in capitals",
        r"(?<!\S):(?:[A-Z][a-z]{2,32}|[A-Z]{2,32})(?:_[A-Za-z]{1,32}){0,3}(?![\w:])", (":Name", ":COUNT"),
        "https://laravel.com/docs/localization#replacing-parameters-in-translation-strings",
    ),
    ToolNotation(
        "chat programs, games", "commands", r"(?<![^\s(\"'])/[a-z][a-z0-9_]{2,31}(?![\w/.*-])", ("/start", "/give_all"),
        "https://core.telegram.org/bots/features#commands",
    ),
    ToolNotation(  # a dash of speech or of prose has no space before it, or one behind it, or begins a line
        "commands", "options",
        rf"\[{_ANY_OPTION}(?:\|{_ANY_OPTION}){{0,4}}\]"
        rf"|(?<![^\s|'\"`=])-[A-Za-z0-9?],? ?[|/]? ?--{_OPTION}(?![{_W}-]){_CLOSING_DASHES}"
        rf"|(?<=[ \[|'\"`(=/,])--{_OPTION}(?![{_W}-]){_CLOSING_DASH}"
        rf"|(?<![^\n])--(?:{_OPTION}(?==|  )|[a-z][A-Za-z0-9]{{0,63}}-{_OPTION}(?![{_W}-]))"
        r"|(?<!\S)--\[no-\][a-z][a-z0-9-]{1,63}(?!\w)|(?<!\S)-(?![A-Z]+[= ])[A-Za-z][\w-]{1,63}(?==\w|[ ]{3})"
        rf"|(?<![^\s\[|'\"`=])-[A-Za-z0-9?](?=,? ?[|/]? ?--[a-z]){_CLOSING_DASHES}|(?<=[\[|])-[A-Za-z0-9?](?![{_W}-])"
        rf"|(?<=['\"`])-[A-Za-z0-9?](?=['\"`])|(?<=[{_W}]{{2}} )-{_NO_WORD}(?![{_W}'’-]){_CLOSING_DASH}"
        rf"|(?<=[\]>] )-[a-z](?![{_W}'’-])",
        ("--verbose", "-v, --verbose", "--dry-run", "-std=c99", "[--all]", "[-o FILE]"),
        "https://www.gnu.org/prep/standards/html_node/Command_002dLine-Interfaces.html",
    ),
)  # fmt: skip

PATTERN = "|".join(f"(?:{one.pattern})" for one in NOTATIONS)

_CLOSING = re.compile(r"[\[{]/([A-Za-z][\w:-]{0,40})[\]}]")
_TAG = re.compile(
    r"\[/?([A-Za-z][\w:-]{0,40})(?:[\s=][^\[\]\n]{0,200})?\]|\{/?([A-Za-z][\w:-]{0,40})(?:[\s=:|][^{}\n]{0,200})?\}"
)
_RENPY = re.compile(
    r"\{(?:/[a-z]{1,12}|(?:w|p|nw|fast|cps|size|color|font|image|i|b|u|s|a|k|rt|alpha)(?:=[^{}\s]{0,64})?)\}"
)
_HYPHENED = re.compile(r"\[[a-z]{2,20}(?:-[a-z0-9]{1,20}){1,4}\]")
_VARIABLE = re.compile(r"\[[a-z]\w{0,63}\]")


_TARGET_BEHIND = r"[ \n]?<[^<>`\n]{1,300}>`"
_LINKS = {
    "[[": (r"\[\[(?:[^\[\]|\n]{1,200}\|){1,6}", r"[^\[\]|\n]{1,300}", r"\]\]"),
    ":role:": (
        r"(?<![\w`])(?:\{[A-Za-z][\w:+-]{0,40}\}|:[A-Za-z][\w:+-]{0,40}:)`",
        r"[^`<>\n]{1,300}?",
        _TARGET_BEHIND,
    ),
    "`": (r"(?<![\w:}`])`", r"[^`<>\n]{1,300}?", rf"{_TARGET_BEHIND}__?(?!\w)"),
    "[c/": (r"\[c/[0-9A-Fa-f]{6}:", r"[^\[\]\n]{1,300}", r"\]"),
}
"""Links with a text: what is before, in and behind it. Those of MediaWiki and Audacity
(https://www.mediawiki.org/wiki/Help:Links), roles of MyST and Sphinx in catalogues of their pages
(https://www.sphinx-doc.org/en/master/usage/referencing.html), links of reStructuredText, and colours of Terraria
(https://terraria.wiki.gg/wiki/Chat)."""
_WHOLE_LINKS = tuple(re.compile(f"({before}){text}({behind})") for before, text, behind in _LINKS.values())
_HALVES = {name: (re.compile(before), re.compile(behind)) for name, (before, _, behind) in _LINKS.items()}
_LIMIT = r"-?[\d.\u221e]{1,12}[#<\u2264]"
_NESTED = r"\{[^{}\n]{0,64}\}"
_CHOICES = (
    (
        re.compile(
            r"(\{[\w.\[\]-]{0,64}:(?:plural|p|choose|cond|conditional|list|ismatch)(?:\([^(){}\n]{0,100}\))?:)"
            rf"((?:[^{{}}\n]|{_NESTED}){{1,500}}+)(\}})"
        ),
        re.compile(rf"{_NESTED}|(?P<between>\|)"),
    ),
    (
        re.compile(
            r"(\{\w{1,64}\}\|(?:plural|ordinal|gender|hpp)\((?:(?:zero|one|two|few|many|other)=)?)"
            rf"((?:[^(){{}}\n]|{_NESTED}){{1,500}}+)(\))"
        ),
        re.compile(rf"{_NESTED}|(?P<between>,[ ]?(?:(?:zero|one|two|few|many|other)=)?)"),
    ),
    (
        re.compile(rf"(\{{\s?\w{{1,64}},\s?choice,\s?{_LIMIT})((?:[^{{}}\n]|{_NESTED}){{1,500}}+)(\}})"),
        re.compile(rf"{_NESTED}|(?P<between>\|\s?{_LIMIT})"),
    ),
)
"""Choices among texts: their beginning, texts and end, and what is between two of the texts. Those of SmartFormat, which Unity
has (https://docs.unity3d.com/Packages/com.unity.localization@1.5/manual/Smart/SmartStrings.html), of Unreal Engine
(https://dev.epicgames.com/documentation/en-us/unreal-engine/text-formatting-in-unreal-engine), and of Java
(https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/text/ChoiceFormat.html)."""
_COLOUR = re.compile(r"&(?:[0-9a-fk-or](?![A-Za-z0-9]{0,30};)(?!=)|#[0-9A-Fa-f]{6}(?!;))")
_BEGINS_TEXT = re.compile(rf"(?<![{_W}&])(?:{_COLOUR.pattern})+(?=[^\s;=])")
_BEFORE_CAPITAL = re.compile(r"[A-Z\u0400-\U0003ffff]")
_NO_KEY = re.compile(  # of a menu's label, which stands before a letter
    rf"(?<![{_W}&])(?:&#|&[0-9](?=[a-z])|(?:{_COLOUR.pattern})(?:{_COLOUR.pattern}|(?=[^\sa-z;=])))"
)
_CONVERSION = re.compile(r"(?<!%)%[sd](?![\w%])")
_CAPITALIZED = re.compile(r"(?<![\w%~])(?<!\d[ \u00a0])%[A-Z]{1,8}[a-z][A-Za-z]{1,31}(?![\w%-])")
_BEFORE_WORD = re.compile(r"(?<!%)%[sd](?=[a-z]{2,32}(?![a-z_]))")


def spans_by_context(text: str) -> Iterator[tuple[int, int]]:
    """Yield what is no text because of what else the text has, in order and not overlapping."""
    found = [*(_brackets(text) if "[" in text or "{/" in text else ()), *(_colours(text) if "&" in text else ())]
    for link in _WHOLE_LINKS if any(sign in text for sign in ("[[", ">`", "[c/")) else ():
        found += (one.span(half) for one in link.finditer(text) for half in (1, 2))
    found += _choices(text) if "{" in text and "|" in text else ()
    if "%" in text:  # names of Drupal's kind stand in no text of C: `%sversion %s`, `%d of %dms`, `%XError: %d`
        names = _BEFORE_WORD if _CONVERSION.search(text) else _CAPITALIZED
        found += (one.span() for one in names.finditer(text))
    end = 0
    for start, stop in sorted(found):
        if start >= end:
            yield start, stop
            end = stop


def half_of_link(kept: str) -> tuple[Literal["open", "close"], str] | None:
    """Which half of a link a text that is kept is, and the link's name; None if it is none."""
    for name, (before, behind) in _HALVES.items() if kept[-1] in "|`]_:" else ():
        if before.fullmatch(kept) or behind.fullmatch(kept):
            return "open" if before.fullmatch(kept) else "close", name
    return None


def _choices(text: str) -> Iterator[tuple[int, int]]:
    """Yield what is around the texts of choices."""
    for choice, separator in _CHOICES:
        for found in choice.finditer(text):
            yield found.span(1)
            yield from (one.span() for one in separator.finditer(text, *found.span(2)) if one["between"])
            yield found.span(3)


def _colours(text: str) -> Iterator[tuple[int, int]]:
    """Yield the codes of colours of a text that has several, or one that no menu has: a label has one letter for its key."""
    first = _BEGINS_TEXT.search(text) if _NO_KEY.search(text) else None
    if first and (
        len(first[0]) > 2 or _BEGINS_TEXT.search(text, first.end()) or _BEFORE_CAPITAL.match(text, first.end())
    ):
        yield from (one.span() for one in _COLOUR.finditer(text))


def _brackets(text: str) -> Iterator[tuple[int, int]]:
    """Yield what is in brackets and is no text: tags that the text closes, and names among tags of Ren'Py."""
    names = (
        {found[0][0] + found[1] for found in _CLOSING.finditer(text)} if "[/" in text or "{/" in text else set[str]()
    )
    if names:
        opened: set[str] = set()
        for tag in _TAG.finditer(text):
            name = tag[0][0] + (tag[1] or tag[2])
            if name in names:
                if tag[0][1] != "/" or name in opened:
                    yield tag.span()
                opened.add(name)
    hyphened = [found.span() for found in _HYPHENED.finditer(text)]
    if len(hyphened) > 1:  # fields of a form; one may be a sound of a subtitle
        yield from hyphened
    if _RENPY.search(text):
        yield from (found.span() for found in _VARIABLE.finditer(text))
