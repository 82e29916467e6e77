"""The interface of sampling backends: requests in, completions out, and what ends one.

A completion ends at an end-of-sequence token, its stop text, or the limit of tokens.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from sage_cli.models.verification import verify_weights
from sage_cli.problems.template import PromptTemplate
from sage_cli.settings.inputs import PromptSection
from sage_cli.settings.own_code import in_words, load_plugin
from sage_cli.settings.sampling import SAMPLER_GROUP, DecodingSection, SamplingSection
from sage_cli.solution_text import stop_end

if TYPE_CHECKING:
    import numpy as np
    from transformers import PreTrainedTokenizerBase

    from sage_cli.store.sample_parts import Completion


DISTRIBUTION = ("temperature", "top_p", "top_k", "min_p", "max_tokens")
NO_PENALTIES = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
"""For engines and servers, which take missing ones from the model's generation_config.json."""


@dataclass(frozen=True, slots=True)
class SamplingParameters:
    """All that decides a completion's distribution besides model and prompt.

    `temperature` 0 is greedy; `top_k` 0 and `min_p` 0 are off; `stop` is the text that ends a
    completion and stays in it (None: only the end-of-sequence token does). `opened` is the
    template's (`PromptTemplate.opened`): inside a thought the stop text ends nothing.
    """

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    max_tokens: int
    stop: str | None
    opened: str | None = None

    @property
    def engine_stop(self) -> str | None:
        """The stop text for an engine that knows of no thoughts; None where there may be one."""
        return self.stop if self.opened is None else None

    @classmethod
    def from_section(
        cls, section: DecodingSection, template: PromptTemplate | None = None
    ) -> SamplingParameters:
        """Return the settings of `sampling` or `rollout` that decide the distribution.

        Completions end at the stop text of `template`, if it is given.
        """
        given = {name: getattr(section, name) for name in DISTRIBUTION}
        stop, opened = (template.stop, template.opened) if template else (None, None)
        return cls(**given, stop=stop, opened=opened)

    @property
    def distribution(self) -> dict[str, Any]:
        """The settings that decide the distribution, by the names that engines have for them."""
        return {name: getattr(self, name) for name in DISTRIBUTION}


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """A request for the samples `indices` of a problem under an evaluation's seed."""

    problem_id: str
    prompt: str
    indices: tuple[int, ...]
    seed: int = 0


@runtime_checkable
class Sampler(Protocol):
    """A backend, which has its model and parameters until it is closed.

    One sampler serves all benchmarks and seeds of a policy. As a context manager it closes itself.
    """

    @property
    def provenance(self) -> Mapping[str, str]:
        """Engine and versions, stored beside the samples."""
        ...

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """Yield each requested completion once, in the order in which they end.

        Requests of several seeds may be mixed. Raises SamplingError if the engine fails, and
        RefusedPromptsError after all but the samples of prompts that it cannot answer. Completions
        that were yielded before are valid.
        """
        ...

    def close(self) -> None:
        """Release model, engine and connections; closing again does nothing."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class SamplerSetup:
    """The inputs of a sampler: the argument of a backend's factory.

    `model` is a folder, of a LoRA adapter too, or a name of the Hub; `dtype` is
    torch's name of a type, or `auto`. `prompt` is for servers that apply a template of their own;
    `bos` is the token that all prompts begin with, if there is one.
    """

    model: str | Path
    parameters: SamplingParameters
    section: SamplingSection
    dtype: str = "auto"
    revision: str | None = None
    trust_remote_code: bool = False
    prompt: PromptSection = field(default_factory=PromptSection)
    bos: str = ""

    @property
    def options(self) -> Mapping[str, Any]:
        """`sampling.options`: settings of this backend alone."""
        return self.section.options

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """Load the model's tokenizer. Raises DataError if there is none."""
        from sage_cli.models.tokenizer import keep_tags, load_tokenizer

        tokenizer = load_tokenizer(
            self.model, revision=self.revision, trust_remote_code=self.trust_remote_code
        )
        keep_tags(tokenizer, self.prompt)
        return tokenizer


