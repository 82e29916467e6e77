"""`sage passk`, `compare` and `power` on files of other programs, which nothing imports before."""

import json
from pathlib import Path

import pytest

WRITTEN = Path(__file__).resolve().parents[2] / "data/imported"
INSPECT = WRITTEN / "inspect.eval"
LM_EVAL = WRITTEN / "samples_toy_2026-11-25T00-00-00.000000.jsonl"
LIGHTEVAL = WRITTEN / "lighteval.parquet"

FOUR = [("1", "1+1=?", "2"), ("2", "1+2=?", "3"), ("3", "1+3=?", "4")]
"""Ids, questions and golds."""
MORE = [*FOUR, ("4", "1+4=?", "5")]


def write(file, rows):
    Path(file).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def own(file, problems, right="10"):
    """Write our rows: a digit of `right` is a sample of each problem."""
    rows = [
        {"problem": id_, "question": question, "completions": list(right)}
        | {"correct": [digit == "1" for digit in right]}
        | ({} if gold is None else {"gold": gold})
        for id_, question, gold in problems
    ]
    return write(file, rows)


def inspect(file, problems, values, **about):
    """Write a log of Inspect: a value is an epoch's score."""
    samples = [
        {"id": id_, "epoch": epoch, "input": question, "target": gold or ""}
        | {"output": {"choices": [{"message": {"content": "4"}, "stop_reason": "stop"}]}}
        | {"scores": {"match": {"value": value}}}
        for id_, question, gold in problems
        for epoch, value in enumerate(values, 1)
    ]
    log = {"eval": {"task": "sums", "model": "acme/a", **about}, "status": "success"}
    Path(file).write_text(json.dumps({**log, "samples": samples}))
    return file


def lm_eval(file, problems, **change):
    """Write lm-eval's samples, of which the first problem is right."""
    rows = [
        {"doc_id": id_, "target": gold, "filter": "none", "metrics": ["exact_match"]}
        | {"arguments": {"gen_args_0": {"arg_0": question, "arg_1": {}}}, "resps": [["4"]]}
        | {"filtered_resps": ["4"], "exact_match": float(number == 0), **change}
        for number, (id_, question, gold) in enumerate(problems)
    ]
    return write(file, rows)


@pytest.mark.parametrize(
    ("file", "label", "benchmark", "curve"),
    [
        # one right of four a problem
        (INSPECT, "model", "toy", [0.25, 0.5, 0.75, 1.0]),
        (LM_EVAL, "toy", "toy", [0.08]),
        (LIGHTEVAL, "lighteval", "toy4|0", [0.06]),
    ],
)
def test_a_log_is_a_curve(answer, file, label, benchmark, curve):
    (line,) = answer("passk", file)["curves"]
    assert (line["policy"], line["benchmark"]) == (label, benchmark)
    assert line["pass@k"][: len(curve)] == pytest.approx(curve)
    assert answer("power", file, "--k", "1")["bases"][0]["base"] == label


def test_logs_and_counts_share_a_table(answer):
    Path("counts.csv").write_text("problem;n;c\na;2;1\nb;2;2\n")
    files = [own("mine.jsonl", FOUR), inspect("a.json", FOUR, ["C", "I"]), "counts.csv"]
    files += [inspect("b.json", FOUR, ["I", "I"])]
    lines = answer("passk", *files[:3], f"{files[3]}=ours")["curves"]
    # two logs of one model are called as their files are
    names = [("mine", "counted elsewhere"), ("a", "sums"), ("counts", "counted elsewhere")]
    names += [("ours", "sums")]
    assert [(line["policy"], line["benchmark"]) for line in lines] == names
    assert [line["pass@k"][0] for line in lines] == [0.5, 0.5, 0.75, 0.0]


OTHER_WORDS = [(id_, f"Question: {question}\nAnswer:", gold) for id_, question, gold in FOUR]


@pytest.mark.parametrize(
    ("a", "b", "shared", "told"),
    [
        # texts that differ by blanks are one text, whatever the ids
        (FOUR, [(f"x{i}", q.replace("=", " = "), g) for i, q, g in FOUR], 0, "no common problem"),
        (FOUR, [(f"x{i}", f" {q}\n", None) for i, q, _ in FOUR], 3, None),
        (MORE, FOUR, 3, "left out of a.json: 1 problem, 4"),
        (FOUR, [*MORE, ("5", "q", "r")], 3, "left out of b.json: 2 problems, 4, 5"),
        # another prompt: an id is believed where golds agree
        (FOUR, OTHER_WORDS, 3, "3 problems matched by id and gold"),
        (FOUR, [*OTHER_WORDS[:2], ("3", "Question: 1+3=?", "5")], 0, "no common problem"),
        (FOUR, [(i, q, None) for i, q, _ in OTHER_WORDS], 0, "no common problem"),
        # an id that means another problem whose text is there
        (FOUR, [("2", "1+1=?", "2"), ("1", "1+2=?", "3")], 2, "left out of a.json: 1 problem, 3"),
    ],
)
def test_problems_are_matched_by_text_or_by_id_and_gold(sage, answer, a, b, shared, told):
    files = [inspect("a.json", a, ["C", "C"]), inspect("b.json", b, ["C", "I"], model="acme/b")]
    typed = sage("compare", *files, "--k", "1", "--notes")
    assert typed.code == (0 if shared else 2), typed.words
    if told:
        assert told in typed.words
    else:
        assert "left out of" not in typed.words
    if shared:
        found = answer("compare", *files, "--k", "1")["comparisons"]["sums"]
        assert found["difference"][0] == 0.5
        assert [side["name"] for side in found["sides"]] == ["a", "b"]


