"""Word problems: formulas, numbers in text, re-drawing, splits, demonstrations."""

import random
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from word_problem_rows import made_up

from sage_cli.errors import DataError
from sage_cli.problems.generated.word_problems.formula import (
    Operation,
    in_order,
    infix,
    numbers,
    read_formula,
    value,
    with_numbers,
    working_out,
)
from sage_cli.problems.generated.word_problems.generator import (
    WordProblems,
    by_length,
)
from sage_cli.problems.generated.word_problems.redraw import (
    Story,
    WordProblem,
    numerals,
    rewritten,
    sensible,
    spelled,
)
from sage_cli.problems.generated.word_problems.splits import Splits, family, readable_rows
from sage_cli.problems.problem import Demonstration, problem_id
from sage_cli.settings.sections.data import DataSection
from sage_cli.settings.sections.generators import WordProblemsSection

formulas = st.recursive(
    st.integers(0, 99), lambda inner: st.builds(Operation, st.sampled_from("+-*/"), inner, inner)
)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("7+2=9", Operation("+", 7, 2)),
        ("( 290.0 / 2.0 )", Operation("/", 290, 2)),
        ("9-3-2=4", Operation("-", Operation("-", 9, 3), 2)),
        ("9-(3-2)=8", Operation("-", 9, Operation("-", 3, 2))),
        ("1+2*3=7", Operation("+", 1, Operation("*", 2, 3))),
        ("3 (boxes)*1,200 (g/box)=3600 (g)", Operation("*", 3, 1200)),
        ("8", 8),
    ],
)
def test_formulas_as_the_data_sets_write_them(text, tree):
    assert read_formula(text) == tree


@pytest.mark.parametrize(
    "text",
    [
        "", "2.5*2=5", "GCD(20,12)=4", "LCM[8,9]=72", "x+3=5", "2:3=12:18", "(25)^(1/2)", "3+",
        "(3+4", "3+4)", "()", "3 4", "-3+5", "24 cm(Tommy) < 36 cm",
    ],
)  # fmt: skip
def test_what_is_not_arithmetic_on_whole_numbers_is_no_formula(text):
    assert read_formula(text) is None


@settings(deadline=None)
@given(formulas)
def test_a_formula_written_in_one_line_reads_back_as_itself(formula):
    assert read_formula(infix(formula)) == formula


@settings(deadline=None)
@given(formulas)
def test_value_is_pythons_where_every_step_is_a_whole_number_from_zero_up(formula):
    result = value(formula)
    if result is not None:
        assert result == eval(infix(formula).replace("/", "//"))
        assert result >= 0


@pytest.mark.parametrize("text", ["3-5", "7/2", "7/0", "(3-5)+9", "(7/2)*2"])
def test_a_step_that_is_negative_or_broken_leaves_no_value(text):
    assert value(read_formula(text)) is None


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("14+6", "14+6=02>20"),  # units first, then the right way round
        ("4+5", "4+5=9"),  # one digit reads the same either way
        ("84/7", "84/7=12"),  # a quotient is found from the front
        ("(109+82)*7", "109+82=191>191;191*7=7331>1337"),
        ("21*34", "21*30=036>630;21*4=48>84;630+84=417>714"),
        ("9*34", "9*34=603>306"),  # a factor of one digit needs no splitting
        ("21*30", "21*30=036>630"),  # nor does a round one
        ("50-(2*3)", "2*3=6;50-6=44>44"),
        ("8", "8"),
    ],
)
def test_the_working_out_has_one_equation_for_each_operation(text, written):
    assert working_out(read_formula(text)) == written


@settings(deadline=None)
@given(formulas)
def test_every_equation_is_true_and_the_last_gives_the_value(formula):
    if value(formula) is None:
        with pytest.raises(ValueError, match="not a whole number"):
            working_out(formula)
        return
    for equation in filter(lambda part: "=" in part, working_out(formula).split(";")):
        left, right = equation.split("=")
        backwards, _, result = right.rpartition(">")
        assert eval(left) == int(result)
        assert backwards == (result[::-1] if int(result) > 9 and "/" not in left else "")
    assert int(re.split("[=>]", working_out(formula))[-1]) == value(formula)


def test_sums_and_products_follow_the_text_and_differences_do_not():
    places = {6: 40, 9: 3}
    assert in_order(read_formula("6+9"), places) == Operation("+", 9, 6)
    assert in_order(read_formula("6*9"), places) == Operation("*", 9, 6)
    assert in_order(read_formula("6-9"), places) == Operation("-", 6, 9)
    assert in_order(read_formula("7*9"), places) == Operation("*", 9, 7)  # a constant comes last
    assert infix(in_order(read_formula("(6+7)+(9+(8-6))"), places)) == "((9+6)+(8-6))+7"


