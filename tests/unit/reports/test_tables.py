"""Tables taken apart for narrow terminals."""

import csv
import io

import pytest
from rich.console import Console

from sage_cli.reports.document import shown_table
from sage_cli.reports.tables import (
    Column,
    Estimate,
    Row,
    Table,
    columns,
    narrowed,
    p_value,
    print_table,
    to_csv,
    to_latex,
    to_markdown,
    to_records,
)

COLUMNS = (Column("model"), Column("1", "a"), Column("8", "a"), Column("1", "b"), Column("n", "c"))
TABLE = Table("t", COLUMNS, (Row(("m", 1, 2, 3, 4), "s"),), ("note",))
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
        (TABLE, 5, ["t| model 1 8 1 n"]),
        # as many parts as fit stay together
        (TABLE, 3, ["t: a| model 1 8", "t: b, c| model 1 n"]),
        # a part that is too wide is taken apart
        (
            TABLE,
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


TABLE_RENDER = Table(
    "A_1 & more",
    (Column("model"), Column("pass@1", "aime"), Column("pass@256", "aime"), Column("k")),
    (
        Row(("grpo|x", Estimate(1 / 3, 0.0125), Estimate(float("nan")), 4)),
        Row(
            ("[b] (paper)", Estimate(0.5, float("nan")), Estimate(0.25, interval=(-0.1, 0.4)), 8),
            section="paper",
        ),
    ),
    ("5 % noise",),
)


@pytest.mark.parametrize(
    ("measure", "text"),
    [
        (Estimate(0.12345), "0.123"),
        (Estimate(0.12345, 0.01), "0.123 ± 0.010"),
        (Estimate(0.12345, float("nan")), "0.123"),
        (Estimate(-0.5, interval=(-0.75, 0.25), signed=True), "−0.500 [−0.750, 0.250]"),
        (Estimate(0.5, interval=(0.25, 0.75)), "0.500 [0.250, 0.750]"),
        (p_value(0.7541), "0.75"),
        (p_value(1.0), "1.0"),
        (p_value(0.5), "0.50"),
        (p_value(0.03096), "0.031"),
        (p_value(0.00012), "0.00012"),
        (p_value(0.00001), "<0.0001"),
        (p_value(0.003, below=0.05), "<0.05"),
        (Estimate(0.5, signed=True), "+0.500"),
        (Estimate(0.00012, digits=4), "0.0001"),
        (Estimate(float("nan"), 0.1), "–"),
    ],
)
def test_measures_read_as_people_write_them(measure, text):
    assert str(measure) == text


def test_counts_have_separators_where_people_read_them_and_nowhere_else():
    heads = columns("samples#=drawn#, seed, year")
    assert [column.heading for column in heads] == ["drawn", "seed", "year"]
    table = Table("t", heads, (Row((51200, 3407, 2026)),))
    assert "| 51,200 | 3407 | 2026 |" in to_markdown(table)
    assert "51,200 & 3407 & 2026" in to_latex(table)
    assert to_csv(table) == "samples,seed,year\n51200,3407,2026\n"
    assert shown_table(table)["rows"] == [["51,200", "3407", "2026"]]
    console = Console(file=io.StringIO(), width=60, color_system=None)
    print_table(table, console)
    assert "51,200" in console.file.getvalue()


def test_markdown_and_latex():
    assert to_markdown(TABLE_RENDER) == (
        "**A_1 & more**\n\n"
        "| model | aime pass@1 | aime pass@256 | k |\n"
        "| :-- | --: | --: | --: |\n"
        "| grpo\\|x | 0.333 ± 0.013 | – | 4 |\n"
        "| [b] (paper) | 0.500 | 0.250 [−0.100, 0.400] | 8 |\n"
        "\n5 % noise\n"
    )
    assert to_latex(TABLE_RENDER) == "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            r"\caption{A\_1 \& more}",
            r"\begin{tabular}{lrrr}",
            r"\toprule",
            r" & \multicolumn{2}{c}{aime} &  \\",
            r"\cmidrule(lr){2-3}",
            r"model & pass@1 & pass@256 & k \\",
            r"\midrule",
            r"grpo|x & 0.333 $\pm$ 0.013 & -- & 4 \\",
            r"\midrule",
            r"[b] (paper) & 0.500 & 0.250 [$-$0.100, 0.400] & 8 \\",
            r"\bottomrule",
            r"\end{tabular}",
            r"\par\footnotesize 5 \% noise",
            r"\end{table}",
            "",
        ]
    )


def test_csv_has_every_number_in_full_in_its_own_column():
    heads, first, second = csv.reader(io.StringIO(to_csv(TABLE_RENDER)))
    assert heads == [
        "model",
        "aime pass@1",
        "aime pass@1 sd",
        "aime pass@256",
        "aime pass@256 low",
        "aime pass@256 high",
        "k",
    ]
    assert first == ["grpo|x", "0.3333333333", "0.0125", "", "", "", "4"]
    assert second == ["[b] (paper)", "0.5", "", "0.25", "-0.1", "0.4", "8"]


def test_strangers_names_stay_in_their_cells():
    """A label, a benchmark or an answer is anybody's: none ends its cell, or is a formula."""
    table = Table(
        "two\nlines",
        (Column("a|b", "x\ny"), Column("=1+1")),
        (
            Row(("one\r\ntwo|", "@SUM(A1)")),
            Row(('=HYPERLINK("http://x")', "-1.5")),
            Row(("+cmd|' /C calc'!A0", "\t=1")),
            Row(("-", 3)),
            Row(("+", "-b")),
        ),
    )
    assert to_markdown(table).splitlines() == [
        "**two lines**",
        "",
        r"| x y a\|b | =1+1 |",
        "| :-- | :-- |",
        r"| one two\| | @SUM(A1) |",
        '| =HYPERLINK("http://x") | -1.5 |',
        "| +cmd\\|' /C calc'!A0 | \t=1 |",
        "| - | 3 |",
        "| + | -b |",
    ]
    assert list(csv.reader(io.StringIO(to_csv(table), newline=""))) == [
        ["x\ny a|b", "'=1+1"],
        ["one\r\ntwo|", "'@SUM(A1)"],
        ['\'=HYPERLINK("http://x")', "-1.5"],
        ["'+cmd|' /C calc'!A0", "'\t=1"],
        ["-", "3"],
        ["+", "'-b"],
    ]


def test_records_hold_numbers_and_none_and_every_row_fits():
    first, second = to_records(TABLE_RENDER)
    assert first == {
        "model": "grpo|x",
        "aime pass@1": 1 / 3,
        "aime pass@1 sd": 0.0125,
        "aime pass@256": None,
        "aime pass@256 low": None,
        "aime pass@256 high": None,
        "k": 4,
    }
    assert (second["aime pass@256"], second["aime pass@256 low"], second["k"]) == (0.25, -0.1, 8)
    assert second["aime pass@1 sd"] is None  # NaN: unknown
    with pytest.raises(ValueError, match="1 cells in a row of 2"):
        Table("t", (Column("a"), Column("b")), (Row((1,)),))


def test_the_opposite_difference_has_the_opposite_interval_and_its_zero_has_no_sign():
    found = Estimate(0.1, interval=(-0.2, 0.0), signed=True)
    # b − a of a − b: both ends change sign and place; 0 − 0 is 0 and not −0
    assert str(found.negated()) == "−0.100 [0.000, 0.200]"
    assert found.negated().negated() == found
    assert Estimate(0.0).negated().interval is None
    assert str(Estimate(0.0).negated()) == "0.000"
