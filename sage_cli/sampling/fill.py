"""Fill a sample set with the samples that it lacks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from sage_cli.errors import RefusedPromptsError, SamplingError
from sage_cli.sampling.sampler import Sampler, SampleRequest
from sage_cli.settings.own_code import named
from sage_cli.store.sample_parts import FINISH_REASONS, Completion, encodable
from sage_cli.store.sample_set import SampleSet

MOST_TOKENS = 2**31 - 1
log = logging.getLogger(__name__)


def fill(
    samples: SampleSet,
    prompts: Mapping[str, str],
    n: int,
    sampler: Sampler,
    on_stored: Callable[[list[Completion]], None] = lambda _: None,
) -> int:
    """Sample completions 0 to n - 1 of each problem that `samples` lacks; return how many.

    `prompts` maps problem ids to prompt texts. `on_stored` is called with new completions once they
    are on disk. Several processes may fill a set at the same time, each its share; this returns
    when all samples are stored. Raises StoreError if the set cannot be written, SamplingError if
    the sampler fails, RefusedPromptsError if only samples of prompts that the sampler cannot answer
    are missing. Stored samples stay in any case.
    """
    sampled = 0
    refused: dict[str, str] = {}

    def stored(rows: list[Completion]) -> None:
        nonlocal sampled
        sampled += len(rows)
        on_stored(rows)

    problem_ids = list(prompts)
    with named("sampler", type(sampler)):
        provenance = dict(sampler.provenance)
    with samples.writing(provenance, stored) as writer:
        while share := writer.claim(problem_ids, n):
            requests = [
                SampleRequest(problem, prompts[problem], indices, samples.identity.seed)
                for problem, indices in share.items()
            ]
            try:
                for completion in _sampled(sampler, requests):
                    writer.add(completion)
            except RefusedPromptsError as error:
                refused |= error.reasons
                problem_ids = [problem for problem in problem_ids if problem not in refused]
        lacking = writer.inventory.count_missing(problem_ids, n)
    if refused:
        raise RefusedPromptsError(refused)
    if lacking:
        raise SamplingError(
            f"the sampler left out {lacking} of the requested samples",
            "run the same command again: stored samples are kept",
        )
    return sampled


def _sampled(sampler: Sampler, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
    """Yield the sampler's completions; errors name a sampler of another package."""
    with named("sampler", type(sampler)):
        for sample in sampler.sample(requests):
            if not (isinstance(sample, Completion) and _is_whole(sample)):
                raise TypeError(
                    f"sample() gives {str(sample)[:200]}, and not a Completion that ended by "
                    + " or ".join(FINISH_REASONS)
                )
            yield _storable(sample)


def _is_whole(sample: Completion) -> bool:
    counted = isinstance(sample.tokens, int) and 0 <= sample.tokens <= MOST_TOKENS
    return isinstance(sample.text, str) and counted and sample.finish_reason in FINISH_REASONS


def _storable(sample: Completion) -> Completion:
    """Return a sample whose text can be encoded: else its whole part could not be written."""
    text = encodable(sample.text)
    if text == sample.text:
        return sample
    log.warning(
        "problem %s, sample %d, seed %d: lone surrogates were replaced by U+FFFD",
        sample.problem_id,
        sample.index,
        sample.seed,
    )
    return replace(sample, text=text)
