"""Nothing of a log is left out in silence: what was, why, and what its counts then mean."""

import gzip
import json
import zipfile

import pyarrow as pa
import pytest

from sage_cli.errors import DataError
from sage_cli.evaluation.counted_files import read_counted_files
from sage_cli.evaluation.logs.log import ReadOptions
from sage_cli.evaluation.logs.problems import gather
from sage_cli.evaluation.logs.registry import read_log

STEM = "Which of the following statements is correct?"


def rows(path, *values):
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def sample(id_=1, epoch=1, value="C", **change):
    """A sample as Inspect logs it."""
    said = {"choices": [{"message": {"content": "4"}, "stop_reason": "stop"}]}
    scored = {"scores": {"match": {"value": value}}}
    return {
        "id": id_,
        "epoch": epoch,
        "input": f"q{id_}",
        "target": "4",
        "output": said,
        **scored,
        **change,
    }


def inspect(path, *samples, status="success", dataset=(), **config):
    head = {"eval": {"config": config, "dataset": dict(dataset)}, "status": status}
    path.write_text(json.dumps({**head, "samples": samples}))
    return path


def counts(path, **reading):
    """Problems with n and c, and the notes of the file."""
    (file,) = read_counted_files([str(path)], reading=ReadOptions(**reading))
    of = file.counts
    pairs = zip(of.problem_ids, of.n_P.tolist(), of.c_P.tolist(), strict=True)
    return {id_: (n, c) for id_, n, c in pairs}, " | ".join(file.notes)


ROW = {"question": "q", "gold": "4", "completion": "a", "correct": True}


@pytest.mark.parametrize(
    ("ids", "questions", "found"),
    [
        # once each, and every question repeats: samples'
        ("a b c d", "q q r r", {"a": (2, 2), "c": (2, 2)}),
        # ids that repeat are problems', whatever else is equal
        ("a a b b", "q q r r", {"a": (2, 2), "b": (2, 2)}),
        ("a a b b", "q q q q", {"a": (2, 2), "b": (2, 2)}),
        # once each, no question repeats: either way the same
        ("a b", "q r", {"a": (1, 1), "b": (1, 1)}),
    ],
)
def test_an_id_is_a_samples_or_a_problems(tmp_path, ids, questions, found):
    pairs = zip(ids.split(), questions.split(), strict=True)
    made = [{**ROW, "problem": id_, "question": question} for id_, question in pairs]
    assert counts(rows(tmp_path / "a.jsonl", *made))[0] == found


@pytest.mark.parametrize(
    ("ids", "questions"),
    [
        ("a a b c", "q q q q"),  # one id repeats, and the others don't
        ("a b c", "q q r"),  # ten items of forty with one stem, whose choices the file lacks
    ],
)
def test_a_mixture_of_ids_asks_for_the_column_of_the_problem(tmp_path, ids, questions):
    pairs = zip(ids.split(), questions.split(), strict=True)
    made = [{**ROW, "problem": id_, "question": question} for id_, question in pairs]
    file = rows(tmp_path / "a.jsonl", *made)
    with pytest.raises(DataError, match="some ids share a question") as raised:
        counts(file)
    assert "--fields problem=" in raised.value.next_step
    by_id, _ = counts(file, fields={"problem": "problem"})
    assert len(by_id) == len(set(ids.split()))
    by_question, _ = counts(file, fields={"problem": "question"})
    assert len(by_question) == len(set(questions.split()))


def test_items_with_one_stem_and_ids_of_their_own_are_not_merged(tmp_path):
    """Ten of thirty rows share a stem and the letter of the gold; the file lacks the choices."""
    row = {"completion": "A", "gold": "A"}
    made = [
        {**row, "id": n, "question": STEM if n < 10 else f"Question {n}", "correct": n % 2 == 0}
        for n in range(30)
    ]
    file = rows(tmp_path / "a.jsonl", *made)
    with pytest.raises(DataError, match="some ids share a question and its gold"):
        counts(file)
    found, notes = counts(file, fields={"problem": "id"})
    assert (len(found), sum(c for _, c in found.values())) == (30, 15)
    assert "10 problems share question, choices and gold with another" in notes


