"""Guided retries: hints, pairs and right tries by hand, and DPO against numbers in float64.

DPO's trainer is the real one; `tests/unit/cli/test_guided.py` kills it.
"""

import itertools
import json
import math

import pytest
import torch
from scored_batch import assert_same_gradients, gradients_of, log_chances
from toy_policy import adapted

from sage_cli.config.load import load
from sage_cli.errors import DataError, TrainingError
from sage_cli.methods.guided_dpo import GuidedDpo
from sage_cli.models.loading import load_model
from sage_cli.problems.arithmetic import Arithmetic
from sage_cli.problems.load import load_problems
from sage_cli.problems.problem import Problem
from sage_cli.settings.data import DataSection, SourceSection
from sage_cli.store.metrics_file import MetricsFile
from sage_cli.store.run import Run
from sage_cli.training.guided_retries import (
    Attempt,
    Pair,
    build_preference_trainer,
    dpo_arguments,
    hinted,
    lesson,
    sft_section,
    tokenized_pairs,
    train_preferences,
)
from sage_cli.training.validation import Validator

PAIRS = [Pair(f"{a}*{b}=?", f"{a * b}", f"{a}+{b}={a + b}") for a in (3, 40) for b in (5, 61, 700)]
BETA = 0.5


def attempt(question, right=(), wrong=(), *, solved=None):
    problem = Problem(question, "b", question, "7")
    drawn = len(right) + len(wrong) + 1  # one was cut off
    solved = bool(right) if solved is None else solved
    return Attempt(problem, solved, tuple(right), tuple(wrong), drawn, 10 * drawn)


SOLVED = attempt("easy", ["7", "07", "7.", "+7"], ["8"])
FAILED = attempt("hard", [], ["1", "2", "3"])
WITHOUT_HINT = attempt("bare", [], ["4"])
AGAIN = attempt("hard, hint", ["7", "07"], ["5"])


def test_right_with_the_hint_is_preferred_to_wrong_without_it():
    """Two right ones for three wrong ones: two pairs, and the prompt has no hint."""
    learnt = lesson([SOLVED, FAILED, WITHOUT_HINT], [(FAILED, AGAIN)], GuidedDpo(), 0)
    assert learnt.pairs == [Pair("hard", "7", "1"), Pair("hard", "07", "2")]
    assert learnt.counts == {
        "problems/tried": 3,
        "problems/failed": 2,
        "problems/retried": 1,
        "problems/rescued": 1,
        "pairs/found": 2,
        "sft/examples": 1,  # a fifth of four, rounded
        "sampled/completions": 6 + 4 + 2 + 4,
        "sampled/tokens": 160,
    }


def test_an_answer_that_was_begun_keeps_its_beginning():
    hint = {"hint": "{question}<{hint}", "continued": True}
    again = attempt("hard<1+", ["6=7"])
    learnt = lesson([SOLVED, FAILED], [(FAILED, again)], GuidedDpo(**hint), 0)
    assert learnt.pairs == [Pair("hard", "<1+6=7", "1")]


def test_a_share_of_the_right_tries_is_shown_in_each_epoch_once():
    half = GuidedDpo(sft_share=0.5, sft_epochs=3)
    learnt = lesson([SOLVED, FAILED], [(FAILED, AGAIN)], half, 4)
    assert len(learnt.examples) == 6
    assert set(learnt.examples[:2]) == set(learnt.examples[2:4]) == set(learnt.examples[4:])
    assert set(learnt.examples) < {("easy", text) for text in SOLVED.right}
    assert len(set(learnt.examples)) == 2
    assert lesson([SOLVED], [(FAILED, AGAIN)], half, 4).examples == learnt.examples
    others = {tuple(lesson([SOLVED], [(FAILED, AGAIN)], half, seed).examples) for seed in range(9)}
    assert len(others) > 1
    assert lesson([SOLVED], [(FAILED, AGAIN)], GuidedDpo(sft_share=0), 4).examples == []


@pytest.mark.parametrize(
    ("retried", "said"),
    [
        ([], "of 1 problems that were tried none was failed and has a hint"),
        ([(FAILED, attempt("hard, hint", [], ["5"]))], "none of 1 failed .* first 2 lines"),
        ([(attempt("hard"), AGAIN)], "to prefer to a wrong one"),
    ],
)
def test_nothing_to_prefer_is_refused_with_the_reason(retried, said):
    with pytest.raises(TrainingError, match=said):
        lesson([SOLVED], retried, GuidedDpo(), 0)


