"""A page of made-up chances for a registered suite, without any run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from sage_cli.evaluation.exact.chances import Chances
from sage_cli.reports.chapters import join_chapters
from sage_cli.reports.provenance import Provenance
from sage_cli.store.atomic import write_text
from sage_cli.store.json_files import json_text
from sage_cli.trials.suites.exact import ReadReplicate
from sage_cli.trials.suites.planned import PlannedSuite
from sage_cli.trials.suites.registered.measurements_file import write_measurements
from sage_cli.trials.suites.registered.standing import standing
from sage_cli.trials.suites.report import chapters
from sage_cli.trials.suites.results import MethodResult, PartResult
from sage_cli.trials.trial import Replicate


def made_up(plan: PlannedSuite) -> list[PartResult]:
    """Return results in which every policy of a plan has chances."""
    (part,) = plan.parts
    temperatures = part.suite.exact_reading.at(part.replicates[0].config)
    read = {
        trial.label: [
            ReadReplicate(one, {"arithmetic": _chances(plan, trial.label, one, temperatures)}, {})
            for one in trial.replicates
        ]
        for trial in part.trials
    }
    methods = [MethodResult(trial, []) for trial in part.trials]
    return [PartResult(part.suite, methods, part.same, read)]


def write_page(
    plan: PlannedSuite, registration: Path, folder: Path, *, published: bool = True
) -> Path:
    """Write the JSON of a suite's page and its measurements; return the page's file."""
    found = made_up(plan)
    every = chapters(plan, found, {}, standing(plan, registration))
    document = join_chapters(plan.suite.name, plan.suite.title, every, Provenance(), {})
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{plan.suite.name}.json"
    write_text(file, json_text(document.as_json()))
    if published:
        write_measurements(folder / f"{plan.suite.name}.measurements.parquet", found)
    return file


def edited(file: Path, old: str, new: str) -> None:
    """Replace a text in a page that is still JSON afterwards."""
    text = file.read_text(encoding="utf-8")
    assert old in text
    json.loads(text.replace(old, new))
    file.write_text(text.replace(old, new), encoding="utf-8")


def _chances(
    plan: PlannedSuite, label: str, one: Replicate, temperatures: tuple[float, ...]
) -> Chances:
    (benchmark,) = plan.stored.benchmarks(one.config)
    ids = tuple(benchmark.golds)
    rng = np.random.default_rng([*label.encode(), int(one.start or 0), one.seed])
    easy_P = rng.beta(0.5, 1.5, len(ids))
    easy_P *= 0.2 / easy_P.mean()  # so that methods have a common pass@1
    p_TPW = np.stack(
        [np.stack([easy_P / (1 + t), 0.01 * easy_P * t], axis=1) for t in temperatures]
    )
    p_TPW[:, 0, 1] = 0.0  # a way that a problem doesn't have
    return Chances(ids, ("S", "D"), frozenset("D"), temperatures, p_TPW)