@pytest.mark.parametrize("write", ["inspect", "lm-eval", "lighteval", "jsonl"])
def test_choices_belong_to_the_question(tmp_path, write):
    """Two problems with one stem and one letter as gold, one of them answered correctly."""
    options = [["mercury is a metal", "iron is a gas"], ["gold is light", "water is wet"]]
    if write == "inspect":
        made = [
            sample(i, value="CI"[i], input=STEM, target="A", choices=options[i]) for i in (0, 1)
        ]
        file = inspect(tmp_path / "a.json", *made)
    elif write == "lm-eval":
        made = [
            {"doc_id": i, "target": 0, "filter": "none", "metrics": ["acc"], "acc": 1.0 - i}
            | {"resps": [[["-1", "False"]]] * 2, "filtered_resps": [["-1", "False"]] * 2}
            | {"arguments": {str(c): {"arg_0": STEM, "arg_1": f" {options[i][c]}"} for c in (0, 1)}}
            for i in (0, 1)
        ]
        file = rows(tmp_path / "a.jsonl", *made)
    elif write == "lighteval":
        made = [
            {"doc": {"id": str(i), "query": STEM, "choices": options[i], "gold_index": 0}}
            | {"model_response": {"text": [], "logprobs": [-1, -2]}, "metric": {"acc": 1 - i}}
            for i in (0, 1)
        ]
        file = rows(tmp_path / "a.jsonl", *made)
    else:
        own = {**ROW, "question": STEM, "gold": "A"}
        made = [{**own, "problem": i, "choices": options[i], "correct": not i} for i in (0, 1)]
        file = rows(tmp_path / "a.jsonl", *made)
    found, notes = counts(file)
    assert found == {"0": (1, 1), "1": (1, 0)}
    assert "share question" not in notes
    problems = gather(read_log(file), file).by_content().problems
    assert len(problems) == 2
    assert any("water is wet" in problem.question for problem in problems.values())


def test_a_sample_that_stands_there_twice(tmp_path):
    file = inspect(tmp_path / "a.json", sample(), sample(), sample(epoch=2, value="I"))
    found, notes = counts(file)
    assert found == {"1": (2, 1)}
    assert "1 sample left out: they repeat another sample" in notes
    (read,) = read_counted_files([str(file)])
    assert sum(read.as_json()["left_out"].values()) == 1
    file = inspect(tmp_path / "a.json", sample(), sample(value="I"))
    with pytest.raises(DataError, match=r"sample 2 and sample 1 are one sample \(id 1, epoch 1\)"):
        counts(file)
    asked = {"gen": {"arg_0": "2+2=?", "arg_1": {}}}
    row = {"doc_id": 3, "arguments": asked, "resps": [["4"]], "filtered_resps": ["4"]}
    row |= {"metrics": ["em"], "em": 1.0, "filter": "none"}
    assert counts(rows(tmp_path / "a.jsonl", row, row))[0] == {"3": (1, 1)}
    other = {**row, "arguments": {"gen": {"arg_0": "3+3=?", "arg_1": {}}}}
    with pytest.raises(DataError, match=r"line 3 and line 1 are one sample"):
        counts(rows(tmp_path / "a.jsonl", row, {**row, "doc_id": 4}, other))


def test_a_sample_that_an_archive_holds_twice_counts_as_it_was_last_written(tmp_path):
    file = tmp_path / "a.eval"
    name = "samples/1_epoch_1.json"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("header.json", json.dumps({"eval": {}, "status": "success"}))
        archive.writestr(name, json.dumps(sample(value="I")))
        # Inspect requeues a sample, and reads its last entry
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr(name, json.dumps(sample()))
    assert counts(file)[0] == {"1": (1, 1)}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("error", "ended with an error"),
        ("cancelled", "was cancelled"),
        ("started", "not finished"),
    ],
)
def test_a_log_that_did_not_end_says_so(tmp_path, status, said):
    _, notes = counts(inspect(tmp_path / "a.json", sample(), status=status))
    assert said in notes
    assert "pass@k may be too high" in notes


def test_an_archive_without_its_header_is_read_as_unfinished(tmp_path):
    file = tmp_path / "a.eval"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("_journal/start.json", json.dumps({"eval": {"task": "sums"}}))
        archive.writestr("samples/1_epoch_1.json", json.dumps(sample()))
    found, notes = counts(file)
    assert found == {"1": (1, 1)}
    assert "status started" in notes


def test_planned_problems_without_a_sample_are_counted(tmp_path):
    dataset = {"samples": 6, "sample_ids": [1, 2, 3, 4, 5, 6]}
    failed = {"error": {"message": "lost"}}
    made = [sample(1), sample(2, **failed), sample(2, epoch=2, **failed)]
    found, notes = counts(inspect(tmp_path / "a.json", *made, dataset=dataset))
    assert found == {"1": (1, 1)}
    assert "2 samples left out: they failed" in notes
    assert "5 of 6 planned problems have no sample" in notes


