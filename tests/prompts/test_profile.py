"""Profiles: which template is used, what contradicts itself, and what a TOML file may say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.errors import ConfigError, UnsupportedLanguage
from dragoman.prompts.catalog import profiles, select
from dragoman.prompts.profile import Language, Profile, ProfileTemplate
from dragoman.types import PromptOptions, Sampling

LANGUAGES = {tag: Language(name, tag) for tag, name in (("en", "English"), ("de", "German"), ("zh", "Chinese"))}
PLAIN = Profile("p", "P", "raw", (ProfileTemplate("{source} {text}"),), LANGUAGES, wire="{user}")


def test_the_first_template_that_fits_is_used() -> None:
    chinese = ProfileTemplate("zh {text}", chinese=True)
    context = ProfileTemplate("{context} {text}")
    anything = ProfileTemplate("{text}")
    profile = replace(PLAIN, templates=(context, chinese, anything))
    assert profile.template("en", "de") is anything
    assert profile.template("en", "zh") is chinese
    assert profile.template("zh", "de") is chinese
    assert profile.template("en", "zh", PromptOptions(context="said before")) is context
    assert profile.template(None, "de") is anything
    assert not profile.needs_source


@pytest.mark.parametrize(
    ("source", "target", "param"), [(None, "de", "source"), ("xx", "de", "source"), ("en", "xx", "target")]
)
def test_an_unserved_direction_names_the_side_at_fault(source: str | None, target: str, param: str) -> None:
    assert not PLAIN.serves(source, target)
    with pytest.raises(UnsupportedLanguage) as caught:
        PLAIN.template(source, target)
    assert caught.value.param == param


def test_pivots_restrict_directions() -> None:
    profile = profiles()["lmt-60"]
    assert profile.serves("de", "en")
    assert profile.serves("zh", "de")
    assert not profile.serves("de", "fr")
    served = sum(profile.serves(a, b) for a in profile.languages for b in profile.languages if a != b)
    assert served == 234  # as its vendor counts


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"templates": ()}, "no templates"),
        ({"templates": (ProfileTemplate("{txt}"),)}, "unknown slot {txt}"),
        ({"templates": (ProfileTemplate("no text"),)}, "slot {text} once"),
        ({"templates": (ProfileTemplate("{text}{context}{context}"),)}, "slot {context} once"),
        ({"templates": (ProfileTemplate("{text}", system="Be brief."),)}, "no slot {system}"),
        ({"templates": (ProfileTemplate("{text}", names="zh"),)}, "'en' lacks its Chinese name"),
        ({"templates": (ProfileTemplate("{terms}{text}"),)}, "{terms} must have a term"),
        ({"templates": (ProfileTemplate("{text}", term="{term} {translation}"),)}, "{terms} must have a term"),
        ({"templates": (ProfileTemplate("{formality}{text}"),)}, "{formality} must have its words"),
        ({"templates": (ProfileTemplate("{text}{instructions}{instructions}"),)}, "{instructions} once"),
        ({"templates": (ProfileTemplate("{text}", answer="<target>"),)}, "an answer must have"),
        ({"templates": (ProfileTemplate("{text}", instruction="{instruction}"),)}, "an instruction must have"),
        ({"templates": (ProfileTemplate("{text}{instructions}", instruction="-"),)}, "an instruction must have"),
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


OWN = """
name = "mine"
title = "Mine"
mode = "raw"
wire = "{user}"
[[templates]]
text = "{text} => {target}"
[sampling]
temperature = 1
stop = ["\\n"]
[languages]
en = "English"
zh = { en = "Chinese", code = "zh-Hans" }
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "own.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_users_file_is_read(write: Callable[[str], Path]) -> None:
    profile = select("any/model", {}, file=write(OWN))
    assert (profile.name, profile.templates[0].text) == ("mine", "{text} => {target}")
    assert profile.sampling == Sampling(temperature=1.0, stop=("\n",))
    assert profile.languages == {"en": Language("English", "en"), "zh": Language("Chinese", "zh-Hans")}
    assert not profile.needs_source


def test_a_users_file_can_extend_a_shipped_profile(write: Callable[[str], Path]) -> None:
    base = profiles()["hy-mt2-7b"]
    profile = select(
        "any/model", {}, file=write('extends = "hy-mt2-7b"\nname = "colder"\n[sampling]\ntemperature = 0.2\n')
    )
    assert profile.sampling == Sampling(temperature=0.2)
    assert (profile.name, profile.wire, profile.templates) == ("colder", base.wire, base.templates)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OWN.replace("title", "titel"), "unknown key 'titel'; did you mean 'title'?"),
        (OWN.replace("temperature", "temprature"), "'temprature'; did you mean 'temperature'? (in sampling)"),
        (OWN.replace("[[templates]]\ntext", "[[templates]]\ntxt"), "'txt'; did you mean 'text'? (in templates)"),
        (OWN.replace("code =", "cod ="), "unknown key 'cod'; did you mean 'code'? (in languages)"),
        ("qqqq = 1\n" + OWN, "unknown key 'qqqq'; known are bos, capitals_as_sentences, chat_arguments"),
        (OWN.replace('name = "mine"\n', ""), "name"),
        (OWN.replace("temperature = 1", 'temperature = "hot"'), "sampling.temperature"),
        (OWN.replace('mode = "raw"', 'mode = "cooked"'), "mode: Input should be 'chat', 'structured' or 'raw'"),
        (OWN.replace("{text}", "{txt}"), "unknown slot {txt}"),
        ("= nonsense", "not TOML"),
        ('extends = "other"', "no profile 'other'"),
        ("extends = 3", "extends: must be the name of a profile"),
        ('languages = "all"\n' + OWN.partition("[languages]")[0], "languages"),
    ],
)
def test_a_faulty_file_is_refused_by_name_and_place(write: Callable[[str], Path], text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        select("any/model", {}, file=write(text))
    assert message in caught.value.message
    assert "\n" not in caught.value.message.partition(": ")[0]


def test_a_missing_file_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        select("any/model", {}, file=tmp_path / "none.toml")