def config(configure, tuning="full", **rl):
    return configure(
        rl={"algo": "guided-dpo", "preference_beta": BETA, "steps": 5, "prompts_per_step": 3} | rl,
        anchor={"kl": "none"},
        prompt={"format": "plain", "system": None},
        model={"tuning": tuning, "lora": {"dropout": 0.0}},
    )


def moved(base, seed):
    """The toy policy with every weight a little off, so that no ratio is 1."""
    model = load_model(base, trainable=True)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.02 * torch.randn(weight.shape, generator=generator)
    return model


def by_hand(policy, reference, rows):
    """-ln s(beta ((ln pi - ln ref)(chosen) - (ln pi - ln ref)(rejected))), mean over pairs."""
    losses = []
    for row in rows:
        ratios = []
        for which in ("chosen_ids", "rejected_ids"):
            with torch.no_grad():
                held = log_chances(reference, row["prompt_ids"], row[which]).sum()
            ratios.append(log_chances(policy, row["prompt_ids"], row[which]).sum() - held)
        losses.append(torch.log1p(torch.exp(-BETA * (ratios[0] - ratios[1]))))
    return sum(losses) / len(losses)


def test_loss_and_gradient_are_those_of_float64(base, bench, configure, tokenizer, tmp_path):
    ours, rows = config(configure), tokenized_pairs(PAIRS[:3], tokenizer, config(configure))
    policy, reference = moved(base, 1), moved(base, 2)
    trainer = build_preference_trainer(
        ours, policy, reference, tokenizer, PAIRS[:3], Run(tmp_path / "run")
    )
    batch = trainer.data_collator(rows)
    loss = trainer.compute_loss(trainer.model, batch)
    loss.backward()

    exact_policy, exact_reference = moved(base, 1).double(), moved(base, 2).double()
    exact = by_hand(exact_policy, exact_reference, rows)
    exact.backward()
    assert loss.item() == pytest.approx(exact.item(), rel=1e-5)
    assert abs(exact.item() - math.log(2)) > 0.05
    gradients = gradients_of(trainer.model)
    assert_same_gradients(exact_policy, gradients, least=1e-7)
    assert max(gradient.abs().max().item() for gradient in gradients.values()) > 0.01


@pytest.mark.parametrize("tuning", ["full", "lora"])
def test_a_policy_that_is_its_reference_has_the_loss_ln_2(
    base, bench, configure, tokenizer, tmp_path, tuning
):
    ours, heard = config(configure, tuning), []
    lora = tuning == "lora"
    model = adapted(bench, configure()) if lora else load_model(base, trainable=True)
    reference = None if lora else load_model(base)
    for module in model.modules():  # as of a model whose configuration has attention dropout
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.2
    first = {"pairs/found": 6.0, "sampled/tokens": 90.0}
    run, looks = Run(tmp_path / "run"), itertools.count(1)
    validator = Validator(2, lambda _: {"eval/pass@1": next(looks) / 10})
    train_preferences(ours, model, reference, tokenizer, PAIRS, run, heard.append, first, validator)
    assert [record.get("eval/pass@1") for record in heard] == [None, 0.1, None, 0.2, 0.3]
    assert heard[0]["loss"] == pytest.approx(math.log(2), abs=1e-6)
    assert heard[0]["pairs/margin"] == pytest.approx(0, abs=1e-6)
    assert [record["step"] for record in heard] == [1, 2, 3, 4, 5]
    assert heard[-1]["pairs/margin"] > heard[2]["pairs/margin"] > 0  # the first rate is 0
    assert heard[-1]["loss"] < heard[0]["loss"]
    assert (heard[0]["pairs/found"], heard[0]["sampled/tokens"]) == (6, 90)
    assert "pairs/found" not in heard[1]
    assert heard[1]["sampled/tokens"] == 0
    assert run.metrics.read() == json.loads(json.dumps(heard))
    saved = {path.name for path in run.model.iterdir()}
    assert "ref" not in saved


def test_prompts_have_no_hint_and_completions_end(configure, tokenizer):
    (row,) = tokenized_pairs(PAIRS[:1], tokenizer, config(configure))
    assert tokenizer.decode(row["prompt_ids"]) == "3*5=?"
    assert tokenizer.decode(row["chosen_ids"]) == "15<|end|>"
    assert tokenizer.decode(row["rejected_ids"]) == "3+5=8<|end|>"


@pytest.mark.parametrize(
    ("pairs", "micro_batch", "together"),
    [(16, None, 16), (16, 8, 4), (6, 8, 3), (7, 8, 1), (4, 1, 1), (4, 99, 4)],
)
def test_a_micro_batch_counts_both_completions_of_a_pair(pairs, micro_batch, together):
    """8 completions are 4 pairs; of 6 pairs 3 at a time, since 4 doesn't divide them."""
    rl = GuidedDpo(prompts_per_step=pairs, micro_batch=micro_batch)
    assert rl.pairs_at_once == together


