"""`sage samples show|tokens|import`: completions in the terminal, whole or token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.text import Text

from sage_cli.cli import options
from sage_cli.cli.app import new_app
from sage_cli.cli.console import Live, console, doing, emit, visible
from sage_cli.errors import ConfigurationError, DataError, StoreError
from sage_cli.progress import Progress

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.config.schema import SageConfig
    from sage_cli.evaluation.logs.log import Log, ReadOptions
    from sage_cli.evaluation.logs.problems import Gathered
    from sage_cli.evaluation.samples import StoredAnswer
    from sage_cli.guides.guide import OptionalSignal
    from sage_cli.models.policy import Policy
    from sage_cli.reports.token_report import TokenReport
    from sage_cli.store.run import Run

app = new_app("Read completions, whole or token by token, or import those of another program.")


@app.command(epilog="Example: sage samples show rl-dapo-branch --grade wrong")
def show(
    run: Annotated[
        str,
        typer.Argument(help="Run, checkpoint (RUN@step), model folder, or Hub model (ORG/MODEL)."),
    ],
    problem: Annotated[
        str | None, typer.Option(help="Show only problems whose ID begins with this text.")
    ] = None,
    grade: Annotated[
        str | None,
        typer.Option(
            help=(
                "Show only completions with this grade: right (correct), wrong, unparseable, "
                "timeout or error."
            )
        ),
    ] = None,
    training: Annotated[
        bool,
        typer.Option(
            "--training", help="Show the completions that were sampled in training (rollouts)."
        ),
    ] = False,
    step: Annotated[
        int | None, typer.Option(min=1, help="With --training: show only this step.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Number of completions to show.")] = 8,
    benchmark: options.BenchmarkNames = None,
    preset: options.Presets = None,
    config: options.ConfigFile = None,
    set_: options.Sets = None,
    runs: options.RunRoot = None,
    json: options.Json = False,
) -> None:
    """Show stored completions with their problems and grades, without sampling or grading.

    `--json` has `samples` as {"problem": {"id": ..., "question": ..., "gold": ...}, "completion":
    {"text": ..., "tokens": 12, ...}, "status": "right", "extracted": "4"}.
    """
    from sage_cli.grading.grades import STATUSES
    from sage_cli.store.run import Runs

    if step is not None and not training:
        raise ConfigurationError(
            "--step selects a training step, and --training is missing", "add --training"
        )
    if grade is not None and grade not in STATUSES:
        raise ConfigurationError(
            f"there is no grade '{grade}'", f"valid grades: {', '.join(STATUSES)}"
        )
    flags = {"benchmark": benchmark}
    settings = options.load_for_measuring(
        [run], preset, config, set_, runs, "samples show", evaluation=flags
    )
    if training:
        with doing(f"reading the completions of {run}"):
            kept_by = Runs(settings.run.root).find(run)
            rows = training_show(kept_by, problem, grade, step, limit)
        if json:
            emit({"completions": rows})
            return
        for row in rows:
            notes = [f"gold {row['gold']}", *(["replaced"] if row["trained"] is False else [])]
            notes += [f"{name} {part:+.3g}" for name, part in (row["rewards"] or {}).items()]
            of_problem = "" if row["problem"] is None else f", problem {row['problem']}"
            about = f"step {row['step']}{of_problem}"
            _print(row["grade"], ", ".join(notes), about, row["prompt"], row["text"])
        if rows[0]["problem"] is None:
            console.print(f"\n[dim]{SOME_KEPT}[/]")
        return
    with doing(f"looking for stored completions of {run}"):
        samples = samples_show(settings, run, problem, grade, limit)
    if json:
        emit({"samples": samples})
        return
    for sample in samples:
        answer = "no answer" if sample.extracted is None else f"answer {sample.extracted}"
        told = f"{answer}, gold {sample.problem.gold}"
        about = f"problem {sample.problem.id}, seed {sample.seed}, sample {sample.completion.index}"
        about += ", truncated" if sample.completion.finish_reason == "length" else ""
        _print(sample.status, told, about, sample.problem.question, sample.completion.text)


def _print(grade: str, told: str, about: str, question: str, completion: str) -> None:
    """Print a completion below its grade and its question."""
    from sage_cli.grading.grades import in_words

    colour = "green" if grade == "right" else "red"
    console.print(
        f"\n[{colour}]{in_words(grade)}[/]  {escape(visible(told))}  [dim]{escape(about)}[/]"
    )
    console.print(Text(visible(question), style="bold"), soft_wrap=True)
    console.print(Text(visible(completion)), soft_wrap=True)


@app.command(epilog="Example: sage samples tokens rl-dapo-branch --limit 2")
def tokens(
    run: Annotated[
        str,
        typer.Argument(help="Run, checkpoint (RUN@step), model folder, or Hub model (ORG/MODEL)."),
    ],
    limit: Annotated[int, typer.Option(min=1, help="Number of completions to show.")] = 4,
    guide: Annotated[
        str | None, typer.Option("--guide", help="Guide to show (default: the run's own).")
    ] = None,
    tau: options.Tau = None,
    rho: options.Rho = None,
    benchmark: options.BenchmarkNames = None,
    allow_template_mismatch: options.OtherTemplate = False,
    preset: options.Presets = None,
    config: options.ConfigFile = None,
    set_: options.Sets = None,
    runs: options.RunRoot = None,
    json: options.Json = False,
) -> None:
    """Show what a guide does to completions, token by token."""
    evaluation = {
        "benchmark": benchmark,
        "limit": limit,
        "allow_template_mismatch": allow_template_mismatch or None,
    }
    asked = [text for text in set_ or [] if text.startswith(("prompt.", "sampling."))]
    own = options.load_for_measuring([run], preset, config, asked, runs)
    chosen, notes = _guide(own, run, guide)
    settings = options.load_for_measuring(
        [run],
        preset,
        config,
        set_,
        runs,
        "samples tokens",
        evaluation=evaluation,
        guide={**chosen, **{k: v for k, v in (("tau", tau), ("rho", rho)) if v is not None}},
        # only the guide is read, so any anchor that a guide can shape is valid
        anchor={"kl": "reverse", "beta": own.anchor.beta or 1.0},
    )
    with Live() as live:
        with live.doing("loading libraries"):
            pass
        report = token_report(settings, run, live, notes)
    if json:
        emit(report)
        return
    _print_tokens(report)


@app.command("import", epilog="Example: sage samples import theirs.jsonl --as theirs")
def import_(
    file: Annotated[Path, typer.Argument(help="File that the other program wrote.")],
    name: Annotated[
        str,
        typer.Option(
            "--as", help="Name for the samples, which other commands accept like a run's ID."
        ),
    ],
    score: Annotated[
        str | None, typer.Option(help="Score in the file that marks a sample as correct.")
    ] = None,
    fields: options.Fields = None,
    golds: options.Golds = None,
    drop_invalidated: options.DropInvalidated = False,
    runs: options.RunRoot = None,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Import samples of another program, so that passk, compare, analyze and grade can use them."""
    from sage_cli.settings.runs import default_root

    with Live() as live:
        root = runs or default_root()
        reading = options.file_reading(fields, golds, drop_invalidated, score)
        imported = import_samples(root, file, name, reading, live, write=not dry_run)
    if json:
        emit({**imported.as_json, "stored": not dry_run})
        return
    console.print(f"{escape(visible(str(file)))}: format {imported.file.program}", soft_wrap=True)
    for line in imported.in_words:
        console.print(escape(visible(line)), soft_wrap=True)
    if dry_run:
        return
    state = " already" if imported.was_there else ""
    console.print(
        f"[bold]{imported.run.id}[/] is stored{state}: sage passk {imported.run.id}", soft_wrap=True
    )