@pytest.mark.parametrize(
    ("scored", "found"),
    [
        # with score_on_error a failed sample with a score counts: 1 of 2, and 0 of 1
        (True, {"1": (2, 1), "2": (1, 0)}),
        (False, {"1": (1, 1)}),
        (None, {"1": (1, 1)}),
    ],
)
def test_a_failed_sample_counts_as_the_log_is_configured(tmp_path, scored, found):
    failed = {"error": {"message": "lost"}, "value": "I"}
    made = [sample(1), sample(1, 2, **failed), sample(2, **failed)]
    made.append({**sample(2, 2, **failed), "scores": None})  # no score: left out in any case
    file = inspect(tmp_path / "a.json", *made, score_on_error=scored)
    read, notes = counts(file)
    assert read == found
    assert ("2 failed samples with a score: counted" in notes) == (scored is True)
    assert f"{1 if scored else 3} sample{'' if scored else 's'} left out: they failed" in notes


def test_invalid_samples_count_unless_they_are_dropped(tmp_path):
    made = [sample(1), sample(2, invalidation={"reason": "bug"}), sample(3, value="I")]
    file = inspect(tmp_path / "a.json", *made)
    found, notes = counts(file)
    assert found == {"1": (1, 1), "2": (1, 1), "3": (1, 0)}
    assert "1 sample marked as invalid: counted" in notes
    found, notes = counts(file, drop_invalidated=True)
    assert found == {"1": (1, 1), "3": (1, 0)}
    assert "1 sample left out: they are marked as invalid" in notes


def test_a_sample_without_choice_answer_or_score_refuses_no_log(tmp_path):
    cut = {"choices": [{"message": {"content": ""}, "stop_reason": "max_tokens"}]}
    made = [
        sample(1),
        sample(1, 2, "I", output={"choices": []}),
        sample(2, 1, "I", output=cut),
        sample(2, 2, None),
        sample(2, 3, float("nan")),
        {**sample(2, 4), "scores": {}},
    ]
    found, notes = counts(inspect(tmp_path / "a.json", *made))
    assert found == {"1": (2, 1), "2": (1, 0)}
    assert "3 samples left out: they have no match" in notes
    assert "problems have 1 to 2 samples (fewest: 2): k goes up to 1" in notes
    assert "1 sample of 3 (33%) cut off" in notes
    assert "2 samples without an answer: counted by their verdict" in notes
    plain = rows(tmp_path / "a.jsonl", ROW, {**ROW, "correct": None}, {**ROW, "completion": None})
    found, notes = counts(plain)
    assert found == {"q": (2, 2)}
    assert "1 sample left out: they have no correct" in notes


def test_several_targets_are_no_obstacle_where_each_sample_has_a_verdict(tmp_path):
    file = inspect(tmp_path / "a.json", sample(target=["7", "7.0"]), sample(2, value="I"))
    assert counts(file)[0] == {"1": (1, 1), "2": (1, 0)}
    row = {**ROW, "gold": ["1", "2"]}
    assert counts(rows(tmp_path / "a.jsonl", row))[0] == {"q": (1, 1)}


def test_old_forms_are_read(tmp_path):
    old = {key: value for key, value in sample().items() if key != "scores"}
    file = inspect(tmp_path / "a.json", {**old, "score": {"value": "C"}})
    assert counts(file)[0] == {"1": (1, 1)}
    asked = {"gen": {"arg_0": "2+2=?", "arg_1": {}}}
    row = {"doc_id": 3, "arguments": asked, "resps": [["4"]], "filtered_resps": ["4"]}
    row |= {"exact_match": 1.0, "doc_hash": "x"}  # lm-eval before 0.4.4: no metrics, no filter
    other = {**row, "filtered_resps": ["none"], "exact_match": 0.0}
    found, notes = counts(rows(tmp_path / "a.jsonl", row, other))
    assert found == {"3": (1, 1)}
    assert "1 row of other filters" in notes


def test_a_score_with_several_values_and_attachments(tmp_path):
    said = {"choices": [{"message": {"content": "attachment://b"}, "stop_reason": "stop"}]}
    value = {"format": 0.5, "correct": 1}
    one = sample(
        value=value, output=said, input="attachment://a", attachments={"a": "why", "b": "x"}
    )
    log = read_log(inspect(tmp_path / "a.json", one))
    (read,) = log.samples
    assert (log.score, read.question, read.text, read.correct) == (
        "match.correct",
        "why",
        "x",
        True,
    )


