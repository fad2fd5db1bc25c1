"""What an output has from an example: what is one, and what people also write. Not the pairs that the rule was made from."""

from __future__ import annotations

import pytest

from dragoman.text.checks import COPIED_EXAMPLE, Finding, of_examples
from dragoman.text.copies import copied
from dragoman.types import Example

OTHER = ("The weather was bad on Sunday", "Am Sonntag war das Wetter schlecht")


@pytest.mark.parametrize(
    ("source", "output", "example", "found"),
    [
        # a whole translation, of a source with little in common
        ("Where is my suitcase?", OTHER[1], OTHER, ()),
        ("Where is my suitcase?", f"{OTHER[1]}.", OTHER, ()),  # within 3%
        ("Where is my suitcase?", "Wo ist mein Koffer?", OTHER, None),
        # numbers
        ("Room 41 is free", "Zimmer 14 ist frei", ("Room 14 is free", "Zimmer 14 ist frei"), ("14",)),
        ("Room 7 is free", "Zimmer 3 ist frei", ("Room 3 is free", "Zimmer 3 ist frei"), ("3",)),
        ("Three rooms are free", "3 Zimmer sind frei", ("3 rooms are taken", "3 Zimmer sind belegt"), None),
        ("Room 14 is free", "Zimmer 14 ist frei", ("Room 41 is free", "Zimmer 41 ist frei"), None),
        # names and addresses
        (
            "Ask Miriam about it",
            "Frag Robert danach",
            ("Please ask Robert about it", "Frag bitte Robert danach"),
            ("Robert",),
        ),
        ("Ask Miriam about it", "Frag Miriam danach", ("Please ask Robert about it", "Frag bitte Robert danach"), None),
        ("Ask robert about it", "Frag Robert danach", ("Please ask Robert about it", "Frag bitte Robert danach"), None),
        ("See our site", "Siehe a.example/x", ("See a.example/x for more", "Mehr: a.example/x"), ("a.example/x",)),
        ("設定を開く", "Open NetBeans", ("NetBeansを開く", "Open NetBeans"), ("NetBeans",)),
        ("設定を開く", "Open NetBeans 18", ("NetBeans 18を開く", "Open NetBeans 18"), ("NetBeans", "18")),
        ("窓を閉める", "傘をなくした。", ("私は昨日傘をなくしました。", "傘をなくした。"), ()),
        ("窓を閉めてください", "関窗", ("窓を閉めなさい", "関窗"), None),
        # people translate equally what differs in a word or two
        ("Delete this receipt", "Diesen Beleg löschen", ("Delete this voucher", "Diesen Beleg löschen"), None),
        ("Could not read the disk", "Lesefehler", ("The disk could not be read", "Lesefehler"), None),
        ("Remove existing guides", "Eliminar guías", ("Delete existing guides", "Eliminar guías"), None),
        (
            "Convert strokes to paths",
            "ストロークをパスに変換",
            ("Convert stroke to path", "ストロークをパスに変換"),
            None,
        ),
        # a number that the output has from its own source, within 3% of the example's translation
        (
            "SIM PIN2 is required",
            "SIM-PIN2 ist nötig gewesen",
            ("SIM PIN is required", "SIM-PIN ist nötig gewesen"),
            None,
        ),
        (
            "Warm toning with two colours, 2nd of all",
            "Warme Tonung mit zwei Farben, die 2. von allen",
            ("Warm toning with two colours, 1st of all", "Warme Tonung mit zwei Farben, die 1. von allen"),
            None,
        ),
        # several words
        ("Mend every broken link", "Napraw drukarkę", ("Repair every broken printer", "Napraw drukarkę"), ()),
        ("Mend every broken link", "Napraw drukarkę", ("Mend every broken links", "Napraw drukarkę"), None),
        # a word that the output shows
        ("Delete the letter", "Eliminar la imagen", ("Delete the image", "Eliminar la imagen"), ()),
        ("Delete the picture", "Eliminar la foto", ("Delete the image", "Eliminar la foto"), None),
        ("Show the position", "Mostrar la posición", ("Show the localisation", "Mostrar la posición"), None),
        # words that both languages have, at the beginning and in titles
        ("Unknown type", "Format inconnu", ("Format not known", "Format non connu"), None),
        ("Print Layout", "Format drucken", ("Print Format Now", "Format Jetzt Drucken"), None),
        # the same source
        ("Good night", "Gute Nacht", ("Good night.", "Gute Nacht"), None),
        ("", "", OTHER, None),
    ],
)
def test_a_copy_is_what_only_the_example_has(
    source: str, output: str, example: tuple[str, str], found: tuple[str, ...] | None
) -> None:
    assert copied(source, output, [example]) == found
    assert copied(source, output, [("Unrelated", "Ohne Bezug"), example]) == found
    assert copied(source, output, []) is None


def test_a_finding_names_what_only_examples_have() -> None:
    examples = (Example("<g1>Bob</g1> is 47", "<g1>Bob</g1> ist 47"), Example("From Ann to you", "Von Ann"))
    output = "Bob und Ann sind 47"
    assert of_examples("They are 50", output, examples) == (Finding(COPIED_EXAMPLE, ("47", "Ann")),)
    assert of_examples("Bob and Ann are 47", output, examples) == ()
