"""A checkpoint's tokenizer and chat template are what transformers makes of the same files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import transformers
from tests.prompts.conftest import CHATML, FAMILIES, GEMMA_CHAT, build, control_tokens
from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from dragoman import phrasebook
from dragoman.errors import ConfigError
from dragoman.prompts.catalog import profiles
from dragoman.prompts.check import compare
from dragoman.prompts.encoder import PromptEncoder
from dragoman.prompts.lengths import parallel_text
from dragoman.prompts.tokenizer import TextTokenizer
from dragoman.prompts.vendor import ChatTemplate, chat_template, load_tokenizer

Build = Callable[[str, Iterable[str]], Tokenizer]
TEXTS = (
    *(lines[0] for lines in parallel_text().values()),
    "One line.\n\n  Two spaces, 42 and 1,234.5. <b>",
    "🙂 e\u0301",
)
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": 'Good <morning> & "all".'},
    {"role": "assistant", "content": "Guten Morgen."},
    {"role": "user", "content": " And\nyou?"},
]


def theirs(folder: Path) -> Any:
    loader: Any = AutoTokenizer
    return loader.from_pretrained(str(folder))


def assert_equal(folder: Path) -> None:
    """Both make the same ids of texts with control tokens in them, and the same text of chats."""
    ours, vendor = load_tokenizer(folder), theirs(folder)
    controls = " ".join(TextTokenizer(load_tokenizer(folder)).control_ids)
    for text in (*TEXTS, controls, "".join((controls, *TEXTS))):
        for around in (False, True):
            assert ours.encode(text, add_special_tokens=around).ids == vendor.encode(text, add_special_tokens=around)
    template = chat_template(folder)
    assert (template is None) == (not vendor.chat_template)
    if template is not None:
        for opened in (False, True):
            rendered = vendor.apply_chat_template(TALK, tokenize=False, add_generation_prompt=opened)
            assert template.render(TALK, {}, generation_prompt=opened) == rendered


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", sorted(profiles()))
def test_prompts_of_every_profile_are_those_that_transformers_makes(name: str, family: str, tmp_path: Path) -> None:
    profile = profiles()[name]
    saved = PreTrainedTokenizerFast(
        tokenizer_object=build(family, control_tokens(profile)),
        chat_template=GEMMA_CHAT if family == "gemma" else CHATML,
        bos_token="<bos>" if family == "gemma" else None,
    )
    saved.save_pretrained(tmp_path)
    assert_equal(tmp_path)
    assert compare(profile, TextTokenizer.load(tmp_path)) is None or profile.wire is not None


def test_prompts_of_the_packaged_model_are_those_that_transformers_makes() -> None:
    folder = phrasebook.model_dir()
    assert_equal(folder)
    encoder = PromptEncoder(profiles()["phrasebook"], TextTokenizer.load(folder))
    vendor = theirs(folder)
    for text in TEXTS:
        rendered = encoder.render(text, "en", "ja")
        assert list(encoder.encode(text, "en", "ja").token_ids) == vendor.encode(rendered, add_special_tokens=False)


TOKEN = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "special": True}
CONFIGS: dict[str, dict[str, Any]] = {
    "tokens that tokenizer.json lacks": {
        "added_tokens_decoder": {
            "9000": TOKEN | {"content": "<|later|>", "rstrip": True},
            "8000": TOKEN | {"content": "<tool>", "special": False},
        }
    },
    "a named token that it lacks": {
        "eos_token": "<|stop|>",
        "pad_token": TOKEN | {"__type": "AddedToken", "content": "<|pad|>", "lstrip": True},
    },
    "extra tokens": {"additional_special_tokens": ["<|one|>", "<|two|>"]},
    "extra tokens by name": {"extra_special_tokens": {"image_token": "<image>"}},
    "BOS, of which tokenizer.json alone decides": {"bos_token": "<|im_start|>", "add_bos_token": True},
    "no BOS, likewise": {"bos_token": "<s>", "add_bos_token": False},
    "a token with other properties": {
        "added_tokens_decoder": {"1501": TOKEN | {"content": "<|im_end|>", "rstrip": True}}
    },
}


@pytest.mark.parametrize("family", ["byte-level", "llama-first"])
@pytest.mark.parametrize("what", CONFIGS)
def test_what_the_config_adds_to_a_tokenizer(what: str, family: str, make_tokenizer: Build, tmp_path: Path) -> None:
    make_tokenizer(family, ["<|im_start|>", "<|im_end|>"]).save(str(tmp_path / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": "{{ bos_token }}{{ eos_token }}"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config | CONFIGS[what]))
    assert_equal(tmp_path)


TEMPLATES = {
    "what others than transformers lack": "{{ messages[0] | tojson(indent=2) }}{{ strftime_now('%Y') }}",
    "a loop that ends early": "{% for m in messages %}{% if loop.last %}{% break %}{% endif %}{{ m.content }}{% endfor %}",
    "what is marked for training": "{% set a = 1 %}{% generation %}{% set a = 2 %}{{ a }}{% endgeneration %}{{ a }}",
    "lines of statements": "  {% if messages %}\n  {{ messages[0].content }}\n  {% endif %}\nend\n",
    "what is not given": "{{ bos_token }}{{ nothing }}{% if tools %}tools{% endif %}{{ documents is none }}",
}


@pytest.mark.parametrize("what", TEMPLATES)
def test_templates_are_rendered_as_transformers_does(what: str, make_tokenizer: Build, tmp_path: Path) -> None:
    saved = PreTrainedTokenizerFast(tokenizer_object=make_tokenizer("byte-level", ()), chat_template=TEMPLATES[what])
    saved.save_pretrained(tmp_path)
    assert_equal(tmp_path)


def test_a_template_is_found_in_each_place_where_checkpoints_have_it(make_tokenizer: Build, tmp_path: Path) -> None:
    make_tokenizer("byte-level", ()).save(str(tmp_path / "tokenizer.json"))
    config = tmp_path / "tokenizer_config.json"
    assert chat_template(tmp_path) is None
    named = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "{{ bos_token }} of several"}]
    for value, expected in (("one", "one"), (named, "<s> of several"), (named[:1], None)):
        config.write_text(json.dumps({"chat_template": value}))
        (tmp_path / "special_tokens_map.json").write_text(json.dumps({"bos_token": TOKEN | {"content": "<s>"}}))
        found = chat_template(tmp_path)
        assert (found and found.render([], {}, generation_prompt=True)) == expected
    (tmp_path / "chat_template.jinja").write_text("of a file")
    found = chat_template(tmp_path)
    assert found is not None and found.render([], {}, generation_prompt=True) == "of a file"


def test_a_template_cannot_reach_what_is_outside_it() -> None:
    escaping = ChatTemplate("{{ ''.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(Exception, match="unsafe"):
        escaping.render([], {}, generation_prompt=True)


@pytest.mark.parametrize(
    ("name", "text"), [("tokenizer.json", "{"), ("tokenizer_config.json", "["), ("tokenizer_config.json", "[]")]
)
def test_a_file_that_cannot_be_read_is_named(name: str, text: str, make_tokenizer: Build, tmp_path: Path) -> None:
    make_tokenizer("byte-level", ()).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=name) as refusal:
        load_tokenizer(tmp_path)
    assert "\n" not in refusal.value.message


def test_a_checkpoint_without_tokenizer_json_says_what_to_do_where_transformers_is_not_installed(
    tmp_path: Path,
) -> None:
    program = (
        "import sys; from pathlib import Path; sys.modules['transformers'] = None\n"
        "from dragoman.prompts.vendor import load_tokenizer, ConfigError\n"
        "try: load_tokenizer(Path(sys.argv[1]))\n"
        "except ConfigError as error: print(error.message)"
    )
    said = subprocess.check_output([sys.executable, "-c", program, tmp_path], text=True)
    assert "dragoman[cpu]" in said and said.count("\n") == 1


@pytest.mark.parametrize("trusted", [True, False])
def test_code_that_comes_with_a_model_runs_only_if_it_is_trusted(
    trusted: bool, make_tokenizer: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[dict[str, Any]] = []

    def from_pretrained(model: str, **options: Any) -> PreTrainedTokenizerFast:
        given.append({"model": model, **options})
        return PreTrainedTokenizerFast(tokenizer_object=make_tokenizer("byte-level", []))

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", from_pretrained)
    make_tokenizer("byte-level", []).save(str(tmp_path / "tokenizer.json"))
    config = {"auto_map": {"AutoTokenizer": ["tokenization_own.OwnTokenizer", None]}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    TextTokenizer.load(tmp_path, trust_remote_code=trusted)
    assert given == ([{"model": str(tmp_path), "trust_remote_code": True}] if trusted else [])
