"""What engines elsewhere are sent, and how their answers are read: OpenAI's completions, and Ollama's raw generation.

A prompt goes as token ids where the API takes them (vLLM, llama-server). Ollama takes text alone and finds control tokens in
it, so a prompt goes there only if the same ones are found in its text: no text of a client becomes a control token.

Sources: vLLM's OpenAI-compatible server (completions, with `stop_token_ids` and `ignore_eos`), llama.cpp's
tools/server/README.md, Ollama's docs/api.md. Knows no HTTP client and no failures of the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, Protocol

from tokenizers import Tokenizer

from dragoman.errors import ConfigError, EngineFailed, EngineRejected
from dragoman.types import Completion, CompletionReason, EngineSequence, TokenLogprobs

Json = Mapping[str, Any]
Ask = Callable[..., Any]
"""`await ask(method, path, body)`: the JSON of one answer; raises `EngineFailed` for another status than 200."""


@dataclass(frozen=True, slots=True)
class Served:
    """What an engine says of itself. None: it does not say."""

    model: str  # as requests name it
    window: int | None = None  # tokens that prompt and output share
    slots: int | None = None  # sequences that it runs at the same time
    software: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one answer, or one event of a streamed one, adds. The last has the counts of tokens."""

    text: str = ""
    reason: CompletionReason | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    logprobs: tuple[float, ...] = ()


_LLAMA_SERVER = "llamacpp"
"""As it names itself in `/v1/models`."""


class ModelTokens:
    """The model's tokenizer with its control tokens, as an engine elsewhere has it."""

    def __init__(self, tokenizer: Tokenizer, control: Mapping[str, int], opening: tuple[int, ...]) -> None:
        """`control`: ids of the control tokens by their text. `opening`: ids that a tokenizer puts before each text."""
        self._tokenizer = tokenizer
        self._control = frozenset(control.values())
        self._opening = opening
        names = sorted(control, key=control.__getitem__)[:5]
        self.probe = "".join(["Grüße aus 東京, 안녕하세요 42!", *names])
        """A text in several scripts with control tokens: tokenizers that make the same ids of it count as one. After a control
        token it has no text: there versions of one library differ in spaces."""

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)

    def text_of(self, prompt: Sequence[int]) -> str:
        """A prompt as text, without the ids that a tokenizer puts before each text (BOS), since the engine's does.

        Raises `EngineRejected` where an engine would find other control tokens in the text than the prompt has.
        """
        prompt = prompt[len(self._opening) :] if tuple(prompt[: len(self._opening)]) == self._opening else prompt
        text = self.decode(prompt)
        found, own = ([one for one in ids if one in self._control] for ids in (self.encode(text), prompt))
        if found != own:
            raise EngineRejected("the text has the name of a control token, which this engine would read as one")
        return text


class Api(Protocol):
    """One kind of server."""

    path: str
    ends: bytes
    """The line after which a stream has no more; empty: its last event says so."""
    lacks: tuple[str, ...]
    """What an engine of this process has and this one has not: `confidence`, `token_ids`, `forced_lengths`."""

    async def served(self, ask: Ask, model: str) -> Served:
        """Find out what is served. Raises `ConfigError` where it is not `model`, or the tokens are others."""
        ...

    def body(self, sequence: EngineSequence, served: Served, *, stream: bool) -> Json:
        """Raises `EngineRejected` for a prompt that cannot be sent as it is."""
        ...

    def chunk(self, answer: Json) -> Chunk:
        """Raises `EngineFailed` for an answer of another form."""
        ...


def joined(chunks: Sequence[Chunk], sequence: EngineSequence) -> Completion | None:
    """The completion that they make; None: its end is missing.

    Raises `EngineFailed` where the engine has read another number of tokens than the prompt has, BOS aside: so its tokenizer
    is another one. Of an API that takes text, the start's first prompt is what shows it.
    """
    last = Chunk(
        "".join(one.text for one in chunks),
        next((one.reason for one in reversed(chunks) if one.reason), None),
        next((one.prompt_tokens for one in reversed(chunks) if one.prompt_tokens), None),
        next((one.completion_tokens for one in reversed(chunks) if one.completion_tokens), None),
        tuple(chain.from_iterable(one.logprobs for one in chunks)),
    )
    if last.reason is None:
        return None
    logprobs = TokenLogprobs(sum(last.logprobs) / len(last.logprobs), min(last.logprobs)) if last.logprobs else None
    sent = len(sequence.prompt_token_ids)
    prompt_tokens = last.prompt_tokens or sent
    if abs(prompt_tokens - sent) > 1:
        raise EngineFailed(
            f"the engine read {prompt_tokens} tokens where the prompt has {sent}: its model has another tokenizer than --model"
        )
    return Completion(last.text, last.reason, prompt_tokens, last.completion_tokens or 0, logprobs=logprobs)


def _chosen(names: list[str], model: str, where: str) -> str:
    if model and model not in names:
        listed = ", ".join(names[:10]) or "none"
        raise ConfigError(f"remote.model = {model!r}: the engine {where} has {listed}", param="remote.model")
    if not model and len(names) != 1:
        listed = ", ".join(names[:10]) or "none"
        raise ConfigError(f"name one of the engine's models with remote.model: {listed}", param="remote.model")
    return model or names[0]


