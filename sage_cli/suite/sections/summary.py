"""What a report is about, in one sentence."""

from __future__ import annotations

from sage_cli.suite.results import PartResult


def summary(result: PartResult) -> str:
    """Methods, problems, trainings, samples; of what isn't measured, that it isn't."""
    if not result.methods:
        return ""
    if not result.there:
        labels = ", ".join(one.label for one in result.methods)
        state = "not measured yet" if result.suite.measured else "nothing is measured"
        return f"{labels}: {state}."
    first = result.there[0]
    problems = [
        f"{_counted(len(seeds[0].counts), 'problem')} of {name}"
        for name, seeds in first.measured[0].items()
    ]
    evaluation = first.trial.config.evaluation
    trainings = [len(one.measured) for one in result.there if not one.is_base]
    parts = [
        *([f"{_range(trainings)} of each method"] if trainings else []),
        f"{evaluation.samples} samples of each problem",
        _counted(evaluation.seeds, "evaluation seed"),
    ]
    labels = ", ".join(one.label for one in result.there)
    return f"{labels} on {' and '.join(problems)}: {', '.join(parts)}."


def _range(trainings: list[int]) -> str:
    """`3 trainings`, or `1 to 3 trainings` where some methods lack one."""
    fewest, most = min(trainings), max(trainings)
    beginning = "" if fewest == most else f"{fewest} to "
    return beginning + _counted(most, "training")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
