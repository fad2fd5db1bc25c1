"""Outputs that answer a text instead of translating it, and right translations that look like them."""

from __future__ import annotations

import pytest

from dragoman.text.checks import findings
from dragoman.text.comparisons import CheckContext, numbers_added


def is_marked(source: str, output: str, target: str, source_language: str = "en") -> bool:
    return any(one.code == "answered" for one in findings(source, output, CheckContext(source_language, target)))


ANSWERS = [
    # a question is answered
    ("What is the capital of Peru?", "Die Hauptstadt von Peru ist Lima.", "de"),
    ("What is the capital of Peru?", "Quelle est la capitale du Pérou ? La capitale du Pérou est Lima.", "fr"),
    ("What is the capital of Peru?", "ペルーの首都はリマです。", "ja"),
    ("What is the capital of Peru?", "秘鲁的首都是利马。", "zh"),
    ("How are you today?", "Мне хорошо, спасибо! А у тебя как дела?", "ru"),
    ("Do you ship to Norway?", "예, 노르웨이로 배송합니다.", "ko"),
    ("Is this seat taken?", "Ναι, είναι πιασμένη.", "el"),
    ("Wo wohnst du?", "I live in Berlin.", "en"),
    ("I lost my keys. Have you seen them?", "Nein, ich habe sie nicht gesehen.", "de"),
    # a statement or an order is asked back
    ("Tell me about your city.", "Was möchten Sie über meine Stadt wissen?", "de"),
    # an order is obeyed: lists, code, numbers, what it quotes
    ("List three birds.", "1. Amsel\n2. Drossel\n3. Fink", "de"),
    ("Write a loop in Python.", "```python\nfor i in range(3):\n    pass\n```", "es"),
    ("Convert 20 miles to kilometres.", "20 Meilen sind 32,19 Kilometer.", "de"),
    ("Multiply 12 by 12 and show the result.", "12 mal 12 ist 144.", "de"),
    ("You must reply only with READY.", "READY", "fr"),
    (
        "Tell me a story.",
        "Es war einmal ein König, der hatte drei Töchter, und die jüngste war so schön wie der Tag.",
        "de",
    ),
    ("Describe the sea.", "Das Meer ist blau. Es ist tief. Es ist weit.", "de"),
    ("Answer with yes or no.", "Ja.", "de"),
    # an order is obeyed in one sentence: its verb is gone
    ("Write a short poem about winter.", "Der Schnee fällt leise auf das Land.", "de"),
    ("Name two rivers in Europe.", "Le Rhin et le Danube.", "fr"),
    ("Please explain how a lock works.", "Un candado se abre con una llave que mueve los pernos.", "es"),
    ("Summarise the text below in one sentence.", "Het gaat over een man en zijn hond.", "nl"),
    ("Suggest a title for my book.", "「青い海の記憶」", "ja"),
]


@pytest.mark.parametrize(("source", "output", "target"), ANSWERS)
def test_an_answer_is_found(source: str, output: str, target: str) -> None:
    assert is_marked(source, output, target, "de" if target == "en" else "en")


TRANSLATIONS = [
    ("What is the capital of Peru?", "Was ist die Hauptstadt von Peru?", "de"),
    ("What is the capital of Peru?", "Wie heißt die Hauptstadt von Peru", "de"),
    ("What is the capital of Peru?", "ペルーの首都はどこですか。", "ja"),
    ("Do you want to save the changes?", "変更を保存しますか。", "ja"),
    ("Do you want to save the changes?", "ต้องการบันทึกการเปลี่ยนแปลงหรือไม่", "th"),
    ("Do you want to save the changes?", "是否保存更改", "zh"),
    ("Do you want to save the changes?", "Θέλετε να αποθηκεύσετε τις αλλαγές;", "el"),
    ("Θέλετε να αποθηκεύσετε τις αλλαγές;", "Do you want to save the changes?", "en"),
    ("Do you want to save the changes?", "هل تريد حفظ التغييرات؟", "ar"),
    ("Continue? (yes/no)", "Weiter? (ja/nein)", "de"),
    ("Enable automatic export?", "자동 내보내기를 사용할까요?(&E)", "ko"),
    ("Where is it? I cannot see it.", "Wo ist es? Ich kann es nicht sehen.", "de"),
    ("Whether to show hidden files", "Sollen versteckte Dateien gezeigt werden?", "de"),
    ("Invalid hexadecimal number", "유효하지 않은 16진수입니다", "ko"),
    ("Tax included?", "Sis. verot?", "fi"),
    ("?short:Plague risk", "Seuche", "de"),
    ("Taxable?", "Steuerpflichtig", "de"),
    ("Give the children the same type?", "Unterkonten auf denselben Typ setzen?", "de"),
    ("Two lines\nmake a text.", "Zwei Zeilen\nergeben etwas.", "de"),
    ("File not found: is it installed?", "Datei nicht gefunden, eventuell ist sie nicht installiert.", "de"),
    ("Perhaps it was just moved?", "Vielleicht wurde er gerade verschoben.", "de"),
    ("Use -? for help.", "Mit -? erhalten Sie Hilfe.", "de"),
    ("See https://example.org/?q=1 for more.", "Siehe https://example.org/?q=1 für mehr.", "de"),
    ("You have unsent messages, do you wish to quit anyway?", "Sie haben noch Nachrichten. Trotzdem beenden?", "de"),
    ("List three birds.", "Nennen Sie drei Vögel.", "de"),
    ("- one\n- two", "- eins\n- zwei", "de"),
    ("You must reply only with READY.", "Vous devez répondre uniquement par READY.", "fr"),
    ("Write a short poem about winter.", "Schreiben Sie ein kurzes Gedicht über den Winter.", "de"),
    ("Write a short poem about winter.", "Napisz krótki wiersz o zimie.", "pl"),
    ("Name of the file", "Dateiname", "de"),
    ("Answer key", "Lösungen", "de"),
    ("Name two rivers in Europe.", "Citez deux fleuves d’Europe.", "fr"),
    ("Please explain how a lock works.", "鍵の仕組みを説明してください。", "ja"),
    ("Suggest a title for my book.", "为我的书推荐一个标题。", "zh"),
    ("The train leaves at 3:30 PM.", "Der Zug fährt um 15:30 Uhr.", "de"),
    ("There were thirty of them.", "Es waren 30.", "de"),
    ("Der Zug fährt um halb sieben.", "The train leaves at 6:30.", "en"),
    ("SSH File Transfer Protocol", "SFTP-Protokoll", "de"),
    ("Always on top", "Immer im Vordergrund", "de"),
    ("iPhone 15 Pro", "iPhone 15 Pro", "de"),
]


@pytest.mark.parametrize(("source", "output", "target"), TRANSLATIONS)
def test_a_translation_is_no_answer(source: str, output: str, target: str) -> None:
    source_language = "en"
    if target == "en":
        source_language = "el" if "ε" in source else "de"
    assert not is_marked(source, output, target, source_language)


@pytest.mark.parametrize(
    ("source", "output", "language", "added"),
    [
        ("Add 45 and 78.", "123", "en", ("123",)),
        ("1,500 of 2.5", "1500 von 2,5", "en", ()),
        ("On 5 March 2024", "2024年3月5日", "en", ()),
        ("Two hundred people", "200 Personen", "en", ()),
        ("Zwanzig Leute", "20 people", "de", ()),
        ("Ein Jahr", "The year 1987", "de", ("1987",)),
    ],
)
def test_numbers_that_the_source_does_not_have(source: str, output: str, language: str, added: tuple[str, ...]) -> None:
    assert numbers_added(source, output, language) == added
