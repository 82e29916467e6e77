"""Benchmarks ready to be measured on: their problems, who judges them, golds that are golds."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, DataError, SageError
from sage_cli.evaluation.golds import check_answers, usable_problems
from sage_cli.problems.data_set import Group
from sage_cli.problems.load import (
    benchmark_names,
    check_one_gold,
    load_problems,
    load_training_problems,
)
from sage_cli.problems.misprints import known_misprints
from sage_cli.problems.problem import NO_GOLD, Problem
from sage_cli.problems.registry import find, generated, is_file_name, shown_name, source_of
from sage_cli.problems.source_errors import reading
from sage_cli.settings.data import DataSection
from sage_cli.settings.evaluation import EvaluationSection
from sage_cli.settings.grading import GradingSection
from sage_cli.settings.judge_names import IMPORTED_JUDGE
from sage_cli.settings.own_code import names_code
from sage_cli.settings.prompt import PromptSection
from sage_cli.settings.rewards import GRADE, PLURALITY

if TYPE_CHECKING:
    from sage_cli.grading.grader import Grader

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Benchmark:
    """Problems under a registered name or a file's, each gold found correct by their judge.

    `name` has the settings that generated problems depend on, unless they are the defaults.
    `tolerance` is relative, None where answers must be exact.
    """

    name: str
    problems: tuple[Problem, ...]
    judge: str
    tolerance: float | None

    @cached_property
    def golds(self) -> dict[str, str]:
        """Gold by problem id, in the problems' order."""
        return {problem.id: problem.gold for problem in self.problems}

    @cached_property
    def questions(self) -> dict[str, str]:
        """Question by problem id."""
        return {problem.id: problem.question for problem in self.problems}

    def grader(self, grading: GradingSection, prompt: PromptSection) -> Grader:
        """A grader (a context manager) with its judge and tolerance and the prompt's tags."""
        return grader_of(self.judge, self.tolerance, grading, prompt)

    @property
    def content(self) -> str:
        """The hash of a file's or Hub data set's content, which names don't tell; or the name."""
        if not is_file_name(self.name) and "/" not in self.name:
            return self.name
        return hashlib.sha256(", ".join(self.origins).encode()).hexdigest()[:16]

    @property
    def origins(self) -> list[str]:
        """The sources of the problems, with content hash or commit."""
        return origins(self.problems)


def load_benchmarks(
    evaluation: EvaluationSection, data: DataSection, judge: str | None = None
) -> list[Benchmark]:
    """The benchmarks of `evaluation.benchmark`, in its order, cut to `evaluation.limit`.

    `judge` is `grading.judge`. Raises DataError that names problems whose gold their judge doesn't
    accept.
    """
    names = benchmark_names(evaluation.benchmark)
    return [_benchmark(name, evaluation, data, judge) for name in names]


def check_benchmarks(config: SageConfig) -> str:
    """Load the benchmarks of `evaluation`, and describe their problems and known misprints.

    Raises what measuring would raise of them.
    """
    with reading(config, "evaluation"):
        benchmarks = load_benchmarks(config.evaluation, config.data, config.grading.judge)
    counted = ", ".join(f"{len(b.problems):,} problems of {b.name}" for b in benchmarks)
    misprints = [
        f"{misprint.name}: {misprint.wrong}"
        for benchmark in benchmarks
        for _, misprint in known_misprints(benchmark.problems)
    ]
    known = f"; known misprints: {'; '.join(misprints)}" if misprints else ""
    return f"{counted}; the judge accepts every gold as correct{known}"


def check_training_answers(config: SageConfig, problems: Sequence[Problem]) -> list[str]:
    """Check the golds that RL under `config` grades by, as `check_answers` does."""
    if not _reads_golds(config):
        return []
    name = config.data.rl.name
    return check_answers(name, problems, *judge_of(name, config.grading.judge))


def gradable_problems(config: SageConfig, problems: Sequence[Problem]) -> list[Problem]:
    """Return the problems of RL under `config` whose golds can be compared with an answer.

    Warns of those that are left out. Raises DataError where they are more than a few.
    """
    if not _reads_golds(config):
        return list(problems)
    name = config.data.rl.name
    usable, notes = usable_problems(name, problems, *judge_of(name, config.grading.judge))
    for note in notes:
        log.warning("%s", note)
    return usable


def _reads_golds(config: SageConfig) -> bool:
    """Return False where rewards are functions that read no grade: golds are theirs to read."""
    used = [reward.name for reward in config.rl.used_rewards]
    return not used or bool({GRADE, PLURALITY}.intersection(used))


def check_untrained(benchmarks: Sequence[Benchmark], data: DataSection, setting: str) -> None:
    """Refuse to choose by problems, named by `setting`, that the policies are trained on."""
    trained = {problem.id for problem in load_training_problems(data)}
    for benchmark in benchmarks:
        shared = trained.intersection(benchmark.golds)
        if shared:
            raise ConfigurationError(
                f"{len(shared)} of the {len(benchmark.golds)} problems of "
                f"{benchmark.name} are also in the training set {data.rl.name}, so "
                "that settings would be chosen on training problems",
                "train on fewer problems (data.rl.limit), or validate on others with "
                f"--set {setting}=NAME",
            )


