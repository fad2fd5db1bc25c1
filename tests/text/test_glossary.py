"""Terms found in sources in any form, translations found in outputs, and what is neither."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.text.glossary import Glossary, missing


@pytest.mark.parametrize(
    ("language", "term", "text"),
    [
        ("en", "server", "Two Servers."),
        ("en", "server", "The server's disk"),
        ("en", "city", "the cities of Europe"),
        ("en", "box", "in boxes"),
        ("en", "deploy", "we deployed it, deploying again"),
        ("en", "cache", "caching is off"),
        ("en", "machine learning", "Machine\n learning works"),
        ("en", "data", "<g1>data</g1>, twice"),
        ("en", "data base", "<g1>data</g1> base"),
        ("en", "C++", "in C++."),
        ("en", ".NET", "the .NET runtime"),
        ("en", "API", "all APIs"),
        ("en", "e-mail", "by e-mail"),
        ("de", "Haus", "alle Häuser"),
        ("de", "Vertrag", "des Vertrages"),
        ("de", "Mieter", "den Mietern"),
        ("fr", "cheval", "deux chevaux"),
        ("fr", "auto", "l'auto"),
        ("es", "lápiz", "los lápices"),
        ("it", "libro", "due libri"),
        ("ru", "книга", "с книгами"),
        ("ru", "книга", "много книг"),
        ("pl", "umowa", "w umowie"),
        ("fi", "sopimus", "sopimusten"),
        ("tr", "sunucu", "sunucular"),
        ("ko", "서버", "서버에서는 느립니다"),
        ("ja", "会社", "この会社は東京"),
        ("zh", "服务器", "新服务器已启动"),
        ("th", "ข้อมูล", "นี่คือข้อมูลใหม่"),
        ("ar", "كتاب", "هذا الكتاب جديد"),
        ("he", "ספרים", "קראתי הספרים"),
    ],
)
def test_a_term_is_found_in_its_forms(language: str, term: str, text: str) -> None:
    assert Glossary({term: "x"}, language).occurring(text) == ((term, "x"),)


@pytest.mark.parametrize(
    ("language", "term", "text"),
    [
        ("en", "car", "I care about cards and carpets, scar"),
        ("en", "import", "an important importer"),
        ("en", "server", "an observer"),
        ("en", "IT", "it is"),
        ("en", "Apple", "an apple"),
        ("en", "it", "its items"),
        ("en", "universe", "the university"),
        ("en", "data base", "a database of data"),
        ("en", "C", "by car"),
        ("en", "port", "a portal"),
        ("en", "<g1>", "<g1>text</g1>"),
        ("de", "Import", "ein Importeur"),
        ("de", "schon", "sehr schön"),
        ("es", "ano", "el año"),
        ("ru", "дом", "домашний"),
        ("zh", "服务器", "服务很好"),
        ("en", "", "text"),
        ("en", "  ", "te  xt"),
    ],
)
def test_other_words_are_no_false_alarms(language: str, term: str, text: str) -> None:
    assert Glossary({term: "x"}, language).occurring(text) == ()


def test_the_longest_term_wins_and_each_comes_once_in_the_texts_order() -> None:
    glossary = Glossary({"learning": "1", "machine learning": "2", "machine": "3", "apple": "4", "Apple": "5"}, "en")
    assert glossary.occurring("A machine. Machine learning is learning by a machine") == (
        ("machine", "3"),
        ("machine learning", "2"),
        ("learning", "1"),
    )
    assert glossary.occurring("apples") == (("apple", "4"),)
    assert glossary.occurring("Apple") == (("Apple", "5"),)
    assert Glossary({"machine learning course": "1"}, "en").occurring("machine learning") == ()


words = st.text(st.characters(categories=("L", "N", "Zs", "P"), include_characters="\n<>/gx"), max_size=12)


@settings(max_examples=150)
@given(
    st.dictionaries(words, st.just("x"), max_size=5), st.lists(words, max_size=6), st.sampled_from(("en", "de", "fi"))
)
def test_any_text_and_any_terms_are_searched(entries: dict[str, str], parts: list[str], language: str) -> None:
    found = Glossary(entries, language).occurring(" ".join(parts))
    assert set(found) <= set(entries.items())
    assert len(set(found)) == len(found)
    missing(" ".join(parts), tuple((term, term) for term in entries))


@given(st.sampled_from(("server", "tea pot", "C++", "数据", "서버", "données")), st.lists(words, max_size=4))
def test_a_term_between_line_breaks_is_found(term: str, around: list[str]) -> None:
    text = f"{' '.join(around)}\n\n. {term} .\n\n{' '.join(around)}"
    assert (term, "x") in Glossary({term: "x"}, "en").occurring(text)


@pytest.mark.parametrize(
    ("translation", "output"),
    [
        ("Server", "Der Server läuft."),
        ("Datenbank", "Der Datenbankserver"),
        ("maschinelles Lernen", "des maschinellen Lernens"),
        ("Vertrag", "des Vertrages"),
        ("Haus", "in den Häusern"),
        ("книга", "с этими книгами"),
        ("umowa", "do umowy"),
        ("contrat", "Les contrats"),
        ("intelligence artificielle", "d'intelligence artificielle"),
        ("服务器", "新 服务 器"),
        ("サーバー", "このサーバは"),
        ("サーバー", "このサーバーは"),
        ("서버", "웹서버에서는"),
        ("كتاب", "هذا الكتاب"),
        ("API", "unsere APIs"),
        ("C++", "in C ++ geschrieben"),
        ("42", "Nummer 42."),
        ("Lernrate", "den <g1>Lern</g1>raten"),
        ("", "anything"),
    ],
)
def test_a_translation_is_found_in_its_forms(translation: str, output: str) -> None:
    assert missing(output, (("term", translation),)) == ()


@pytest.mark.parametrize(
    ("translation", "output"),
    [
        ("Server", "Der Rechner läuft."),
        ("maschinelles Lernen", "das Lernen, und maschinelles"),
        ("Haus", "ein Gebäude"),
        ("API", "Rapid"),
        ("IT", "mit Absicht"),
        ("服务器", "服务"),
        ("42", "1423"),
        ("Auto", "automatisch"),
        ("Server", ""),
    ],
)
def test_a_lacking_translation_is_reported(translation: str, output: str) -> None:
    assert missing(output, (("term", translation),)) == (("term", translation),)


def test_the_places_of_terms_are_those_of_the_text_with_its_marks() -> None:
    terms = Glossary({"server": "Server", "load balancer": "Lastverteiler"}, "en")
    text = "Two <g1>servers</g1> and a load balancer"
    assert [(text[start:stop], translation) for start, stop, translation in terms.spans(text)] == [
        ("servers", "Server"),
        ("load balancer", "Lastverteiler"),
    ]
