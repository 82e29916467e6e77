"""Runs with samples, a sweep and a suite for `sage view`, made up without a model."""

from dataclasses import replace

from sweep_cells import at, keep_state

from sage_cli.config.load import load
from sage_cli.evaluation.benchmarks import grader_for, load_benchmarks
from sage_cli.evaluation.evaluate import figures
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.evaluation.stored_grades import stored_measurements
from sage_cli.metrics.ranking import Front
from sage_cli.models.policy import Policy
from sage_cli.reports.chapters import Chapter, join_chapters
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.shown import SHOWN, shown_report
from sage_cli.reports.tables import Row, Table, columns
from sage_cli.store.annotations import GradeStore
from sage_cli.store.completion import Completion
from sage_cli.store.evaluations import record_evaluation
from sage_cli.store.json_files import write_object
from sage_cli.store.ledger import PromptRow
from sage_cli.store.run import Runs
from sage_cli.trials.sweep.report import document_of
from sage_cli.trials.sweep.result import Axis, SweepResult, SweepTrial, TrialFailure

PROBLEMS, SAMPLES = 6, 8
SETTINGS = {
    "evaluation": {"benchmark": "arithmetic", "samples": SAMPLES, "limit": PROBLEMS}
    | {"k": "1,8", "bootstrap": 100}
}
HOSTILE = (
    "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">"
    "</pre></script><a href='javascript:document.title=1'>link</a>\x1b[31m\u202eright\u202c\x00"
)
LONG = "a" * 1_000_000


def by_chance(share):
    """The first `share` samples of each problem but the last are right."""

    def text(problem, sample):
        right = sample < share and problem < PROBLEMS - 1
        return f"Completion {sample} of {problem}", "right" if right else "wrong"

    return text


def hostile(problem, sample):
    """The first problem's samples hold markup and control characters, its second a megabyte."""
    if problem == 0 and sample < 2:
        return (HOSTILE if sample == 0 else LONG), "right" if sample else "wrong"
    return by_chance(4)(problem, sample)


def stored_run(
    root, label, identity, text=None, *, kind="rl", parent=None, settings=(), records=(), model=None
):
    """A finished run below `root`, with samples if `text` is given.

    `text` gives a completion and its grade by a problem's place and a sample's. `model` writes its
    model; without it the model has no weights.
    """
    config = load(("tiny",), {**SETTINGS, **dict(settings)}).config
    run = Runs(root).at(kind, label, identity * 8)
    command = f"sage {kind} --algo {label}"
    origin = {"kind": kind, "seed": 1, "parent": parent, "template": "ad377bdf3c3e"}
    with run.recording(config.model_dump(mode="json"), **origin) as recording:
        recording.note(command=command)
        for record in records:
            recording.metrics.append(record)
        if kind == "rl":
            _trained(recording)
        (model or weightless)(run.model)
    run.note(template=None)
    if text is not None:
        sample(run, root, config, text)
    return run


def weightless(folder):
    """Write what names a model, and no weights; each folder's is another model."""
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<eos>"}')
    (folder / "model.safetensors").write_bytes(str(folder).encode())


def _trained(run):
    asked = {"prompt": "2*3=?", "gold": "6", "grade": "wrong", "reward": 0.0}
    for step in (1, 2):
        run.rollouts.append({"step": step, "completion": f"step {step} {HOSTILE}", **asked})
    ledger = run.ledger
    ledger.add(1, [PromptRow("p", 4, 1, 2, 1, 0, 0, 40, 10, True)])
    ledger.seal()


def sample(run, root, config, text):
    """Store and grade samples of a run, and record the figures."""
    (benchmark,) = load_benchmarks(config.evaluation, config.data)
    own = PolicySamples.from_config(Policy.of_run(run), config, root)
    samples, ids = own.at(0), list(benchmark.golds)
    grade = {}
    with samples.writing({"engine": "test"}) as writer:
        writer.claim(ids, SAMPLES)
        for problem, id_ in enumerate(ids):
            for index in range(SAMPLES):
                said, grade[id_, index] = text(problem, index)
                end = "length" if index == SAMPLES - 1 else "stop"
                writer.add(Completion(id_, index, 0, said, 10 + index, end))
    with grader_for("arithmetic", config.grading, config.prompt) as grader:
        grades = GradeStore(samples, grader.identity.mapping())
    for row in samples.completions():
        status = grade[row.problem_id, row.index]
        grades.add([(row, status, "<b>6</b>" if status == "wrong" else "6")])
    grades.flush()
    measured = stored_measurements(own, [benchmark], config)
    assert measured is not None
    record_evaluation(run, "arithmetic", figures(measured["arithmetic"], config), "arithmetic")


