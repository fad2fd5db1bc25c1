"""Checks of a translation: each has what it must find and what must pass."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
from benchmarks import checks as checks_benchmark

from dragoman.prompts.catalog import profiles
from dragoman.text.checks import SEVERITY, WARNING_CODES, Finding, TextChecks, badness, findings
from dragoman.text.commentary import without_commentary
from dragoman.text.comparisons import (
    CheckContext,
    length_faults,
    line_breaks_kept,
    numbers_lost,
    numbers_repeated,
    placeholders_lost,
    repeats,
    repeats_sentence,
)
from dragoman.text.detect import Detector
from dragoman.types import WarningCode
from wholetext.markup.spans import pseudolocalized

GERMAN = "Ich komme heute etwas später nach Hause."


def warnings(
    source: str, output: str, source_language: str | None = "en", target_language: str = "de"
) -> dict[str, str]:
    """Code and message of what is found in a text of one segment."""
    checks = TextChecks(CheckContext(source_language, target_language))
    checks.add(source, output)
    return {one.code: one.message for one in checks.warnings()}


def sentences_dropped(source: str, output: str) -> bool:
    return "sentences_dropped" in length_faults(source, output)


@pytest.mark.parametrize(
    ("source", "output", "missing"),
    [
        ("Hi {name}", "{name}さん、こんにちは", ()),
        ("Hi {name}", "こんにちは", ("{name}",)),
        ("{0} and {0} and {1}", "{1}と{0}", ("{0}",)),
        ("%s of %d", "%d 中の %s", ()),
        ("%(count)d items in ${dir}", "${dir} に %(count) d 個", ("%(count)d",)),
        ("{{ user }} left", "{{user}} 走了", ()),
        ("{{ user }} left", "{{用户}} 走了", ("{{user}}",)),
        ('<b0>Hi</b0> <x id="9"></x>', '<b0>你好</b0><x id="9"></x>', ()),
        ('<b0>Hi</b0> <x id="9"></x>', "<b0>你好", ("</b0>", '<xid="9">', "</x>")),
        ("line<br />", "行<br/>", ()),
        ("see https://a.com/b.", "https://a.com/b をご覧ください", ()),
        ("see https://a.com/b.", "https://a.com をご覧ください", ("https://a.com/b",)),
        ("mail me@a.com", "メールは me@a.com まで", ()),
        ("mail me@a.com", "メールして", ("me@a.com",)),
        ("100% sure, aa < b", "確実", ()),
        ("%s in %s", "en %2$s, %1$s", ()),
        ("%s in %s", "en %2$s, %2$s", ("%s",)),
        ("%1$s in %2$s", "%1$s, %1$s", ("%2$s",)),
        ("%d files", "%'d файла", ()),
        ("%d files", "%s файла", ("%d",)),
        ("%s files", "% s файла", ("%s",)),
        ("at %l:%M %p", "à %H:%M", ()),
        ("line<br>", "行<br/>", ()),
        ("line<br /><br />", "行<br/>", ("<br/>",)),
        ("/Buddies/Join a Chat...", "/Znajomi/Dołącz do konferencji…", ()),
        ("/Buddies/Join a Chat...", "Dołącz do konferencji…", ("/Buddies/Join",)),
        ("/Users/Shared", "/Benutzer/Geteilt", ("/Users/Shared",)),
        ("the --retry switch", "опцията „--retry“", ()),
        ("the --retry switch", "опцията „--retry-all“", ("--retry",)),
        ("no /tmp here", "няма „/tmp“", ()),
        ("bad `%s'", "mauvais `%s`", ()),
        ("%s is `%s`", "`%s` est", ("%s",)),
        ('<a href="%1">%1</a>', '<a href="%1"><a href="%1"></a>', ("%1",)),
        ("see bugs.kde.org", "http://bugs.kde.org をご覧ください", ()),
        ("-d, --dir <dir>  a <dir>", "-d, --dir <папка>  <папка>", ()),
        ("-d, --dir <dir>  a folder", "-d, --dir  папка", ("<dir>",)),
        ("Usage: BAN <mask>", "Brug: BAN <maske>", ()),
        ("Hello <name>", "Bonjour <nom>", ("<name>",)),
        ("the person&#8217;s page", "страница персони", ()),
        ("&quot;safe&quot;", "„безопасно“", ()),
        ("&quot;safe&quot;", "&quot;безопасно", ("&quot;",)),
        ("&quot;safe&quot;", "&quote;безопасно", ("&quot;", "&quot;")),
        ("AA &amp; B &lt;c&gt;", "Z", ("&amp;", "&lt;", "&gt;")),
    ],
)
def test_placeholders(source: str, output: str, missing: tuple[str, ...]) -> None:
    assert placeholders_lost(source, output) == missing


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("1,000 people", "1000人"),
        ("1.000 Leute", "1,000 people"),
        ("2 000 000", "200万"),
        ("1.5 million", "150万"),
        ("100万", "1 million"),
        ("$19.99", "19,99 $"),
        ("at 3:30 PM", "3時30分に"),
        ("at 15:30", "at 3:30 PM"),
        ("15.30 Uhr", "3:30 PM"),
        ("2024-03-05", "5 March 2024"),
        ("2024.03.05", "2024年3月5日"),
        ("２０２４年", "2024"),
        ("٣٥ كتابا", "35 books"),
        ("३५ किताबें", "35 books"),
        ("3 people", "three people"),
        ("12月", "December"),
        ("in the 16th century", "el segle XVI"),
        ("in the 14th century", "1300-luvulla"),
        ("https://a.com/12345 {42}", "x"),
        ("+1 (555) 010-9999", "+1 (555) 010-9999"),
        ("no numbers", "none"),
    ],
)
def test_a_number_written_otherwise_is_not_lost(source: str, output: str) -> None:
    assert numbers_lost(source, output) == ()


@pytest.mark.parametrize(
    ("check", "source", "output", "found"),
    [
        (numbers_lost, "invoice 4711", "Rechnung", ("4711",)),
        (numbers_lost, "in the 16th century", "el segle XV", ("16",)),
        (numbers_lost, "invoice 4711", "Rechnung 4712", ("4711",)),
        (numbers_lost, "1,234 people", "234人", ("1,234",)),
        (numbers_lost, "3.5 km", "three kilometres", ("3.5",)),
        (numbers_lost, "from 37 to 42", "von 37", ("42",)),
        (numbers_lost, "４２", "x", ("42",)),
        (numbers_lost, "77 and 77", "x", ("77",)),
        (numbers_repeated, "March 22, July 2", "3月22日、7月22日", ("22",)),
        (numbers_repeated, "call 865-7081", "865-7081, 865-7081", ("865", "7081")),
        (numbers_repeated, "at 3 PM, for 15 people", "15時に15人", ()),
        (numbers_repeated, "7 of them", "7, 7", ()),
        (numbers_repeated, "30 of 30", "30, 30", ()),
        (numbers_repeated, "see https://a.com/4711", "https://a.com/4711 4711", ()),
        (repeats_sentence, "今天很热。去开罗吧。", "The best time is spring. The best time is spring.", True),
        (
            repeats_sentence,
            "今天很热。去开罗吧。",
            "今日は本当にとても暑いですね。今日は本当にとても暑いですね。",
            True,
        ),
        (repeats_sentence, "ありがとう。どうも。", "Thank you. Thank you.", False),
        (repeats_sentence, "It goes on and on. It goes on and on.", "それはずっと続く。それはずっと続く。", False),
        (repeats_sentence, "今天很热。去开罗吧。", "The best time is spring. The best time is summer.", False),
        (repeats_sentence, "你累吗？你累吗？", "Are you tired today? Are you tired today?", False),
        (line_breaks_kept, "a\nb", "x\ny", True),
        (line_breaks_kept, "a\nb", "x y", False),
        (line_breaks_kept, "a\n\nb\nc", "x\n\ny\nz", True),
        (line_breaks_kept, "a\n\nb\nc", "x\ny\n\nz", False),
        (line_breaks_kept, "a\r\nb", "x\ny", True),
        (line_breaks_kept, "a\n \nb", "x\n\ny", True),
        (line_breaks_kept, "a\u2028b\x85c", "x\ny\nz", True),
        (line_breaks_kept, "a b", "x", True),
        (line_breaks_kept, "a", "x\n\nNote: y", False),
        (line_breaks_kept, "a\n", "\n x", True),
        (line_breaks_kept, "  -a, --all   b\n", "  -a, --all   x y\n              z\n", True),
        (line_breaks_kept, "  -a <b> c\n", "  -a <b>\n           x\n", True),
        (line_breaks_kept, "  -a   b\n         c\n  -d   e", "  -a   x\n  -d   y\n         -a z", True),
        (line_breaks_kept, "  -a   b\n  -c   d", "  -a   x  -c   y", False),
        (line_breaks_kept, "  -a   b\n         c\n  -d   e", "  -a   x\n         y  -d   z", False),
        (line_breaks_kept, "  -a   b\n\n  -c   d", "  -a   x\n  -c   y", False),
        (line_breaks_kept, "  -a   b", "  -a   x\nNote: y", False),
        (line_breaks_kept, "a\n            b", "x y", True),
        (line_breaks_kept, "-\ta\n\t- b", "-\tx y", False),
        (line_breaks_kept, "a b", "x\n           y", False),
        (repeats, "  -a, --all   b", f"  -a, --all   x\n{' ' * 40}y", False),
        (repeats, "  -a <b> c", f"  -a <b>\n{' ' * 40}x", False),
        (repeats, "  -a, --all   b", f"  -a, --all   x{' y  z' * 20}", True),
        (repeats, "An ordinary sentence.", f"An{' ' * 40}output.", True),
        (sentences_dropped, "One. Two. Three. Four.", "Eins. Zwei.", True),
        (sentences_dropped, "One. Two. Three. Four.", "Eins, zwei. Drei. Vier!", False),
        (sentences_dropped, "一。二。三！四？", "One.", True),
        (sentences_dropped, "One. Two. Three.", "Eins.", False),
        (sentences_dropped, "One. Two. Three. Four.", "หนึ่ง สอง สาม สี่", False),
        (sentences_dropped, "One. Two. Three. Four.", "មួយ។ ពីរ។ បី។ បួន។", False),
        (sentences_dropped, "v1.2.3.4 is out", "v1.2.3.4 ist da", False),
    ],
)
def test_comparisons(check: Callable[[str, str], object], source: str, output: str, found: object) -> None:
    assert check(source, output) == found


@pytest.mark.parametrize(
    "output",
    [
        "!" * 40,
        "ha" * 20,
        "the same thing " * 6,
        "Well, this began well. " + "and then it did not, " * 5,
        "This is quite a long sentence that says something at some length. " * 4,
        "before " + "哈" * 50 + " after, and on it goes",
        "a\n" * 30,
        "word " * 200_000,
    ],
)
def test_a_loop_is_a_repetition(output: str) -> None:
    assert repeats("An ordinary sentence.", output)


@pytest.mark.parametrize("length", [1, 2, 5, 8, 9, 30, 200])
def test_a_unit_of_any_length_is_found(length: int) -> None:
    unit = "".join(chr(ord("a") + index % 26) + str(index) for index in range(length))[:length]
    assert repeats("x", unit * max(4, 24 // length + 1))
    assert not repeats("x", unit * 2)


VOCABULARY = ("the", "of", "and", "light", "river", "walked", "slowly", "a", "to", "garden", "again", "never")
PROSE = " ".join(map(random.Random(1).choice, [VOCABULARY] * 5000))


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("いいえええええ", "Nooooooooooooo"),
        ("ㅋㅋㅋㅋㅋㅋㅋㅋ", "hahahahahahahahahahahaha"),
        ("ㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋ", "ha" * 16),
        ("-" * 60, "-" * 60),
        ("let it be, " * 8, "lass es sein, " * 8),
        ("No, no, no!", "Nein, nein, nein!"),
        ("x", ""),
        ("wait", "wait..............."),
        ("x", PROSE),
        ("x", " ".join(str(number) for number in range(3000))),
        ("x", "\n".join(f"Item {number}: done, with remarks" for number in range(500))),
    ],
)
def test_laughter_emphasis_rulers_choruses_and_long_texts_are_no_repetition(source: str, output: str) -> None:
    assert not repeats(source, output)


@pytest.mark.parametrize(
    ("source", "output", "languages", "copied"),
    [
        (GERMAN, GERMAN, ("de", "en"), True),
        (GERMAN, "ich komme heute etwas später nach hause", ("de", "en"), True),
        (GERMAN, GERMAN, (None, "en"), True),
        (GERMAN, "I will be home a little later.", ("de", "en"), False),
        (GERMAN, GERMAN, ("de", "de-AT"), False),
        ("haha serio?", "haha serio?", ("pl", "en"), False),
        ("Enhanced Metafile (*.emf)", "Enhanced Metafile (*.emf)", ("en", "ro"), False),
        ("web family tree format", "Web Family Tree-format", ("en", "nb"), False),
        ("Johann Sebastian Bach", "Johann Sebastian Bach", ("de", "en"), False),
        ("https://example.com/a/b/c/d 123 😀", "https://example.com/a/b/c/d 123 😀", ("de", "en"), False),
        ("Selamat pagi semua orang", "Selamat pagi semua orang", ("id", "ms"), False),
        ("明天下午三点我们在公司门口见面吧", "明天下午三点我们在公司门口见面吧", ("zh", "ja"), True),
        ("明天下午三点我们在公司门口见面吧", "明天下午三点我们在公司门口见面吧", ("zh", "zh-Hant"), False),
    ],
)
def test_copies_of_the_source(source: str, output: str, languages: tuple[str | None, str], copied: bool) -> None:
    assert ("source_copied" in warnings(source, output, *languages)) is copied


def test_warnings_have_known_codes_and_name_what_is_missing() -> None:
    found = warnings("Hi {name},\nthe invoice 4711 is due.", "Rechnung fällig. " * 20)
    assert set(found) == {"line_breaks_lost", "repetition", "placeholders_lost", "numbers_changed"}
    assert "{name}" in found["placeholders_lost"]
    assert "4711" in found["numbers_changed"]
    assert set(WARNING_CODES) == set(get_args(WarningCode))
    assert all(message.endswith(".") for message in found.values())


def test_a_long_list_is_cut_short() -> None:
    message = warnings(" ".join(f"{{p{index}}}" for index in range(9)), "x")["placeholders_lost"]
    assert message.endswith("{p0}, {p1}, {p2}, {p3}, {p4} and 4 more.")


def test_the_api_page_lists_every_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    assert all(f"| `{code}` | {meaning} |" in page for code, meaning in WARNING_CODES.items())


def test_a_text_is_checked_over_all_of_its_segments() -> None:
    checks = TextChecks(CheckContext("en", "de"))
    for number in range(4):
        checks.add(f"Sentence one of item {number}77. And a second one.", f"Erster Satz zu Punkt {number}77.")
    checks.add("Invoice 4711 for {name}.", "Rechnung.")
    checks.add("Invoice 4711 for {name}.", "Rechnung.")
    found = {one.code: one.message for one in checks.warnings()}
    assert set(found) == {"sentences_dropped", "placeholders_lost", "numbers_changed"}
    assert found["placeholders_lost"].count("{name}") == 2
    assert found["numbers_changed"].count("4711") == 1
    for last, copied in ((GERMAN, True), ("I will be home a little later today.", False)):
        checks = TextChecks(CheckContext("de", "en"))
        checks.add("Guten Morgen!", "Guten Morgen!")
        checks.add(GERMAN, last)
        assert [one.code for one in checks.warnings()] == ["source_copied"] * copied


# ---- checks of one segment; words: off

SERVED = ("en", "ja", "ko", "zh", "zh-Hant", "de", "fr", "es", "it", "pt", "nl", "pl", "ru", "tr", "vi", "id")


@cache
def detector() -> Detector:
    return Detector(SERVED)


def codes(source: str, output: str, source_language: str | None, target: str) -> list[str]:
    return [one.code for one in findings(source, output, CheckContext(source_language, target, detector()))]


@pytest.mark.parametrize(
    ("source", "output", "languages"),
    [
        ("もちろん！明日行きます。", "Sure! I'll go tomorrow.", "ja-en"),
        ("当然可以，我明天过来。", "Of course! I'll come over tomorrow.", "zh-en"),
        ("Aber klar. Ich bin morgen um acht bei dir.", "Of course. I'll be at your place at eight tomorrow.", "de-en"),
        ("注意：床が濡れています。気をつけて。", "Note: the floor is wet. Be careful.", "ja-en"),
        ("Hinweis: Das Büro ist geschlossen.", "Note: the office is closed.", "de-en"),
        ("行けなくて申し訳ありません。お手伝いできません。", "I'm sorry, but I can't help you with that.", "ja-en"),
        ("Es tut mir leid, ich kann dir dabei nicht helfen.", "I'm sorry, but I can't help you with that.", "de-en"),
        ("Als KI kann ich dazu nichts sagen.", "As an AI, I cannot say anything about that.", "de-en"),
        ("La traduction : un art difficile", "Translation: a difficult art", "fr-en"),
        ("Hier ist die Liste: Milch, Brot, Eier", "Here is the list: milk, bread, eggs", "de-en"),
        ("„Ich komme“, sagte er.", '"I\'m coming," he said.', "de-en"),
        ("Das Haus (von 1900) ist alt.", "The house is old (it was built in 1900, they say).", "de-en"),
        ("Microsoft und Google veröffentlichen Zahlen", "マイクロソフトとGoogleが数字を発表", "de-ja"),
        ("苹果发布了新款手机和电脑", "Apple released a new phone and computer", "zh-en"),
        ("iPhone 15 Pro Max 256GB", "iPhone 15 Pro Max 256GB", "en-zh"),
        ("営業時間変更", "营业时间变更", "ja-zh"),
        ("新製品発表会開催決定", "新产品发布会确定召开", "ja-zh"),
        ("Bitte senden Sie die Unterlagen bis Freitag zurück, danke.", "请在周五前将文件寄回，谢谢。", "de-zh"),
        ("OK", "👌", "en-ja"),
        ("Ja!", "!", "de-en"),
        ("Donaudampfschifffahrtsgesellschaft", "Danube Steamship", "de-en"),
        ("Er kam. Er sah. Er ging, weil es regnete.", "He came, he saw, and he went because it rained.", "de-en"),
        ("Obrigado pela mensagem, vou responder amanhã.", "Gracias por el mensaje, responderé mañana.", "pt-es"),
        ("Merci pour votre message, je répondrai demain.", "Bedankt voor uw bericht, ik antwoord morgen.", "fr-nl"),
        ("Wir treffen uns um 15:30 Uhr vor dem Bahnhof.", "We'll meet at 3:30 PM in front of the station.", "de-en"),
        ("Mehr als 30 Menschen kamen.", "More than 30 people came.", "de-en"),
        ("30 Tausend Menschen kamen.", "3万人来了。", "de-zh"),
        ("Пожалуйста, подтвердите получение письма.", "Please confirm that you have received it.", "ru-en"),
        ("مرحبا، كيف يمكنني الوصول إلى المحطة من هنا؟", "Hello, how can I get to the station?", "ar-en"),
    ],
)
def test_a_good_translation_has_no_findings(source: str, output: str, languages: str) -> None:
    source_language, _, target = languages.partition("-")
    assert codes(source, output, source_language, target) == []


@pytest.mark.parametrize(
    ("source", "output", "languages", "expected"),
    [
        (GERMAN, "…", "de-en", ["empty_output"]),
        (GERMAN, "", "de-en", ["empty_output"]),
        (GERMAN, "I'm sorry, but I can't assist with that request.", "de-en", ["refusal"]),
        (GERMAN, "抱歉，我无法翻译这段内容，请换一段。", "de-zh", ["refusal"]),
        (GERMAN, GERMAN, "de-en", ["source_copied"]),
        ("Nous nous retrouvons devant la gare.", "Wir treffen uns heute vor dem Bahnhof.", "fr-ja", ["wrong_language"]),
        ("Wir treffen uns vor dem Bahnhof.", "我们在火车站前面见面吧，不要迟到了。", "de-ja", ["wrong_language"]),
        ("Wir treffen uns vor dem Bahnhof.", "我们在火车站前面见面吧，请不要迟到。", "de-zh-Hant", ["wrong_language"]),
        (
            "明日の会議は午後三時から始まります。",
            "Die Besprechung beginnt morgen um drei Uhr.",
            "ja-en",
            ["wrong_language"],
        ),
        (GERMAN, "I'll be a little later than usual today, " * 3 + "home.", "de-en", ["length_out_of_bounds"]),
        ("Ich komme heute später, weil der Zug nicht fährt.", "Late.", "de-en", ["length_out_of_bounds"]),
    ],
)
def test_findings(source: str, output: str, languages: str, expected: list[str]) -> None:
    source_language, _, target = languages.partition("-")
    assert codes(source, output, source_language, target) == expected


# ---- the language of an output

SHOP = {
    "en": "The shop opens at nine in the morning and closes at six.",
    "de": "Das Geschäft öffnet um neun Uhr morgens und schließt um sechs.",
    "fr": "Le magasin ouvre à neuf heures du matin et ferme à six heures.",
    "es": "La tienda abre a las nueve de la mañana y cierra a las seis.",
    "pt-BR": "A loja abre às nove da manhã e fecha às seis.",
    "it": "Il negozio apre alle nove del mattino e chiude alle sei.",
    "nl": "De winkel gaat om negen uur open en sluit om zes uur.",
    "sv": "Affären öppnar klockan nio på morgonen och stänger klockan sex.",
    "pl": "Sklep otwiera się o dziewiątej rano i zamyka o szóstej.",
    "cs": "Obchod otevírá v devět hodin ráno a zavírá v šest.",
    "ro": "Magazinul se deschide la nouă dimineața și se închide la șase.",
    "tr": "Dükkân sabah dokuzda açılıyor ve akşam altıda kapanıyor.",
    "id": "Toko itu buka pukul sembilan pagi dan tutup pukul enam.",
    "fi": "Kauppa aukeaa aamulla yhdeksältä ja sulkeutuu kuudelta.",
    "hu": "A bolt reggel kilenckor nyit és hatkor zár.",
    "vi": "Cửa hàng mở cửa lúc chín giờ sáng và đóng cửa lúc sáu giờ.",
    "sr-Latn": "Prodavnica se otvara u devet ujutru i zatvara u šest.",
    "ru": "Магазин открывается в девять утра и закрывается в шесть.",
    "uk": "Крамниця відчиняється о дев'ятій ранку й зачиняється о шостій.",
    "bg": "Магазинът отваря в девет сутринта и затваря в шест.",
    "sr": "Продавница се отвара у девет ујутру и затвара у шест.",
    "ar": "يفتح المتجر في التاسعة صباحا ويغلق في السادسة.",
    "fa": "فروشگاه ساعت نه صبح باز می‌شود و ساعت شش بسته می‌شود.",
    "ja": "店は朝九時に開き、六時に閉まります。",
    "zh": "商店早上九点开门，六点关门。",
    "ko": "가게는 아침 아홉 시에 열고 여섯 시에 닫습니다.",
}


@cache
def chat_detector() -> Detector:
    """Of the languages that general models serve."""
    return Detector(tuple(profiles()["chat"].languages))


def is_other(source: str, output: str, target: str, source_language: str = "en") -> bool:
    found = findings(source, output, CheckContext(source_language, target, chat_detector()))
    return any(one.code == "wrong_language" for one in found)


@pytest.mark.parametrize("target", SHOP)
def test_a_sentence_in_each_other_language_is_found(target: str) -> None:
    source, source_language = ("The museum is open on Sundays only.", "en")
    if target == "en":
        source, source_language = "Das Museum ist nur sonntags geöffnet.", "de"
    same = {"sr", "sr-Latn"} if target == "sr" else {target}  # sr has two scripts
    outputs = {language: output for language, output in SHOP.items() if language not in same}
    missed = [one for one, output in outputs.items() if not is_other(source, output, target, source_language)]
    assert missed == []
    assert [one for one in SHOP if is_other(SHOP[one], SHOP[target], target, one)] == []


@pytest.mark.parametrize(
    ("source", "output", "target"),
    [
        ("Is breakfast included in the price of the room?", "The price of the room includes breakfast.", "fr"),
        ("Where is the nearest pharmacy?", "The nearest pharmacy is where you can find a pharmacy.", "de"),
        ("Is this a test?", "This is a test.", "fr"),
        ("Of course!", "Of course!", "es"),
        ("Good evening", "What would you like to know?", "it"),
        ("Upload a photo", "Please upload a photo.", "de"),
        ("Hotel booking", "Which city would you like?", "pl"),
        ("The shop is shut.", "Obchod je dnes zatvorený, ale zajtra ráno otvoríme znova o deviatej.", "cs"),
        ("I forgot it.", "Ich habe es vergessen. I will be more careful with it next time.", "de"),
    ],
)
def test_english_or_a_close_language_in_place_of_the_target_is_found(source: str, output: str, target: str) -> None:
    assert is_other(source, output, target)


@pytest.mark.parametrize(
    ("source", "output", "languages"),
    [
        ("Download", "Download", "en-de"),
        ("Software update", "Software-Update", "en-de"),
        ("Open the file in Microsoft Word", "Ouvrir le fichier dans Microsoft Word", "en-fr"),
        ("Portable Network Graphics", "Portable Network Graphics", "en-it"),
        ("New York and Los Angeles", "New York y Los Ángeles", "en-es"),
        ("Set max_open_files in server.conf", "Définir max_open_files dans server.conf", "en-fr"),
        ("Press Ctrl+Alt+Delete", "Premi Ctrl+Alt+Canc", "en-it"),
        ("Team meeting", "Teammeeting", "en-nl"),
        ("Smart TV", "Smart TV", "en-tr"),
        ("Vi ses i morgen klokken ni foran stationen.", "Vi ses i morgen klokken ni foran stasjonen.", "da-nb"),
        ("Zítra ráno se sejdeme u nádraží.", "Zajtra ráno sa stretneme pri stanici.", "cs-sk"),
        ("Mañana por la mañana nos vemos en la estación.", "Amanhã de manhã nos vemos na estação.", "es-pt"),
        ("Der Zug fährt um neun Uhr ab.", "De trein vertrekt om negen uur.", "de-nl"),
        ("हम कल सुबह स्टेशन पर मिलेंगे।", "आपण उद्या सकाळी स्टेशनवर भेटू.", "hi-mr"),
    ],
)
def test_names_code_loan_words_and_near_languages_are_not_taken_for_another(
    source: str, output: str, languages: str
) -> None:
    source_language, _, target = languages.partition("-")
    assert not is_other(source, output, target, source_language)


@pytest.mark.parametrize(
    "output",
    [
        "I'm ready to help. What's the text you'd like me to translate?",
        "I'm ready to assist you. What's your message?",
        "Please provide the text that you would like me to translate.",
        "The user's message is a translation of the user's message into German.",
        "I am a translation engine. Just send me a text.",
        "Welchen Text soll ich für Sie übersetzen?",
        "请提供需要翻译的文本。",
    ],
)
@pytest.mark.parametrize("languages", ["de-en", "fr-de", "de-ja", "ru-fr"])
def test_an_answer_in_place_of_a_translation_is_found_in_every_target(output: str, languages: str) -> None:
    source_language, _, target = languages.partition("-")
    sources = {"de": "Abmelden", "fr": "Se déconnecter", "ru": "Выйти"}
    assert "refusal" in codes(sources[source_language], output, source_language, target)


@pytest.mark.parametrize(
    ("source", "output", "languages"),
    [
        ("Welchen Text soll ich übersetzen?", "Which is the text you'd like me to translate?", "de-en"),
        ("翻訳したいテキストを入力してください。", "Please enter the text you would like to translate.", "ja-en"),
        ("Wie kann ich Ihnen helfen?", "How can I help you?", "de-en"),
        ("Я переводчик.", "I am a translator.", "ru-en"),
        ("Please send me the text; I will translate it.", "请发送文本，我来翻译。", "en-zh"),
    ],
)
def test_a_source_about_translation_or_help_is_no_answer(source: str, output: str, languages: str) -> None:
    source_language, _, target = languages.partition("-")
    assert "refusal" not in codes(source, output, source_language, target)


def test_the_benchmark_measures_files_of_translations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "lines" / "shop"
    program.mkdir(parents=True)
    museum = "The museum is open on Sundays only."
    rows = [
        (museum, "Le musée est ouvert seulement le dimanche.", "en", "fr"),
        (SHOP["en"], SHOP["fr"], "en", "fr"),
        (SHOP["en"], SHOP["de"], "en", "de"),
        (SHOP["en"], SHOP["en"], "en", "he"),
    ]
    (program / "lines.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    (program / "de.po").write_text(
        f'msgid ""\nmsgstr ""\n\nmsgid "{museum}"\nmsgstr "Das Museum ist "\n"nur sonntags geöffnet."\n'
        '\nmsgid "%d new file"\nmsgid_plural "%d new files"\nmsgstr[0] "eine neue Datei"\nmsgstr[1] "%d neue Dateien"\n',
        encoding="utf-8",
    )
    out = tmp_path / "results.json"
    checks_benchmark.main([str(tmp_path / "lines"), "--repeats", "1", "--out", str(out)])
    results = json.loads(out.read_text(encoding="utf-8"))
    assert results == json.loads(capsys.readouterr().out.splitlines()[-1])
    found = {one["case"]: one["longer"][0] / one["longer"][1] for one in results["shares"] if one["longer"][1]}
    assert results["pairs"] == 4
    assert results["left_in_source_language"] == 1
    assert found["right"] == found["right, any check"] == 0
    assert found["copied"] == found["other language"] == 1
    assert results["cpu_us"]["wrong_language"] > 0


ENGLISH = "I'll be home a little later today."


@pytest.mark.parametrize(
    "output",
    [
        f"Here is the translation: {ENGLISH}",
        f"Sure! {ENGLISH}",
        f"Sure, here's the English translation:\n\n{ENGLISH}",
        f"Translation: {ENGLISH}",
        f"**Translation:** {ENGLISH}",
        f"翻译：{ENGLISH}",
        f"English: {ENGLISH}",
        f'"{ENGLISH}"',
        f"Here is the translation:\n\n“{ENGLISH}”",
        f"{ENGLISH}\n\nNote: the tone is informal.",
        f"{ENGLISH}\n(Translator's note: informal)",
        f"{ENGLISH} (Note: this is informal.)",
        f"{ENGLISH} (this is how one would say it informally in English)",
        f"{ENGLISH}\n\nThis translation keeps the informal tone.",
        f"{GERMAN}\n{ENGLISH}",
        f"{GERMAN} → {ENGLISH}",
        f"{ENGLISH} ({GERMAN})",
        f"<think>\nHm.\n</think>\n\n{ENGLISH}",
        f"```\n{ENGLISH}\n```",
    ],
)
def test_commentary_is_found_and_removed(output: str) -> None:
    assert without_commentary(GERMAN, output, "en") == ENGLISH
    assert "commentary" in codes(GERMAN, output, "de", "en")


@pytest.mark.parametrize("output", [ENGLISH, "Translation:", "", '""', "Note: x", "()", "(a)"])
def test_what_is_no_commentary_stays(output: str) -> None:
    assert without_commentary("Hinweis", output, "en") == output


def test_the_worst_finding_comes_first_and_decides() -> None:
    found = findings(
        "Hallo {name}, Rechnung 4711 ist da.\nBitte zahlen.",
        "Hello, the bill is here, please pay.",
        CheckContext("de", "en"),
    )
    assert [(one.code, one.missing) for one in found] == [
        ("placeholders_lost", ("{name}",)),
        ("numbers_changed", ("4711",)),
        ("line_breaks_lost", ()),
    ]
    assert list(SEVERITY) == list(WARNING_CODES)
    better = [
        (),
        (Finding("line_breaks_lost"),),
        (Finding("numbers_changed", ("1",)),),
        (Finding("numbers_changed", ("1", "2")),),
        (Finding("numbers_changed", ("1", "2")), Finding("line_breaks_lost")),
        (Finding("wrong_language"),),
        (Finding("empty_output"),),
    ]
    assert sorted([*better[3:], *better[:3]], key=badness) == better


# words: on


@pytest.mark.parametrize("text", ["", "\0", "\ud800", "{", "<", "%", "\n" * 1000, "9" * 5000])
def test_no_text_raises(text: str) -> None:
    for other in ("", "x", text):
        warnings(text, other, "en", "ja")
        warnings(other, text, None, "ja")


@pytest.mark.parametrize("target", ["en", "ja", "ko", "zh", "de", "ar"])
def test_no_check_finds_anything_wrong_with_a_pseudolocalized_text(target: str) -> None:
    sources = (
        "Yes.",
        "Order 5 has 3 items, {name}; write to help@example.com 🎉.",
        "The train to the coast leaves at a quarter past nine from platform four. " * 3,
        "<g1>Buy</g1> it <x1/> now!",
        "駅はどこですか？３番線です。",
    )
    for source in sources:
        answer = pseudolocalized(source)
        assert answer != source
        assert not findings(source, answer, CheckContext(None, target, Detector(("en", "ja", "ko", "zh", "de", "ar"))))