def check_benchmark_named(config: SageConfig, setting: str) -> None:
    """Refuse a benchmark that belongs to other data than the policies are trained on, unless named.

    `setting` holds its name: `sweep.benchmark`, by which settings are chosen, or
    `evaluation.benchmark`, where only generated problems belong to data.
    """
    data, chooses = config.data.rl, setting == "sweep.benchmark"
    names = config.sweep.benchmark if chooses else config.evaluation.benchmark
    if config.named_here(setting) or (chooses and not config.named_here("data.rl.name")):
        return
    file = source_of(data.name)
    others = [name for name in benchmark_names(names) if source_of(name) != file]
    if not others or not (chooses or generated(others[0])):
        return
    remedy = f"name problems of that task with --set {setting}=FILE"
    if is_file_name(file):
        named = data.fields.model_dump(exclude_defaults=True).items()
        columns = "".join(f" --set evaluation.fields.{key}={value}" for key, value in named)
        held_out = f"--set data.rl.name={file}:train --set {setting}={file}:dev{columns}"
        remedy += f", or hold out a tenth of {file}: {held_out}"
    raise ConfigurationError(
        f"{setting} is '{others[0]}', which nobody named, and data.rl.name is '{data.name}': "
        f"{'settings would be chosen' if chooses else 'the policy would be measured'} on another "
        "task",
        remedy,
    )


def find_trouble(name: str, problems: Sequence[Problem], judge: str | None) -> str | None:
    """Return why training or measuring would refuse or doubt the golds; None if they wouldn't."""
    try:
        warnings = check_answers(name, problems, *judge_of(name, judge))
    except SageError as error:
        return error.cause
    return "; ".join(warnings) or None


def judge_of(name: str, judge: str | None) -> tuple[str, float | None]:
    """The judge of a data set and its relative tolerance (of a file, `math` and None).

    `judge` is `grading.judge`, which stands in the place of the data set's own.
    """
    if is_file_name(name):
        return judge or "math", None
    entry = find(name)
    if isinstance(entry, Group):
        return judge_of(entry.members[0], judge)
    return judge or entry.judge, entry.tolerance


def grader_for(name: str, grading: GradingSection, prompt: PromptSection) -> Grader:
    """A grader (a context manager) with a data set's judge and tolerance and the prompt's tags."""
    return grader_of(*judge_of(name, grading.judge), grading, prompt)


def grader_of(
    judge: str,
    tolerance: float | None,
    grading: GradingSection,
    prompt: PromptSection,
    *,
    sees_text: bool = False,
) -> Grader:
    """A grader with a judge, its relative tolerance unless `grading` has one, and tags."""
    from sage_cli.grading.grader import Grader  # a plan grades nothing

    return Grader(
        workers=grading.workers,
        mode=grading.mode,
        judge=judge,
        timeout_s=grading.timeout_s,
        memory_mb=grading.memory_mb,
        tolerance=(grading.tolerance if grading.tolerance is not None else tolerance) or None,
        answer_open=prompt.answer_open,
        answer_close=prompt.answer_close,
        extract=grading.extract or prompt.answer,
        unfinished=grading.unfinished,
        sees_text=sees_text,
    )


def questions_by_gold(problems: Sequence[Problem]) -> dict[str, str]:
    """Return the question of each gold, and all of them where several problems have one gold.

    So an amount that any of them says is an answer to none.
    """
    questions: dict[str, list[str]] = {}
    for problem in problems:
        questions.setdefault(problem.gold, []).append(problem.question)
    return {gold: "\n".join(asked) for gold, asked in questions.items()}


def origins(problems: Sequence[Problem]) -> list[str]:
    """The sources of problems, with revision or content hash, without generators."""
    return sorted({str(p.meta["origin"]) for p in problems if "origin" in p.meta})


def _benchmark(
    name: str, evaluation: EvaluationSection, data: DataSection, chosen_judge: str | None
) -> Benchmark:
    problems = load_problems(name, data, evaluation.fields, evaluation.limit)
    check_one_gold(name, problems)
    judge, tolerance = judge_of(name, chosen_judge)
    name = shown_name(name, data)
    if judge == IMPORTED_JUDGE:  # verdicts are stored, and a gold may be absent
        return Benchmark(name, tuple(problems), judge, tolerance)
    if absent := sum(problem.gold == NO_GOLD for problem in problems):
        raise DataError(
            f"{absent} problems of {name} have no reference answer, so that no judge "
            "can grade them",
            "leave out grading.judge to use the verdicts that came with the samples",
        )
    from sage_cli.grading.grader import check_golds

    for warning in check_answers(name, problems, judge, tolerance):
        log.warning("%s", warning)
    refused = check_golds(
        [(problem.id, problem.gold) for problem in problems], judge=judge, tolerance=tolerance
    )
    listed = ", ".join(refused[:5])
    if refused and names_code(judge):
        raise DataError(
            f"the judge {judge} raises an error on {len(refused)} reference answers of "
            f"{name}, given as answers: {listed}",
            "fix the function; the first error is printed above",
        )
    if refused:
        raise DataError(
            f"{len(refused)} reference answers of {name} are not graded correct when "
            f"they are given as answers: {listed}",
            "fix these answers in the file, or measure on your own file without these problems",
        )
    return Benchmark(name, tuple(problems), judge, tolerance)
