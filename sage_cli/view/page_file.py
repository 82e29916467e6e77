"""The page's files; and the page as one file, with what is stored of some runs inside it."""

from __future__ import annotations

import base64
import hashlib
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import numpy as np
from typing_extensions import TypedDict

from sage_cli.errors import ConfigurationError, SageError
from sage_cli.store.files import storing, write_text
from sage_cli.store.json_files import compact_json
from sage_cli.store.run import Run, Runs
from sage_cli.trials.sweep.folder import SweepFolder, Sweeps
from sage_cli.view.api import Api
from sage_cli.view.passk_view import DifferenceView, PasskView
from sage_cli.view.problems_view import ProblemsView
from sage_cli.view.runs_view import RecordsView
from sage_cli.view.sample_columns import Columns, Filters
from sage_cli.view.samples_view import SampleRow, sample_rows
from sage_cli.view.stored_runs import MeasuredPolicy
from sage_cli.view.trials_view import StoredSuites, policies_of_suite

T = TypeVar("T")
PAGE = Path(__file__).with_name("page")
FILES = frozenset(
    str(path.relative_to(PAGE)).replace("\\", "/") for path in PAGE.rglob("*") if path.is_file()
)
"""Paths of the page's files below PAGE; nothing else is served."""
INDEX = "index.html"
SCRIPTS = ("vendor/d3.min.js", "vendor/plot.min.js")
ONLY_SERVED = "early.js"
_IMPORT = re.compile(r'((?:from|import\()\s*")(\.{1,2}/[^"]+)(")')

MOST_SAMPLES, SHOWN_CHARACTERS = 4_000, 4_000
"""Samples of a page, shared out among its policies, and the characters of each one's text."""
MOST_STEPS = 100
"""Steps of a run's curves in a page, evenly spaced."""


class HeldPolicy(TypedDict):
    """A policy on a benchmark: its curve, its problems, the first samples of each problem.

    `stored` is the number of its stored samples.
    """

    policy: str
    benchmark: str
    passk: PasskView
    problems: ProblemsView
    golds: dict[str, str]
    stored: int
    longest: int
    samples: list[SampleRow]


class Export(TypedDict):
    """The data of a page without a server; `footer` stands at its foot.

    `answers` are by address, `records` by run with all figures. `begin` is where the page begins.
    """

    begin: str
    footer: str
    answers: dict[str, Any]
    records: dict[str, RecordsView]
    policies: list[HeldPolicy]
    differences: list[DifferenceView]


def write_export(root: Path, folder: Path, kind: str | None = None, name: str = "") -> Path:
    """Write the page into `folder` and return its file, `index.html`.

    Raises ConfigurationError for a folder that holds other things than an export.
    """
    others = {path.name for path in folder.iterdir()} - {INDEX} if folder.is_dir() else ()
    if others or (folder.exists() and not folder.is_dir()):
        raise ConfigurationError(
            f"{folder} contains something else than an export", "choose an empty or new folder"
        )
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_page(root, folder / INDEX, kind, name)
    return folder / INDEX


def write_page(root: Path, file: Path, kind: str | None, name: str) -> None:
    """Write the page that begins with a run, sweep or suite, with its runs inside.

    `kind` is run, sweep or suite; with None the page has all runs.
    """
    write_text(file, page_of(contents(root, kind, name)))


