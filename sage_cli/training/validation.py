"""Validation: pass@k of the policy in training, on problems that it isn't trained on.

It changes nothing about the training: samples have seeds of their own, the sampler leaves the
model as it was, and nothing is stored but the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, TrainingError, is_out_of_memory
from sage_cli.evaluation.benchmarks import (
    Benchmark,
    check_benchmark_named,
    check_untrained,
    load_benchmarks,
)
from sage_cli.evaluation.sample_and_grade import grade_rows
from sage_cli.grading.grader import Grader
from sage_cli.metrics import pass_at_k, powers_up_to
from sage_cli.models.policy import Policy
from sage_cli.models.verification import require_verified
from sage_cli.problems.source_errors import reading
from sage_cli.problems.template import PromptTemplate
from sage_cli.store.completion import Completion


@dataclass(frozen=True)
class Validator:
    """Measures the policy every `interval` steps and after the last; one process does, all wait.

    `validate` maps the model as it stands to figures for the step's record.
    """

    interval: int
    validate: Callable[[Any], Mapping[str, float]]


OnSampled = Callable[[int, int], None]
"""Called with the number of samples so far, and of all."""


@dataclass(frozen=True)
class Validation:
    """Measures a policy in memory; a context manager, because its graders keep processes.

    Each validation takes the samples that an evaluation with `evaluation.seed` would take.
    """

    interval: int
    benchmarks: Sequence[Benchmark]
    config: SageConfig
    ks: tuple[int, ...]
    _open: ExitStack = field(default_factory=ExitStack)
    _graders: dict[str, Grader] = field(default_factory=dict)

    def __enter__(self) -> Validation:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @contextmanager
    def begun(self, tokenizer: Any, on_sampled: OnSampled) -> Iterator[Validator]:
        """Yield the validator of policies with this tokenizer; graders end with the block."""
        with self:
            measure = partial(self.validate, tokenizer=tokenizer, on_sampled=on_sampled)
            yield Validator(self.interval, measure)

    def require_room(self, policy: Policy) -> None:
        """Raise ConfigurationError where a problem leaves no room for its samples."""
        from sage_cli.models.loading import context_of
        from sage_cli.sampling.sampler import too_long

        tokenizer, context = policy.tokenizer, context_of(policy.outline.config)
        template = PromptTemplate.from_section(self.config.prompt, tokenizer)
        for problem in (problem for benchmark in self.benchmarks for problem in benchmark.problems):
            text = template.render(problem.question)
            ids = tokenizer(text, add_special_tokens=False)["input_ids"]
            if reason := too_long(len(ids), self.config.sampling.max_tokens, context):
                raise ConfigurationError(
                    f"the validation problem {problem.id} doesn't fit: {reason}",
                    "lower sampling.max_tokens, or leave it out",
                )

    def validate(self, model: Any, tokenizer: Any, on_sampled: OnSampled) -> dict[str, float]:
        """`eval/pass@1`, `eval/pass@2` ... of `model` as it stands, means over the benchmarks.

        At powers of two, and at the ks of a sweep's objectives.
        """
        n, ks = self.config.evaluation.validation_samples, self.ks
        sampled = self._sampled(model, tokenizer, n, on_sampled)
        require_verified()  # a validation before the first step is of weights as they were loaded
        pass_BK = []
        for benchmark in self.benchmarks:
            rows = sampled[benchmark.name]
            opened = PromptTemplate.from_section(self.config.prompt, tokenizer).opened
            grades = grade_rows(rows, benchmark, self._grader(benchmark), opened)
            right = dict.fromkeys(benchmark.golds, 0)
            for row, grade in zip(rows, grades, strict=True):
                right[row.problem_id] += grade.status == "right"
            right_P = np.array(list(right.values()))
            n_P = np.full(len(right_P), n)
            pass_BK.append([float(pass_at_k(n_P, right_P, k).mean()) for k in ks])
        means = np.mean(pass_BK, axis=0)
        return {f"eval/pass@{k}": float(mean) for k, mean in zip(ks, means, strict=True)}

    def _sampled(
        self, model: Any, tokenizer: Any, n: int, on_sampled: OnSampled
    ) -> dict[str, list[Completion]]:
        from sage_cli.sampling.decoder import TransformersSampler
        from sage_cli.sampling.sampler import SampleRequest, SamplingParameters

        sampling, seed = self.config.sampling, self.config.evaluation.seed
        template = PromptTemplate.from_section(self.config.prompt, tokenizer)
        parameters = SamplingParameters.from_section(
            sampling, template if sampling.stop_at_answer else None
        )
        sampled: dict[str, list[Completion]] = {problem.name: [] for problem in self.benchmarks}
        done, total = 0, n * sum(len(problem.problems) for problem in self.benchmarks)
        with TransformersSampler(model, tokenizer, parameters, sampling.batch_rows) as sampler:
            for benchmark in self.benchmarks:
                requests = [
                    SampleRequest(
                        problem.id, template.render(problem.question), tuple(range(n)), seed
                    )
                    for problem in benchmark.problems
                ]
                try:
                    for completion in sampler.sample(requests):
                        sampled[benchmark.name].append(completion)
                        done += 1
                        on_sampled(done, total)
                except RuntimeError as error:
                    if not is_out_of_memory(error):
                        raise
                    raise TrainingError(
                        f"the GPU has no room left to validate on {benchmark.name} in training "
                        f"({str(error).splitlines()[0]})",
                        "lower sampling.batch_rows, or measure checkpoints afterwards: "
                        "`sage eval RUN@all`",
                    ) from error
        return sampled

    def _grader(self, benchmark: Benchmark) -> Grader:
        """Return the grader of a benchmark, made once: its workers take a second to start."""
        if benchmark.name not in self._graders:
            grader = benchmark.grader(self.config.grading, self.config.prompt)
            self._graders[benchmark.name] = self._open.enter_context(grader)
        return self._graders[benchmark.name]


def configured_validation(config: SageConfig) -> Validation | None:
    """Return the validation that `evaluation.every` asks for; None without.

    Raises ConfigurationError where training would see their problems.
    """
    evaluation, sweep = config.evaluation, config.sweep
    if evaluation.every is None:
        return None
    has_own = evaluation.validation is not None
    if not has_own:
        check_benchmark_named(config, "sweep.benchmark")
    chosen = evaluation.model_copy(update={"benchmark": evaluation.validation or sweep.benchmark})
    setting = "evaluation.validation" if has_own else "sweep.benchmark"
    with reading(config, "evaluation", setting):
        benchmarks = load_benchmarks(chosen, config.data, config.grading.judge)
    check_untrained(benchmarks, config.data, setting)
    n = evaluation.validation_samples
    searched = {k for objective in sweep.objectives for k in objective.weights if k <= n}
    ks = tuple(sorted({*powers_up_to(n), *searched}))
    return Validation(evaluation.every, benchmarks, config, ks)
