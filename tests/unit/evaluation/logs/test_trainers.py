"""Dumps of trainers: TRL's by its own trainer, the others in the form that their writers have."""

import json
import shutil
from pathlib import Path

import pytest

from sage_cli.errors import DataError
from sage_cli.evaluation.counted_files import read_counted_files
from sage_cli.evaluation.logs.log import ReadOptions
from sage_cli.evaluation.logs.problems import gather
from sage_cli.evaluation.logs.registry import read_log

WRITTEN = Path(__file__).parents[3] / "data" / "imported"


def rows(path, *values):
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def counts(path, **reading):
    """Problems with n and c, and the notes of the file."""
    (file,) = read_counted_files([str(path)], reading=ReadOptions(**reading))
    of = file.counts
    pairs = zip(of.n_P.tolist(), of.c_P.tolist(), strict=True)
    return file.log.program, list(pairs), " | ".join(file.notes)


VERL = {"input": "2+2=?", "output": "It is 4", "gts": "4", "score": 1.0, "step": 30}


def test_a_validation_dump_of_verl(tmp_path):
    made = [VERL, {**VERL, "score": -1.0}, {**VERL, "input": "3+3=?", "gts": "6", "score": 0.0}]
    program, pairs, notes = counts(rows(tmp_path / "30.jsonl", *made))
    assert (program, pairs) == ("verl", [(2, 1), (1, 0)])
    assert "read as verl: 3 samples, correct by score" in notes
    assert "of training step 30" in notes
    # where the reward function says it, `acc` is verl's own core metric
    made = [{**VERL, "acc": False, "pred": "7"}, {**VERL, "acc": True, "score": 0.1}]
    file = rows(tmp_path / "30.jsonl", *made)
    _, pairs, notes = counts(file)
    assert pairs == [(2, 1)]
    assert "scores not taken: score (no verdict: 0.1)" in notes
    with pytest.raises(DataError, match="neither correct nor wrong"):
        read_log(file, ReadOptions("score"))


def test_a_rollout_of_an_agent_counts_once_by_its_last_output(tmp_path):
    """verl's keys are {sample}_{rollout}_{output}; all outputs of a rollout have its score."""
    keys = [("a_0_0", 0), ("a_0_1", 0), ("a_1_0", 1), ("b_0_0", 0)]
    made = [
        {**VERL, "input": f"problem {key[0]}", "uid": key, "score": score} for key, score in keys
    ]
    _, pairs, notes = counts(rows(tmp_path / "30.jsonl", *made))
    assert pairs == [(2, 1), (1, 0)]
    assert "1 sample left out: an earlier output of a rollout" in notes


def test_keys_of_single_rollouts_are_samples(tmp_path):
    made = [{**VERL, "uid": f"{n}-{n}", "score": n % 2} for n in range(4)]
    made += [{**VERL, "input": "3+3=?", "uid": f"{n}+{n}", "score": 0} for n in range(4)]
    assert counts(rows(tmp_path / "30.jsonl", *made))[1] == [(4, 2), (4, 0)]


VERIFIERS = {
    "example_id": 0,
    "prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2=?"}],
    "completion": [{"role": "assistant", "content": "4"}],
    "answer": "4",
    "reward": 1.0,
    "task": "sums",
    "is_truncated": False,
    "metrics": {"format": 1.0},
    "format": 1.0,
    "token_usage": {"input_tokens": 5, "output_tokens": 3.0},
}


