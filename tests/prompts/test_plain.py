from __future__ import annotations

import json
from typing import Any

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from dragoman.prompts.plain import unknown_id, without_control_tokens, without_prefix


def spelling_model(**options: Any) -> Tokenizer:
    """A BPE that can arrive at `</s>` by merges, as models converted from SentencePiece can."""
    vocab = {"<unk>": 0, "</s>": 1, "<": 2, "/": 3, "s": 4, ">": 5, "</": 6, "s>": 7, "a": 8}
    return Tokenizer(models.BPE(vocab, [("<", "/"), ("s", ">"), ("</", "s>")], unk_token="<unk>", **options))


def plain(tokenizer: Tokenizer) -> Tokenizer:
    return Tokenizer.from_str(json.dumps(without_control_tokens(json.loads(tokenizer.to_str()))))


def test_merges_that_spell_a_control_token_are_taken_out() -> None:
    raw = spelling_model()
    assert raw.encode("</s>").ids == [1]
    raw.add_special_tokens(["</s>"])
    assert plain(raw).encode("</s>").tokens == ["</", "s>"]


def test_a_whole_word_lookup_cannot_find_a_control_token() -> None:
    raw = spelling_model(ignore_merges=True)
    raw.add_special_tokens(["</s>"])
    assert plain(raw).encode("</s>a").ids == [6, 7, 8]
    assert plain(raw).encode("</s>").ids == [6, 7]


def test_a_unigram_model_cannot_prefer_a_control_piece() -> None:
    pieces = [("<unk>", 0.0), ("</s>", -0.1), ("</", -5.0), ("s>", -5.0), ("a", -5.0)]
    raw = Tokenizer(models.Unigram(pieces, unk_id=0))
    assert raw.encode("a</s>").ids == [4, 1]
    raw.add_special_tokens(["</s>"])
    assert plain(raw).encode("a</s>").ids == [4, 2, 3]


def test_a_model_without_merges_is_made_plain_too() -> None:
    raw = Tokenizer(models.WordLevel({"<unk>": 0, "</s>": 1, "a": 2}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    raw.add_special_tokens(["</s>"])
    assert raw.encode("a </s>").ids == [2, 1]
    assert plain(raw).encode("a </s>").ids == [2, 0]


def test_tokens_that_are_not_special_are_control_tokens_too() -> None:
    raw = spelling_model()
    raw.add_tokens([AddedToken("<a>", special=False)])
    assert plain(raw).token_to_id("<a>") is None


def test_runs_of_white_space_stay_with_their_ids() -> None:
    raw = spelling_model()
    raw.add_special_tokens([f"<extra_{number}>" for number in range(5)])
    raw.add_tokens([AddedToken("\n\n", special=False, normalized=False)])
    number = raw.token_to_id("\n\n")
    assert number == 14
    assert plain(raw).encode("a\n\na").ids == raw.encode("a\n\na").ids == [8, number, 8]


def test_the_id_for_unknown_characters_is_known_for_every_kind_of_model() -> None:
    assert unknown_id(json.loads(spelling_model().to_str())["model"]) == 0
    unigram = Tokenizer(models.Unigram([("a", 0.0), ("<unk>", 0.0)], unk_id=1))
    assert unknown_id(json.loads(unigram.to_str())["model"]) == 1
    assert unknown_id(json.loads(Tokenizer(models.BPE()).to_str())["model"]) is None


def test_every_kind_of_leading_space_can_be_left_out() -> None:
    raw = Tokenizer(models.BPE({"a": 0, "▁": 1, "▁a": 2, "Ġ": 3, "Ġa": 4}, [("▁", "a"), ("Ġ", "a")]))
    cases = (
        (normalizers.Sequence([normalizers.Prepend("▁")]), None),
        (normalizers.Prepend("▁"), None),
        (None, pre_tokenizers.Metaspace(prepend_scheme="first")),
        (None, pre_tokenizers.Sequence([pre_tokenizers.Metaspace(prepend_scheme="always")])),
        (None, pre_tokenizers.ByteLevel(add_prefix_space=True)),
    )
    for normalizer, pre_tokenizer in cases:
        raw.normalizer, raw.pre_tokenizer = normalizer, pre_tokenizer
        assert raw.encode("a").ids in ([2], [4])
        bare = without_prefix(json.loads(raw.to_str()))
        assert Tokenizer.from_str(json.dumps(bare)).encode("a").ids == [0]


def test_where_nothing_is_prepended_there_is_nothing_to_leave_out() -> None:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert without_prefix(json.loads(raw.to_str())) is None


def test_the_tokenizers_own_tables_are_not_changed() -> None:
    raw = spelling_model()
    raw.add_special_tokens(["</s>"])
    tables = json.loads(raw.to_str())
    without_control_tokens(tables)
    without_prefix(tables)
    assert tables == json.loads(raw.to_str())
