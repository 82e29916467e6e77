"""Draw what a sample set lacks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sage_cli.config.plugins import named
from sage_cli.errors import RefusedPromptsError, SamplingError
from sage_cli.sampling.sampler import Sampler, SampleRequest
from sage_cli.store.completion import FINISH_REASONS, Completion
from sage_cli.store.sample_set import SampleSet

MOST_TOKENS = 2**31 - 1
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Filled:
    """What `fill` did: samples found, samples drawn, tokens drawn, damaged parts set aside."""

    held: int
    drawn: int
    tokens: int
    damaged: tuple[str, ...]


def fill(
    samples: SampleSet,
    prompts: Mapping[str, str],
    n: int,
    sampler: Sampler,
    on_stored: Callable[[list[Completion]], None] = lambda _: None,
    *,
    chunk: int | None = None,
) -> Filled:
    """Draw samples 0 to n - 1 of each problem that `samples` doesn't hold yet.

    `prompts` maps problem ids to prompt texts. `on_stored` is called with fresh completions once
    they are on disk (grade them, count them). Others may fill the set at the same time: each
    draws its share, `chunk` samples at a time where that is said, and this returns when all
    samples are there. Raises StoreError when the set can't be written, SamplingError when the
    sampler fails, RefusedPromptsError when it has drawn all but the samples of prompts that it
    can't answer; what was drawn is kept in any case.
    """
    drawn = tokens = 0
    refused: dict[str, str] = {}

    def stored(rows: list[Completion]) -> None:
        nonlocal drawn, tokens
        drawn, tokens = drawn + len(rows), tokens + sum(row.tokens for row in rows)
        on_stored(rows)

    problem_ids = list(prompts)
    with named("sampler", type(sampler)):
        provenance = dict(sampler.provenance)
    with samples.writing(provenance, stored, chunk) as writer:
        while share := writer.claim(problem_ids, n):
            requests = [
                SampleRequest(problem, prompts[problem], indices, samples.identity.seed)
                for problem, indices in share.items()
            ]
            try:
                for completion in _drawn(sampler, requests):
                    writer.add(completion)
            except RefusedPromptsError as error:
                refused |= error.reasons
                problem_ids = [problem for problem in problem_ids if problem not in refused]
        lacking = writer.inventory.count_missing(problem_ids, n)
    if refused:
        raise RefusedPromptsError(refused)
    if lacking:
        raise SamplingError(
            f"the sampler left out {lacking} of the samples that it was asked for",
            "type the same command again: what was drawn is kept",
        )
    return Filled(n * len(prompts) - drawn, drawn, tokens, writer.damaged)


def _drawn(sampler: Sampler, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
    """What the sampler draws; one of another package is named in what goes wrong."""
    with named("sampler", type(sampler)):
        for drawn in sampler.sample(requests):
            if not (isinstance(drawn, Completion) and _is_whole(drawn)):
                raise TypeError(
                    f"sample() gives {str(drawn)[:200]}, and not a Completion that ended by "
                    + " or ".join(FINISH_REASONS)
                )
            yield _storable(drawn)


def _is_whole(drawn: Completion) -> bool:
    """Whether a sample has a text, a number of tokens that can be, and ended by itself."""
    counted = isinstance(drawn.tokens, int) and 0 <= drawn.tokens <= MOST_TOKENS
    return isinstance(drawn.text, str) and counted and drawn.finish_reason in FINISH_REASONS


def _storable(drawn: Completion) -> Completion:
    """A sample with U+FFFD in the place of each half of a surrogate pair, which UTF-8 can't hold.

    Left as it is it would cost the whole part that it is written with.
    """
    try:
        drawn.text.encode()
    except UnicodeEncodeError:
        text = drawn.text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    else:
        return drawn
    log.warning(
        "problem %s, sample %d, seed %d: what is no character was replaced by U+FFFD",
        drawn.problem_id, drawn.index, drawn.seed,
    )  # fmt: skip
    return replace(drawn, text=text)