@pytest.mark.parametrize("packed", ["gz", "zst"])
@pytest.mark.parametrize("inner", ["jsonl", "csv", "json"])
def test_a_compressed_file_is_read_as_it_is(tmp_path, packed, inner):
    texts = {
        "jsonl": json.dumps(ROW) + "\n",
        "json": json.dumps([ROW]),
        "csv": "question,gold,completion,correct\nq,4,a,True\n",
    }
    content = texts[inner].encode()
    file = tmp_path / f"a.{inner}.{packed}"
    pack = gzip.compress if packed == "gz" else pa.Codec("zstd").compress
    file.write_bytes(bytes(pack(content)))
    assert counts(file)[0] == {"q": (1, 1)}


@pytest.mark.parametrize("packed", ["gz", "zst"])
def test_a_torn_compressed_file_is_named(tmp_path, packed):
    file = tmp_path / f"a.jsonl.{packed}"
    pack = gzip.compress if packed == "gz" else pa.Codec("zstd").compress
    file.write_bytes(bytes(pack((json.dumps(ROW) + "\n").encode() * 5000))[:-20])
    with pytest.raises(DataError, match=r"a\.jsonl\.\w+ can't be decompressed"):
        counts(file)


@pytest.mark.parametrize(
    "text",
    [
        "problem,n,c\na,4.0,2.0\nb,8.0,1.0\n",  # as pandas writes a column that had a gap
        "problem, n, c\na, 4, 2\nb, 8, 1\n",
    ],
)
def test_counts_as_pandas_and_people_write_them(tmp_path, text):
    file = tmp_path / "a.csv"
    file.write_text(text)
    assert counts(file)[0] == {"a": (4, 2), "b": (8, 1)}
    file.write_text(text.replace("4", "4.5"))
    with pytest.raises(DataError, match="not a whole number"):
        counts(file)


def test_any_columns_are_named(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("task,sample,response,is_correct\nq-0,0,25,0\nq-0,1,24,1\nq-1,0,7,True\n")
    fields = {"problem": "task", "completion": "response", "correct": "is_correct"}
    assert counts(file, fields=fields)[0] == {"q-0": (2, 1), "q-1": (1, 1)}
    with pytest.raises(DataError, match="begins with task, sample, response") as raised:
        counts(file)
    assert "--fields" in raised.value.next_step
    deep = {"meta": {"id": 5}, "chat": [{"role": "user", "content": "q"}], "ok": 1, "out": "a"}
    fields = {"problem": "meta.id", "question": "chat.-1.content", "correct": "ok"}
    file = rows(tmp_path / "a.jsonl", deep)
    assert counts(file, fields={**fields, "completion": "out"})[0] == {"5": (1, 1)}


AUDITED = {
    "ids_dupq.jsonl": (0.5, 4, "16 ids occur once each"),
    "mcq_shared_stem.eval": (0.26875, 40, ""),
    "mcq_two_letters.eval": (0.25, 4, ""),
    "message_limit.eval": (0.0, 6, "12 samples without an answer"),
    "all_epochs_failed.eval": (1 / 6, 3, "3 of 6 planned problems have no sample"),
    "score_on_error.eval": (17 / 24, 6, "score_on_error"),
    "status_error.eval": (0.75, 4, "status error"),
    "invalid.json": (1.0, 4, "2 samples marked as invalid"),
    "two_targets.eval": (0.75, 6, ""),
    "details_avg_full.parquet": (10 / 24, 6, ""),
    "samples_mcsamegold_2025-11-01T10-00-00.jsonl": (0.5, 6, ""),
    "samples_mcsame_2025-11-01T10-00-00.jsonl": (0.5, 6, ""),
    "all_cut_off.json": (0.0, 4, "8 samples of 8 (100%) cut off"),
    "old_score.json": (0.5, 4, ""),
    "samples_old_2024-04-01T10-00-00.jsonl": (0.5, 6, ""),
}
"""Logs of real programs, with what Inspect says of its own, or what their makers put in."""


@pytest.mark.data
@pytest.mark.parametrize("name", AUDITED)
def test_logs_that_were_misread_once(shared, name):
    file = shared / "audit/repro/measuring" / name
    if not file.is_file():
        pytest.skip(f"{name} is absent")
    mean, problems, said = AUDITED[name]
    found, notes = counts(file)
    assert len(found) == problems
    assert sum(c / n for n, c in found.values()) / problems == pytest.approx(mean)
    assert said in notes