def test_problems_that_one_side_lacks_do_not_limit_k_and_presets_hold(answer):
    Path("a.csv").write_text("problem,n,c\n1,4,2\n2,4,0\n9,1,1\n")
    Path("b.csv").write_text("problem,n,c\n1,4,1\n2,4,0\n")
    found = answer("compare", "a.csv", "b.csv")["comparisons"]["counts"]
    # problem 1: pass@1 is 2/4 and 1/4, pass@2 1 - 1/6 and 1/2, pass@3 1 and 3/4, pass@4 1 and 1
    assert found["k"] == [1, 2, 3, 4]
    assert found["difference"] == pytest.approx([1 / 8, 1 / 6, 1 / 8, 0])
    Path("mine.yaml").write_text("evaluation: {confidence: 0.8}\n")
    file = own("mine.jsonl", MORE)
    by_flag = answer("passk", file, "--set", "evaluation.confidence=0.8")
    assert answer("passk", file, "--preset", "mine.yaml")["curves"] == by_flag["curves"]


def test_ids_of_two_tasks_are_two_problems(sage):
    files = [inspect("a.json", FOUR, [1]), inspect("b.json", OTHER_WORDS, [0], task="others")]
    sage("compare", *files).refused(
        "a.json and b.json have no common problem:", "1+1=?", "Question: 1+1=?"
    )


def test_counts_are_matched_with_a_log_by_ids_and_methods_over_theirs(answer):
    Path("counts.json").write_text(json.dumps([{"problem": i, "n": 2, "c": 2} for i in (1, 2, 9)]))
    found = answer("compare", "counts.json", own("mine.jsonl", FOUR), "--k", "1")
    assert found["comparisons"]["counts"]["difference"] == [0.5, 0.0]
    assert found["unmatched"] == {"counts.json": ["9"], "mine.jsonl": ["3"]}
    sides = [
        ",".join(own(f"{side}{seed}.jsonl", MORE[:size], right) for seed, size, right in runs)
        for side, runs in (("a", [(1, 4, "110"), (2, 3, "100")]), ("b", [(1, 4, "000")]))
    ]
    found = answer("compare", *sides, "--k", "1")
    assert found["comparisons"]["counts"]["runs"] == [2, 1]
    assert found["unmatched"] == {"a1.jsonl": ["4"], "b1.jsonl": ["4"]}


def test_answers_by_likelihood_are_compared_and_not_imported(sage, answer):
    likely = {"resps": [[["-1.5", "False"]], [["-2.5", "False"]]]}
    files = [lm_eval("a.jsonl", FOUR, **likely), lm_eval("b.jsonl", FOUR, exact_match=1, **likely)]
    found = answer("compare", *files)["comparisons"]["counts"]
    assert found["difference"] == pytest.approx([-2 / 3])
    sage("samples", "import", "a.jsonl", "--as", "theirs").refused("contains likelihoods")
    assert not Path("runs/theirs").exists()


def test_samples_of_other_programs_share_no_random_numbers(sage, answer):
    """Sorted by correctness, as some programs log them, they would seem to, sample by sample."""
    problems = [(str(i), f"1+{i}=?", str(i + 1)) for i in range(12)]
    for side, right in (("a", "11110000"), ("b", "11000000")):
        own(f"{side}.jsonl", problems, right)
        assert sage("samples", "import", f"{side}.jsonl", "--as", side).code == 0
    by_name = answer("compare", "a", "b", "--k", "1,4")["comparisons"]
    by_file = answer("compare", "a.jsonl", "b.jsonl", "--k", "1,4")["comparisons"]["counts"]
    (by_name,) = by_name.values()
    assert by_name["difference"] == pytest.approx(by_file["difference"])
    assert by_name["p"] == pytest.approx(by_file["p"])
    said = sage("compare", "a", "b", "--k", "1,4", "--notes").words
    assert "random numbers" not in said


