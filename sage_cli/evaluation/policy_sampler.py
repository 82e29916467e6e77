"""Sample what a policy's sample sets lack."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from rich.markup import escape

from sage_cli.errors import RefusedPromptsError, SamplingError
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.models.verification import require_verified
from sage_cli.problems.problem import Problem
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.sampling.backends import build_sampler
from sage_cli.sampling.sampler import Sampler, SampleRequest, SamplerSetup
from sage_cli.settings.own_code import named
from sage_cli.settings.sampling import SamplingSection
from sage_cli.store.completion import FINISH_REASONS, Completion, encodable
from sage_cli.store.sample_set import SampleSet

log = logging.getLogger(__name__)
MOST_TOKENS = 2**31 - 1
"""What the store's column of token counts can hold."""
OnStored = Callable[[list[Completion]], None]


class PolicySampler:
    """A policy's sampler, loaded when the first sample is missing.

    Use it as a context manager: the sampler is closed at the end of the block.
    """

    def __init__(
        self, samples: PolicySamples, sampling: SamplingSection, progress: Progress
    ) -> None:
        self.samples, self._section, self.progress = samples, sampling, progress
        self._engine: Sampler | None = None

    def __enter__(self) -> PolicySampler:
        return self

    def __exit__(self, *_: object) -> None:
        if self._engine is not None:
            self._engine.close()

    @property
    def label(self) -> str:
        """The policy's label."""
        return self.samples.policy.label

    def sample(
        self, seed: int, problems: Sequence[Problem], n: int, on_stored: OnStored = lambda _: None
    ) -> SampleSet:
        """The set of `seed`, holding samples 0 to n - 1 of each problem.

        `on_stored` is called with fresh completions once they are on disk.
        """
        samples = self.samples.at(seed)
        inventory = samples.inventory()
        missing = inventory.count_missing([problem.id for problem in problems], n)
        if not missing:
            return samples
        self.samples.require_sampling(missing)
        engine, template = self._loaded(), self._template()
        text = template.user_turn if self.samples.in_chat else template.render
        prompts = {problem.id: text(problem.question) for problem in problems}
        total = n * len(prompts)
        self.progress.begin(f"sample {self.label}", total, "samples", total - missing)

        def stored(rows: list[Completion]) -> None:
            self.progress.advance(len(rows))
            on_stored(rows)

        fill(samples, prompts, n, engine, stored)
        self.progress.end()
        return samples

    def draw(self, problems: Sequence[Problem], seed: int, first: int = 0) -> list[Completion]:
        """Sample a completion of each problem, in order, and store nothing.

        A problem may come several times. The completions are the ones of number `first` and above.
        """
        engine, template = self._loaded(), self._template()
        text = template.user_turn if self.samples.in_chat else template.render
        requests = [
            SampleRequest(str(number), text(problem.question), (number,), seed)
            for number, problem in enumerate(problems, first)
        ]
        drawn = {completion.index: completion for completion in engine.sample(requests)}
        require_verified()
        return [drawn[number] for number in sorted(drawn)]

    def _loaded(self) -> Sampler:
        if self._engine is None:
            setup = self._setup()
            servers = ", ".join(self._section.servers) if self._section.asks_servers else ""
            sampled = f"{self.label} is sampled by {servers}"
            self.progress.say(escape(sampled if servers else f"loading {self.label}"))
            with self.progress.doing(f"starting the engine that samples {self.label}"):
                self._engine = build_sampler(setup)
        return self._engine

    def _setup(self) -> SamplerSetup:
        policy = self.samples.policy
        # `served` is part of the sample set's identity, so it wins over the section's settings
        defaults = {"server_model": None, "server_form": "completions"}
        return SamplerSetup(
            policy.path,
            self.samples.parameters,
            self._section.model_copy(update={**defaults, **self.samples.served}),
            dtype=self.samples.dtype,
            prompt=self.samples.prompt,
            bos=self.samples.template.bos,
            **policy.loading,
        )

    def _template(self) -> PromptTemplate:
        """A chat template is rendered by the tokenizer itself."""
        if self.samples.prompt.format != "chat" or self.samples.in_chat:
            return self.samples.template
        return PromptTemplate.from_section(self.samples.prompt, self.samples.policy.tokenizer)


def fill(
    samples: SampleSet,
    prompts: Mapping[str, str],
    n: int,
    sampler: Sampler,
    on_stored: OnStored = lambda _: None,
) -> int:
    """Sample completions 0 to n - 1 of each problem that `samples` lacks; return how many.

    `prompts` maps problem ids to prompt texts. `on_stored` is called with new completions once they
    are on disk. Several processes may fill a set at the same time, each its share; this returns
    when all samples are stored. Raises StoreError if the set cannot be written, or the model isn't
    what was recorded of it, SamplingError if the sampler fails, RefusedPromptsError if only samples
    of prompts that the sampler cannot answer are missing. Stored samples stay in any case.
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
                    require_verified()  # before the first one; afterwards it costs nothing
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
