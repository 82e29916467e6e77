"""Samplers that engines' processes can make: they answer at once, slowly, or not at all."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from sage_cli.errors import RefusedPromptsError, SamplingError
from sage_cli.sampling.sampler import Sampler, SampleRequest, SamplerSetup, sample_seed
from sage_cli.store.sample_parts import Completion


class Answering(Sampler):
    """Answers with the sample's seed; refuses the problem `hard`."""

    provenance: Mapping[str, str] = {"engine": "answering"}

    def __init__(self, setup: SamplerSetup, pause_s: float = 0.0) -> None:
        self._pause_s = pause_s

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        for request in requests:
            for index in request.indices if request.problem_id != "hard" else ():
                time.sleep(self._pause_s)
                seed = sample_seed(request.seed, request.problem_id, index)
                text = f"{request.prompt}{seed}"
                yield Completion(request.problem_id, index, request.seed, text, 1, "stop", (7,))
        if any(request.problem_id == "hard" for request in requests):
            raise RefusedPromptsError({"hard": "too long"})

    def close(self) -> None:
        """Nothing is held."""


def slow(setup: SamplerSetup) -> Answering:
    """A hundredth of a second a sample."""
    return Answering(setup, 0.01)


def unable(setup: SamplerSetup) -> Sampler:
    """There is no such model."""
    raise SamplingError(f"no model can be loaded from {setup.model}", "name another")


def broken(setup: SamplerSetup) -> Sampler:
    """A fault of the program."""
    raise ZeroDivisionError
