from __future__ import annotations

import csv
import io

import pytest

from sage_cli.reports.tables.render import to_csv, to_latex, to_markdown
from sage_cli.reports.tables.table import Column, Measure, Row, Table, to_records

TABLE = Table(
    "A_1 & more",
    (Column("model"), Column("pass@1", "aime"), Column("pass@256", "aime"), Column("k")),
    (
        Row(("grpo|x", Measure(1 / 3, 0.0125), Measure(float("nan")), 4)),
        Row(("[b] (paper)", Measure(0.5, float("nan")), Measure(0.25, interval=(-0.1, 0.4)), 8),
            section="paper"),
    ),
    ("5 % noise",),
)  # fmt: skip


@pytest.mark.parametrize(
    ("measure", "text"),
    [
        (Measure(0.12345), "0.123"),
        (Measure(0.12345, 0.01), "0.123 ± 0.010"),
        (Measure(0.12345, float("nan")), "0.123"),
        (Measure(-0.5, interval=(-0.75, 0.25), signed=True), "-0.500 [-0.750, 0.250]"),
        (Measure(0.5, signed=True), "+0.500"),
        (Measure(0.00012, digits=4), "0.0001"),
        (Measure(float("nan"), 0.1), "–"),
    ],
)
def test_measures_read_as_people_write_them(measure: Measure, text: str) -> None:
    assert str(measure) == text


def test_markdown() -> None:
    assert to_markdown(TABLE) == (
        "**A_1 & more**\n\n"
        "| model | aime pass@1 | aime pass@256 | k |\n"
        "| :-- | --: | --: | --: |\n"
        "| grpo\\|x | 0.333 ± 0.013 | – | 4 |\n"
        "| [b] (paper) | 0.500 | 0.250 [-0.100, 0.400] | 8 |\n"
        "\n5 % noise\n"
    )


def test_csv_has_every_number_in_full_in_its_own_column() -> None:
    heads, first, second = csv.reader(io.StringIO(to_csv(TABLE)))
    assert heads == ["model", "aime pass@1", "aime pass@1 sd", "aime pass@256",
                     "aime pass@256 low", "aime pass@256 high", "k"]  # fmt: skip
    assert first == ["grpo|x", "0.3333333333", "0.0125", "", "", "", "4"]
    assert second == ["[b] (paper)", "0.5", "", "0.25", "-0.1", "0.4", "8"]


def test_strangers_names_stay_in_their_cells() -> None:
    """A label, a benchmark or an answer is anybody's: none ends its cell, or is a formula."""
    table = Table(
        "two\nlines",
        (Column("a|b", "x\ny"), Column("=1+1")),
        (Row(("one\r\ntwo|", "@SUM(A1)")), Row(("=HYPERLINK(\"http://x\")", "-1.5")),
         Row(("+cmd|' /C calc'!A0", "\t=1")), Row(("-", 3))),
    )  # fmt: skip
    assert to_markdown(table).splitlines() == [
        "**two lines**", "", r"| x y a\|b | =1+1 |", "| :-- | :-- |", r"| one two\| | @SUM(A1) |",
        '| =HYPERLINK("http://x") | -1.5 |', "| +cmd\\|' /C calc'!A0 | \t=1 |", "| - | 3 |",
    ]  # fmt: skip
    assert list(csv.reader(io.StringIO(to_csv(table), newline=""))) == [
        ["x\ny a|b", "'=1+1"], ["one\r\ntwo|", "'@SUM(A1)"],
        ["'=HYPERLINK(\"http://x\")", "-1.5"], ["'+cmd|' /C calc'!A0", "'\t=1"], ["-", "3"],
    ]  # fmt: skip


def test_latex() -> None:
    assert to_latex(TABLE) == "\n".join([
        r"% needs \usepackage{booktabs}",
        r"\begin{table}", r"\centering", r"\caption{A\_1 \& more}", r"\begin{tabular}{lrrr}",
        r"\toprule",
        r" & \multicolumn{2}{c}{aime} &  \\", r"\cmidrule(lr){2-3}",
        r"model & pass@1 & pass@256 & k \\", r"\midrule",
        r"grpo|x & 0.333 $\pm$ 0.013 & -- & 4 \\", r"\midrule",
        r"[b] (paper) & 0.500 & 0.250 [-0.100, 0.400] & 8 \\",
        r"\bottomrule", r"\end{tabular}", r"\par\footnotesize 5 \% noise", r"\end{table}", "",
    ])  # fmt: skip


def test_records_hold_numbers_and_none_where_there_is_none() -> None:
    first, second = to_records(TABLE)
    assert first == {
        "model": "grpo|x", "aime pass@1": 1 / 3, "aime pass@1 sd": 0.0125, "aime pass@256": None,
        "aime pass@256 low": None, "aime pass@256 high": None, "k": 4,
    }  # fmt: skip
    assert (second["aime pass@256"], second["aime pass@256 low"], second["k"]) == (0.25, -0.1, 8)
    assert second["aime pass@1 sd"] is None  # NaN: unknown


def test_a_row_that_does_not_fit_is_a_bug() -> None:
    with pytest.raises(ValueError, match="1 cells in a row of 2"):
        Table("t", (Column("a"), Column("b")), (Row((1,)),))
