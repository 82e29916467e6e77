"""The smallest difference of two methods that numbers of training seeds can detect."""

from __future__ import annotations

from collections.abc import Sequence

from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.evaluation.logs.log import ReadOptions
from sage_cli.evaluation.logs.registry import is_file
from sage_cli.evaluation.power import KS, stored_bases, whole_numbers
from sage_cli.metrics import Side
from sage_cli.metrics.comparison import TrainingSeed, column_correlations, pair_sides
from sage_cli.metrics.error_sources import by_run
from sage_cli.metrics.power import variation_of_deviation, variation_of_pairs, variation_of_sides
from sage_cli.models.compatibility import method_settings, training_seed
from sage_cli.models.policy import chosen_policies
from sage_cli.progress import Progress
from sage_cli.reports.document import Report, report_folder
from sage_cli.reports.seed_power import SeedDesigns, seed_power_document
from sage_cli.settings.k_values import parse_ks
from sage_cli.store.result_hash import identity_of
from sage_cli.store.run import Runs

ASSUMED = {"their own": None, "paired, correlation 0.8 (assumed)": 0.8}
"""How the seeds of two methods belong together where only their deviation is known."""


def power_over_seeds(
    evaluation: Evaluation,
    names: Sequence[str],
    progress: Progress,
    *,
    training_seeds: str,
    deviation: float | None = None,
    problems: str | None = None,
    k: str | None = None,
    scores: Sequence[str] = (),
    reading: ReadOptions | None = None,
) -> Report:
    """Report the smallest difference of two methods that numbers of training seeds would detect.

    `names` are runs of one method or two, or files of one method's runs. With two methods that
    share training seeds the gaps of their pairs say how much these vary; else each side's own
    runs. Of fewer than two runs of a method `deviation` says it. Nothing is sampled.
    """
    seeds = whole_numbers("--training-seeds", training_seeds)
    p = whole_numbers("--problems", problems) if problems else None
    with progress.doing("counting what is stored of the runs"):
        counted, provenance, _ = stored_bases(evaluation, names, scores, reading, progress)
        methods, began = _methods(evaluation, names)
    n = min(int(counts.n_P.min()) for _, _, counts in counted)
    ks = parse_ks(k, n, "n") if k else tuple(k for k in KS if k <= max(n, 1))
    designs: list[SeedDesigns] = []
    notes: list[str] = []
    for benchmark in dict.fromkeys(benchmark for _, benchmark, _ in counted):
        runs = [counts for _, on, counts in counted if on == benchmark]
        sides = [
            Side(
                f"method {method}",
                tuple([counts] for counts, of in zip(runs, methods, strict=True) if of == method),
                seeds=tuple(seed for seed, of in zip(began, methods, strict=True) if of == method),
            )
            for method in dict.fromkeys(methods)
        ]
        asked, notes = seed_designs(benchmark, sides, seeds, p, ks, evaluation, deviation)
        designs.append(asked)
    identity = identity_of("seed power", {"runs": list(names), "asked": repr((seeds, p, ks))})
    folder = report_folder(evaluation.config.run.root, f"power-seeds-{identity[:8]}")
    with progress.doing("writing the report"):
        return seed_power_document(designs, provenance, notes).write(folder)


def _methods(
    evaluation: Evaluation, names: Sequence[str]
) -> tuple[list[int], list[TrainingSeed | None]]:
    """Return for each name the number of its method, and what its run began with.

    Files are of one method. Raises ConfigurationError for runs of three methods or more, and for
    runs beside files.
    """
    files = [name for name in names if is_file(name)]
    settings: list[object] = ["files"] * len(files)
    began: list[TrainingSeed | None] = [None] * len(files)
    models = [name for name in names if name not in files]
    if files and models:
        raise ConfigurationError(
            f"--from has runs ({models[0]}) and files ({files[0]})",
            "name runs alone, or files alone",
        )
    if models:
        runs = Runs(evaluation.config.run.root)
        policies = chosen_policies(models, runs, evaluation.config.model)
        settings += [method_settings(policy, runs) for policy in policies]
        began += [training_seed(policy) for policy in policies]
    different: list[object] = []
    for made_with in settings:
        if made_with not in different:
            different.append(made_with)
    if len(different) > 2:
        raise ConfigurationError(
            f"--from has runs of {len(different)} methods (settings differ in more than seeds)",
            "name training runs of one method, or of two that are compared",
        )
    return [different.index(made_with) for made_with in settings], began


def seed_designs(
    benchmark: str,
    sides: Sequence[Side],
    seeds: Sequence[int],
    problems: Sequence[int] | None,
    ks: Sequence[int],
    evaluation: Evaluation,
    deviation: float | None,
) -> tuple[SeedDesigns, list[str]]:
    """Return what the runs of one or two methods say of training seeds, and notes on it."""
    import numpy as np

    first = sides[0].runs[0][0]
    correlation_K = np.full(len(ks), np.nan)
    variations, notes = {}, []
    few = min(len(side.runs) for side in sides)
    if deviation is not None:
        for words, correlation in ASSUMED.items():
            variations[words] = variation_of_deviation(first, ks, deviation, correlation)
        notes.append(
            f"we assume that pass@k has standard deviation {deviation:g} between training seeds "
            "and that methods differ equally on all problems; if not, more seeds are necessary"
        )
    elif few < 2:
        raise ConfigurationError(
            "--from names only one run of a method, and how much training seeds vary can be seen "
            "from two runs or more",
            "name more runs of it, or type the deviation of pass@k between training seeds: "
            "--seed-deviation 0.02",
        )
    else:
        ids = first.problem_ids
        runs = [by_run(side.runs, ids, ks) for side in sides]
        if len(sides) == 2 and (pairs := pair_sides(*sides)) is not None:
            paired = [by_run(side.runs, ids, ks) for side in pairs[:2]]
            variations["paired"] = variation_of_pairs(paired[0], paired[1])
            correlation_K = column_correlations(*(side_IPK.mean(axis=1) for side_IPK in paired))
        variations["their own"] = variation_of_sides(runs)
        if len(sides) == 1:
            notes.append(
                "all runs are of one method: we assume that the other varies as much and differs "
                "equally on all problems, so the true values may be larger; name runs of both"
            )
    confidence = evaluation.config.evaluation.confidence
    p = problems or (len(first),)
    return SeedDesigns(benchmark, variations, seeds, p, ks, confidence, correlation_K), notes