def _guide(own: SageConfig, run: str, asked: str | None) -> tuple[dict[str, Any], list[str]]:
    """The guide to show as settings of `guide`: asked for, the run's own, or branch."""
    name = asked or (own.guide.name if own.guide.name != "none" else "branch")
    if name == own.guide.name:
        return {}, []  # as it is stored: whose package is missing is named when it is made
    whose = "the preset's" if own.guides.get(name) else "the paper's"
    why = "" if asked else f"{run} was trained without a guide, so "
    return {"name": name}, [f"{why}{name} is shown with {whose} values unless you set others"]


def _print_tokens(report: TokenReport) -> None:
    from sage_cli.grading.grades import in_words
    from sage_cli.reports.token_report import LEGEND, completion_text, strongest, to_rich

    for number, completion in enumerate(report.completions, 1):
        colour = "green" if completion.status == "right" else "red"
        grade = f"[{colour}]{in_words(completion.status)}[/], gold {escape(completion.gold)}"
        console.print(f"\n[bold]{number}  {escape(completion.question)}[/]  {grade}")
        console.print(completion_text(completion))
        if shaped := strongest(completion):
            console.print(f"[dim]q furthest from 1: {escape(shaped)}[/]")
    if console.color_system is not None and not console.no_color:
        console.print("", LEGEND, "", sep="\n")
    console.print(to_rich(report))


