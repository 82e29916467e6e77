"""The interface of sampling backends: requests in, completions out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from sage_cli.problems.template import PromptTemplate
from sage_cli.settings.decoding import DecodingSection
from sage_cli.settings.prompt import PromptSection
from sage_cli.settings.sampling import SamplingSection

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from sage_cli.store.completion import Completion


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
