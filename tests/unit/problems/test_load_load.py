"""Problems by name and by path, and everything that can be wrong with a row."""

import json

import pytest

from sage_cli.errors import ConfigurationError, DataError
from sage_cli.problems.demonstrations import load_demonstrations
from sage_cli.problems.load import (
    benchmark_names,
    load_problems,
    load_training_problems,
    read_problems,
)
from sage_cli.problems.overlap import duplicates, find_overlap, normalised
from sage_cli.problems.problem import Problem, problem_id
from sage_cli.settings.data import DataSection, FieldsSection
from sage_cli.settings.sft import SftSection


def jsonl(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def aime(folder, count_2024=30):
    """A folder with made-up problems in the layout of both AIME sets."""
    row = lambda year, i: {"problem": f"{year} {i}?", "answer": f"{i:03}", "id": i}  # noqa: E731
    jsonl(folder / "benchmarks/aime2024.jsonl", *(row(2024, i) for i in range(count_2024)))
    jsonl(folder / "benchmarks/aime2025-I.jsonl", *(row("2025 I", i) for i in range(15)))
    jsonl(folder / "benchmarks/aime2025-II.jsonl", *(row("2025 II", i) for i in range(15)))
    return DataSection(root=folder)


def test_aime_is_both_years_and_shares_their_ids(tmp_path):
    data = aime(tmp_path)
    both = load_problems("aime", data)
    parts = load_problems("aime24,aime25", data)
    assert [p.id for p in both] == [p.id for p in parts]
    assert {p.benchmark for p in both} == {"aime"}
    assert [p.benchmark for p in parts] == ["aime24"] * 30 + ["aime25"] * 30
    first = both[7]
    assert (first.question, first.gold) == ("2024 7?", "7")
    # the first 16 digits of sha256sum of ["aime24", "2024 7?", "7"]
    assert first.id == problem_id("aime24", "2024 7?", "7") == "8c968f3dd2097bdd"
    assert first.meta["id"] == 7
    assert first.meta["origin"].startswith("aime2024.jsonl sha256:")
    assert len(load_problems("aime24,aime25", data, limit=2)) == 4


def test_data_folders_are_named_by_the_environment_and_copies_are_whole(tmp_path, monkeypatch):
    aime(tmp_path)
    monkeypatch.setenv("SAGE_DATA", str(tmp_path))
    assert len(load_problems("aime", DataSection())) == 60
    with pytest.raises(DataError, match="does not exist"):
        load_problems("aime", DataSection(root=tmp_path / "elsewhere"))
    with pytest.raises(DataError, match="aime24 has 29 problems, but 30 are expected"):
        load_problems("aime", aime(tmp_path, count_2024=29))


def test_copies_of_benchmarks_are_read_by_columns_of_their_own(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{"problem": f"q{i}", "answer": float(i)} for i in range(40)]
    (tmp_path / "benchmarks").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "benchmarks/amc23.parquet")
    assert [p.gold for p in load_problems("amc23", DataSection(root=tmp_path))][:3] == list("012")
    rows = [
        {"problem": f"q{i}", "answer": str(i), "level": 5 if i < 134 else i % 4 + 1}
        for i in range(500)
    ]
    jsonl(tmp_path / "benchmarks/math500.jsonl", *rows)
    data = DataSection(root=tmp_path)
    hard, everything = load_problems("math500-l5", data), load_problems("math500", data)
    assert [p.id for p in hard] == [p.id for p in everything[:134]]
    assert {p.meta["level"] for p in hard} == {5}
    rows = [{"problem": f"q{i}", "solution": rf"\boxed{{0}} so \boxed{{{i}}}"} for i in range(271)]
    rows.append({"question": "q271", "answer": "x"})
    jsonl(tmp_path / "benchmarks/minerva_math.jsonl", *rows)
    golds = [p.gold for p in load_problems("minerva", DataSection(root=tmp_path))]
    assert golds == [*map(str, range(271)), "x"]


def test_columns_are_named_and_repeated_rows_left_out_with_a_warning(tmp_path, caplog):
    path = jsonl(tmp_path / "mine.jsonl", {"q": "1+1?", "a": 2.0, "hard": False})
    [problem] = load_problems(str(path), DataSection(), FieldsSection(question="q", gold="a"))
    assert (problem.question, problem.gold, problem.meta["hard"]) == ("1+1?", "2", False)
    assert problem.benchmark == "mine.jsonl"
    moved = jsonl(tmp_path / "elsewhere/mine.jsonl", {"q": "1+1?", "a": 2})
    [same] = load_problems(str(moved), DataSection(), FieldsSection(question="q", gold="a"))
    assert same.id == problem.id  # ids depend on the file's name, not on its folder
    row, other = {"question": "q", "gold": "1"}, {"question": "q", "gold": "2"}
    path = jsonl(tmp_path / "mine.jsonl", row, other, row)
    assert [p.gold for p in load_problems(str(path), DataSection())] == ["1", "2"]
    assert "1 repeated rows left out" in caplog.text
    assert len(read_problems(str(path), DataSection())) == 3


