"""What training and test share, word by word."""

from sage_cli.problems.overlap import duplicates, normalised, overlap
from sage_cli.problems.problem import Problem


def problem(question, gold="1", name="b"):
    return Problem(f"{name}:{question}:{gold}", name, question, gold)


def words(start, stop):
    return " ".join(f"w{i}" for i in range(start, stop))


def test_normalised_text_forgets_case_spacing_and_markup():
    assert normalised(r"  Find $\frac{1}{2}\,x$. ") == normalised("find \\frac 1 2 X") == (
        "find", "frac", "1", "2", "x",
    )  # fmt: skip
    assert normalised("Ⅳ_a") == ("iv", "a")


def test_the_same_question_in_other_clothes():
    [match] = overlap([problem("What is  $2+2$ ?")], [problem("what is 2+2"), problem("other")])
    assert (match.same, match.share, match.bench.question) == (True, 1.0, "what is 2+2")


def test_thirteen_words_in_a_row_count_and_twelve_do_not():
    # 20 words have 8 passages of 13 words; the training text holds words 0 to 13: two of them.
    bench = [problem(words(0, 20))]
    [match] = overlap([problem(words(0, 14) + " and more")], bench)
    assert (match.same, match.share) == (False, 2 / 8)
    assert overlap([problem(words(0, 12) + " and more")], bench) == []


def test_wording_that_a_benchmark_repeats_is_no_contamination():
    preamble = words(0, 15)
    few = [problem(f"{preamble} {i}") for i in range(10)]
    many = [problem(f"{preamble} {i}") for i in range(11)]
    train = [problem(f"{preamble} x")]
    assert len(overlap(train, few)) == 10
    assert overlap(train, many) == []
    assert [match.bench for match in overlap([many[3]], many)] == [many[3]]


def test_pairs_stand_in_the_benchmarks_order_the_closest_first():
    bench = [problem(words(0, 20)), problem(words(40, 60))]
    train = [problem(words(40, 54)), problem(words(0, 14)), problem(words(0, 16))]
    pairs = [(match.bench, match.train) for match in overlap(train, bench)]
    assert pairs == [(bench[0], train[2]), (bench[0], train[1]), (bench[1], train[0])]


def test_duplicates_are_grouped_whatever_their_golds():
    twice = [problem("1 + 1 = ?", "2"), problem("1+1=?", "3")]
    assert duplicates([twice[0], problem("else"), twice[1]]) == [twice]
    assert duplicates([problem("a"), problem("b")]) == []


def test_dapo_sample_is_found_in_math500(shared):
    from sage_cli.problems.load import load_problems
    from sage_cli.settings.sections.data import DataSection

    data = DataSection(root=shared / "data")
    train, bench = load_problems("dapo-math-17k", data), load_problems("math500", data)
    matches = overlap(train, bench)
    assert len({match.train.id for match in matches if match.same}) == len(train) == 237
    assert not overlap(train, load_problems("math500-l5", data))