SOME_KEPT = (
    "these are of the few that rollouts.jsonl keeps of some steps (tracking.rollouts, "
    "tracking.rollouts_every); --set tracking.rollouts=all keeps all of a later run"
)
KEPT = ("step", "problem", "prompt", "gold", "text", "grade", "rewards", "trained")
"""What is told of a completion that a training sampled. It was not trained on where dynamic
sampling replaced its group."""


def samples_show(
    config: SageConfig, name: str, problem: str | None, grade: str | None, limit: int
) -> list[StoredAnswer]:
    """Return at most `limit` stored completions of a policy, in order of problems and samples.

    `problem` is a prefix of an id. Raises StoreError if no such completion is stored.
    """
    from sage_cli.evaluation.evaluate import Evaluation
    from sage_cli.evaluation.samples import PolicySamples, stored_answers
    from sage_cli.models.policy import named_policy
    from sage_cli.store.run import Runs

    measured, benchmarks = config.evaluation, Evaluation(config).benchmarks
    policy = named_policy(name, Runs(config.run.root), config.model)
    samples = PolicySamples.from_config(policy, config, config.run.root)
    asked = [(benchmark, id_) for benchmark in benchmarks for id_ in benchmark.golds]
    asked = [(benchmark, id_) for benchmark, id_ in asked if id_.startswith(problem or "")]
    if not asked:
        raise DataError(
            f"no problem of {measured.benchmark} has an id that begins with '{problem}'",
            "the CSV of `sage passk` and of suites lists them",
        )
    # problem after problem, so that the first come before all are read
    matching = (
        answer
        for benchmark, id_ in asked
        for answer in sorted(
            stored_answers(samples, benchmark, config, [id_], measured.samples),
            key=lambda stored: (stored.seed, stored.completion.index),
        )
        if grade in (None, answer.status)
    )
    answers = list(islice(matching, limit))
    if not answers:
        graded = f"{grade} " if grade else ""
        raise StoreError(
            f"no {graded}completion of {policy.label} on {measured.benchmark} is stored "
            "and graded under these settings",
            f"`sage passk {name}` samples and grades what is missing",
        )
    return answers


def training_show(
    run: Run, problem: str | None, grade: str | None, step: int | None, limit: int
) -> list[dict[str, Any]]:
    """Return at most `limit` completions of a training, in the order in which it sampled them.

    Their `rewards` are the weighted parts by name, or None. Where only those of rollouts.jsonl are
    kept, `problem` and `trained` are None. Raises StoreError if none is kept.
    """
    from sage_cli.settings.training import part_names

    rows = run.completions().read().to_pylist()
    if not rows:
        rows = [
            {
                "problem": None,
                "trained": None,
                "rewards": None,
                "text": row["completion"],
                **{name: row[name] for name in ("step", "prompt", "gold", "grade")},
            }
            for row in run.rollouts.read()
        ]
        if problem is not None and rows:
            raise StoreError(
                f"{run.id} kept some completions without the ids of their problems",
                "leave out --problem",
            )
    if not rows:
        raise StoreError(
            f"{run.id} did not store its training completions",
            "add --set tracking.rollouts=all to its command, with another --seed: then the run "
            "keeps all, and this one stays as it is",
        )
    wanted = (
        row
        for row in rows
        if (row["problem"] or "").startswith(problem or "")
        and grade in (None, row["grade"])
        and step in (None, row["step"])
    )
    names = part_names(run.config.get("rl", {}).get("rewards", ()))
    matching = [
        {name: row[name] for name in KEPT}
        | {"rewards": row["rewards"] and dict(zip(names, row["rewards"], strict=False))}
        for row in islice(wanted, limit)
    ]
    if not matching:
        raise StoreError(
            f"none of the {len(rows):,} completions of {run.id} matches these options",
            "leave out --step, --grade or --problem",
        )
    return matching


