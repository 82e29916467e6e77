"""The interface of sampling backends: requests in, completions out as they end."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from sage_cli.problems.template import PromptTemplate
from sage_cli.settings.own_code import in_words, load_plugin
from sage_cli.settings.sections.model import PromptSection
from sage_cli.settings.sections.sampling import SAMPLER_GROUP, DecodingSection, SamplingSection

if TYPE_CHECKING:
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
        from sage_cli.models.loading import keep_tags, load_tokenizer

        tokenizer = load_tokenizer(
            self.model, revision=self.revision, trust_remote_code=self.trust_remote_code
        )
        keep_tags(tokenizer, self.prompt)
        return tokenizer


def sample_seed(seed: int, problem_id: str, index: int) -> int:
    """Return the seed of one sample, a hash of (seed, problem, index) alone.

    It is below 2^53, so that servers that read numbers as doubles keep it.
    """
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
    server serves another model, ConfigurationError if a registered factory makes no sampler.
    """
    match chosen_backend(setup.section):
        case "server":
            from sage_cli.sampling.server import ServerSampler

            return ServerSampler(setup)
        case "vllm":
            from sage_cli.sampling.vllm_sampler import VllmSampler

            return VllmSampler(setup)
        case "transformers":
            return _transformers(setup)
        case name:
            return _plugin(name, setup)


_WINDOWS = ("sliding_attention", "chunked_attention")


def length_obstacles(config: Mapping[str, Any], reach: int) -> Iterator[str]:
    """Yield why texts of `reach` tokens depend on their length by more than earlier tokens."""
    ropes = config.get("rope_parameters") or config.get("rope_scaling") or {}
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
    """Return the backend; `auto` is servers if any are named, vLLM on a GPU, else transformers."""
    if section.backend != "auto":
        return section.backend
    if section.asks_servers:
        return "server"
    from sage_cli.sampling.vllm_sampler import vllm_obstacle

    return "vllm" if vllm_obstacle() is None and _has_gpu() else "transformers"


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