def test_scores_that_differ_are_told(sage, answer):
    both = {"metrics": ["strict", "loose"], "strict": 1.0, "loose": 0.0}
    words = ("compare", inspect("i.json", FOUR, [1]), lm_eval("a.jsonl", FOUR, **both))
    hint = "scores not taken: loose,none (strict,none is taken; --score NAME takes another)"
    typed, alone = sage(*words), sage("passk", "a.jsonl")
    assert "differ in score: match, strict,none" in typed.words
    assert [hint in printed.words for printed in (typed, alone)] == [True, True]
    assert "--notes" not in alone.words  # which passk doesn't have
    mean = [
        answer(*words, *scores)["comparisons"]["sums"]["difference"][0]
        for scores in ((), ("--score", "match", "--score", "loose,none"))
    ]
    assert mean == [0.0, 1.0]


@pytest.mark.parametrize(
    ("words", "cause", "next_step"),
    [
        ("passk one.json --k 4", "1 sample of problem 1 in one.json", "--epochs 4"),
        ("compare four.json one.json --k 1,4", "1 sample of problem 1 in one.json", "--epochs 4"),
        ("compare four.json failed.json --k 4", "2 samples of problem 2 in failed.json", "up to 2"),
        ("passk mine.jsonl --k 8", "pass@8 is undefined with 2 samples", "up to 2"),
        ("passk f1.json", "match (no verdict: 0.37)", "--score"),
        ("passk words.json", "match (no verdict: good)", "--score"),
        ("passk lists.json", "match (no verdict: [1, 0])", "--score"),
        ("compare four.json towns.json", "have no common problem:", "logs of the same benchmark;"),
        ("compare four.json f1.json", "match (no verdict: 0.37)", "--score"),
        ("power bleu.jsonl", "bleu,none (no verdict: 12.3)", "--score"),
        ("passk four.json --score f1", "no score 'f1'", "its scores are match"),
        (
            "passk four.json one.json --score a --score b --score c",
            "--score was given 3 times for 2 files",
            "once",
        ),
        ("passk words.json --set grading.judge=math --set grading.mode=x", "grading.mode", ""),
        ("passk four.json --set grading.mode=strict", "has no effect", "grading.judge=math"),
        ("passk four.json --fields id=x", "is not a column for one of problem", "prompt.-1"),
        ("passk four.json --fields problem=x", "a log of Inspect", "leave out --fields"),
        ("passk mine.jsonl --fields problem=x", "no column 'x'", "its columns are"),
        ("passk four.json four.json", "2 files would be called 'four.json'", "FILE=Label"),
        ("passk four.json=X ./one.json=X", "2 files would be called 'X'", "FILE=Label"),
        ("passk four.json rl-dapo", "there is no file rl-dapo", "check the path"),
        ("compare four.json rl-dapo", "no run 'rl-dapo'", ""),
        ("passk four.json --n 8", "--n", "leave it out"),
        ("passk four.json --dry-run", "--dry-run", "leave it out"),
        ("compare four.json mine.jsonl --limit 2", "--limit", "leave it out"),
        ("power four.json --k 128 --samples 64", "undefined with 64 samples", "--samples 128"),
        ("grade cut.jsonl", "cut.jsonl, line 3", ""),
        ("power four.json --benchmark aime24", "--benchmark", "leave it out"),
        ("compare four.json four.json", "four.json is on both sides", "a different model"),
        ("passk none.eval", "there is no file none.eval", "path"),
        ("passk empty.json", "has no samples", "--no-log-samples"),
        ("passk text.jsonl", "text.jsonl", ""),
        ("passk two.jsonl", "problem '2+2=?' is of model a and b", "its own file"),
    ],
)
def test_bad_input_is_a_panel(sage, words, cause, next_step):
    inspect("one.json", FOUR, ["C"])
    inspect("four.json", FOUR, ["C", "I", "P", "N"])
    inspect("f1.json", FOUR, [0.37, 1])
    inspect("words.json", FOUR, ["C", "good"])
    inspect("lists.json", FOUR, [[1, 0]])
    inspect("towns.json", [("1", "Where is Oslo?", "Norway")], ["C"], task="towns")
    own("mine.jsonl", FOUR)
    lm_eval("repeats.jsonl", FOUR, resps=[["3", "4"]])
    lm_eval("bleu.jsonl", FOUR, metrics=["bleu"], bleu=12.3)
    whole = Path(lm_eval("cut.jsonl", FOUR)).read_text()
    Path("cut.jsonl").write_text(whole[:-20])
    Path("plain.jsonl").write_text('{"question": "q", "gold": "4", "completion": "4"}\n')
    Path("text.jsonl").write_text("no JSON\n")
    row = {"question": "2+2=?", "completion": "4", "correct": 1}
    write("two.jsonl", [{**row, "model": model} for model in "ab"])
    inspect("empty.json", [], [])
    log = json.loads(Path("four.json").read_text())
    for sample in log["samples"][4:6]:
        sample["error"] = {"message": "lost"}
    Path("failed.json").write_text(json.dumps(log))
    sage(*words.split()).refused(cause, next_step)
    assert not Path("runs").exists()
