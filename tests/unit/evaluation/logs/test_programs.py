"""Files that other programs really wrote (benchmarks/imported), read sample by sample."""

import json
import struct
import zipfile
from pathlib import Path

import pytest

from sage_cli.errors import DataError
from sage_cli.evaluation.file_judge import grading_settings
from sage_cli.evaluation.logs.lighteval import _correct
from sage_cli.evaluation.logs.log import ReadOptions
from sage_cli.evaluation.logs.problems import gather
from sage_cli.evaluation.logs.registry import (
    detect_program,
    program_titles,
    programs,
    read_log,
)
from sage_cli.evaluation.logs.source import LogSource
from sage_cli.problems.problem import NO_GOLD

WRITTEN = Path(__file__).resolve().parents[3] / "data/imported"
LM_EVAL = WRITTEN / "samples_toy_2026-11-25T00-00-00.000000.jsonl"
ROW = json.loads(LM_EVAL.read_text().splitlines()[0])
RESULTS = WRITTEN / "results_2026-11-25T00-00-00.000000.json"


def rows(path, *values):
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


@pytest.mark.parametrize(
    ("file", "program", "samples", "right", "settings"),
    [
        # the mock model answers 12, 30 and 7 right once each in four epochs
        ("inspect.eval", "inspect", 12, 3, {"model": "mockllm/model", "temperature": 0.8}),
        # 25 x 0.06 x 4 = 6, lighteval's avg@n of that run
        ("lighteval.parquet", "lighteval", 100, 6, {"task": "toy4|0", "max_tokens": 1}),
        (LM_EVAL.name, "lm-eval", 25, 2, {"model": "acme/toy", "seed": 3, "max_tokens": 1}),
    ],
)
def test_a_file_is_detected_and_its_count_is_its_programs(file, program, samples, right, settings):
    found = read_log(WRITTEN / file)
    assert (found.program, detect_program(WRITTEN / file).name) == (program, program)
    assert (len(found.samples), sum(bool(one.correct) for one in found.samples)) == (samples, right)
    assert found.has_verdicts
    assert found.has_golds
    assert settings.items() <= found.settings.items()
    assert gather(found, file).n == samples // len({one.problem for one in found.samples})


def test_lm_evals_count_is_its_results_without_which_less_is_known(tmp_path):
    said = json.loads(RESULTS.read_text())["results"]["toy"]
    found = read_log(LM_EVAL, ReadOptions("exact_match,none"))
    assert sum(bool(one.correct) for one in found.samples) == said["exact_match,none"] * 25
    assert found.unknown == ("top_p", "token counts", "truncation")
    alone = tmp_path / LM_EVAL.name
    alone.write_bytes(LM_EVAL.read_bytes())
    assert {"model", "seed"} <= set(read_log(alone).unknown)


def test_repeats_and_filters_without_names_of_lm_eval_have_no_verdict(tmp_path):
    found = read_log(rows(tmp_path / "s.jsonl", {**ROW, "resps": [["0", "1"]]}))
    assert [one.correct for one in found.samples] == [None, None]
    assert "the repeats have no verdict" in found.notes[0]
    # older logs have a row for each filter, and don't say which
    row = {name: value for name, value in ROW.items() if name not in ("filter", "metrics")}
    other = {**row, "filtered_resps": ["x"]}
    second = {**row, "doc_id": 9, "resps": [["another"]]}
    found = read_log(rows(tmp_path / "s.jsonl", row, second, other))
    assert [sample.text for sample in found.samples] == [row["resps"][0][0], "another"]


@pytest.mark.parametrize(
    ("change", "right"),
    [
        # humaneval_64 and cruxeval: a filter that builds programs passes all repeats
        ({"metrics": ["pass@1"], "pass@1": 0.75}, [True, True, True, False]),
        ({"metrics": ["pass_at_1"], "pass_at_1": 0.0}, [False] * 4),
        ({"metrics": ["pass@2"], "pass@2": 1.0}, [None] * 4),  # one right, or more
        ({"metrics": ["pass@1"], "pass@1": 0.6}, [None] * 4),  # of other samples
        # gsm8k_cot_self_consistency: the vote's verdict is no response's
        ({"filter": "maj@4", "filtered_resps": ["1"]}, [None] * 4),
        ({"metrics": ["pass@1"], "pass@1": 1.0, "filtered_resps": ["1"]}, [None] * 4),
        # a filter that takes two of the four
        ({"metrics": ["pass@1"], "pass@1": 0.5, "filtered_resps": [["0", "1"]]}, [None] * 4),
    ],
)
def test_repeats_count_where_a_score_is_of_all(tmp_path, change, right):
    row = ROW | {"resps": [["0", "1", "1", "1"]]}
    file = read_log(rows(tmp_path / "s.jsonl", row | {"filtered_resps": row["resps"]} | change))
    assert [sample.correct for sample in file.samples] == right
    # it isn't known which text is right
    assert all(sample.text is None for sample in file.samples) == (right[0] is not None)
    assert bool(file.notes) == (right[0] is None)


