"""A comparison of runs, models or files, what they lack measured first."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from pathlib import Path

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation import counted_files
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.evaluation.file_judge import FileJudge
from sage_cli.evaluation.guess import guess_curve
from sage_cli.evaluation.logs.log import ReadOptions
from sage_cli.evaluation.logs.registry import is_file
from sage_cli.evaluation.stored_grades import missing, with_votes
from sage_cli.evaluation.text_judges import judged_again, text_judges
from sage_cli.metrics import Comparison, Counts, Side, compare_sides
from sage_cli.metrics.comparison import TrainingSeed
from sage_cli.metrics.counts import STATISTICS, Statistic
from sage_cli.metrics.intervals import USUAL, Curve, Resampling
from sage_cli.models.compatibility import (
    check_one_method,
    method_settings,
    own_controls,
    training_seed,
    unchecked,
)
from sage_cli.models.policy import Policy, check_distinct_labels, named_policy
from sage_cli.problems.clusters import AUTO, largest_cluster, problem_clusters
from sage_cli.problems.problem import Problem
from sage_cli.progress import Progress
from sage_cli.reports.comparison.notes import unchecked_notes
from sage_cli.reports.comparison.report import comparison_document, with_own
from sage_cli.reports.document import Report, report_folder
from sage_cli.reports.grades import grade_notes, is_mostly_unread
from sage_cli.store.comparisons import note_comparison
from sage_cli.store.file_names import file_stems
from sage_cli.store.result_hash import identity_of
from sage_cli.store.run import Runs

CountsOf = Callable[[str], Mapping[str, Sequence[Counts]]]
"""Name of a run -> benchmark -> counts of each evaluation seed."""


SideLabels = tuple[str | None, str | None]
"""Labels of the two sides; None derives one from the names."""


def compare(
    evaluation: Evaluation,
    a: Sequence[str],
    b: Sequence[str],
    progress: Progress,
    labels: SideLabels = (None, None),
    second: str | None = None,
    *,
    unpaired: bool = False,
    cluster: str | None = None,
    guess: str | None = None,
    statistic: str = "pass",
) -> Report:
    """Measure what the sample sets of runs and models lack, compare, and write the report.

    With `second`, a judge of texts, a sample is correct if both judges say so. `unpaired`
    uses all runs of both sides, although some share their training seed. `cluster` is the field by
    which problems belong together, or "auto"; `guess` a function whose guesses stand in each table;
    `statistic` is what the sides are compared by, a name of `STATISTICS`.
    """
    compared_by = find_statistic(statistic, guess)
    if second is not None and compared_by.of_answers:
        raise ConfigurationError(
            f"--second-judge says which samples are correct, and --statistic {statistic} is a "
            "vote of the answers that the first judge found",
            "leave one of them out",
        )
    model, runs = evaluation.config.model, Runs(evaluation.config.run.root)
    names = list(dict.fromkeys((*a, *b)))
    if several := [name for name in names if name.endswith("@all")]:
        raise ConfigurationError(
            f"'{several[0]}' means several checkpoints", "choose one, for example RUN@40"
        )
    policies = {name: named_policy(name, runs, model) for name in names}
    # runs that learnt nothing end with equal weights and are still two models
    content = {
        name: policy.label if policy.run else policy.fingerprint
        for name, policy in policies.items()
    }
    check_named_once(a, b, content)
    check_distinct_labels(list(policies.values()))
    sides = [[policies[name] for name in side] for side in (a, b)]
    check_one_method(sides[0], sides[1], runs)
    check_one_method(sides[1], sides[0], runs)
    ks, config = evaluation.ks, evaluation.config
    for pair in (sides, sides[::-1]):
        controls, notes = own_controls(pair[0], pair[1], runs)
        if notes:
            break
    with progress.doing(f"reading {config.evaluation.benchmark}"):
        benchmarks = evaluation.benchmarks
        judges = [] if second is None else text_judges(second, evaluation.benchmarks, config)
        clusters = _clusters([benchmark.problems for benchmark in benchmarks], cluster)
    stored = missing(controls, benchmarks, config, runs.root)
    if any(row.graded < row.needed for row in stored):  # nothing is sampled that nobody named
        controls = []
    policies |= {policy.word: policy for policy in controls}
    evaluated = evaluation.measure(list(policies.values()), progress)
    measured = {
        **evaluated.measured,
        **judged_again(evaluated.measured, evaluated.samples, judges, progress),
    }
    titles = {b.name: f"{b.name}, correct by {judge.label}" for b, judge in judges}
    samples = {of_policy.policy.label: of_policy for of_policy in evaluated.samples}

    def counts_on(benchmark: Benchmark, policy: Policy) -> list[Counts]:
        seeds = [seed.counts for seed in measured[benchmark.name, policy.label]]
        if compared_by.of_answers:
            seeds = with_votes(seeds, samples[policy.label], benchmark, config)
        return [replace(counts, statistic=compared_by) for counts in seeds]

    with progress.doing("reading grades"):
        counts = {
            name: {titles.get(b.name, b.name): counts_on(b, policy) for b in benchmarks}
            for name, policy in policies.items()
        }
    with progress.doing("comparing, and writing the report"):
        bases = {name for name, policy in policies.items() if not is_training(policy)}
        counts_of, resampling = counts.__getitem__, _resampling(config, clusters)
        began = {name: training_seed(policy) for name, policy in policies.items()}
        compared = partial(
            compare_named,
            counts_of=counts_of,
            ks=ks,
            resampling=resampling,
            seeds=began,
            unpaired=unpaired,
        )
        comparisons = compared(a, b, labels=labels, bases=bases)
        unknown = [label for side in sides for label in unchecked(side, runs)]
        unread = [seed for seeds in measured.values() for seed in seeds if is_mostly_unread(seed)]
        own_notes = () if controls else notes
        notes = [
            *own_notes,
            *unchecked_notes(unknown),
            *grade_notes(unread),
            *_earlier_notes(sides, runs),
            *_cluster_notes(clusters, cluster),
        ]
        told = {titles.get(b.name, b.name): b.problems for b in benchmarks}
        guesses = _guesses(guess, {name: told[name] for name in comparisons}, comparisons)
        document = comparison_document(comparisons, evaluated.provenance, notes, guesses)
        if less := [policy.word for policy in controls]:
            guided, called = a if pair is sides else b, (None, f"unguided baseline {_label(less)}")
            controlled = compared(guided, less, labels=called)
            document = with_own(document, controlled)
        asked = ("unpaired" if unpaired else "", cluster, guess, _unusual(statistic))
        return document.write(_folder(config, comparisons, ks, asked))


def compare_files(
    config: SageConfig,
    a: Sequence[str],
    b: Sequence[str],
    scores: Sequence[str],
    k: str | None,
    progress: Progress,
    labels: SideLabels = (None, None),
    cluster: str | None = None,
    reading: ReadOptions | None = None,
    guess: str | None = None,
    evaluation: Evaluation | None = None,
    statistic: str = "pass",
) -> Report:
    """Compare files on the problems that all have, by default at the powers of two.

    Names that are not files' are runs and models, which `evaluation` measures. `cluster` is as in
    `compare`. Raises DataError where they have no problem in common.
    """
    names, compared_by = (*a, *b), find_statistic(statistic, guess)
    if evaluation is not None and compared_by.of_answers:
        raise ConfigurationError(
            f"--statistic {statistic} needs the answers of all samples, and runs are matched with "
            "files by their counts alone",
            "compare runs with runs, or files with files",
        )
    with progress.doing("reading files"):
        judge = FileJudge(config, progress, evaluation is None, compared_by.of_answers)
        typed = [name for name in names if is_file(name)]
        if cluster not in (None, AUTO) and names[0] in typed:
            reading = replace(reading or ReadOptions(), field=cluster)
        read = counted_files.read_counted_files(typed, scores, reading, judge)
        by_name = dict(zip(typed, read, strict=True))
        provenance = counted_files.provenance_of_files(read)
    if evaluation is not None:
        models = list(dict.fromkeys(name for name in names if name not in by_name))
        measured, others = counted_files.measured_as_files(evaluation, models, progress)
        by_name |= measured
        provenance = replace(others, files=provenance.files)
    files = [by_name[name] for name in names]
    content = provenance.files or {}
    check_named_once(a, b, {name: content.get(str(Path(name)), name) for name in names})
    shared, unmatched, matching = counted_files.shared_problems(files)
    of_shared = [replace(file, counts=of) for file, of in zip(files, shared, strict=True)]
    ks = counted_files.ks_of_files(of_shared, k, "1..n:pow2")
    label = dict(zip(names, counted_files.file_labels(files), strict=True))
    counts = {
        label[name]: {files[0].task or "counts": [replace(of_file, statistic=compared_by)]}
        for name, of_file in zip(names, shared, strict=True)
    }
    for option, value in (("--cluster", cluster), ("--guess", guess)):
        if value is not None and not files[0].problems:
            raise ConfigurationError(
                f"{files[0].path} has counts without questions and fields, which {option} "
                f"'{value}' reads",
                f"name files of samples, or runs, or leave out {option}",
            )
    shared_ids = {*shared[0].problem_ids}
    told = [replace(row, id=id_) for id_, row in files[0].problems.items() if id_ in shared_ids]
    clusters = _clusters([told], cluster)
    sides = [label[name] for name in a], [label[name] for name in b]
    with progress.doing("comparing, and writing the report"):
        comparisons = compare_named(
            *sides, counts.__getitem__, ks, _resampling(config, clusters), labels=labels
        )
        unknown = [name for side in (a, b) if len(side) > 1 for name in side]
        notes = [
            *unchecked_notes(unknown),
            *matching,
            *counted_files.file_notes(files),
            *_cluster_notes(clusters, cluster),
        ]
        guesses = _guesses(guess, dict.fromkeys(comparisons, told), comparisons)
        document = comparison_document(comparisons, provenance, notes, guesses)
        told_of = [file.as_json() for file in files]
        data = {**document.data, "unmatched": unmatched, "files": told_of}
        document = replace(document, data=data)
        asked = (cluster, guess, _unusual(statistic))
        return document.write(_folder(config, comparisons, ks, asked))


def find_statistic(name: str, guess: str | None = None) -> Statistic:
    """Return the statistic called `name`. Raises ConfigurationError for another name.

    `guess` is known by its pass@k alone.
    """
    if name not in STATISTICS:
        raise ConfigurationError(
            f"there is no statistic '{name}'",
            f"choose --statistic {', '.join(STATISTICS)}",
        )
    if guess is not None and name != "pass":
        raise ConfigurationError(
            f"--guess has the pass@k of guesses, and --statistic is '{name}'",
            "leave one of them out",
        )
    return STATISTICS[name]


def _unusual(statistic: str) -> str:
    """Return the statistic's name for the hash of a report; reports of pass@k keep theirs."""
    return "" if statistic == "pass" else statistic


