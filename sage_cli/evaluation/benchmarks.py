"""A grader as the configuration and the benchmark want it."""

from __future__ import annotations

from collections.abc import Sequence

from sage_cli.config.schema import SageConfig
from sage_cli.errors import DataError
from sage_cli.grading import Grader
from sage_cli.grading.golds import check_golds
from sage_cli.problems.data_set import Group
from sage_cli.problems.load import load_problems
from sage_cli.problems.problem import Problem
from sage_cli.problems.registry import find, is_file_name


def grader_for(config: SageConfig, benchmark: str) -> Grader:
    """A grader (a context manager) with the benchmark's judge and tolerance and the template's tags."""  # noqa: E501
    judge, tolerance = grading_of(benchmark)
    settings, prompt = config.grading, config.prompt
    return Grader(
        workers=settings.workers,
        mode=settings.mode,
        judge=judge,
        timeout_s=settings.timeout_s,
        memory_mb=settings.memory_mb,
        tolerance=settings.tolerance if settings.tolerance is not None else tolerance,
        answer_open=prompt.answer_open,
        answer_close=prompt.answer_close,
        boxed=prompt.answer == "boxed",
    )


def grading_of(benchmark: str) -> tuple[str, float | None]:
    """The judge of a benchmark and its relative tolerance; files are judged as mathematics."""
    if is_file_name(benchmark):
        return "math", None
    entry = find(benchmark)
    if isinstance(entry, Group):
        return grading_of(entry.members[0])
    return entry.judge, entry.tolerance


def benchmark_problems(config: SageConfig, benchmark: str) -> list[Problem]:
    """A benchmark's problems, every gold of which its own judge finds right.

    Raises DataError that names the problems whose gold can't be graded.
    """
    problems = load_problems(
        benchmark, config.data, config.evaluation.fields, config.evaluation.limit
    )
    judge, tolerance = grading_of(benchmark)
    refused = check_golds(
        [(problem.id, problem.gold) for problem in problems], judge=judge, tolerance=tolerance
    )
    if refused:
        raise DataError(
            f"{len(refused)} golds of {benchmark} don't grade themselves right: "
            + ", ".join(str(one) for one in refused[:5])
        )
    return problems


def origins(problems: Sequence[Problem]) -> list[str]:
    """Where problems were read from, with revision or content hash; generated ones are left out."""
    return sorted({str(p.meta["origin"]) for p in problems if "origin" in p.meta})
