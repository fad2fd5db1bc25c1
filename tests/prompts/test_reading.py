from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.prompts.catalog import profiles, select
from dragoman.prompts.profile import Language
from dragoman.types import Sampling

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
def write(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "own.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_users_file_is_read(write) -> None:
    profile = select("any/model", {}, file=write(OWN))
    assert (profile.name, profile.templates[0].text) == ("mine", "{text} => {target}")
    assert profile.sampling == Sampling(temperature=1.0, stop=("\n",))
    assert profile.languages == {"en": Language("English", "en"), "zh": Language("Chinese", "zh-Hans")}
    assert not profile.needs_source


def test_a_users_file_can_extend_a_shipped_profile(write) -> None:
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
        (
            OWN.replace("temperature", "temprature"),
            "unknown key 'temprature'; did you mean 'temperature'? (in sampling)",
        ),
        (
            OWN.replace("[[templates]]\ntext", "[[templates]]\ntxt"),
            "unknown key 'txt'; did you mean 'text'? (in templates)",
        ),
        (OWN.replace("code =", "cod ="), "unknown key 'cod'; did you mean 'code'? (in languages)"),
        ("qqqq = 1\n" + OWN, "unknown key 'qqqq'; known are bos, chat_arguments"),
        (OWN.replace('name = "mine"\n', ""), "name"),
        (OWN.replace("temperature = 1", 'temperature = "hot"'), "sampling.temperature"),
        (OWN.replace('mode = "raw"', 'mode = "cooked"'), "mode: Input should be 'chat', 'structured' or 'raw'"),
        (OWN.replace("{text}", "{txt}"), "unknown slot {txt}"),
        ("= nonsense", "not TOML"),
        ('extends = "nobody"', "no profile 'nobody'"),
        ("extends = 3", "extends: must be the name of a profile"),
        ('languages = "all"\n' + OWN.partition("[languages]")[0], "languages"),
    ],
)
def test_a_faulty_file_is_refused_by_name_and_place(write, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        select("any/model", {}, file=write(text))
    assert message in caught.value.message
    assert "\n" not in caught.value.message.partition(": ")[0]


def test_a_missing_file_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        select("any/model", {}, file=tmp_path / "none.toml")