def _resampling(config: SageConfig, clusters: Mapping[str, str] | None = None) -> Resampling:
    evaluation = config.evaluation
    return Resampling(evaluation.confidence, evaluation.bootstrap, clusters=clusters)


def _guesses(
    guess: str | None,
    problems: Mapping[str, Sequence[Problem]],
    comparisons: Mapping[str, Comparison],
) -> dict[str, Curve]:
    """Return the curve of guessing on each benchmark; empty without a function."""
    if guess is None:
        return {}
    return {
        name: guess_curve(guess, problems[name], comparison.difference.ks)
        for name, comparison in comparisons.items()
    }


def _clusters(benchmarks: Sequence[Sequence[Problem]], by: str | None) -> dict[str, str] | None:
    """Return the cluster of each problem, found on each benchmark by itself; None without `by`."""
    if by is None:
        return None
    clusters: dict[str, str] = {}
    for problems in benchmarks:
        clusters |= problem_clusters(problems, by)
    return clusters


def _cluster_notes(clusters: Mapping[str, str] | None, by: str | None) -> list[str]:
    """Return a note on how many clusters there are, and on the largest."""
    if clusters is None:
        return []
    name, size = largest_cluster(clusters)
    return [
        f"problems are drawn by clusters ({by}): {len({*clusters.values()}):,} of them, the "
        f"largest, {name}, with {size:,} of {len(clusters):,} problems"
    ]