@dataclass(frozen=True)
class Imported:
    """The run of imported samples, and what was read; `was_there` if it had been stored before."""

    run: Run
    file: Log
    samples: Gathered
    was_there: bool

    @property
    def in_words(self) -> list[str]:
        """Return what was read, known and not, a line each."""
        file, samples = self.file, self.samples
        stated = [f"{key} {value}" for key, value in file.settings.items() if value is not None]
        total = sum(map(len, samples.samples.values()))
        judged = (
            f"{samples.right:,} of {total:,} are marked correct by {file.program}'s {file.score}"
            if file.has_verdicts
            else "the file marks no sample as correct or wrong, so the judge of sage grades them"
        )
        uneven = samples.n != samples.most
        return [
            f"{samples.in_words()}, {judged}",
            *file.all_notes,
            *samples.notes,
            *([f"only the first {samples.n} samples of each problem are measured"] * uneven),
            f"settings in the file: {', '.join(stated) or 'none'}",
            f"settings that the file does not state: {', '.join(file.unknown) or 'none'}",
        ]

    @property
    def as_json(self) -> dict[str, Any]:
        """Return the answer of `--json`."""
        total = sum(map(len, self.samples.samples.values()))
        return {
            "run": self.run.id,
            "program": self.file.program,
            "score": self.file.score,
            "problems": len(self.samples.problems),
            "samples": total,
            "right": self.samples.right if self.file.has_verdicts else None,
            "settings": {k: v for k, v in self.file.settings.items() if v is not None},
            "unknown": list(self.file.unknown),
            "left_out": dict(self.file.left_out),
            "notes": self.in_words,
        }


def import_samples(
    root: Path,
    path: Path,
    name: str,
    reading: ReadOptions,
    progress: Progress,
    *,
    write: bool = True,
) -> Imported:
    """Read a file and store its samples as the run `name`; without `write` nothing is stored.

    What can't be used is an error before anything is written.
    """
    from sage_cli.evaluation.imported import imported_run, refuse_unreadable, store
    from sage_cli.evaluation.logs.problems import gather
    from sage_cli.evaluation.logs.registry import read_log

    with progress.doing(f"reading {path}"):
        file = read_log(path, reading)
        samples = gather(file, path).by_content()
        run = imported_run(root, name, samples)
    with progress.doing("reading the golds"):
        refuse_unreadable(file, samples, path)
    there = run.begun and run.finished
    if write and not there:
        with progress.doing(f"storing {samples.in_words()}"):
            store(run, path, file, samples)
    return Imported(run, file, samples, there)