def contents(root: Path, kind: str | None = None, name: str = "") -> Export:
    """Return the answers about the runs that `name` refers to, and about their ancestors.

    An answer that cannot be given, such as of a corrupt file, is named in the foot.
    """
    api, absent = Api(root, once=True), list[str]()

    def tried(subject: str, make: Callable[..., T], *given: Any) -> T | None:
        try:
            return make(*given)
        except (SageError, OSError) as error:
            absent.append(f"{subject} ({error})")
            return None

    def ask(name: str, **values: str) -> Any:
        return tried(f"{name} {', '.join(values.values())}", api.answer, name, values)

    def measured_of(id_: str) -> list[MeasuredPolicy]:
        return [api.policies.measured(id_, name) for name in api.policies.benchmarks(id_)]

    runs = _with_parents(root, _runs_of(root, kind, name))
    table, sweeps, suites = (api.answer(topic, {}) for topic in ("runs", "sweeps", "suites"))
    table["runs"] = [row for row in table["runs"] if row["values"]["id"] in runs]
    for listed in (sweeps["sweeps"], suites["suites"]):
        listed[:] = [row for row in listed if kind is None or row["name"] == name]
    answers: dict[str, Any] = {"runs": table, "sweeps": sweeps, "suites": suites}
    asked = [(topic, "run", id_) for id_ in runs for topic in ("run", "rollouts", "ledger")]
    asked += [("sweep", "sweep", row["name"]) for row in sweeps["sweeps"]]
    asked += [("suite", "suite", row["name"]) for row in suites["suites"]]
    for topic, key, value in asked:
        if (answer := ask(topic, **{key: value})) is not None:
            answers[_address(topic, key, value)] = answer
    records = {}
    for id_ in runs:
        about = answers.get(_address("run", "run", id_))
        if about and (read := ask("records", run=id_, names=",".join(about["records"]))):
            records[id_] = _thinned(read)
    measured: list[MeasuredPolicy] = []
    for id_ in runs:
        measured += tried(f"samples of {id_}", measured_of, id_) or ()
    share = MOST_SAMPLES // max(1, len(measured))
    policies = [
        exported
        for policy in measured
        if (exported := tried(f"samples of {policy.label}", _policy, api, policy, share))
    ]
    stored = sum(policy["stored"] for policy in policies)
    included = sum(len(policy["samples"]) for policy in policies)
    footer = f"An export of {root.resolve()}, with {included:,} of {stored:,} samples"
    if absent:
        footer += f", without {'; '.join(absent[:5])}" + "; ..." * (len(absent) > 5)
    begin = "runs" if kind is None else _address(kind, kind, name)
    return {
        "begin": f"#/{begin}",
        "footer": f"{footer}.",
        "answers": answers,
        "records": records,
        "policies": policies,
        "differences": _differences(api, measured),
    }


def _address(answer: str, key: str, value: str) -> str:
    return f"{answer}?{urlencode({key: value})}"


def _runs_of(root: Path, kind: str | None, name: str) -> Iterable[str]:
    """Return the runs that a sweep, a suite or a policy refers to; without a kind all runs."""
    if kind is None:
        return [run.id for run in Runs(root).all()]
    if kind == "suite":
        return policies_of_suite(StoredSuites(root).find(name))
    if kind != "sweep":
        return [name.partition("@")[0]]
    try:
        result = SweepFolder(Sweeps(root).root / name).result
    except SageError:  # the answer about the sweep says why
        return []
    if result is None:
        return []
    base = result.base.runs if result.base else ()
    return [*base, *(run for trial in result.trials for run in trial.runs)]


def _with_parents(root: Path, names: Iterable[str]) -> list[str]:
    """Return the runs that are there, each after the runs that it grew from."""
    ordered: list[str] = []

    def add(name: str) -> None:
        run = Run(root / name)
        if name in ordered or not name or not run.has_begun():
            return
        add(str(run.try_manifest().get("parent") or ""))
        ordered.append(name)

    for name in names:
        add(name)
    return ordered


def _thinned(records: RecordsView) -> RecordsView:
    """Return at most MOST_STEPS of the steps, the last one among them."""
    last = len(records["steps"]) - 1
    kept = np.unique(np.linspace(0, last, MOST_STEPS).round().astype(int)) if last >= 0 else ()
    return {
        **records,
        "steps": [records["steps"][step] for step in kept],
        "values": {
            name: [series[step] for step in kept] for name, series in records["values"].items()
        },
    }


def _differences(api: Api, measured: Sequence[MeasuredPolicy]) -> list[DifferenceView]:
    """Return the paired difference of each policy and the first one on the same benchmark."""
    first: dict[str, str] = {}
    differences = []
    for policy in measured:
        b = first.setdefault(policy.benchmark.name, policy.label)
        if policy.label == b:
            continue
        try:
            asked = {"a": policy.label, "b": b, "benchmark": policy.benchmark.name}
            differences.append(api.answer("difference", asked))
        except SageError:  # not measured; the page of each says so
            continue
    return differences


