"""What every backend is: requests in, completions out as they finish."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sage_cli.config.sampling import SamplingSection
from sage_cli.store.completion import Completion


@dataclass(frozen=True, slots=True)
class SamplingParameters:
    """What decides a completion's distribution besides model and prompt.

    `temperature` 0 is greedy; `top_k` 0 and `min_p` 0 are off; `stop` is the text that ends a
    completion and stays in it (None: only the end-of-sequence token does); `seed` is the
    evaluation's seed.
    """

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    max_tokens: int
    stop: str | None
    seed: int

    @classmethod
    def from_section(
        cls, section: SamplingSection, *, stop: str | None, seed: int
    ) -> SamplingParameters:
        """Take the settings of `sampling` that change what is drawn, not how."""
        return cls(
            temperature=section.temperature,
            top_p=section.top_p,
            top_k=section.top_k,
            min_p=section.min_p,
            max_tokens=section.max_tokens,
            stop=stop,
            seed=seed,
        )


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """Draw the samples `indices` of a problem from its prompt text."""

    problem_id: str
    prompt: str
    indices: tuple[int, ...]
    seed: int = 0


class Sampler(Protocol):
    """A backend, holding its model and parameters."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """Engine and versions, stored beside the samples."""
        ...

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """Yield each requested completion once, in the order in which they finish.

        Raises SamplingError when the engine can't go on; what was yielded before is valid.
        """
        ...


def sample_seed(seed: int, problem_id: str, index: int) -> int:
    """The seed of one sample: a hash of (seed, problem, index) and nothing else.

    0 <= s < 2^53, so that it survives a server that reads numbers as doubles.
    """
    digest = hashlib.blake2b(f"{seed}\0{problem_id}\0{index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 11
