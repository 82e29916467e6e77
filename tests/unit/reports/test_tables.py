"""Tables taken apart for narrow terminals."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from sage_cli.reports.tables import (
    Column,
    Estimate,
    Row,
    Table,
    to_csv,
    to_latex,
    to_markdown,
    to_records,
)
from sage_cli.reports.terminal import narrowed

COLUMNS = (Column("model"), Column("1", "a"), Column("8", "a"), Column("1", "b"), Column("n", "c"))
TABLE = Table("t", COLUMNS, (Row(("m", 1, 2, 3, 4), "s"),), ("note",))


def test_what_fits_is_left_whole():
    assert narrowed(TABLE, lambda table: True) == [TABLE]


def test_each_part_has_the_names_and_the_last_the_notes():
    first, *_, last = narrowed(TABLE, lambda table: len(table.columns) <= 3)
    assert [column.name for column in first.columns] == ["model", "1", "8"]
    assert first.rows == (Row(("m", 1, 2), "s"),)
    assert (first.title, first.notes) == ("t: a", ())
    assert last.notes == ("note",)


def test_a_part_that_is_too_wide_is_taken_apart():
    first, second, *_, last = narrowed(TABLE, lambda table: len(table.columns) <= 2)
    assert first.rows == (Row(("m", 1), "s"),)
    assert second.rows == (Row(("m", 2), "s"),)
    assert (second.title, second.notes) == ("t: a (continued)", ())
    assert last.rows == (Row(("m", 4), "s"),)
    assert (last.title, last.notes) == ("t: c", ("note",))


def test_as_many_parts_as_fit_stay_together():
    parts = narrowed(TABLE, lambda table: len(table.columns) <= 3)
    assert [part.title for part in parts] == ["t: a", "t: b, c"]
    assert parts[1].rows == (Row(("m", 3, 4), "s"),)


def test_columns_of_a_part_stay_together_without_a_heading():
    columns = (Column("cell"), Column("value", part="values"), Column("run", part="runs"))
    table = Table("t", columns, (Row(("1", 2, "rl-1")),))
    assert [part.title for part in narrowed(table, lambda _: False)] == ["t: values", "t: runs"]


def test_without_parts_there_is_one():
    table = Table("t", (Column("k"),), (Row((1,)),))
    assert narrowed(table, lambda table: False) == [table]


def test_without_parts_every_column_but_the_first_is_one():
    table = Table("t", (Column("k"), Column("a"), Column("b"), Column("c")), (Row((1, 2, 3, 4)),))
    first, last = narrowed(table, lambda table: len(table.columns) <= 3)
    assert (first.title, first.rows) == ("t", (Row((1, 2, 3)),))
    assert (last.title, last.rows) == ("t (continued)", (Row((1, 4)),))


def test_the_columns_of_one_part_are_taken_apart():
    columns = (Column("p"), Column("n"), *(Column(f"pass@{k}", "gain") for k in (1, 16, 256)))
    table = Table("t", columns, (Row((40, 64, 1, 2, 3)), Row((40, 128, 4, 5, 6))), ("note",))
    first, last = narrowed(table, lambda table: len(table.columns) <= 4)
    assert first.columns == (*columns[:2], *(replace(one, part=one.name) for one in columns[2:4]))
    assert [column.name for column in last.columns] == ["p", "n", "pass@256"]
    assert (first.title, last.title, last.notes) == ("t", "t (continued)", ("note",))


def test_the_columns_that_tell_the_rows_apart_stand_in_every_part():
    columns = (Column("model"), Column("k"), Column("a"), Column("b"))
    rows = tuple(Row((model, k, 0, 0)) for model in ("x", "y") for k in (1, 8))
    parts = narrowed(Table("t", columns, rows), lambda table: len(table.columns) <= 3)
    assert [[column.name for column in part.columns] for part in parts] == [
        ["model", "k", "a"],
        ["model", "k", "b"],
    ]


def test_a_first_word_that_all_rows_have_goes_to_the_title():
    columns = tuple(map(Column, ("benchmark", "policy", "one", "n")))
    rows = (Row(("mine", "p", "a", 1)), Row(("mine", "q", "a", 1)))
    table = Table("t", columns, rows, ("note",))
    (only,) = narrowed(table, lambda part: len(part.columns) <= 3)
    assert [column.name for column in only.columns] == ["policy", "one", "n"]
    assert only.rows == (Row(("p", "a", 1)), Row(("q", "a", 1)))
    assert (only.title, only.notes) == ("t: mine", ("note",))
    assert narrowed(table, lambda part: len(part.columns) <= 4) == [table]


def test_what_names_the_only_row_stays_in_it():
    table = Table("t", (Column("policy"), Column("n")), (Row(("p", 1)),))
    assert [(part.title, part.rows) for part in narrowed(table, lambda _: False)] == [
        ("t", table.rows)
    ]


TABLE_RENDER = Table(
    "A_1 & more",
    (Column("model"), Column("pass@1", "aime"), Column("pass@256", "aime"), Column("k")),
    (
        Row(("grpo|x", Estimate(1 / 3, 0.0125), Estimate(float("nan")), 4)),
        Row(("[b] (paper)", Estimate(0.5, float("nan")), Estimate(0.25, interval=(-0.1, 0.4)), 8),
            section="paper"),
    ),
    ("5 % noise",),
)  # fmt: skip


@pytest.mark.parametrize(
    ("measure", "text"),
    [
        (Estimate(0.12345), "0.123"),
        (Estimate(0.12345, 0.01), "0.123 ± 0.010"),
        (Estimate(0.12345, float("nan")), "0.123"),
        (Estimate(-0.5, interval=(-0.75, 0.25), signed=True), "-0.500 [-0.750, 0.250]"),
        (Estimate(0.5, signed=True), "+0.500"),
        (Estimate(0.00012, digits=4), "0.0001"),
        (Estimate(float("nan"), 0.1), "–"),
    ],
)
def test_measures_read_as_people_write_them(measure: Estimate, text: str) -> None:
    assert str(measure) == text


def test_markdown() -> None:
    assert to_markdown(TABLE_RENDER) == (
        "**A_1 & more**\n\n"
        "| model | aime pass@1 | aime pass@256 | k |\n"
        "| :-- | --: | --: | --: |\n"
        "| grpo\\|x | 0.333 ± 0.013 | – | 4 |\n"
        "| [b] (paper) | 0.500 | 0.250 [-0.100, 0.400] | 8 |\n"
        "\n5 % noise\n"
    )


def test_csv_has_every_number_in_full_in_its_own_column() -> None:
    heads, first, second = csv.reader(io.StringIO(to_csv(TABLE_RENDER)))
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
         Row(("+cmd|' /C calc'!A0", "\t=1")), Row(("-", 3)), Row(("+", "-b"))),
    )  # fmt: skip
    assert to_markdown(table).splitlines() == [
        "**two lines**", "", r"| x y a\|b | =1+1 |", "| :-- | :-- |", r"| one two\| | @SUM(A1) |",
        '| =HYPERLINK("http://x") | -1.5 |', "| +cmd\\|' /C calc'!A0 | \t=1 |", "| - | 3 |",
        "| + | -b |",
    ]  # fmt: skip
    assert list(csv.reader(io.StringIO(to_csv(table), newline=""))) == [
        ["x\ny a|b", "'=1+1"], ["one\r\ntwo|", "'@SUM(A1)"],
        ["'=HYPERLINK(\"http://x\")", "-1.5"], ["'+cmd|' /C calc'!A0", "'\t=1"], ["-", "3"],
        ["+", "'-b"],
    ]  # fmt: skip


def test_latex() -> None:
    assert to_latex(TABLE_RENDER) == "\n".join([
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
    first, second = to_records(TABLE_RENDER)
    assert first == {
        "model": "grpo|x", "aime pass@1": 1 / 3, "aime pass@1 sd": 0.0125, "aime pass@256": None,
        "aime pass@256 low": None, "aime pass@256 high": None, "k": 4,
    }  # fmt: skip
    assert (second["aime pass@256"], second["aime pass@256 low"], second["k"]) == (0.25, -0.1, 8)
    assert second["aime pass@1 sd"] is None  # NaN: unknown


def test_a_row_that_does_not_fit_is_a_bug() -> None:
    with pytest.raises(ValueError, match="1 cells in a row of 2"):
        Table("t", (Column("a"), Column("b")), (Row((1,)),))