def token_report(
    config: SageConfig, name: str, progress: Progress, notes: Sequence[str] = ()
) -> TokenReport:
    """Return sample 0 of the first `evaluation.limit` problems under the configuration's guide.

    `name` is a run, RUN@step or a model folder. Stored completions are used if the policy has
    been measured under `sampling`; the others are sampled and stored. The problems are those of
    the first benchmark of `evaluation.benchmark`.
    """
    import torch
    from torch.nn.utils.rnn import pad_sequence

    from sage_cli.analysis.scoring import Forward
    from sage_cli.evaluation.benchmarks import load_benchmarks
    from sage_cli.evaluation.samples import PolicySampler, PolicySamples, grade_rows
    from sage_cli.guides.token_values import token_values
    from sage_cli.methods.method import batch_of
    from sage_cli.models.planned import reference_of
    from sage_cli.models.policy import named_policy
    from sage_cli.models.signals import tilted_temperature
    from sage_cli.reports.token_report import ReportedCompletion, TokenReport
    from sage_cli.store.run import Runs

    guide, temperature = config.guide.for_training(config.rl.steps), config.rollout.temperature
    runs = Runs(config.run.root)
    policy = named_policy(name, runs, config.model)
    with progress.doing(f"reading {config.evaluation.benchmark}"):
        judge = config.grading.judge
        benchmark = load_benchmarks(config.evaluation, config.data, judge)[0]
    samples = PolicySamples.from_config(policy, config, runs.root)
    with PolicySampler(samples, config.sampling, progress) as sampler:
        stored = sampler.sample(config.evaluation.seed, benchmark.problems, 1)
    row_by_problem = {row.problem_id: row for row in stored.completions(benchmark.golds, 1)}
    completions = [row_by_problem[problem.id] for problem in benchmark.problems]
    forward = Forward(samples, temperature, progress)
    grading = benchmark.grader(config.grading, config.prompt)
    with progress.doing(f"grading {len(completions)} completions"), grading as grader:
        grades = grade_rows(completions, benchmark, grader, forward.template.opened)
    problems = {problem.id: problem for problem in benchmark.problems}
    read = forward.tokens(completions, problems)
    right = [grade.status == "right" for grade in grades]
    known: dict[OptionalSignal, Tensor | tuple[str, ...]] = {
        "right_B": torch.tensor(right),
        "problem_ids_B": tuple(problems),
    }
    reference = None
    if guide.reads_reference:
        same = [replace(row, token_ids=ids) for row, ids, *_ in read]
        frozen = replace(samples, policy=reference_of(policy, config, runs))
        frozen_forward = Forward(frozen, temperature, progress)
        reference = [
            (logps_T, entropy_T) for *_, logps_T, entropy_T in frozen_forward.tokens(same, problems)
        ]
        if guide.tilts:
            tilted = [
                Forward(frozen, tilted_temperature(temperature, exponent), progress)
                for exponent in guide.exponents
            ]
            logps = [
                tilted[is_right].tokens([row], problems)[0][2]
                for is_right, row in zip(right, same, strict=True)
            ]
            known["reference_tilted_logps_BT"] = pad_sequence(logps, batch_first=True)
    step, calls = last_step(policy, config), batch_of(config.rl, config.rl.processes).accumulation
    rows, summary = token_values(
        [(logps_T, entropy_T) for _, _, logps_T, entropy_T in read],
        guide,
        guide.now(step, 0, calls),
        reference,
        [list(ids) for _, ids, *_ in read],
        known,
    )
    reported = zip(benchmark.problems, read, grades, rows, strict=True)
    return TokenReport(
        policy=policy.label,
        guide=guide.describe(),
        step=step,
        q_min=guide.q_min,
        q_max=guide.q_max,
        tau=getattr(guide, "tau", None) if guide.name == "branch" else None,
        completions=tuple(
            ReportedCompletion(
                problem_id=problem.id,
                question=problem.question,
                gold=problem.gold,
                status=grade.status,
                extracted=grade.extracted,
                tokens=tuple(map(forward.text, ids)),
                values=values,
                retokenized=len(ids) != row.tokens,
            )
            for problem, (row, ids, *_), grade, values in reported
        ),
        summary=summary,
        notes=tuple(notes),
    )


def last_step(policy: Policy, config: SageConfig) -> int:
    """Return the optimiser step at which a policy's q was last computed, counted from 0.

    For a policy that no RL run trained, it is the last of the schedule's steps. q is computed in
    the first of the `rl.passes` passes over a batch.
    """
    steps = config.rl.steps
    if policy.run is not None and policy.run.manifest.get("kind") == "rl":
        records = policy.run.metrics.read()
        steps = policy.checkpoint or (int(records[-1]["step"]) if records else steps)
    return (steps - 1) // config.rl.passes * config.rl.passes