def sample_seed(seed: int, problem_id: str, index: int) -> int:
    """Return the seed of one sample, a hash of (seed, problem, index) alone.

    It is below 2^53, so that servers that read numbers as doubles keep it.
    """
    # \0 separates, since no id contains it: (1, "2x") and (12, "x") would be one text otherwise
    digest = hashlib.blake2b(f"{seed}\0{problem_id}\0{index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 11


def too_long(tokens: int, new: int, context: int | None) -> str | None:
    """Return why a prompt of so many tokens isn't answered by so many new ones; None if it is."""
    if context is None or tokens + new <= context:
        return None
    return (
        f"{tokens} tokens and {new} new ones are more than the context of {context} (the model's, "
        "or sampling.vllm.max_model_len), which would truncate answers"
    )


def build_sampler(setup: SamplerSetup) -> Sampler:
    """Return the sampler of `setup`, with its model loaded unless servers sample.

    Raises DataError without a model or tokenizer, SamplingError if the backend cannot run here or a
    server serves another model, ConfigurationError if a registered factory makes no sampler. That
    the model isn't what was recorded of it is found by `require_verified`, which is called before
    the first completion is stored.
    """
    backend = chosen_backend(setup.section)
    if backend == "server":
        from sage_cli.sampling.server import ServerSampler

        return ServerSampler(setup)
    # hashing the weights takes as long as loading them: it runs beside, and the first completion
    # waits for it
    with verify_weights(setup.model, setup.revision, later=True):
        return _local_sampler(backend, setup)


def _local_sampler(backend: str, setup: SamplerSetup) -> Sampler:
    match backend:
        case "vllm":
            from sage_cli.sampling.vllm_sampler import VllmSampler

            return VllmSampler(setup)
        case "builtin":
            return _transformers(setup)
        case name:
            return _plugin(name, setup)


_WINDOWS = ("sliding_attention", "chunked_attention")


def length_obstacles(config: Mapping[str, Any], reach: int) -> Iterator[str]:
    """Yield why texts of `reach` tokens depend on their length by more than earlier tokens."""
    ropes = config.get("rope_parameters") or config.get("rope_scaling") or {}
    # some models have one set of RoPE settings per type of layer
    by_layer = all(isinstance(settings, Mapping) for settings in ropes.values())
    for rope in ropes.values() if by_layer else [ropes]:
        kind = rope.get("rope_type") or rope.get("type")
        # beyond this length the encoding of all positions changes, also of stored keys
        unchanged = config.get("max_position_embeddings", reach)
        if kind == "longrope":
            unchanged = rope.get("original_max_position_embeddings", unchanged)
        if kind in ("dynamic", "longrope") and reach > unchanged:
            yield (
                f"encodes positions by '{kind}' RoPE, which changes beyond {unchanged} tokens, and "
                f"a text may have {reach}"
            )
    scale = config.get("floor_scale")
    if scale is not None and config.get("attn_temperature_tuning") and reach >= scale:
        yield f"scales queries beyond {scale} tokens, and a text may have {reach}"


def planned_obstacles(config: Mapping[str, Any], reach: int) -> Iterator[str]:
    """Yield why our decoder can't sample from a model, as far as its config.json tells.

    The decoder itself asks the model, layer by layer.
    """
    if config.get("attn_logit_softcapping") is not None:
        yield "attends with 'softcap'"
    if config.get("model_type") == "gpt_oss":
        yield "attends with sinks"
    layers = config.get("layer_types") or _WINDOWS
    if {"linear_attention", "mamba"} & {*layers}:
        yield "keeps a recurrent state beside its attention"
    window = config.get("sliding_window") or config.get("attention_chunk_size")
    used = config.get("use_sliding_window", True) and {*_WINDOWS} & {*layers}
    if window is not None and used and window < reach:
        yield f"attends in windows or chunks of {window} tokens, and a text may have {reach}"
    yield from length_obstacles(config, reach)


def chosen_backend(section: SamplingSection) -> str:
    """Return the backend; `auto` is servers if any are named, vLLM on a GPU, else `builtin`."""
    if section.backend != "auto":
        return section.backend
    if section.asks_servers:
        return "server"
    from sage_cli.sampling.vllm_sampler import vllm_obstacle

    return "vllm" if _has_gpu() and vllm_obstacle() is None else "builtin"


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _transformers(setup: SamplerSetup) -> Sampler:
    from sage_cli.models.loading import load_model
    from sage_cli.sampling.decoder import TransformersSampler

    tokenizer = setup.tokenizer()
    model = load_model(
        setup.model,
        dtype=setup.dtype,
        revision=setup.revision,
        trust_remote_code=setup.trust_remote_code,
    )
    model = model.to("cuda" if _has_gpu() else "cpu").eval()
    return TransformersSampler(model, tokenizer, setup.parameters, setup.section.batch_rows)


def _plugin(name: str, setup: SamplerSetup) -> Sampler:
    plugin = load_plugin(SAMPLER_GROUP, name)
    with plugin.blamed(
        f"can't be made with the options {in_words(setup.options)}",
        f"see {plugin.target}; --set sampling.options.NAME=VALUE sets one",
    ):
        made = plugin.object(setup)
    if not isinstance(made, Sampler):
        raise plugin.refused(
            f"makes a {type(made).__name__} and not a sage_cli.sampling.sampler.Sampler",
            "register what makes an object with provenance, sample, close, __enter__ and __exit__",
        )
    return made


Ids = Sequence[int]


@dataclass(frozen=True, slots=True)
class Ending:
    """A finished completion's text and why it ended: `stop` or `length`."""

    text: str
    reason: str


class Stopping:
    """Decodes a row only if its last token can have ended it."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        eos_ids: Sequence[int],
        vocabulary: int,
        parameters: SamplingParameters,
    ) -> None:
        import numpy as np  # which a plan does without

        self._tokenizer, self.eos_ids = tokenizer, list(eos_ids)
        self._stop, self._max_tokens = parameters.stop, parameters.max_tokens
        self._opened = parameters.opened or ""
        # an end-of-sequence id may lie beyond the model's vocabulary, in tokenizers that were
        # extended
        size = max([vocabulary, *(token + 1 for token in eos_ids)])
        self._may_end_V = np.zeros(size, dtype=bool)
        self._may_end_V[list(eos_ids)] = True
        if self._stop is not None:
            self._may_end_V |= _may_complete(tokenizer, size, self._stop)

    def may_end(
        self, tokens_B: np.ndarray[Any, Any], count: int
    ) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return the mask (B,) of rows to decode, by their last tokens and common length."""
        mask_B: np.ndarray[Any, np.dtype[np.bool_]] = self._may_end_V[tokens_B]
        return mask_B | (count >= self._max_tokens)

    def endings(self, rows: Sequence[Ids]) -> list[Ending | None]:
        """Return for each row of token ids its ending, or None if it continues."""
        return [self._ending(ids, text) for ids, text in zip(rows, self._texts(rows), strict=True)]

    def cut(self, ids: Ids, reason: str) -> tuple[Ids, Ending]:
        """Return the tokens of a completion up to its stop text, and its ending.

        For an engine that can't tell whether a thought is open, and samples on. `reason` is why
        the engine ended it.
        """
        text = self._texts([ids])[0]
        if (end := self._stop_end(text)) is None:
            return ids, Ending(text, reason)
        # a text grows with its tokens, so that a binary search finds the first number of tokens
        # that contain the stop text: decoding each prefix would be quadratic
        count = bisect_left(
            range(len(ids)), True, key=lambda n: self._stop_end(self._texts([ids[:n]])[0]) == end
        )
        return ids[:count], Ending(text[:end], "stop")

    def stops(self, text: str) -> bool:
        """Return True if the stop text ended this completion."""
        return self._stop_end(text) is not None

    def _texts(self, rows: Sequence[Ids]) -> list[str]:
        if not rows:
            return []
        texts: list[str] = self._tokenizer.batch_decode(
            rows, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return texts

    def _ending(self, ids: Ids, text: str) -> Ending | None:
        if (end := self._stop_end(text)) is not None:
            return Ending(text[:end], "stop")
        if ids[-1] in self.eos_ids:
            return Ending(text, "stop")
        return Ending(text, "length") if len(ids) >= self._max_tokens else None

    def _stop_end(self, text: str) -> int | None:
        end = stop_end(self._opened + text, self._stop)
        return None if end is None else end - len(self._opened)


def _may_complete(
    tokenizer: PreTrainedTokenizerBase, vocabulary: int, stop: str
) -> np.ndarray[Any, Any]:
    """Return the mask (V,) of tokens after which a text may newly contain `stop`.

    Such a token contains `stop` or begins with a suffix of it. If `stop` is not ASCII, a character
    of it may be spread over tokens, so all tokens count.
    """
    import numpy as np

    if not stop.isascii():
        return np.ones(vocabulary, dtype=bool)
    # the token that completes the stop text contains its end: some suffix of it, at the token's
    # beginning
    suffixes = tuple(stop[start:] for start in range(len(stop)))
    texts = tokenizer.batch_decode(
        [[token] for token in range(vocabulary)], clean_up_tokenization_spaces=False
    )
    return np.array([stop in text or text.startswith(suffixes) for text in texts])


def eos_ids(of_model: Any, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the end-of-sequence ids of the tokenizer and of the model's generation settings.

    `of_model` is `eos_token_id` of the latter: a number, a list of them, or None.
    """
    ids = of_model if isinstance(of_model, list) else [of_model]
    return sorted({token for token in (*ids, tokenizer.eos_token_id) if token is not None})
