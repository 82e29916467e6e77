"""Sample what a policy's sample sets lack, with one engine for all benchmarks and seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.markup import escape

from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.problems.problem import Problem
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.sampling.build import build_sampler
from sage_cli.sampling.engines.pool import Engines
from sage_cli.sampling.fill import fill
from sage_cli.sampling.sampler import Sampler, SamplerSetup
from sage_cli.settings.sections.sampling import SamplingSection
from sage_cli.store.samples.completion import Completion
from sage_cli.store.samples.sample_set import SampleSet

OnStored = Callable[[list[Completion]], None]


class PolicySampler:
    """One sampler of a policy or several engines, loaded when the first sample is missing.

    Use it as a context manager: they are closed at the end of the block.
    """

    def __init__(
        self, samples: PolicySamples, sampling: SamplingSection, progress: Progress
    ) -> None:
        self._samples, self._section, self.progress = samples, sampling, progress
        self._engine: Sampler | Engines | None = None

    def __enter__(self) -> PolicySampler:
        return self

    def __exit__(self, *_: object) -> None:
        if self._engine is not None:
            self._engine.close()

    @property
    def label(self) -> str:
        """The policy's label."""
        return self._samples.policy.label

    def samples_at(self, seed: int) -> SampleSet:
        """The set of `seed`, as it is."""
        return self._samples.at(seed)

    def sample(
        self,
        seed: int,
        problems: Sequence[Problem],
        n: int,
        on_stored: OnStored = lambda _: None,
    ) -> SampleSet:
        """The set of `seed`, holding samples 0 to n - 1 of each problem.

        `on_stored` is called with fresh completions once they are on disk.
        """
        samples = self._samples.at(seed)
        inventory = samples.inventory()
        missing = inventory.count_missing([problem.id for problem in problems], n)
        if not missing:
            return samples
        self._samples.require_sampling(missing)
        engine, template = self._loaded(), self._template()
        text = template.user_turn if self._samples.in_chat else template.render
        prompts = {problem.id: text(problem.question) for problem in problems}
        total = n * len(prompts)
        self.progress.begin(f"sample {self.label}", total, "samples", total - missing)

        def stored(rows: list[Completion]) -> None:
            self.progress.advance(len(rows))
            on_stored(rows)

        if isinstance(engine, Engines):
            engine.fill(samples, prompts, n, stored)
        else:
            fill(samples, prompts, n, engine, stored)
        self.progress.end()
        return samples

    def _loaded(self) -> Sampler | Engines:
        """One sampler in this process, or several engines."""
        if self._engine is None:
            setup = self._setup()
            asked = ", ".join(self._section.servers) if self._section.asks_servers else ""
            said = f"{self.label} is sampled by {asked}" if asked else f"loading {self.label}"
            self.progress.say(escape(said))
            if self._section.data_parallel > 1:
                self._engine = Engines(setup)
            else:
                with self.progress.doing(f"starting the engine that samples {self.label}"):
                    self._engine = build_sampler(setup)
        return self._engine

    def _setup(self) -> SamplerSetup:
        policy = self._samples.policy
        # what servers may decide is what the samples are named by
        unsaid = {"server_model": None, "server_form": "completions"}
        return SamplerSetup(
            policy.path,
            self._samples.parameters,
            self._section.model_copy(update={**unsaid, **self._samples.served}),
            dtype=self._samples.dtype,
            prompt=self._samples.prompt,
            **policy.loading,
        )

    def _template(self) -> PromptTemplate:
        """A chat template is rendered by the tokenizer itself."""
        if self._samples.prompt.format != "chat" or self._samples.in_chat:
            return self._samples.template
        return PromptTemplate.from_section(self._samples.prompt, self._samples.policy.tokenizer())
