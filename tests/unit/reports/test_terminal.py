"""Tables and documents on terminals of any width."""

import io
import math
from dataclasses import replace

import pytest
from rich.console import Console
from sweep_cells import BOTH, GRID, MEMORY, at, done, sweep_document

from sage_cli.reports.comparison.report import DIFFERENCE_COLUMNS
from sage_cli.reports.document import Document
from sage_cli.reports.estimate import Estimate, p_value
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.tables import Column, Detail, Row, Table, columns
from sage_cli.reports.terminal import narrowed, print_document
from sage_cli.trials.sweep.result import SweepTrial

TABLE = Table(
    "A_1 & more",
    (Column("model"), Column("pass@1", "aime"), Column("pass@256", "aime"), Column("k", "amc")),
    (
        Row(("grpo|x", Estimate(1 / 3, 0.0125), Estimate(float("nan")), 4)),
        Row(("[b] (paper)", Estimate(0.5), Estimate(0.25, interval=(-0.1, 0.4)), 8), "paper"),
    ),
    ("5% noise",),
)


def printed(document, width, **how):
    if isinstance(document, Table):
        document = Document("x", "x", {}, tables=(document,))
    console = Console(file=io.StringIO(), width=width, color_system=None)
    print_document(document, console, **how)
    return console.file.getvalue()


def shown(width):
    return printed(Document("x", "x", {}, tables=(TABLE,), notes=("[i], seed 0",)), width)


def test_everything_is_shown_in_as_many_tables_as_the_width_takes():
    for words in ("A_1 & more", "aime", "pass@256", "0.333 ± 0.013", "[b] (paper)", "5% noise"):
        assert words in shown(120)
    assert shown(120).count("model") == 1
    assert shown(120).splitlines()[-1] == "[i], seed 0"
    narrow = shown(52)
    assert narrow.count("model") == 2
    assert "A_1 & more: aime" in narrow
    assert max(map(len, narrow.splitlines())) <= 52
    assert "…" not in narrow
    assert narrow.count("5% noise") == 1


@pytest.mark.parametrize("width", range(40, 60))
def test_no_part_loses_its_right_border(width):
    lines = shown(width).splitlines()
    for begin, end in (("┏", "┓"), ("└", "┘")):
        assert all(line.endswith(end) for line in lines if line.startswith(begin))


def test_details_are_printed_where_they_are_asked_for():
    table = replace(TABLE, notes=("essential", Detail("Bloom 1995")))
    plain, detailed = (printed(table, 80, details=details) for details in (False, True))
    assert ("Bloom 1995" in plain, "Bloom 1995" in detailed) == (False, True)
    assert "essential" in plain
    assert plain.endswith("more notes are in x.md; --notes prints them\n")
    assert "more notes" not in detailed
    assert "more notes" not in shown(120)


RUNS = ("rl-grpo-branch-seed1-4f3a", "rl-dapo-none-seed1-77aa")


@pytest.mark.parametrize("width", [80, 100])
def test_a_comparison_of_two_runs_is_read_at_usual_widths(width):
    difference = Estimate(0.045, interval=(-0.073, 0.164), signed=True)
    names = ("k", *RUNS, "difference", "detectable", "p", "p (Holm)")
    rest = map(Estimate, (0.404, 0.359))
    row = Row((8, *rest, difference, *map(Estimate, (0.166, 0.448, 0.810))))
    note = "95% intervals over 60 problems, paired; they describe these two models"
    table = Table(" against ".join(RUNS), tuple(map(Column, names)), (row,), (note,))
    lines = printed(table, width).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0] == " against ".join(RUNS)
    assert lines[-1] == note  # as wide as the terminal, also below a narrow table
    assert not any("…" in line for line in lines)
    assert any("+0.045 [−0.073, 0.164]" in line for line in lines)
    for part in ("grpo-", "branch-", "seed1-", "4f3a", "dapo-", "none-", "77aa"):
        assert any(part in line for line in lines[2:7])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("rl-dapo-branch", "sft"),
        ("rl-dapo-branch-c080ac8b", "sft-arithmetic-533acbe5"),
        ("rl-grpo-branch-a325f721", "rl-grpo-branch-8692e2e6"),
        RUNS,
    ],
)
def test_a_comparison_is_one_table_of_80_columns_and_with_its_details_of_100(a, b):
    low, p = Estimate(0.019, interval=(-0.005, 0.042), signed=True), p_value(0.1209)
    safe = Estimate(math.nan, interval=(-0.012, 0.051), signed=True)
    means = (Estimate(0.765), Estimate(0.747))
    row = Row((256, *means, low, safe, Estimate(0.033), p, p))
    heads = tuple(map(Column, ("k", a, b)))
    table = Table(f"{a} against {b}", (*heads, *columns(DIFFERENCE_COLUMNS)), (row,))
    for width, details in ((100, True), (80, False)):
        lines = printed(table, width, details=details).splitlines()
        assert sum(line.startswith("┏") for line in lines) == 1
        assert max(map(len, lines)) <= width
        safe_shown = ["[−0.012, 0.051]"] if details else []
        for part in (*a.split("-"), *b.split("-"), "+0.019 [−0.005, 0.042]", *safe_shown):
            assert any(part in line for line in lines[1:])
        assert any("conservative" in line for line in lines) == details


