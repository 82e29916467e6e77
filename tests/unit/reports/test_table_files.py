"""Tables in files."""

import csv
import io

import pytest
from rich.console import Console

from sage_cli.reports.estimate import Estimate
from sage_cli.reports.shown import shown_table
from sage_cli.reports.table_files import to_csv, to_latex, to_markdown, to_records
from sage_cli.reports.tables import Column, Row, Table, columns
from sage_cli.reports.terminal import print_table

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
