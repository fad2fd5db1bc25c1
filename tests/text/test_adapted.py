"""Translations adapted to another number: where nothing but the digits can differ, and nowhere else."""

from __future__ import annotations

import pytest

from dragoman.text.adapted import adapted


@pytest.mark.parametrize(
    ("target", "text", "stored", "translation", "expected"),
    [
        ("de", "Copied 7 files.", "Copied 12 files.", "12 Dateien kopiert.", "7 Dateien kopiert."),
        (
            "ja",
            "Copied 7 files.",
            "Copied 12 files.",
            "12個のファイルをコピーしました。",
            "7個のファイルをコピーしました。",
        ),
        ("ru", "Copied 7 files.", "Copied 12 files.", "Скопировано 12 файлов.", "Скопировано 7 файлов."),
        ("ru", "Copied 23 files.", "Copied 3 files.", "Скопировано 3 файла.", "Скопировано 23 файла."),
        ("de", "<g1>Page</g1> 5", "<g1>Page</g1> 14", "<g1>Seite</g1> 14", "<g1>Seite</g1> 5"),
        ("fr", "Step 3: open it", "Step 4: open it", "Étape 4 : ouvrez-le", "Étape 3 : ouvrez-le"),
        ("de", "At least 20% of it", "At least 35% of it", "Mindestens 35 % davon", "Mindestens 20 % davon"),
        ("ko", "Copied 7 files.", "Copied 12 files.", "파일 12개를 복사했습니다.", "파일 7개를 복사했습니다."),
        ("hu", "Only 7 files", "Only 12 files", "Csak 12 fájl", "Csak 7 fájl"),
    ],
)
def test_a_number_is_put_in(target: str, text: str, stored: str, translation: str, expected: str) -> None:
    assert adapted("en", target, text, stored, translation) == expected


@pytest.mark.parametrize(
    ("target", "text", "stored", "translation"),
    [
        ("de", "Copied 1 files.", "Copied 12 files.", "12 Dateien kopiert."),  # another category of the source
        ("ru", "Copied 7 files.", "Copied 3 files.", "Скопировано 3 файла."),  # another category of the target
        ("fr", "Copied 0 files.", "Copied 12 files.", "12 fichiers copiés."),
        ("ar", "Copied 7 files.", "Copied 12 files.", "نُسخ 12 ملفا."),
        ("de", "Copied 7 of 8 files.", "Copied 7 of 9 files.", "7 von 9 Dateien kopiert."),  # two numbers
        ("de", "Copied 7 files.", "Copied 7 files.", "7 Dateien kopiert."),  # no other number
        ("de", "Copied 7 files!", "Copied 12 files.", "12 Dateien kopiert."),  # and more than the number
        ("de", "Copied 7 files.", "Copied 12 files.", "Zwölf Dateien kopiert."),  # which is not on both sides
        ("de", "Copied 7 files.", "Copied 12 files.", "12 Dateien kopiert, alle 12."),
        ("de", "Copied 7 files.", "Copied 12 files.", "13 Dateien kopiert."),
        ("ar", "Copied 7 files.", "Copied 8 files.", "نُسخت ٨ ملفات."),  # other digits
        ("de", "The 22nd of May", "The 32nd of May", "Der 32. Mai"),  # a suffix
        ("fr", "On the 21 of May", "On the 1 of May", "Le 1er mai"),
        ("tr", "Before 7 the files", "Before 12 the files", "12'den önce dosyalar"),
        ("hu", "In 7 there was", "In 12 there was", "12-ben volt"),
        ("hu", "The 7 files", "The 12 files", "A 12 fájl"),  # an article that depends on how it is read
        ("it", "The 8 files", "The 7 files", "I 7 file"),
        ("en", "Une note de 8 points", "Une note de 7 points", "A 7 point score"),
        ("ko", "Delete 7 now", "Delete 8 now", "지금 8을 삭제"),  # a particle
        ("de", "Version 2.5 is out", "Version 2.6 is out", "Version 2.6 ist da"),  # a part of something
        ("de", "MP3 is a format", "MP4 is a format", "MP4 ist ein Format"),
        ("de", "It is -5 degrees", "It is -6 degrees", "Es sind -6 Grad"),
        ("de", "File a_5 is lost", "File a_6 is lost", "Datei a_6 fehlt"),
        ("de", "Agent 007 is here", "Agent 008 is here", "Agent 008 ist da"),
        ("de", "Sold 1234567 files", "Sold 7654321 files", "7654321 Dateien verkauft"),
        ("gd", "Copied 7 files.", "Copied 12 files.", "12 faidhle."),  # a language without known rules
    ],
)
def test_what_may_differ_in_more_is_left_to_the_model(target: str, text: str, stored: str, translation: str) -> None:
    assert adapted("fr" if target == "en" else "en", target, text, stored, translation) is None