def test_numbers_are_replaced_everywhere_and_constants_stay():
    formula = read_formula("(5+3)*7-5")
    assert infix(with_numbers(formula, {5: 20, 3: 4})) == "((20+4)*7)-20"
    assert list(numbers(formula)) == [5, 3, 7, 5]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("290 bananas, 2 groups", [290, 2]),
        ("$1,200 or $3.00", [1200, 3]),
        ("Seven red and forty-seven green", [7, 47]),
        ("two hundred twenty-seven balloons", [227]),
        ("two hundred and six, three thousand five", [206, 3005]),
        ("4, 5 and 6", [4, 5, 6]),
        ("2.5 metres", [None]),
        ("two, three or four and five", [2, 3, 4, 5]),
        ("twenty ten", [None]),  # words side by side that make no one number
        ("someone in tenths", []),
    ],
)
def test_numbers_in_text(text, read):
    assert [numeral.number for numeral in numerals(text)] == read


@settings(deadline=None)
@given(st.integers(0, 999_999))
def test_a_number_in_words_reads_back_as_itself(number):
    (numeral,) = numerals(spelled(number))
    assert (numeral.number, numeral.text) == (number, spelled(number))


def test_numbers_are_rewritten_in_kind():
    text = "Seven of 40 cost $7.00; forty are 2.5 and seven."
    assert rewritten(text, numerals(text), {7: 12, 40: 31}) == (
        "Twelve of 31 cost $12.00; thirty-one are 2.5 and twelve."
    )


STORY = WordProblem("Ann has twelve red and 30 green pens in 3 boxes. All pens?",
                    read_formula("30+12=42"))  # fmt: skip


def test_a_story_is_re_drawn_with_its_formula():
    assert infix(Story(STORY).problem.formula) == "12+30"  # as the text names them
    redrawn = Story(STORY).redrawn(random.Random(1))
    found = [numeral.number for numeral in numerals(redrawn.question)]
    assert list(numbers(redrawn.formula)) == found[:2]
    assert redrawn.answer == found[0] + found[1]
    assert found[0] != 12
    assert "red and" in redrawn.question
    assert str(found[0]) not in redrawn.question.split()  # words stay words
    assert f" {found[1]} green pens in {found[2]} boxes" in redrawn.question


@settings(deadline=None)
@given(st.integers(0, 10_000))
def test_what_is_re_drawn_makes_sense_and_keeps_roles_apart(seed):
    story = Story(WordProblem("Of 60 pens in 4 boxes Ann gave 3 away.", read_formula("60/4-3")))
    redrawn = story.redrawn(random.Random(seed))
    assert sensible(redrawn.formula)
    found = [numeral.number for numeral in numerals(redrawn.question)]
    assert list(numbers(redrawn.formula)) == found
    assert len(set(found)) == 3
    assert min(found) >= 2
    assert max(found) < 1000


def test_constants_ones_and_impossible_draws_stay():
    weeks = Story(WordProblem("How many days are 4 weeks of one year?", read_formula("4*7")))
    redrawn = weeks.redrawn(random.Random(0))
    assert list(numbers(redrawn.formula))[1] == 7
    assert "one year" in redrawn.question
    assert weeks.has_numbers
    assert not Story(
        WordProblem("How many legs have a dog and a hen?", read_formula("4+2"))
    ).has_numbers
    impossible = WordProblem("5 and 6", read_formula("(5+6)-(5+6)"))  # always 0
    assert Story(impossible).redrawn(random.Random(0)) == impossible


@pytest.mark.parametrize("text", ["3-3", "6/6", "6*1", "6/1", "1000*1000", "3-5", "7/2"])
def test_senseless_formulas(text):
    assert not sensible(read_formula(text))


def test_a_family_is_told_without_numbers_names_case_and_punctuation():
    ordinary = {"has", "pens", "how", "many", "left", "the"}
    assert family("Ann has 3 pens. How many left?", ordinary) == "x has n pens how many left"
    assert family("Bob has twelve pens. How many left", ordinary) == family(
        "Ann has 3 pens. How many left?", ordinary
    )
    assert family("Ann has 3 pens.", ordinary) != family("Ann lost 3 pens.", ordinary)


@pytest.fixture
def data(tmp_path):
    return made_up(tmp_path)


def texts(rows):
    return [row.problem.question for row in rows]


def test_only_rows_whose_formula_gives_the_answer_are_read(data):
    rows = list(readable_rows(data))
    assert len(rows) == 31
    assert rows[0].problem.question == "Ann sees 2 bats and 9 more. How many bats?"
    assert (rows[0].problem.gold, infix(rows[0].formula)) == ("11", "2+9")
    assert (rows[-1].problem.gold, infix(rows[-1].formula)) == ("96", "100-4")


def test_held_out_rows_are_untouched_and_their_families_are_in_no_other_split(data):
    published = {row.problem.question: row.problem.gold for row in readable_rows(data)}
    splits = Splits.of(data)
    parts = (splits.held_out, splits.validation, splits.training)
    ordinary = {word for text in published for word in text.split() if word.islower()}
    families = [{family(text, ordinary) for text in texts(part)} for part in parts]
    assert [len(part) for part in families] == [8, 4, 18]
    assert not families[0] & families[1] | families[0] & families[2] | families[1] & families[2]
    for row in splits.held_out:
        assert published[row.problem.question] == row.problem.gold
        assert row.problem.benchmark == "word-problems"
    assert {row.problem.benchmark for row in splits.training} == {"word-problems-train"}
    assert len(splits.held_out) + len(splits.validation) == 12  # one row of each family