def test_csv_by_the_columns_of_its_first_line(tmp_path):
    path = tmp_path / "mine.csv"
    # a spreadsheet's mark, a quoted comma and line break, a doubled quote, an empty line
    path.write_bytes(
        b'\xef\xbb\xbfquestion,gold,level\r\n"Is 1,000\nmore than ""9""?",yes,5\r\n\r\n2+2?,4,1\r\n'
    )
    first, second = load_problems(str(path), DataSection())
    assert (first.question, first.gold) == ('Is 1,000\nmore than "9"?', "yes")
    assert (second.question, second.gold, second.meta["level"]) == ("2+2?", "4", "1")
    assert second.meta["origin"].startswith("mine.csv sha256:")


def failing(path, **fields):
    with pytest.raises(DataError) as caught:
        load_problems(str(path), DataSection(), FieldsSection(**fields))
    return f"{caught.value.cause} | {caught.value.next_step}"


GOOD = '{"question": "q", "gold": "1"}\n'


@pytest.mark.parametrize(
    ("kind", "text", "complaint"),
    [
        ("csv", 'question,gold\n"a\nb",1\nq,1,2\n', "line 4, has 3 values, but the first line has"),
        ("csv", "question,gold\nq,1\nq\n", "line 3, has 1 values"),
        ("csv", 'question,gold\nq,1\n"q,2\nr,3\n', "line 3, isn't CSV: unexpected end of data"),
        ("csv", 'question,gold\n"q" x,2\n', "line 2, isn't CSV"),
        ("csv", "question,gold,gold\nq,1,2\n", "names a column twice: question, gold, gold"),
        ("csv", "question,gold\n\nq,\n", "line 3 has no reference answer (column gold)"),
        ("csv", "question,reply\nq,1\n", "has no column 'gold'"),
        ("csv", "prompt,ground_truth\nq,\nr,\n", "line 2 has no reference answer (column gr"),
        ("csv", "question,gold\n", "contains no problems"),
        ("csv", "", "contains no problems"),
        ("jsonl", GOOD + '{"question": "q", "gold"\n', "line 2, isn't JSON"),
        ("jsonl", GOOD + "\n" + "[1]\n", "line 3, is a JSON list"),
        (
            "jsonl",
            GOOD + '{"question": "q", "gold": null}\n',
            "line 2 has no reference answer (col",
        ),
        ("jsonl", GOOD + '{"question": "q", "gold": " "}\n', "line 2 has no reference answer"),
        ("jsonl", GOOD + '{"question": "", "gold": "1"}\n', "line 2 has no question (column quest"),
        ("jsonl", GOOD + '{"question": "q", "golds": "1"}\n', "did you mean 'golds'?"),
        ("jsonl", '{"qeustion": "q", "gold": "1"}\n', "did you mean 'qeustion'?"),
        ("jsonl", "", "contains no problems"),
    ],
)
def test_broken_rows_are_named_by_their_line(tmp_path, kind, text, complaint):
    path = tmp_path / f"broken.{kind}"
    path.write_text(text)
    assert complaint in failing(path)


def test_files_that_are_none(tmp_path):
    assert "there is no file" in failing(tmp_path / "absent.jsonl")
    (tmp_path / "fake.parquet").write_text("not Parquet")
    assert "isn't a Parquet file" in failing(tmp_path / "fake.parquet")
    for kind in ("jsonl", "csv"):
        (tmp_path / f"latin.{kind}").write_bytes('{"question": "é"}'.encode("latin-1"))
        assert "isn't UTF-8" in failing(tmp_path / f"latin.{kind}")


def test_unknown_names_are_corrected():
    with pytest.raises(DataError, match="unknown benchmark 'math50'; did you mean 'math500'"):
        load_problems("aime,math50", DataSection())
    with pytest.raises(DataError, match="no benchmark was given"):
        benchmark_names(" ,")
    assert benchmark_names("aime, amc23,aime") == ["aime", "amc23"]