class OpenAiCompletions:
    """`/v1/completions` of vLLM and llama-server, with token ids."""

    path = "/v1/completions"
    ends = b"data: [DONE]"
    lacks: tuple[str, ...] = ()

    def __init__(self, tokens: ModelTokens, *, logprobs: bool) -> None:
        self._tokens = tokens
        self._logprobs = logprobs

    async def served(self, ask: Ask, model: str) -> Served:
        listed: list[Any] = (await ask("GET", "/v1/models", None)).get("data") or []
        name = _chosen([str(one["id"]) for one in listed], model, "at /v1/models")
        own = next(one for one in listed if one["id"] == name)
        software = str(own.get("owned_by") or "")
        window, slots = own.get("max_model_len"), None
        is_llama = software == _LLAMA_SERVER
        if is_llama:
            properties = await ask("GET", "/props", None)
            window = properties.get("default_generation_settings", {}).get("n_ctx")
            slots = properties.get("total_slots")
        await self._check_tokens(ask, name, is_llama)
        return Served(name, window, slots, software)

    async def _check_tokens(self, ask: Ask, model: str, is_llama: bool) -> None:
        """The engine reads the probe as the same ids: else prompts would be other words there."""
        probe = self._tokens.probe
        body = (
            {"content": probe, "add_special": False, "parse_special": True}
            if is_llama
            else {"model": model, "prompt": probe, "add_special_tokens": False}
        )
        found = (await ask("POST", "/tokenize", body)).get("tokens")
        if found != self._tokens.encode(probe):
            raise ConfigError(
                f"the tokens of the engine's model {model!r} are not those of this server's tokenizer: "
                "name the folder or hub id of the same model with --model"
            )

    def body(self, sequence: EngineSequence, served: Served, *, stream: bool) -> Json:
        sampling = sequence.sampling
        is_llama = served.software == _LLAMA_SERVER
        penalty = "repeat_penalty" if is_llama else "repetition_penalty"
        # All of them: what is not sent is the engine's own default, in vLLM of the checkpoint's generation_config.json.
        body: dict[str, Any] = {
            "model": served.model,
            "prompt": sequence.prompt_token_ids,
            "max_tokens": sequence.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": 0.0,
            penalty: sampling.repetition_penalty,
            "presence_penalty": sampling.presence_penalty,
            "stop": list(sampling.stop),
            "stop_token_ids": list(sampling.stop_token_ids),
            "ignore_eos": sequence.forced,
            "stream": stream,
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        if self._logprobs:
            body["logprobs"] = int(is_llama)  # of the chosen tokens alone; llama-server has none for 0
        return body | ({"stream_options": {"include_usage": True}} if stream else {})

    def chunk(self, answer: Json) -> Chunk:
        try:
            choices: list[Any] = answer.get("choices") or []
            usage: Json = answer.get("usage") or {}
            choice: Json = choices[0] if choices else {}
            logprobs: Json = choice.get("logprobs") or {}
            listed: list[Json] = logprobs.get("content") or []  # llama-server's
            found: list[float | None] = logprobs.get("token_logprobs") or [one["logprob"] for one in listed]
            ended = choice.get("finish_reason")
            return Chunk(
                str(choice.get("text") or ""),
                ended if ended in ("stop", "length") else None,
                usage.get("prompt_tokens"),
                usage.get("completion_tokens"),
                tuple(float(one) for one in found if one is not None),
            )
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as fault:
            raise EngineFailed("the engine's answer is no completion") from fault


class OllamaGenerate:
    """`/api/generate` of Ollama with `raw`: the prompt is text, in which Ollama finds control tokens."""

    path = "/api/generate"
    ends = b""
    lacks: tuple[str, ...] = ("confidence", "token_ids", "forced_lengths")

    def __init__(self, tokens: ModelTokens, *, logprobs: bool) -> None:
        """`logprobs`: without effect, since Ollama reports none for raw prompts."""
        self._tokens = tokens

    async def served(self, ask: Ask, model: str) -> Served:
        listed: list[Any] = (await ask("GET", "/api/tags", None)).get("models") or []
        name = _chosen([str(one["name"]) for one in listed], model, "at /api/tags")
        information: Json = (await ask("POST", "/api/show", {"model": name})).get("model_info") or {}
        window = next((value for key, value in information.items() if key.endswith(".context_length")), None)
        return Served(name, window, None, "ollama")

    def body(self, sequence: EngineSequence, served: Served, *, stream: bool) -> Json:
        if sequence.forced:
            raise EngineRejected("Ollama cannot generate outputs of a given length")
        text = self._tokens.text_of(sequence.prompt_token_ids)
        sampling = sequence.sampling
        options: dict[str, Any] = {
            "num_predict": sequence.max_tokens,
            "num_ctx": served.window,  # the same each time: Ollama loads a model again for another
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": 0.0,
            "repeat_penalty": sampling.repetition_penalty,
            "presence_penalty": sampling.presence_penalty,
            "stop": [*sampling.stop, *(self._tokens.decode((one,)) for one in sampling.stop_token_ids)],
        }
        if sampling.seed is not None:
            options["seed"] = sampling.seed
        return {"model": served.model, "prompt": text, "raw": True, "stream": stream, "options": options}

    def chunk(self, answer: Json) -> Chunk:
        if not isinstance(answer.get("response"), str):
            raise EngineFailed("the engine's answer is no completion")
        reason: Literal["stop", "length"] | None = None
        if answer.get("done"):
            reason = "length" if answer.get("done_reason") == "length" else "stop"
        return Chunk(answer["response"], reason, answer.get("prompt_eval_count"), answer.get("eval_count"))


API_OF = {"completions": OpenAiCompletions, "ollama": OllamaGenerate}
"""By `remote.api`."""