def test_the_split_depends_on_the_rows_alone_and_grows(data):
    def wanting(held_out):
        section = WordProblemsSection(held_out=held_out, validation=4, seed=held_out)
        return Splits.of(data.model_copy(update={"word_problems": section}))

    assert texts(wanting(12).held_out)[:8] == texts(wanting(8).held_out)
    assert texts(wanting(12).validation) == texts(wanting(8).validation)
    ordered = [family(text, {"sees", "had"}) for text in texts(wanting(8).held_out)]
    path = data.root / "train/asdiv.jsonl"
    path.write_text("".join(sorted(path.read_text().splitlines(keepends=True), reverse=True)))
    assert [family(text, {"sees", "had"}) for text in texts(wanting(8).held_out)] == ordered
    with pytest.raises(DataError, match="leave nothing to train on: there are 30"):
        wanting(26)


def test_ids_are_those_of_the_published_rows(data):
    row = Splits.of(data).training[0].problem
    source = "asdiv" if row.question.startswith(("Ann", "Bob")) else "svamp"
    assert row.id == problem_id(source, row.question, row.gold)


def test_demonstrations_are_right_and_none_comes_from_a_held_out_family(data):
    splits = Splits.of(data)
    made = WordProblems.of(data).demonstrations(400, 8)
    assert len(made) == 400
    ordinary = {"sees", "and", "more", "had", "lost"}
    unseen = {family(text, ordinary) for text in texts(splits.held_out + splits.validation)}
    assert not unseen & {family(shown.question, ordinary) for shown in made}
    facts = [shown for shown in made if read_formula(shown.question) is not None]
    published = {(row.problem.question, row.problem.gold) for row in splits.training}
    untouched = [shown for shown in made if (shown.question, shown.answer) in published]
    # 80 first and .4 of 320: 208 facts, standard deviation 8.8; .15 of 320: 48 untouched rows,
    # standard deviation 6.4; five of them either side
    assert 164 < len(facts) < 252
    assert 16 < len(untouched) < 80
    for shown in made:
        read, _, equations = shown.working.rpartition(
            ";" + shown.working.split("=")[0].split(";")[-1]
        )
        assert read == ";".join(str(numeral.number) for numeral in numerals(shown.question))
        assert "=" in equations
        left, right = shown.working.split(";")[-1].split("=")
        assert eval(left) == int(right.split(">")[-1]) == int(shown.answer)
    for fact in facts:
        assert eval(fact.question) == int(fact.answer)


def test_facts_come_first_and_some_stories_are_learned_whole(data):
    made = WordProblems.of(data).demonstrations(600, 8)
    assert made == WordProblems.of(data).demonstrations(600, 8)
    is_fact = [read_formula(shown.question) is not None for shown in made]
    assert all(is_fact[:120])  # a fifth
    assert not all(is_fact[120:180])
    whole = [shown for shown in made if shown.loss == "text"]
    # .15 of 600 * .8 * .6 = 288 stories is 43, standard deviation 6.1: five of them either side
    assert 12 < len(whole) < 74
    assert not any(read_formula(shown.question) for shown in whole)


def test_neighbours_have_similar_lengths_and_nothing_is_lost():
    draw = random.Random(0)
    made = [Demonstration("q" * draw.randint(1, 90), "w", str(i)) for i in range(60)]
    ordered = by_length(made, window=32, batch_size=8, rng=draw)
    assert sorted(d.answer for d in ordered) == sorted(d.answer for d in made)
    assert {d.answer for d in ordered[:32]} == {d.answer for d in made[:32]}  # within the window
    lengths = [len(d.question) for d in ordered]
    spans = [(min(lengths[i : i + 8]), max(lengths[i : i + 8])) for i in range(0, 32, 8)]
    for (_, high), (low, _) in pairwise(sorted(spans)):
        assert high <= low
    assert spans != sorted(spans)  # but long batches are spread over training
    assert lengths[32:56] != sorted(lengths[32:56])


def test_on_the_real_rows(shared):
    data = DataSection(root=shared / "data")
    splits = Splits.of(data)
    assert (len(splits.held_out), len(splits.validation)) == (160, 100)
    # 2,489 of ASDiv's and SVAMP's 3,215 rows have a formula in whole numbers that gives the answer
    assert sum(1 for _ in readable_rows(data)) == 2489
    unseen = {row.problem.question for row in splits.held_out + splits.validation}
    made = WordProblems.of(data).demonstrations(5000, 64)
    assert not unseen & {shown.question for shown in made}
    assert len({shown.question for shown in made}) > 3500
    for row in splits.held_out:
        assert str(value(row.formula)) == row.problem.gold
