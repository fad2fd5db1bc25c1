from __future__ import annotations

from dataclasses import replace

import pytest

from dragoman.errors import ConfigError, UnsupportedLanguage
from dragoman.prompts.catalog import profiles
from dragoman.prompts.profile import Language, ModelSize, Profile, Template, fill

LANGUAGES = {tag: Language(name, tag) for tag, name in (("en", "English"), ("de", "German"), ("zh", "Chinese"))}
PLAIN = Profile("p", "P", "raw", (Template("{source} {text}"),), LANGUAGES, wire="{user}")


def test_the_first_template_that_fits_is_used() -> None:
    chinese = Template("zh {text}", chinese=True)
    context = Template("{context} {text}")
    anything = Template("{text}")
    profile = replace(PLAIN, templates=(context, chinese, anything))
    assert profile.template("en", "de", with_context=False) is anything
    assert profile.template("en", "zh", with_context=False) is chinese
    assert profile.template("zh", "de", with_context=False) is chinese
    assert profile.template("en", "zh", with_context=True) is context
    assert profile.template(None, "de", with_context=False) is anything
    assert (profile.needs_source, profile.takes_context) == (False, True)


def test_traditional_chinese_is_chinese_too() -> None:
    chosen = profiles()["hunyuan-mt"].template("en", "zh-Hant", with_context=False)
    assert chosen.chinese


@pytest.mark.parametrize(
    ("source", "target", "param"), [(None, "de", "source"), ("xx", "de", "source"), ("en", "xx", "target")]
)
def test_an_unserved_direction_names_the_side_at_fault(source: str | None, target: str, param: str) -> None:
    assert not PLAIN.serves(source, target)
    with pytest.raises(UnsupportedLanguage) as caught:
        PLAIN.template(source, target, with_context=False)
    assert caught.value.param == param


def test_pivots_restrict_directions() -> None:
    profile = profiles()["lmt-60"]
    assert profile.serves("de", "en")
    assert profile.serves("zh", "de")
    assert not profile.serves("de", "fr")
    served = sum(profile.serves(a, b) for a in profile.languages for b in profile.languages if a != b)
    assert served == 234  # as its vendor counts


def test_values_are_filled_in_one_pass() -> None:
    assert fill("{a} {b} {c}", {"a": "{b}", "b": "x"}) == "{b} x {c}"


def test_memory_is_two_bytes_a_parameter() -> None:
    assert ModelSize("x", 7.5).bf16_gib == pytest.approx(13.97, abs=0.01)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"templates": ()}, "no templates"),
        ({"templates": (Template("{txt}"),)}, "unknown slot {txt}"),
        ({"templates": (Template("no text"),)}, "slot {text} once"),
        ({"templates": (Template("{text}{context}{context}"),)}, "slot {context} once"),
        ({"templates": (Template("{text}", system="Be brief."),)}, "no slot {system}"),
        ({"templates": (Template("{text}", names="zh"),)}, "'en' lacks its Chinese name"),
        ({"languages": {}}, "no languages"),
        ({"wire": "nothing"}, "slot {user} once"),
        ({"wire": "{user}{name}"}, "unknown slot {name}"),
        ({"wire": None}, "needs a wire"),
        ({"control_tokens": ("<s>",)}, "'<s>' is in no template"),
    ],
)
def test_an_inconsistent_profile_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        replace(PLAIN, **change)
    assert message in caught.value.message


def test_a_profile_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        PLAIN.languages["fr"] = Language("French", "fr")  # type: ignore[index]