def test_dpo_and_its_sft_have_learning_rates_of_their_own(configure, tmp_path):
    ours = config(configure, learning_rate=2e-4, preference_rate=0.1, sft_rate=10.0)
    # 0.1 x 2e-4 = 2e-5 for DPO, and 10 x 2e-5 = 2e-4 for the SFT before it
    assert dpo_arguments(ours, Run(tmp_path)).learning_rate == pytest.approx(2e-5, rel=1e-12)
    assert sft_section(ours.rl).learning_rate == pytest.approx(2e-4, rel=1e-12)


def test_micro_batches_leave_the_step_as_it_is(base, configure, tokenizer, tmp_path):
    ends = []
    for micro_batch in (None, 2):
        ours = config(configure, micro_batch=micro_batch)
        assert dpo_arguments(ours, Run(tmp_path)).gradient_accumulation_steps == (
            1 if micro_batch is None else 3
        )
        run = Run(tmp_path / str(micro_batch))
        train_preferences(
            ours,
            load_model(base, trainable=True),
            load_model(base),
            tokenizer,
            PAIRS,
            run,
            lambda _: None,
            {},
        )
        ends.append([r["loss"] for r in MetricsFile(run.folder / "metrics.jsonl").read()])
    assert ends[0] == pytest.approx(ends[1], abs=1e-5)


GUIDED = GuidedDpo(hint="{question}\nBegin so: {hint}", hint_lines=1)


def test_a_hint_is_the_first_lines_and_never_the_last():
    solution = "<think>\n a \n\nb\nc\n</think>"
    assert GuidedDpo(hint_lines=1).hint_of(solution) == "a \n"
    two, nine = (GuidedDpo(hint_lines=lines).hint_of(solution) for lines in (2, 9))
    assert two == nine == "a \n\nb\n"
    by_semicolon = GuidedDpo(hint_lines=2, line_end=";")
    assert by_semicolon.hint_of("3*4=12;12+1=13;13") == "3*4=12;12+1=13;"


@pytest.mark.parametrize("solution", [None, "", "a", "<think>a</think>\n"])
def test_one_line_is_no_hint_because_it_is_all(solution):
    assert GUIDED.hint_of(solution) is None
    assert hinted(Problem("1", "b", "q", "7", working=solution), GUIDED) is None


def test_a_hinted_problem_is_another_problem_with_the_same_gold():
    """What stands in the question is no place for the hint."""
    problem = Problem("1", "b", "What is {hint}?", "7", working="3+\n4")
    asked = hinted(problem, GUIDED)
    assert asked.question == "What is {hint}?\nBegin so: 3+\n"
    assert (asked.gold, asked.benchmark) == ("7", "b")
    bare = GuidedDpo(hint="{question}{hint}", hint_lines=2)
    assert asked.id not in (problem.id, hinted(problem, bare).id)


def test_a_generated_product_begins_as_it_is_demonstrated():
    """47 * 63 = 47 * 60 + 47 * 3: two of three steps, as the preset `tiny` shows them."""
    config = load(["tiny"], {"rl": {"algo": "guided-dpo"}}).config
    problem = Arithmetic.from_data(config.data).problems("training")[0]
    a, b = map(int, problem.question.removesuffix("=?").split("*"))
    tens, units = b - b % 10, b % 10
    assert hinted(problem, config.rl).question == (
        f"{a}*{b}=?<start_working_out>S:{a}*{tens}={a * tens};{a}*{units}={a * units};"
    )


def test_a_files_column_of_working_is_kept_beside_the_problem(tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text('{"question": "1+1", "gold": 2, "steps": "one\\ntwo", "level": 3}\n')
    source = SourceSection(name=str(file), fields={"working": "steps"})
    (problem,) = load_problems(source.name, DataSection(), source.fields)
    assert problem.working == "one\ntwo"
    assert "steps" not in problem.meta
    GUIDED.require_problems([problem.working], source)


@pytest.mark.parametrize(
    ("working", "fields", "said"),
    [
        (None, {}, "mine.jsonl has no worked solutions, and"),
        (None, {"working": "steps"}, "no worked solutions in its column 'steps'"),
        ("7", {}, "worked solutions of a single line only"),
    ],
)
def test_data_without_hints_is_refused_by_name(working, fields, said):
    with pytest.raises(DataError, match=said) as refused:
        GUIDED.require_problems([working] * 3, SourceSection(name="mine.jsonl", fields=fields))
    assert "data.rl.fields.working=COLUMN" in refused.value.next_step