def test_a_filter_of_lm_eval_is_a_score_and_other_rows_are_named(tmp_path):
    other = {**ROW, "filter": "flexible", "exact_match": 1.0}
    file = rows(tmp_path / "s.jsonl", {**ROW, "exact_match": 0.0}, other)
    assert [one.correct for one in read_log(file).samples] == [False]
    assert [one.correct for one in read_log(file, ReadOptions("exact_match,flexible")).samples] == [
        True
    ]
    with pytest.raises(DataError, match="no score 'acc'"):
        read_log(file, ReadOptions("acc"))
    of_filter = {**ROW, "filter": "strict"}  # the other one is of no filter: not asked for
    file = rows(tmp_path / "s.jsonl", of_filter, {"doc_id": 1, "foo": 2}, of_filter)
    with pytest.raises(DataError, match=r"line 2 is not a row of lm-eval's samples"):
        read_log(file)


@pytest.mark.parametrize("value", [0.37, 12.3, -4, float("nan"), float("inf")])
def test_a_score_beside_0_and_1_is_no_verdict(tmp_path, value):
    row = ROW | {"metrics": ["bleu", "exact_match"], "exact_match": 1.0}
    file = rows(tmp_path / "s.jsonl", {**row, "bleu": 1}, {**row, "doc_id": 9, "bleu": value})
    found = read_log(file)
    assert (found.score, [sample.correct for sample in found.samples]) == (
        "exact_match,none",
        [True, True],
    )
    assert found.notes == (f"scores not taken: bleu,none (no verdict: {value})",)
    with pytest.raises(DataError, match=r"bleu,none is .* neither correct nor wrong"):
        read_log(file, ReadOptions("bleu,none"))
    alone = rows(tmp_path / "a.jsonl", {**row, "metrics": ["bleu"], "bleu": value})
    assert [sample.correct for sample in read_log(alone).samples] == [None]


@pytest.mark.parametrize(
    ("value", "right"), [(37, None), (-1, False), (0.5, None), ("P", False), (1, True)]
)
def test_inspects_scores_are_bounded_too(tmp_path, value, right):
    said = {"choices": [{"message": {"content": "4"}, "stop_reason": "stop"}]}
    sample = {"id": 1, "epoch": 1, "input": "q", "target": "4", "output": said}
    sample["scores"] = {"mine": {"value": value}}
    log = {"eval": {}, "status": "success", "samples": [sample]}
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    assert {sample.correct for sample in read_log(path).samples} == {right}


def test_likelihoods_are_no_completions_and_requests_may_be_a_list(tmp_path):
    file = rows(tmp_path / "s.jsonl", {**ROW, "resps": [[["-1.5", "False"]], [["-2", "False"]]]})
    (sample,) = read_log(file).samples
    assert (sample.text, sample.correct) == (None, ROW["exact_match"] == 1)
    (request,) = ROW["arguments"].values()
    file = rows(tmp_path / "s.jsonl", {**ROW, "arguments": [list(request.values())]})
    (found,) = read_log(file).samples
    assert found.question == request["arg_0"]
    said = read_log(file).settings
    assert said == {**said, "max_tokens": 1, "temperature": request["arg_1"].get("temperature", 0)}


@pytest.mark.parametrize(
    "change",
    [
        {"arguments": []},
        {"arguments": {}},
        {"arguments": 5},
        {"resps": 5},
        {"metrics": 5},
    ],
)
def test_a_row_that_is_damaged_is_named(tmp_path, change):
    damaged = rows(tmp_path / "s.jsonl", ROW, {**ROW, "doc_id": 9, **change})
    with pytest.raises(DataError, match=r"s\.jsonl, line 2 can't be read") as raised:
        read_log(damaged)
    assert raised.value.next_step is not None
    assert " is as " in raised.value.next_step