def _earlier_notes(sides: Sequence[Sequence[Policy]], runs: Runs) -> list[str]:
    """Return a warning if other runs of the same two methods were compared before."""
    described = [method_settings(side[0], runs) for side in sides]
    if not all(described):
        return []
    pair = "-".join(sorted(identity_of("method", settings) for settings in described))
    words = [policy.word for side in sides for policy in side]
    if not (others := note_comparison(runs.root, pair, words)):
        return []
    return [
        f"{others} other {'set' if others == 1 else 'sets'} of runs of these two methods "
        f"{'was' if others == 1 else 'were'} compared before: adding pairs of seeds until p is at "
        "most 0.05 finds a difference between equal methods in 15% of studies; fix their number "
        "beforehand"
    ]


def check_named_once(a: Sequence[str], b: Sequence[str], content: Mapping[str, str]) -> None:
    """Raise ConfigurationError if a model is named twice, under equal or different names.

    `content` has by name the run, or the hash of its weights or counts.
    """
    seen: dict[str, str] = {}
    for name in (*a, *b):
        other = seen.get(content[name])
        if other is None:
            seen[content[name]] = name
            continue
        same = name if other == name else f"{name} (the same content as {other})"
        if name in b and other in a:
            raise ConfigurationError(
                f"{same} is on both sides of the comparison", "give a different model on one side"
            )
        raise ConfigurationError(
            f"{same} is named twice on one side",
            "give every run once, because each training seed counts once",
        )