@pytest.mark.parametrize("label", ["dapo-no-kl > initial policy at pass@1", "a > b at pass@256"])
def test_claims_are_one_table_of_100_columns(label):
    gap = Estimate(-0.015, interval=(-0.045, 0.015), signed=True)
    rest = ("these models: indistinguishable", "two models", gap, Estimate(0.042))
    rows = (Row((label, *rest, Estimate(0.3158, digits=4))),)
    heads = columns("claim, here, about, difference, detectable, p (Holm)")
    lines = printed(Table("Claims", heads, rows), 100).splitlines()
    assert sum(line.startswith("┏") for line in lines) == 1
    assert not any("continued" in line or "…" in line for line in lines)


def sweep_shown(width):
    settings = {1: (0.8, 0.1), 2: (0.8, 0.3), 3: (1.2, 0.1)}
    trials = [
        done(at(GRID, *values), seed, objectives=BOTH, seeds=seed)
        for seed, values in settings.items()
    ]
    failed = SweepTrial(at(GRID, 1.2, 0.3), "failed", failure=MEMORY)
    lagged = "median: pass@1 0.212 at step 10 is below the median 0.300 of 4 trials"
    pruned = SweepTrial(at(GRID, 1.3, 0.3), "pruned", pruned=lagged)
    document = sweep_document(GRID, BOTH, [*trials, failed, pruned], Provenance())
    return printed(document, width).splitlines()


@pytest.mark.parametrize(("width", "parts"), [(140, 1), (80, 1), (60, 3)])
def test_a_sweep_is_read_at_any_width(width, parts):
    lines = sweep_shown(width)
    assert sum("sweep over tau, rho" in line for line in lines) == parts
    assert max(map(len, lines)) <= width
    # a trial's value and its interval stand in one line, a run's name is never broken
    assert sum("[0." in line and "]" in line for line in lines) >= 3
    assert not any("[0.3" in line and "]" not in line for line in lines)
    for run in ("rl-1-0", "rl-2-1", "rl-3-2"):
        assert any(run in line for line in lines)
    for word in ("CUDA:", "memory", "settings"):
        assert any(word in line for line in lines)
    assert not any("…" in line for line in lines)


COLUMNS = (Column("model"), Column("1", "a"), Column("8", "a"), Column("1", "b"), Column("n", "c"))
GROUPED = Table("t", COLUMNS, (Row(("m", 1, 2, 3, 4), "s"),), ("note",))
PARTS = (Column("cell"), Column("value", part="values"), Column("run", part="runs"))
GAINS = (Column("p"), Column("n"), *(Column(f"pass@{k}", "gain") for k in (1, 16, 256)))


def table(heads, *rows):
    columns = tuple(map(Column, heads.split())) if isinstance(heads, str) else heads
    return Table("t", columns, tuple(map(Row, rows)), ("note",))


MINE = table("benchmark policy one n", ("mine", "p", "a", 1), ("mine", "q", "a", 1))
KEYED = table("model k a b", *((model, k, 0, 1) for model in ("x", "y") for k in (1, 8)))


@pytest.mark.parametrize(
    ("whole", "width", "parts"),
    [
        (GROUPED, 5, ["t| model 1 8 1 n"]),
        # as many parts as fit stay together
        (GROUPED, 3, ["t: a| model 1 8", "t: b, c| model 1 n"]),
        # a part that is too wide is taken apart
        (
            GROUPED,
            2,
            ["t: a| model 1", "t: a (continued)| model 8", "t: b| model 1", "t: c| model n"],
        ),
        # columns of a part stay together without a heading
        (table(PARTS, ("1", 2, "rl-1")), 1, ["t: values| cell value", "t: runs| cell run"]),
        # without parts every column but the first is one
        (table("k", (1,)), 0, ["t| k"]),
        (table("k a b c", (1, 2, 3, 4)), 3, ["t| k a b", "t (continued)| k c"]),
        # the columns of one part are taken apart
        (
            table(GAINS, (40, 64, 1, 2, 3), (40, 128, 4, 5, 6)),
            4,
            ["t| p n pass@1 pass@16", "t (continued)| p n pass@256"],
        ),
        # the columns that tell the rows apart stand in every part
        (KEYED, 3, ["t| model k a", "t (continued)| model k b"]),
        # a first word that all rows have goes to the title, but for the only row's
        (MINE, 3, ["t: mine| policy one n"]),
        (MINE, 4, ["t| benchmark policy one n"]),
        (table("policy n", ("p", 1)), 1, ["t| policy n"]),
    ],
)
def test_a_table_is_taken_apart_where_it_does_not_fit(whole, width, parts):
    found = narrowed(whole, lambda part: len(part.columns) <= width)
    heads = [[(column.group, column.name) for column in part.columns] for part in (*found, whole)]
    titles = [part.title for part in found]
    assert [
        f"{t}| {' '.join(n for _, n in h)}" for t, h in zip(titles, heads, strict=False)
    ] == parts
    assert [part.notes for part in found] == [*[()] * (len(found) - 1), whole.notes]
    for part, names in zip(found, heads, strict=False):
        places = [heads[-1].index(name) for name in names]
        for row, of_all in zip(part.rows, whole.rows, strict=True):
            assert row == Row(tuple(of_all.cells[place] for place in places), of_all.section)