def test_a_sample_may_lack_a_verdict_if_it_has_a_gold(tmp_path):
    row = {"question": "q", "gold": "4", "completion": "a", "correct": None}
    file = rows(tmp_path / "s.jsonl", row)
    assert [one.correct for one in read_log(file).samples] == [None]
    file = rows(tmp_path / "mine.jsonl", {"question": "q", "completion": "a"})
    with pytest.raises(DataError, match="neither a verdict nor a reference answer"):
        gather(read_log(file), file)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"model_response": {"text": ["4", "5"], "text_post_processed": ["4"]}}, "2 .* 1 in text"),
        ({"doc": {"id": "1"}}, "can't be read: KeyError 'query'"),
        ({"metric": None}, "can't be read: AttributeError"),
    ],
)
def test_a_document_of_lighteval_that_is_damaged_is_named(tmp_path, change, why):
    first = {
        "doc": {"id": "0", "query": "q", "choices": ["4"], "gold_index": 0},
        "model_response": {"text": ["4"]},
        "metric": {"em": 1.0},
    }
    other = {**first["doc"], "id": "1"}
    with pytest.raises(DataError, match=f"line 2.*{why}"):
        read_log(rows(tmp_path / "s.jsonl", first, {**first, "doc": other, **change}))


@pytest.mark.parametrize(
    ("score", "value", "texts", "correct"),
    [
        ("avg@n:n=4", 0.25, 4, 1),
        ("avg@n:n=4", 0.25, None, 1),  # without texts the name says n
        ("avg@n", 0.5, 4, 2),  # without n in its name the texts do
        ("avg@8", 0.125, 8, 1),
        ("math_pass@1:4_samples", 0.75, 4, 3),  # before lighteval 0.11
        ("pass@k:k=1&n=3", 1 / 3, 3, 1),
        ("pass@k:k=1", 0.5, 2, 1),
        ("avg@n:n=4", 0.3, 4, None),  # 4 x 0.3 is no whole number
        ("avg@n:n=4", 0.5, 2, None),  # of other samples
        ("avg@n", 0.5, None, None),
        ("pass@k:k=16&n=16", 1.0, 16, None),  # one is correct, or more
        ("maj@4", 1.0, 4, None),
        ("avg@n:n=4", 1.5, 4, None),
    ],
)
def test_a_mean_of_lighteval_says_how_many_are_correct(score, value, texts, correct):
    assert _correct(score, value, texts) == correct


@pytest.mark.parametrize(
    ("value", "texts", "right"),
    [
        (0.5, ["4", "5", " 4", "6"], [True, False, True, False]),  # as many are the gold itself
        (0.25, ["so 4", "four", "5", "6"], [True, False, False, False]),  # which one isn't known
        (1.0, ["four", "4", "4", "4"], [True] * 4),
        (0.0, ["4", "5", "5", "5"], [False] * 4),
    ],
)
def test_lighteval_tells_samples_apart_where_they_are_the_gold(tmp_path, value, texts, right):
    doc = {"id": "0", "query": "q", "choices": ["4"], "gold_index": 0}
    row = {"doc": doc, "model_response": {"text": texts}, "metric": {"avg@n:n=4": value}}
    log = read_log(rows(tmp_path / "s.jsonl", row))
    assert [sample.correct for sample in log.samples] == right
    known = sum(text.strip() == "4" for text in texts) == 4 * value
    assert [sample.text is None for sample in log.samples] == [not known] * 4


def test_rows_of_ones_own_and_where_their_answers_are(tmp_path):
    file = rows(
        tmp_path / "mine.jsonl",
        {"question": "q", "gold": 4, "completions": ["a", "b"], "correct": [True, 0], "seed": 5},
        {"question": "r", "gold": "5", "completion": "c", "correct": "false"},
    )
    found = read_log(file)
    assert [(one.text, one.correct, one.seed) for one in found.samples] == [
        ("a", True, 5),
        ("b", False, 5),
        ("c", False, None),
    ]
    assert found.samples[0].gold == "4"
    row = {"problem": 1, "question": "q", "completion": "a", "correct": True}
    file = rows(tmp_path / "mine.jsonl", row, {**row, "problem": 2})
    whole = gather(read_log(file), file)
    assert {id_: len(samples) for id_, samples in whole.samples.items()} == {"1": 2}
    assert "2 ids occur once each" in whole.notes[0]
    assert [one.gold for one in whole.problems.values()] == [NO_GOLD]
    row = {"question": "q", "gold": "4", "completion": "It is 4"}
    plain = read_log(rows(tmp_path / "a.jsonl", row))
    assert grading_settings(plain) == {"extract": "text", "mode": "math-verify"}
    boxed = {**row, "completion": r"\boxed{4}", "correct": True}
    found = grading_settings(read_log(rows(tmp_path / "b.jsonl", boxed)))
    assert found == {"extract": "tags-then-boxed", "judge": "imported"}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"question": "q", "gold": "4"}, "no completion"),
        ({"question": "q", "completion": 5, "correct": 1}, "not a text"),
        ({"question": "q", "completion": "a", "correct": "perhaps"}, "not true or false"),
        ({"question": "q", "completions": ["a"], "correct": [1, 0]}, "1 completions and 2"),
        ({"question": "q", "completions": [], "correct": []}, "no completion in `completions`"),
        ({"question": "q", "gold": ["1", "2"], "completion": "a"}, "has 2 values"),
    ],
)
def test_a_row_that_is_none_is_named(tmp_path, row, why):
    first = {"question": "p", "completion": "b", "correct": True}
    with pytest.raises(DataError, match=f"line 2.*{why}"):
        read_log(rows(tmp_path / "mine.jsonl", first, row))


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (
            {"problem": "1", "question": "q", "gold": "5"},
            "different questions or reference answers",
        ),
        ({"problem": "2", "question": "q", "gold": "5"}, "a question with two reference answers"),
        ({"problem": "2", "question": " ", "gold": "5"}, "has no question"),
    ],
)
def test_contradictions_are_named(tmp_path, second, why):
    first = {"problem": "1", "question": "q", "gold": "4", "completion": "a", "correct": True}
    file = rows(tmp_path / "mine.jsonl", first, {**first, **second})
    with pytest.raises(DataError, match=why):
        gather(read_log(file), file)