def compare_named(
    a: Sequence[str],
    b: Sequence[str],
    counts_of: CountsOf,
    ks: Sequence[int],
    resampling: Resampling | None = None,
    *,
    labels: SideLabels = (None, None),
    bases: Set[str] = frozenset(),
    seeds: Mapping[str, TrainingSeed | None] | None = None,
    unpaired: bool = False,
) -> dict[str, Comparison]:
    """Compare the runs named `a` with those named `b` on every benchmark that all have.

    `bases` are the names of models that are not training runs of a method, `seeds` says what each
    run began with, as far as that is known.
    """
    check_named_once(a, b, {name: name for name in (*a, *b)})
    first, *others = (counts_of(name) for name in (*a, *b))
    shared = [name for name in first if all(name in other for other in others)]
    if not shared:
        raise ConfigurationError(
            f"{', '.join((*a, *b))} were not measured on a common benchmark",
            "choose a benchmark with --benchmark NAME",
        )
    label_a, label_b = _labels(a, b, labels)

    def side(label: str, names: Sequence[str], benchmark: str) -> Side:
        runs = tuple(counts_of(name)[benchmark] for name in names)
        began = tuple((seeds or {}).get(name) for name in names)
        return Side(label, runs, base=bases >= set(names), seeds=began)

    def compared(benchmark: str) -> Comparison:
        sides = side(label_a, a, benchmark), side(label_b, b, benchmark)
        return compare_sides(*sides, ks, resampling or USUAL, unpaired=unpaired)

    return {benchmark: compared(benchmark) for benchmark in shared}


def is_training(policy: Policy) -> bool:
    """Return True for a run of RL: another seed would give another model of its method.

    A model after SFT, or a published one, is an initial policy.
    """
    return policy.run is not None and policy.run.read_manifest().get("kind") == "rl"


def _folder(
    config: SageConfig,
    comparisons: Mapping[str, Comparison],
    ks: Sequence[int],
    asked: Sequence[str | None] = (),
) -> Path:
    """Return the report's folder, named by a hash of the counts and of what else was asked."""
    options_typed = "".join(map(str, filter(None, asked)))
    digest = hashlib.sha256(f"{ks}{config.evaluation.confidence}{options_typed}".encode())
    for comparison in comparisons.values():
        for side in (comparison.a, comparison.b):
            digest.update(side.label.encode())
            for counts in side.counts:
                digest.update(counts.n_P.tobytes() + counts.c_P.tobytes())
                if counts.statistic.of_answers:
                    digest.update(repr(counts.votes).encode())
    name = "-".join(file_stems(comparisons).values())
    return report_folder(config.run.root, f"compare-{name}-{digest.hexdigest()[:8]}")


def _labels(a: Sequence[str], b: Sequence[str], given: SideLabels) -> tuple[str, str]:
    """Return two different labels: given ones, short ones, or all typed names."""
    short = given[0] or _label(a), given[1] or _label(b)
    if short[0] != short[1]:
        return short
    if any(given):
        raise ConfigurationError(
            f"both sides would be called '{short[0]}'",
            "give each its own label, for example A=Label",
        )
    return ",".join(a), ",".join(b)


def _label(names: Sequence[str]) -> str:
    """Return a method's label: its first run, and how many more there are."""
    first = names[0].rstrip("/").split("/")[-1]
    return first if len(names) == 1 else f"{first} +{len(names) - 1}"
