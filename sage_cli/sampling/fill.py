"""Draw what a sample set lacks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sage_cli.sampling.sampler import Sampler, SampleRequest
from sage_cli.store.completion import Completion
from sage_cli.store.samples import SampleSet

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
) -> Filled:
    """Draw samples 0 to n - 1 of each problem that `samples` doesn't hold yet.

    `prompts` maps problem ids to prompt texts. `on_stored` is called with fresh completions once
    they are on disk (grade them, count them). Raises StoreError when another process writes the
    set, SamplingError when the sampler fails; all that was drawn until then is kept.
    """
    drawn, tokens, seed = 0, 0, int(samples.identity.sampling.get("seed", 0))

    def stored(rows: list[Completion]) -> None:
        nonlocal drawn, tokens
        drawn, tokens = drawn + len(rows), tokens + sum(row.tokens for row in rows)
        on_stored(rows)

    with samples.writing(sampler.provenance, stored) as writer:
        damaged = writer.inventory.damaged
        for name in damaged:
            log.warning("%s is damaged; its samples are drawn again", samples.folder / name)
        missing = {problem: writer.inventory.missing(problem, n) for problem in prompts}
        requests = [
            SampleRequest(problem, prompts[problem], indices, seed)
            for problem, indices in missing.items()
            if indices
        ]
        for completion in sampler.sample(requests):
            writer.add(completion)
    held = n * len(prompts) - sum(len(indices) for indices in missing.values())
    return Filled(held, drawn, tokens, damaged)