def test_results_of_verifiers(tmp_path):
    made = [
        VERIFIERS,
        {**VERIFIERS, "reward": 0.0, "is_truncated": True},
        {**VERIFIERS, "example_id": 1, "prompt": "3+3=?", "completion": "6", "answer": "6"},
        {
            **VERIFIERS,
            "example_id": 1,
            "prompt": "3+3=?",
            "reward": 0.0,
            "answer": "6",
            "completion": None,
            "error": {"error": "lost"},
        },
    ]
    file = rows(tmp_path / "results.jsonl", *made)
    settings = {"model": "acme/a", "env_id": "sums", "sampling_args": {"temperature": 0.7}}
    (tmp_path / "metadata.json").write_text(json.dumps(settings))
    program, pairs, notes = counts(file)
    assert (program, pairs) == ("verifiers", [(2, 1), (2, 1)])
    assert "1 rollout ended with an error: counted by their reward" in notes
    assert "1 sample of 4 (25%) cut off" in notes
    log = read_log(file)
    assert (log.settings["model"], log.settings["temperature"]) == ("acme/a", 0.7)
    assert (log.samples[0].question, log.samples[0].text) == ("2+2=?", "4")
    assert log.samples[0].tokens == 3
    # ids of rollouts: eight of two questions
    made = [{**one, "example_id": n} for n, one in enumerate([*made[:2] * 2, *made[2:] * 2])]
    assert counts(rows(tmp_path / "results.jsonl", *made))[1] == [(4, 2), (4, 2)]


def test_episodes_of_verifiers(tmp_path):
    """Two tasks with three rollouts each, of which one is wrong and cut off, and one failed."""
    file = shutil.copy(WRITTEN / "verifiers_traces.jsonl", tmp_path / "traces.jsonl")
    program, pairs, notes = counts(file)
    assert (program, pairs) == ("verifiers", [(3, 2), (2, 1)])
    assert "1 sample left out: their rollouts failed" in notes  # as in verifiers' own mean
    assert "1 sample of 5 (20%) cut off" in notes
    log = read_log(file)
    first = log.samples[0]
    assert (first.question, first.text, first.gold) == ("What is 2+2?", r"It is \boxed{4}", "4")
    assert (first.problem, first.tokens, log.score) == ("key-0", 9, "reward")
    assert (log.settings["model"], log.settings["temperature"]) == ("org/model", 0.7)
    assert [one.correct for one in read_log(file, ReadOptions("format")).samples] == [True] * 5
    # a judge's trace has no reward, and is no sample
    episode = json.loads(file.read_text().splitlines()[0])
    judge = {**episode["traces"][0], "rewards": {}, "agent": {"name": "judge", "trainable": False}}
    with_judge = rows(tmp_path / "t.jsonl", {**episode, "traces": [*episode["traces"], judge]})
    assert counts(with_judge)[1] == [(1, 1)]
    # scores are summed by their weights: 1 - .5 is no verdict
    episode["traces"][0]["rewards"]["format"] = {"score": -1.0, "weight": 0.5}
    assert "reward (no verdict: 0.5)" in counts(rows(tmp_path / "t.jsonl", episode))[2]
    with pytest.raises(DataError, match=r"traces\.jsonl, line 1"):
        read_log(rows(tmp_path / "traces.jsonl", {**episode, "traces": [{"ok": True}], "task": {}}))


OPEN = {
    "step": 1,
    "sample_idx": 0,
    "prompt_idx": 0,
    "prompt_tokens": [5, 6],
    "reward": 10.0,
    "response_tokens": [7, 2],
    "advantage": 0.5,
    "finish_reason": "stop",
    "dataset": ["gsm8k"],
    "ground_truth": ["4"],
    "request_info": None,
    "logprobs": None,
}


def test_rollouts_of_open_instruct(tmp_path):
    made = [OPEN, {**OPEN, "reward": 0.0, "finish_reason": "length"}, {**OPEN, "prompt_idx": 1}]
    made.append({**made[0], "step": 2})  # the same prompt in another step
    program, pairs, notes = counts(rows(tmp_path / "r.jsonl", *made))
    assert (program, pairs) == ("open-instruct", [(2, 1), (1, 1), (1, 1)])
    assert "a reward of 10 is taken for correct" in notes
    assert "of training steps 1, 2: counted together" in notes
    mixed = rows(tmp_path / "m.jsonl", *made, {**OPEN, "reward": 1.0})
    with pytest.raises(DataError, match="rewards are 0, 1, 10"):
        counts(mixed)


def batch(id_, *texts, **change):
    choices = [{"message": {"content": text}, "finish_reason": "stop"} for text in texts]
    body = {"model": "acme/b", "choices": choices, "usage": {"completion_tokens": 9}}
    answer = {"status_code": 200, "body": body}
    return {"id": "r", "custom_id": id_, "response": answer, "error": None, **change}