@pytest.mark.parametrize(
    ("name", "count", "question", "gold"),
    [
        ("aime", 60, "Every morning Aya", "204"),
        ("amc23", 40, "Cities $A$ and $B$", "27"),
        ("math500", 500, "Convert the point", r"\left( 3, \frac{\pi}{2} \right)"),
        ("math500-l5", 134, "", None),
        ("minerva", 272, "Each of the two Magellan", "1.6"),
        ("gsm8k", 1319, "Janet", "18"),
        ("kk", 210, "A very special island", "Jackson is a knave, and James is a knave."),
        ("dapo-math-17k", 237, "How many positive", "9"),
        ("asdiv", 2214, "Seven red apples", "9"),
        ("mawps", 1981, "Joan found 70 seashells", "43"),
        ("svamp", 1000, "There are 87 oranges", "145"),
    ],
)
def test_published_rows_load(shared, name, count, question, gold):
    problems = load_problems(name, DataSection(root=shared / "data"))
    assert len(problems) == len({p.id for p in problems}) == count
    assert problems[0].question.startswith(question)
    assert gold in (None, problems[0].gold)


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_csv_as_spreadsheets_write_it(tmp_path, delimiter):
    path = tmp_path / "mine.csv"
    path.write_text(f'question{delimiter}gold\n"1, 2 and 3{delimiter} what is 1+1?"{delimiter}2\n')
    (problem,) = load_problems(str(path), DataSection())
    assert (problem.question, problem.gold) == (f"1, 2 and 3{delimiter} what is 1+1?", "2")


def problem(question, gold="1", name="b"):
    return Problem(f"{name}:{question}:{gold}", name, question, gold)


def words(start, stop):
    return " ".join(f"w{i}" for i in range(start, stop))


def test_the_same_question_is_found_in_other_clothes():
    assert (
        normalised(r"  Find $\frac{1}{2}\,x$. ")
        == normalised("find \\frac 1 2 X")
        == (
            "find",
            "frac",
            "1",
            "2",
            "x",
        )
    )
    assert normalised("Ⅳ_a") == ("iv", "a")
    [match] = find_overlap(
        [problem("What is  $2+2$ ?")], [problem("what is 2+2"), problem("other")]
    )
    assert (match.same, match.share, match.bench.question) == (True, 1.0, "what is 2+2")
    twice = [problem("1 + 1 = ?", "2"), problem("1+1=?", "3")]
    assert duplicates([twice[0], problem("else"), twice[1]]) == [twice]
    assert duplicates([problem("a"), problem("b")]) == []


def test_thirteen_words_in_a_row_count_and_pairs_stand_in_order():
    # 20 words have 8 passages of 13 words; the training text holds words 0 to 13: two of them.
    bench = [problem(words(0, 20))]
    [match] = find_overlap([problem(words(0, 14) + " and more")], bench)
    assert (match.same, match.share) == (False, 2 / 8)
    assert find_overlap([problem(words(0, 12) + " and more")], bench) == []
    bench = [problem(words(0, 20)), problem(words(40, 60))]
    train = [problem(words(40, 54)), problem(words(0, 14)), problem(words(0, 16))]
    pairs = [(match.bench, match.train) for match in find_overlap(train, bench)]
    assert pairs == [(bench[0], train[2]), (bench[0], train[1]), (bench[1], train[0])]


def test_wording_that_a_benchmark_repeats_is_no_contamination():
    preamble = words(0, 15)
    few = [problem(f"{preamble} {i}") for i in range(10)]
    many = [problem(f"{preamble} {i}") for i in range(11)]
    train = [problem(f"{preamble} x")]
    assert len(find_overlap(train, few)) == 10
    assert find_overlap(train, many) == []
    assert [match.bench for match in find_overlap([many[3]], many)] == [many[3]]


def test_dapo_sample_is_found_in_math500(shared):
    data = DataSection(root=shared / "data")
    train, bench = load_problems("dapo-math-17k", data), load_problems("math500", data)
    matches = find_overlap(train, bench)
    assert len({match.train.id for match in matches if match.same}) == len(train) == 237
    assert not find_overlap(train, load_problems("math500-l5", data))


def data(folder=None, sft=None, rl=None):
    named = {"sft": sft or {"name": "arithmetic"}, "rl": rl or {"name": "arithmetic"}}
    return DataSection(root=folder, **named)


def demonstrations(data, length=None, **sft):
    return load_demonstrations(data, SftSection(**sft), length)


def openmath(folder):
    rows = [
        ("Q1?", "3", "<think>\nSo 3.\n</think>"),
        ("Q2?", r"\frac{1}{2}", "half"),
        ("Q3 and quite a long one?", "0.5", "half"),
        ("Q4?", "1e3", "a thousand"),
        ("Q1?", "3", "<think>Again 3.</think>"),
    ]
    path = folder / "train/openmathreasoning_mini_sample.jsonl"
    path.parent.mkdir()
    columns = ("problem", "expected_answer", "generated_solution")
    lines = (json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)
    path.write_text("".join(lines))
    return folder