def _policy(api: Api, measured: MeasuredPolicy, most: int) -> HeldPolicy:
    """Return a policy on a benchmark with its first `most` samples."""
    columns = api.columns.read(measured)
    values = {"policies": measured.label, "benchmark": measured.benchmark.name}
    return {
        "policy": measured.label,
        "benchmark": measured.benchmark.name,
        "passk": api.answer("passk", values),
        "problems": api.answer("problems", values),
        "golds": {id_: gold[:SHOWN_CHARACTERS] for id_, gold in measured.benchmark.golds.items()},
        "stored": sum(len(rows) for _, rows in columns.select(Filters())),
        "longest": columns.longest,
        "samples": _first_samples(measured.label, columns, most),
    }


def _first_samples(policy: str, columns: Columns, most: int) -> list[SampleRow]:
    """Return at most so many samples: the first of each problem and seed, then the second ones."""
    places = [
        (index, rank, number, row)
        for number, rows in columns.select(Filters())
        for rank, (row, index) in enumerate(
            zip(rows.tolist(), columns.sets[number].inventory.index_S[rows].tolist(), strict=True)
        )
    ]
    first = [(number, row) for _, _, number, row in sorted(places)[:most]]
    order = {id_: rank for rank, id_ in enumerate(columns.problems)}
    rows = sample_rows(policy, columns, first, SHOWN_CHARACTERS)
    return sorted(rows, key=lambda row: (order[row["problem"]], row["seed"], row["index"]))


def page_of(contents: Export) -> str:
    """Return the page's HTML with its scripts, style and data inside.

    Chromium loads neither modules nor data from files, so modules become `data:` addresses of an
    import map. The policy in its head lets nothing else run and reaches no network.
    """
    style = (PAGE / "view.css").read_text(encoding="utf-8")
    vendored = [(PAGE / name).read_text(encoding="utf-8") for name in SCRIPTS]
    imports = compact_json({"imports": _modules()})
    start = 'import "sage/main.js";'
    allowed = " ".join(map(hash_of, (*vendored, imports, start)))
    policy = (
        f"default-src 'none'; script-src {allowed} data:; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    icon = base64.b64encode((PAGE / "icon.svg").read_bytes()).decode()
    head = [
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        f'<link rel="icon" href="data:image/svg+xml;base64,{icon}">',
        f"<style>{style}</style>",
        f"<!--\n{_licences()}-->",
        *(f"<script>{script}</script>" for script in vendored),
        f'<script type="application/json" id="data">{in_script(contents)}</script>',
        f'<script type="importmap">{imports}</script>',
        f'<script type="module">{start}</script>',
    ]
    page = (PAGE / INDEX).read_text(encoding="utf-8")
    kept = [line for line in page.splitlines() if not line.startswith(("<link", "<script"))]
    return "\n".join(kept).replace("</head>", "\n".join([*head, "</head>"])) + "\n"


def _licences() -> str:
    """Return the licences of the vendored scripts, which must come with them."""
    texts = [(PAGE / name).read_text() for name in sorted(FILES) if name.endswith(".LICENSE")]
    return "\n".join(texts).replace("--", "—")


def in_script(value: object) -> str:
    """Return JSON for a script element; `<` is escaped, so that no text can close it."""
    return compact_json(value).replace("<", "\\u003c")


def _modules() -> Mapping[str, str]:
    """Return name -> address of every module; they import each other by these names."""
    names = [
        name
        for name in sorted(FILES)
        if name.endswith(".js") and name not in (*SCRIPTS, ONLY_SERVED)
    ]
    return {f"sage/{name}": _module(name) for name in names}


def _module(name: str) -> str:
    def named(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), match[2]))
        return f"{match[1]}sage/{path}{match[3]}"

    text = _IMPORT.sub(named, (PAGE / name).read_text(encoding="utf-8"))
    return f"data:text/javascript;base64,{base64.b64encode(text.encode()).decode()}"


def hash_of(text: str) -> str:
    """Return a text as a content security policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