def asked(id_, question, **change):
    body = {"model": "acme/b", "messages": [{"role": "user", "content": question}]}
    return {"custom_id": id_, "method": "POST", "url": "/v1/chat", "body": body, **change}


def test_the_output_of_a_batch_with_its_input_beside_it(tmp_path):
    made = [batch("a", "4", "5"), batch("b", "6", "6"), batch("c", error={"code": 429})]
    file = rows(tmp_path / "output.jsonl", *made)
    (tmp_path / "other.jsonl").write_text('{"custom_id": "z", "body": {}}\n')
    with pytest.raises(DataError, match="neither a verdict nor a reference answer") as raised:
        gather(read_log(file), file)
    assert "--golds FILE" in raised.value.next_step
    inputs = [asked("a", "2+2=?", gold="4"), asked("b", "3+3=?", metadata={"answer": "6"})]
    source = rows(tmp_path / "input.jsonl", *inputs)
    log = read_log(file)
    assert [(one.question, one.gold, one.text) for one in log.samples] == [
        ("2+2=?", "4", "4"),
        ("2+2=?", "4", "5"),
        ("3+3=?", "6", "6"),
        ("3+3=?", "6", "6"),
    ]
    assert log.left_out == {"their requests failed": 1}
    assert f"questions or golds of 2 ids are those of {source}" in log.notes[-1]
    rows(tmp_path / "second.jsonl", *inputs)
    with pytest.raises(DataError, match="could be the input of this batch"):
        read_log(file)


def test_a_batch_with_an_id_a_rollout_and_golds_in_a_table(tmp_path):
    file = rows(tmp_path / "output.jsonl", *(batch(f"q{n}", "4") for n in range(4)))
    rows(tmp_path / "input.jsonl", *(asked(f"q{n}", f"{n // 2}+2=?") for n in range(4)))
    golds = tmp_path / "golds.csv"
    golds.write_text("id,gold\n" + "".join(f"q{n},{n // 2 + 2}\n" for n in range(4)))
    log = read_log(file, ReadOptions(golds=(tmp_path / "input.jsonl", golds)))
    samples = gather(log, file)
    assert {id_: len(group) for id_, group in samples.samples.items()} == {"q0": 2, "q2": 2}
    with pytest.raises(DataError, match="no question or gold that the log lacks"):
        read_log(file, ReadOptions(golds=(rows(tmp_path / "x.jsonl", {"id": "z", "gold": "1"}),)))


@pytest.mark.slow
def test_completions_that_trl_writes(tmp_path):
    """A step of GRPOTrainer: two rewards and a logged gold, two prompts, four completions each."""
    from datasets import Dataset
    from random_model import random_model
    from trl import GRPOConfig, GRPOTrainer

    from sage_cli.models.tokenizer import character_tokenizer

    tokenizer = character_tokenizer([])

    def format_reward(completions, **_):
        return [1.0] * len(completions)

    def accuracy_reward(completions, solution, log_extra=None, **_):
        if log_extra:
            log_extra("solution", list(solution))
        return [float(number % 2) for number in range(len(completions))]

    args = GRPOConfig(
        str(tmp_path),
        use_cpu=True,
        bf16=False,
        max_steps=1,
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=4,
        log_completions=True,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
    )
    problems = [{"prompt": f"{n}+1=", "solution": str(n + 1)} for n in (2, 3)]
    GRPOTrainer(
        random_model(tokenizer),
        [format_reward, accuracy_reward],
        args,
        train_dataset=Dataset.from_list(problems),
        processing_class=tokenizer,
    ).train()
    (file,) = tmp_path.rglob("completions_*.parquet")
    program, pairs, notes = counts(file)
    assert (program, pairs) == ("trl", [(4, 2), (4, 2)])
    assert "of training step 1" in notes
    assert "scores not taken: format_reward (accuracy_reward is taken" in notes
    log = read_log(file)
    assert {one.gold for one in log.samples} == {"3", "4"}
    assert log.has_texts