OPENMATH = {"name": "openmathreasoning-mini", "numeric_only": True, "max_prompt_share": 0.5}


def test_demonstrations_have_numeric_answers_a_length_and_a_limit_and_no_thinking_tags(tmp_path):
    named = data(openmath(tmp_path), sft=OPENMATH)
    assert [(d.question, d.working, d.answer, d.loss) for d in demonstrations(named)] == [
        ("Q1?", "So 3.", "3", "completion"),
        ("Q3 and quite a long one?", "half", "0.5", "completion"),
        ("Q4?", "a thousand", "1e3", "completion"),
        ("Q1?", "Again 3.", "3", "completion"),
    ]
    # half of 16 tokens, a character counting as one: only the question of 24 is too long
    made = demonstrations(named, lambda shown: len(shown.question), max_length=16)
    assert [d.question for d in made] == ["Q1?", "Q4?", "Q1?"]
    assert len(demonstrations(named, max_length=16)) == 4
    with pytest.raises(ConfigurationError, match="no demonstration"):
        demonstrations(named, lambda shown: 100, max_length=8)
    limited = data(tmp_path, sft=OPENMATH | {"limit": 2})  # which counts what is kept
    assert [d.answer for d in demonstrations(limited)] == ["3", "0.5"]


def test_arithmetic_demonstrations_are_as_many_as_the_steps_take():
    made = demonstrations(data(), steps=7, batch_size=4)
    assert len(made) == 28
    assert made == demonstrations(data(sft={"name": "arithmetic-train"}), steps=7, batch_size=4)
    assert len(demonstrations(data(sft={"name": "arithmetic", "limit": 5}), steps=7)) == 5
    with pytest.raises(ConfigurationError, match=r"neither sft\.steps nor data\.sft\.limit"):
        demonstrations(data())


def test_sources_and_demonstrations_without_worked_solutions_are_named(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text('{"question": "q", "gold": "1", "steps": "w"}\n')
    with pytest.raises(DataError, match="no worked solutions"):
        demonstrations(data(sft={"name": "gsm8k"}))
    fields = {"question": "question", "gold": "gold", "working": "step"}
    with pytest.raises(DataError, match="did you mean 'steps'"):
        demonstrations(data(sft={"name": str(path), "fields": fields}))
    fields["working"] = "steps"
    [made] = demonstrations(data(sft={"name": str(path), "fields": fields}))
    assert (made.question, made.working, made.answer) == ("q", "w", "1")
    for name in ("kk-generated", "arithmetic-dev"):
        with pytest.raises(DataError, match=f"{name} has no worked solutions"):
            demonstrations(data(sft={"name": name}))
    path.write_text('{"question": "q", "gold": "1", "w": ""}\n')
    fields = {"question": "question", "gold": "gold", "working": "w"}
    with pytest.raises(DataError, match="line 1 has no worked solution"):
        demonstrations(data(sft={"name": str(path), "fields": fields}))


def test_pairs_of_question_and_answer_are_learnt_and_that_is_said(tmp_path, caplog):
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"question": "q", "gold": ["1", "one"], "steps": "w"}\n')
    [made] = demonstrations(data(sft={"name": str(path), "fields": {"any_of": True}}))
    assert (made.question, made.working, made.answer, made.text) == ("q", None, "1", "q\n1")
    assert "SFT learns golds alone" in caplog.text


def test_rl_problems_of_arithmetic_are_not_the_held_out_ones():
    problems = load_training_problems(data())
    assert len(problems) == 7329
    test = {p.question for p in load_problems("arithmetic,arithmetic-dev", DataSection())}
    assert len(test) == 300
    assert not test & {p.question for p in problems}


def test_rl_problems_are_kept_once_filtered_and_cut(tmp_path):
    rl = {"name": "openmathreasoning-mini"}
    folder = openmath(tmp_path)
    golds = [p.gold for p in load_training_problems(data(folder, rl=rl))]
    assert golds == ["3", r"\frac{1}{2}", "0.5", "1e3"]
    numbers = rl | {"numeric_only": True, "limit": 2}
    assert [p.gold for p in load_training_problems(data(folder, rl=numbers))] == ["3", "0.5"]


def test_real_demonstrations_load(shared):
    made = demonstrations(data(shared / "data", sft=OPENMATH))
    assert len(made) == 245
    assert not any("think>" in d.working for d in made)
