"""What prevents a configuration from running on this machine, a check for each thing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.answer_format import check_answer_format
from sage_cli.evaluation.benchmarks import check_benchmarks, judge_of
from sage_cli.evaluation.gold_kinds import describe_golds
from sage_cli.models.compatibility import check_fitting_tokenizer
from sage_cli.models.facts import state
from sage_cli.models.folders import is_adapter, require_whole_weights
from sage_cli.models.tokenizer_facts import TokenizerFacts
from sage_cli.problems.load import load_problems
from sage_cli.problems.problem_tokens import check_characters
from sage_cli.problems.template import PromptTemplate
from sage_cli.settings.model import ScratchModel
from sage_cli.store.mirrors import require_mirrors
from sage_cli.store.storage import require_storage
from sage_cli.training.checks import Check
from sage_cli.training.run import RlTraining
from sage_cli.trials.executors.build import require_executor

if TYPE_CHECKING:
    from sage_cli.problems.problem import Problem
    from sage_cli.training.sft import Example

SHORT_QUESTION = "1+1=?"
"""The question whose prompt is measured."""
ROUND_TRIP, GOLDS, CHARACTERS, LENGTHS = "answer round trip", "golds", "characters", "lengths"
WARNINGS = (ROUND_TRIP, GOLDS, CHARACTERS, LENGTHS)
"""Checks whose failure makes a run worse, but prevents no command."""


@dataclass(frozen=True)
class Readiness:
    """The checks of a configuration; what several of them look at is made once.

    Those of rows, device and engines are the ones that `sage rl` makes of `training`.
    """

    training: RlTraining

    @classmethod
    def of(cls, config: SageConfig, init: str | None = None) -> Readiness:
        """The checks of `config`, from `init` or its own initial policy."""
        return cls(RlTraining.of(config, init))

    def listed(self, *, generate: bool = False) -> Iterator[Check]:
        """Yield every check, from what is quickly told to what loads data and libraries.

        With `generate` the last one samples some completions of the initial policy.
        """
        config = self._config
        yield "runs folder", lambda: require_storage(config.run.root)
        yield "packages", self._packages
        yield "model", self._model
        yield "initial policy", self._initial_policy
        if config.anchor.teacher is not None:
            yield "teacher", self.training.check_teacher
        yield "prompt template", self._template
        yield ROUND_TRIP, lambda: check_answer_format(config, self._tokenizer)
        if self.training.start.is_trained_here:
            yield f"SFT data {config.data.sft.name}", self._demonstrations
        yield from self.training.checks.listed()
        yield GOLDS, self._golds
        yield CHARACTERS, lambda: check_characters(self._problems, self._tokenizer)
        yield LENGTHS, self._lengths
        yield f"benchmark {config.evaluation.benchmark}", lambda: check_benchmarks(config)
        yield "device", self.training.check_device
        yield "rollouts", self.training.check_rollouts
        yield "sampling", self.training.check_sampling
        if generate:
            yield "completions", self._completions

    @property
    def _config(self) -> SageConfig:
        return self.training.config

    @cached_property
    def _demonstrated(self) -> tuple[Any, PromptTemplate, list[Example]]:
        from sage_cli.training.sft import sft_inputs  # loads TRL, which not every check needs

        return sft_inputs(self._config)

    @cached_property
    def _tokenizer(self) -> Any:
        policy = self.training.start.with_files  # a model that is to be trained here has none yet
        return self._demonstrated[0] if policy is None else policy.tokenizer

    @cached_property
    def _problems(self) -> list[Problem]:
        """The problems that are trained on and those that are measured."""
        measured, data = self._config.evaluation, self._config.data
        benchmark = load_problems(measured.benchmark, data, measured.fields, measured.limit)
        return [*self.training.checks.problems, *benchmark]

    def _packages(self) -> str:
        require_mirrors(self._config.tracking)
        require_executor(self._config.executor)
        return f"all are installed; tasks run with the executor {self._config.executor.name}"

    def _model(self) -> str:
        from sage_cli.models.loading import attach_lora

        start, model = self.training.start, self._config.model
        policy = start.with_files
        if model.tuning == "lora" and policy is not None and not is_adapter(policy.files):
            attach_lora(policy.outline, model.lora)
        if policy is not None:
            check_fitting_tokenizer(policy)
        if start.init is not None:
            return f"{start.policy.label}: weights are in {start.policy.files}"
        if isinstance(model, ScratchModel):
            return (
                f"{model.layers} layers, hidden size {model.hidden}, tokenizer {model.tokenizer}; "
                "SFT begins with random weights"
            )
        require_whole_weights(model.path)
        files = (policy or start.policy).files
        weights = any(files.glob("*.safetensors"))
        return f"{model.path}: weights {'are in' if weights else 'will be downloaded to'} {files}"

    def _initial_policy(self) -> str:
        """Return the model that RL starts from, and whether it has to be trained first."""
        start = self.training.start
        label, run = start.policy.label, start.policy.run
        if start.init is not None:
            return f"{label}, which --init names"
        if start.shipped is not None:
            return f"{label}, which comes with sage"
        if run is None:
            return f"{label}, without SFT"
        first = "; `sage rl` trains it first, by SFT" if start.needs_training else ""
        return f"{label}: {state(run)}{first}"

    def _template(self) -> str:
        section = self._config.prompt
        if isinstance(self._config.model, ScratchModel) and self.training.start.init is None:
            facts = TokenizerFacts("<eos>", None, "a model from scratch")
            template = PromptTemplate.from_section(section, facts)
        else:
            template = PromptTemplate.from_section(section, self._tokenizer)
        length = len(template.render(SHORT_QUESTION))
        return (
            f"format {section.format}, by which the question {SHORT_QUESTION!r} becomes a prompt "
            f"of {length} characters"
        )

    def _demonstrations(self) -> str:
        from sage_cli.training.sft import check_fit

        tokenizer, _, examples = self._demonstrated
        return check_fit(self._config, tokenizer, examples)

    def _golds(self) -> str:
        """Return the kinds of golds; those of other judges than mathematics are theirs to read."""
        judge = self._config.grading.judge
        compared = [p for p in self._problems if judge_of(p.benchmark, judge)[0] == "math"]
        return describe_golds(compared) or "only the benchmarks' own judges read them"

    def _lengths(self) -> str:
        from sage_cli.models.loading import context_of
        from sage_cli.training.rollout_lengths import check_lengths

        config, policy = self._config, self.training.start.with_files
        positions = getattr(config.model, "max_positions", None)  # without an end: None
        if policy is not None:
            positions = context_of(policy.outline.config)
        return check_lengths(config, self.training.checks.problems, self._tokenizer, positions)

    def _completions(self) -> str:
        from sage_cli.training.answer_probe import check_first_answers

        start = self.training.start
        policy = start.with_files
        if policy is None or start.needs_training:
            return "none yet: the initial policy is first trained by SFT (`sage sft`)"
        return check_first_answers(self._config, policy, self.training.checks.problems)