def shown_runs(root):
    """An initial policy and two trainings with samples, a torn run, a sweep and a suite."""
    records = [
        {"step": step, "of": 3, "reward": 0.2 * step, "loss": 1 / step} for step in (1, 2, 3)
    ]
    base = stored_run(root, "arithmetic", "a", by_chance(2), kind="sft", records=records)
    parts = {"step": 1.0, "generate": 0.5, "sync": 0.0, "grade": 0.1, "reference": 0.1, "loss": 0.2}
    times = {f"time/{part}_s": seconds for part, seconds in parts.items()}
    timed = [{**record, **times} for record in records]
    branch = {"rl": {"algo": "dapo", "steps": 3}, "guide": {"name": "branch"}}
    stored_run(root, "dapo-branch", "b", hostile, parent=base.id, settings=branch, records=timed)
    plain = {"rl": {"algo": "dapo", "steps": 3}}
    stored_run(root, "dapo", "c", by_chance(5), parent=base.id, settings=plain, records=timed)
    torn = root / "rl-torn-dddddddd"
    torn.mkdir()
    (torn / "manifest.json").write_text('{"status": "fin')
    sweep(root, ["rl-dapo-branch-bbbbbbbb", "rl-dapo-cccccccc"])
    suite(root, base.id, "rl-dapo-branch-bbbbbbbb")
    return root


def sweep(root, runs, name="tau-rho-12345678"):
    """A sweep over two parameters, four trials of which are done and one failed."""
    folder = root / "sweeps" / name
    axes = (Axis("tau", "guide.tau", (0.3, 0.5)), Axis("rho", "guide.rho", (0.5, 1.0)))
    trials = [
        SweepTrial(
            at(axes, tau, rho),
            "done",
            {"pass@1": 0.2 + tau * rho / 10, "pass@8": 0.7 - rho / 10},
            {"pass@1": (0.1, 0.4), "pass@8": (0.5, 0.8)},
            (runs[0] if rho < 1 else runs[1],),
        )
        for tau in axes[0].values
        for rho in axes[1].values
    ]
    failure = TrialFailure("out of memory", "the GPU is full", ("<b>no</b> memory",))
    trials.append(SweepTrial(at(axes, 0.9, 1.0), "failed", failure=failure))
    front = Front([3], [0, 1, 2, 3])
    result = SweepResult(axes, ("pass@1", "pass@8"), 0.95, None, tuple(trials), front=front)
    document = document_of(result, Provenance(commit="abc"))
    replace(document, figures=()).write(folder)
    (folder / "config.json").write_text("{}")
    keep_state(folder, trials={"done": 4, "failed": 1, "left": 1}, best="tau 0.5, rho 1")
    return folder


def drawn(path):
    """A picture with a script, which must not run."""
    svg = "<svg xmlns='http://www.w3.org/2000/svg' width='90pt' height='40pt'>"
    script = "<script>document.title = 'owned'</script>"
    for ending in ("png", "svg"):
        path.with_name(f"{path.name}.{ending}").write_text(f"{svg}{script}<rect/></svg>")


def suite(root, *runs):
    """A suite with a claim, curves of two methods, tasks of which one failed, and its log."""
    folder = root / "suites" / "demo-12345678"
    (folder / "report").mkdir(parents=True)
    (folder / "tasks").mkdir()
    curve = {"benchmark": "arithmetic", "seeds": []}
    curve |= {"pass@k": [0.2, 0.5], "low": [0.1, 0.3], "high": [0.4, 0.8]}
    claims = Table(
        "Claims",
        columns("claim, here, p"),
        (Row(("a > b", "holds", Estimate(0.01))),),
        ("a note with <b>markup</b>",),
    )
    named = zip(("base", "dapo-branch"), runs, strict=True)
    rows = tuple(Row((name, 1, run, "finished")) for name, run in named)
    policies = Table("Policies", columns("method, seed, policy, state"), rows)
    curves = [{"policy": name, **curve} for name in ("initial policy", "dapo-branch")]
    sections = [
        Document(
            "claims",
            "Claims",
            {"claims": [{"claim": "a > b", "verdict": "holds"}]},
            tables=(claims,),
            figures=(Figure("differences", drawn),),
        ),
        Document(
            "passk",
            "pass@k",
            {"k": [1, 8], "confidence": 0.95, "curves": curves},
            figures=(Figure("passk", drawn),),
        ),
        Document("runs", "What was run", {}, tables=(policies,)),
    ]
    chapters = [Chapter("demo", "Demo", sections)]
    document = join_chapters("demo", "Demo", chapters, Provenance(commit="abc"), {})
    written = document.write(folder / "report").folder
    write_object(written / SHOWN, shown_report(document, chapters, {"preset": "tiny"}))
    tasks = [
        {"name": name, "title": name, "command": f"sage rl {name}", "needs": None, "state": state}
        for name, state in (("one", "done"), ("two", "failed"), ("three", "to do"))
    ]
    write_object(folder / "state.json", {"tasks": tasks})
    failures = {"two": {"kind": "killed", "reason": "SIGKILL"}}
    write_object(folder / "failures.json", failures)
    (folder / "tasks" / "two.log").write_text("step 1\n<img src=x onerror=alert(1)>\n")
    return folder