@pytest.mark.parametrize(("name", "number"), [("tokens", 2**31), ("seed", 2**63)])
def test_a_number_that_can_not_be_stored_is_named(tmp_path, name, number):
    row = {"question": "q", "completion": "a", "correct": True}
    file = rows(tmp_path / "mine.jsonl", {**row, name: number})
    with pytest.raises(DataError, match=f"problem q has {name} {number}"):
        gather(read_log(file), file)
    file = rows(tmp_path / "mine.jsonl", {**row, name: number - 1})
    assert gather(read_log(file), file).n == 1


def test_a_log_that_would_unpack_to_gigabytes_is_refused(tmp_path):
    bomb = tmp_path / "bomb.eval"
    content = bytearray((WRITTEN / "inspect.eval").read_bytes())
    name = b"header.json"
    # the sizes in the central directory: 28 bytes before a name's own are 46 - 24 = 22 earlier
    place = content.rindex(name) - 46
    struct.pack_into("<I", content, place + 24, 2**31)
    bomb.write_bytes(content)
    with pytest.raises(DataError, match="would unpack to more than"):
        read_log(bomb)


def test_damaged_unfinished_and_unknown_forms_are_named(tmp_path):
    torn = tmp_path / "torn.eval"
    with zipfile.ZipFile(torn, "w") as archive:
        archive.writestr("_journal/start.json", "{}")
    with pytest.raises(DataError, match="not finished"):
        read_log(torn)
    file = tmp_path / "log.json"
    file.write_text('{"eval": {}, "status": "success", "samples": [{"id": 1}]}')
    with pytest.raises(DataError, match="json can't be read: KeyError"):
        read_log(file)
    for values, begins in (([{"foo": 1}], "foo"), ([], "nothing")):
        with pytest.raises(
            DataError, match=rf"a\.jsonl does not have the form of any .* begins with {begins}"
        ):
            read_log(rows(tmp_path / "a.jsonl", *values))


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("lm-eval", ROW),
        ("lighteval", {"doc": {}, "model_response": {}, "metric": {}}),
        ("verl", {"input": "q", "output": "a", "gts": "4", "score": 1, "step": 0}),
        ("trl", {"step": 1, "prompt": "q", "completion": "a", "accuracy": 1, "advantage": 0}),
        (
            "verifiers",
            {"example_id": 0, "prompt": "q", "completion": "a", "answer": 1, "reward": 1},
        ),
        (
            "open-instruct",
            {"prompt_idx": 0, "prompt_tokens": [], "response_tokens": [], "reward": 1},
        ),
        ("openai-batch", {"id": "r", "custom_id": "q", "response": {}, "error": None}),
        ("jsonl", {"problem": 1, "question": "q", "completion": "a", "correct": True}),
    ],
)
def test_a_row_is_of_one_program(tmp_path, name, row):
    source = LogSource(rows(tmp_path / "a.jsonl", row))
    assert [program.name for program in programs() if program.recognise(source)] == [name]


def test_every_program_is_described():
    assert len(programs()) == 9
    for program in programs():
        assert all((program.title, program.file, program.sample, program.verdict))
    assert program_titles().endswith(" or verl")
