"""What is held out, and what never is."""

from tools.phrasebook.corpus import Corpus, packaged
from tools.phrasebook.split import Fillings, composition_held_out, value_held_out
from tools.phrasebook.values import copied


def test_about_a_tenth_of_the_copied_values_is_held_out() -> None:
    held_out = sum(value_held_out(copied("int", str(number))) for number in range(1000))
    assert 60 < held_out < 140


def test_a_number_is_held_out_by_its_digits_whatever_its_kind() -> None:
    for number in map(str, range(200)):
        percent = copied("percent", f"{number}%", split_key=number)
        assert value_held_out(percent) == value_held_out(copied("room", number))


def test_the_order_of_sentences_makes_another_composition(corpus: Corpus) -> None:
    patterns = corpus.patterns
    both = {(composition_held_out((a, b)), composition_held_out((b, a))) for a in patterns for b in patterns}
    assert len(both) > 2


def test_a_word_that_only_one_pattern_uses_is_never_held_out(corpus: Corpus) -> None:
    fillings = Fillings(corpus)
    wish = next(pattern for pattern in corpus.patterns if "food" in pattern.kinds.values())
    assert not [value for value in corpus.lexicon["food"] if fillings.held_out(wish, {"food": value})]


def test_some_fillings_are_held_out_and_most_are_not() -> None:
    corpus = packaged()
    fillings = Fillings(corpus)
    flags = [
        fillings.held_out(pattern, {ref: value})
        for pattern in corpus.patterns
        if len(pattern.kinds) == 1
        for ref, kind in pattern.kinds.items()
        for value in corpus.lexicon.get(kind, ())
    ]
    assert 0.03 < sum(flags) / len(flags) < 0.15
