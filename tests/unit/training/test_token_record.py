"""Statistics of a step, the engine's probabilities, phases, grades, ledger and checkpoints."""

import math
import shutil
from contextlib import suppress
from functools import wraps
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from recorded import meaning
from scored_batch import log_chances
from torch.nn.functional import pad
from toy_policy import PROMPTS
from trl import GRPOTrainer

from sage_cli.errors import StoreError
from sage_cli.guides import BranchGuide, NoGuide
from sage_cli.guides.token_values import (
    entropy_percentiles,
    guide_statistics,
    share_of_largest,
    weighted_q,
)
from sage_cli.methods.hooks import Rollouts
from sage_cli.store.ledger import PromptRow
from sage_cli.store.run import Run
from sage_cli.store.run_facts import PHASES
from sage_cli.training.checkpoints import check_own_checkpoints, newest_sealed, rotate, seal
from sage_cli.training.phases import Phases, peak_memory
from sage_cli.training.run_recorder import RunRecorder, batch_record, rollout_rows
from sage_cli.training.token_record import (
    TokenRecord,
    add_clipped,
    add_mismatch,
    mismatch_statistics,
    token_statistics,
)
from sage_cli.training.trainer import SageTrainer

ONE = SimpleNamespace(num_processes=1)
LOGPS_BT = torch.tensor([[1.1, 0.8, 9.0], [1.0, 0.5, 1.0]]).log()
BATCH = {
    "completion_mask": torch.tensor([[1, 1, 0], [1, 1, 1]]),
    "sampling_per_token_logps": torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, math.nan]]),
}
"""Ratios 1.1, .8 and 1, .5; a masked one and one that the engine left out."""


def signals(*, whole):
    record = TokenRecord()
    add_mismatch(record, BATCH, LOGPS_BT, whole=whole)
    return record.drain(ONE)


def test_statistics_of_tokens_by_hand():
    found = mismatch_statistics(signals(whole=False), 1.05)
    logs = [math.log(r) for r in (1.1, 0.8, 1.0, 0.5)]
    assert found == pytest.approx(
        {
            "mismatch/difference_mean": sum(map(abs, logs)) / 4,
            "mismatch/difference_max": math.log(2),
            "mismatch/ratio_min": 0.5,
            "mismatch/ratio_mean": 0.85,  # (1.1 + .8 + 1 + .5) / 4
            "mismatch/ratio_max": 1.1,
            "mismatch/kl": (3.4 - sum(logs)) / 4 - 1,  # the mean of r - log r - 1
            "mismatch/cut": 0.25,
        },
        rel=1e-6,
    )
    assert all(meaning(key) for key in found)


def test_ratios_of_completions_are_products_and_nothing_is_cut_without_a_cap():
    found = mismatch_statistics(signals(whole=True), None)
    assert found["mismatch/ratio_min"] == pytest.approx(0.5)  # 1 x .5
    assert found["mismatch/ratio_max"] == pytest.approx(0.88)  # 1.1 x .8
    assert "mismatch/cut" not in found
    assert found["mismatch/difference_max"] == pytest.approx(math.log(2))  # of a token still


def test_older_probabilities_are_the_drawing_policys():
    record = TokenRecord()
    add_mismatch(record, {**BATCH, "old_per_token_logps": LOGPS_BT}, LOGPS_BT + 1, whole=False)
    assert mismatch_statistics(record.drain(ONE), 2.0)["mismatch/ratio_max"] == pytest.approx(1.1)


def engine(monkeypatch, share):
    """Have TRL take samples of `generate` for vLLM's, with probabilities times `share`."""
    plain = GRPOTrainer._generate_single_turn

    @wraps(plain)  # the seam is checked by its signature
    def generate(trainer, prompt_ids, *rest, **named):
        trainer.use_vllm = False
        ids, _ = plain(trainer, prompt_ids, *rest, **named)
        trainer.use_vllm, trainer.vllm_importance_sampling_mode = True, "token_truncate"
        with torch.no_grad():
            logps = [
                log_chances(trainer.model, prompt, drawn)
                for prompt, drawn in zip(prompt_ids, ids, strict=True)
            ]
        return ids, [(row + math.log(share)).tolist() for row in logps]

    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", generate)


@pytest.mark.parametrize("iterations", [1, 2])
def test_a_trainings_records_say_how_far_the_engine_is(bench, configure, monkeypatch, iterations):
    engine(monkeypatch, 1 / 0.9)  # probabilities that are too large by the same factor
    rl = {"steps": 2, "iterations": iterations, "micro_batch": 8}
    records = bench.records(configure(rl=rl, rollout={"min_p": 0.05}))
    for record in records:
        assert record["mismatch/ratio_mean"] == pytest.approx(0.9, abs=1e-5)
        assert record["mismatch/ratio_max"] == pytest.approx(0.9, abs=1e-4)
        assert record["mismatch/cut"] == 0
        assert record["mismatch/difference_mean"] == pytest.approx(-math.log(0.9), abs=1e-5)
        assert record["mismatch/kl"] == pytest.approx(0.9 - math.log(0.9) - 1, abs=1e-5)


def test_rollouts_without_log_probabilities_have_no_such_records(bench, configure):
    records = bench.records(configure(rl={"steps": 1}, rollout={"min_p": 0.05}))
    assert not [key for key in records[0] if key.startswith("mismatch/")]


def test_a_phase_inside_another_takes_its_time_away_from_it(monkeypatch):
    now = [0.0]
    settled = []
    phases = Phases(lambda: now[0])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: settled.append(now[0]))

    def spend(seconds):
        now[0] += seconds

    with phases.during("loss"):
        spend(1)
        with phases.during("generate"):
            spend(2)
            with phases.during("sync"):
                spend(4)
            spend(8)
        with suppress(KeyError), phases.during("grade"):
            spend(16)
            raise KeyError
        spend(32)
    # loss 1 + 32, generate 2 + 8, and the device is waited for at each end
    seconds = {"generate": 10, "sync": 4, "grade": 16, "reference": 0, "loss": 33}
    expected = {"time/step_s": 70, **{f"time/{phase}_s": spent for phase, spent in seconds.items()}}
    # 28 tokens in generate 10 and sync 4, and 35 in the step's 70 seconds
    rates = {"time/generated_tokens_per_s": 2, "time/trained_tokens_per_s": 0.5}
    assert phases.record(70, sampled=28, trained=35) == expected | rates
    assert settled == [7, 15, 31, 63]
    begun_anew = phases.record(70, sampled=0, trained=0)
    assert [begun_anew[f"time/{phase}_s"] for phase in PHASES] == [0] * len(PHASES)


def test_memory_is_the_highest_and_of_each_process_and_a_gpus_is_the_steps(monkeypatch):
    reset = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 3 * 2**30)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: reset.append(None))
    alone = SimpleNamespace(device="cpu", gather=lambda values: values)
    assert peak_memory(alone) == {"memory/peak_gib": 3.0}
    assert reset == [None]
    of_two = SimpleNamespace(device="cpu", gather=lambda own: torch.cat([own, own + 2]))
    own = {f"memory/peak_gib/{rank}": peak for rank, peak in enumerate((3.0, 5.0))}
    assert peak_memory(of_two) == {"memory/peak_gib": 5.0, **own}


def test_a_trainings_phases_are_its_steps(bench, configure):
    """16 completions a step, drawn for two of them: what isn't drawn takes no time."""
    rl = {"iterations": 2, "advantage": "group"}
    records = bench.records(configure(rl=rl, anchor={"beta": 0.1}, guide={"name": "branch"}))
    for record in records:
        phases = [record[f"time/{phase}_s"] for phase in PHASES]
        assert sum(phases) <= record["time/step_s"]
        assert record["time/loss_s"] > 0
        assert record["time/sync_s"] == 0  # no engine
        tokens = 16 * record["completions/length"]
        trained_s = record["time/step_s"]
        assert record["time/trained_tokens_per_s"] == pytest.approx(tokens / trained_s)
        assert record["memory/peak_gib"] > 0
    drawn, again = records[0], records[1]
    assert drawn["time/generated_tokens_per_s"] == pytest.approx(
        16 * drawn["completions/length"] / drawn["time/generate_s"]
    )
    assert (drawn["time/reference_s"] > 0, drawn["time/grade_s"] > 0) == (True, True)
    assert "time/generated_tokens_per_s" not in again
    assert [again[f"time/{phase}_s"] for phase in ("generate", "grade", "reference")] == [0, 0, 0]


def test_token_statistics_by_hand():
    record = TokenRecord()
    mask_BT = torch.tensor([[1, 1, 0], [1, 0, 0]])
    record.add(
        mask_BT,
        entropy=torch.tensor([[1.0, 2.0, 9.0], [3.0, 9.0, 9.0]]),
        logps=torch.tensor([[-1.0, -2.0, 9.0], [-3.0, 9.0, 9.0]]),
        reference=torch.tensor([[-2.0, -2.0, 9.0], [-2.0, 9.0, 9.0]]),
        log_q=torch.tensor([[0.0, math.log(1.2), 9.0], [math.log(1.4), 9.0, 9.0]]),
        held=torch.tensor([[1.0, 0.0, 9.0], [1.0, 9.0, 9.0]]),
        equal=torch.tensor([[0.0, 0.0, 9.0], [1.0, 9.0, 9.0]]),
    )
    found = token_statistics(record.drain(ONE), BranchGuide(q_max=1.4))
    assert found["entropy"] == pytest.approx(2)
    assert found["entropy/p50"] == pytest.approx(2)
    assert found["entropy/p75"] == pytest.approx(2.5)
    # log pi - log pi_ref: 1, 0, -1
    assert found["kl/reference"] == pytest.approx(0)
    log_q = (math.log(1.2) + math.log(1.4)) / 3
    assert found["kl/shaped"] == pytest.approx(-log_q, abs=1e-7)
    # d = -1, log 1.2, 1 + log 1.4
    k3 = (math.exp(-1) + 1.2 - math.log(1.2) + 1.4 * math.e - 1 - math.log(1.4)) / 3 - 2 / 3
    assert found["kl/k3"] == pytest.approx(k3, abs=1e-6)
    # k3 of the held tokens: 1 / e, and 1.4 e - 1 - log 1.4 - 1, which alone is of an equal group
    last = 1.4 * math.e - 2 - math.log(1.4)
    assert found["anchor/equal_groups"] == pytest.approx(last / (math.exp(-1) + last), abs=1e-6)
    assert found["anchor/rows"] == pytest.approx(2 / 3)
    assert found["guide/q_mean"] == pytest.approx(1.2)
    assert (found["guide/q_min"], found["guide/q_max"]) == pytest.approx((1, 1.4))
    assert found["guide/shaped"] == pytest.approx(2 / 3)
    assert found["guide/clamped"] == pytest.approx(1 / 3)
    assert found["guide/log_q"] == pytest.approx(log_q)
    assert math.isnan(token_statistics(record.drain(ONE), NoGuide())["entropy"])


# log pi - log pi_ref is 1, 0 and -1, so that d without a guide is 1 / e, 0 and e - 2
MOVED = {"logps": [-1.0, -2.0, -3.0], "reference": [-2.0, -2.0, -2.0]}
SHAPED = {"entropy": [1.0, 2.0, 3.0], "log_q": [0.0, math.log(1.2), math.log(1.4)]}


@pytest.mark.parametrize(
    "cuts", [[slice(0, 3)], [slice(0, 1), slice(1, 3)], [slice(0, 2), slice(2, 3)]]
)
@pytest.mark.parametrize("guide", [BranchGuide(), NoGuide()])
def test_q_by_the_kl_terms_weights_is_a_ratio_of_sums_over_micro_batches(cuts, guide):
    record, tokens = TokenRecord(), MOVED | SHAPED | {"held": [1.0, 1.0, 1.0]}
    for cut in cuts:
        part = {
            name: torch.tensor([values[cut]], dtype=torch.float64)
            for name, values in tokens.items()
        }
        record.add(torch.ones_like(part["held"]), **part)
    found = token_statistics(record.drain(ONE), guide)
    assert found["kl/k3_reference"] == pytest.approx((1 / math.e + math.e - 2) / 3, rel=1e-12)
    assert found["kl/k3_top10"] == 1
    if isinstance(guide, NoGuide):
        assert not any(name.startswith("guide/") for name in found)
        return
    # (1 x 1 / e + 1.2 x 0 + 1.4 (e - 2)) / (1 / e + e - 2), where the guided d would have weights
    # e^-1, .2 - log 1.2 and 1.4 e - 2 - log 1.4; (1 x 1 + 1.2 x 2 + 1.4 x 3) / 6
    by_kl = (1 / math.e + 1.4 * (math.e - 2)) / (1 / math.e + math.e - 2)
    assert found["guide/q_kl_mean"] == pytest.approx(by_kl, rel=1e-12)
    assert found["guide/q_entropy_mean"] == pytest.approx(7.6 / 6, rel=1e-12)


def test_q_is_weighted_on_the_tokens_that_the_kl_term_acts_on():
    log_q_T, entropy_T = (
        torch.tensor(values, dtype=torch.float64) for values in (SHAPED["log_q"], [1, 2, 3])
    )
    found = weighted_q(log_q_T, entropy_T, torch.tensor([1.0, 2.0, 5.0]), torch.tensor([1, 1, 0]))
    # (1 x 1 + 1.2 x 2) / 3 in both: the third token, of q 1.4, is not held
    assert found == pytest.approx({"q_kl_mean": 3.4 / 3, "q_entropy_mean": 3.4 / 3}, rel=1e-12)


@pytest.mark.parametrize(("apart", "held"), [(0.0, 1.0), (1e-6, 1.0), (1.0, 0.0)])
def test_q_has_no_mean_where_the_policy_has_not_moved_or_nothing_is_held(apart, held):
    record, ones_BT = TokenRecord(), torch.ones(2, 3).double()
    record.add(
        ones_BT,
        entropy=held * ones_BT,
        logps=-ones_BT,
        reference=(apart - 1) * ones_BT,
        log_q=0.3 * ones_BT,
        held=held * ones_BT,
    )
    found = token_statistics(record.drain(ONE), BranchGuide())
    assert (found["guide/q_kl_mean"], found["kl/k3_top10"]) == (None, None)
    assert found["guide/q_entropy_mean"] == (pytest.approx(math.exp(0.3)) if held else None)
    assert found["kl/k3_reference"] == pytest.approx(math.exp(apart) - apart - 1, abs=1e-12)


CLIP = (0.2, 0.28)


def clipped_share(rows, *sizes, whole=False):
    """The share after micro-batches of so many rows (log-ratios, advantages, mask)."""
    record, start = TokenRecord(), 0
    for size in sizes:
        ratio_BT, advantages_B, mask_BT = (values[start : start + size] for values in rows)
        add_clipped(record, mask_BT, ratio_BT, advantages_B, CLIP, whole=whole)
        start += size
    return record.drain(ONE)["clipped"].mean().item()


def test_clipped_tokens_are_counted_whichever_rows_share_a_micro_batch():
    """1.3 is above 1.28 and clipped for a positive advantage, .7 below .8 for a negative one."""
    ratio_BT = torch.tensor([[1.3, 1.3, 0.7], [1.3, 0.7, 0.7], [1.2, 0.9, 9.0]]).log().double()
    mask_BT = torch.tensor([[1, 1, 1], [1, 1, 1], [1, 0, 0]])
    rows = ratio_BT, torch.tensor([1.0, -1.0, 1.0]).double(), mask_BT
    # 2 of 3, 2 of 3 and 0 of 1: 4 of 7; the mean of the three shares would be 4 / 9
    for sizes in ((3,), (2, 1), (1, 1, 1)):
        assert clipped_share(rows, *sizes) == pytest.approx(4 / 7)
    # means of log-ratios: (1.3^2 * .7)^(1/3) = 1.058, (1.3 * .7^2)^(1/3) = .860, 1.2: none
    assert clipped_share(rows, 2, 1, whole=True) == 0
    # .7 * .7 * .7: below .8 with a negative advantage, one of three completions
    ratio_BT[1] = math.log(0.7)
    assert clipped_share(rows, 2, 1, whole=True) == pytest.approx(1 / 3)
    # advantages of single tokens: those of the second row's last token turned positive
    each = rows[1][:, None].repeat(1, 3)
    each[1, 2] = 1.0
    assert clipped_share((ratio_BT, each, mask_BT), 3) == pytest.approx(4 / 7)


def test_the_share_of_the_ten_largest_by_hand():
    values_T, held_T = torch.arange(1, 14).double(), torch.ones(13).double()
    held_T[12] = 0
    # 3 + ... + 12 = 75 of 1 + ... + 12 = 78; the 13 is not held
    assert share_of_largest(values_T, held_T) == pytest.approx(75 / 78, rel=1e-12)


def test_percentiles_are_those_of_all_tokens_in_order():
    entropy_T = torch.rand(1001, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    expected = np.percentile(entropy_T.numpy(), [50, 75, 90, 95, 99])
    assert list(entropy_percentiles(entropy_T).values()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("main", [True, False])
def test_the_main_process_alone_has_the_signals_of_all(monkeypatch, main):
    """Of two processes, with 2 tokens here and 3 there, of which there are two signals."""
    theirs_T = torch.tensor([3.0, 4.0, 5.0, 30.0, 40.0, 50.0])
    accelerator = SimpleNamespace(
        num_processes=2,
        is_main_process=main,
        device="cpu",
        gather=lambda counts: torch.cat([counts, torch.tensor([[3, 3]])]),
        pad_across_processes=lambda values_T, dim: pad(values_T, (0, 2)),
    )

    def gather(values_T, rows=None):
        assert (rows is not None) == main
        for row, sent in zip(rows or [], (values_T, theirs_T), strict=False):
            row.copy_(sent)

    monkeypatch.setattr(torch.distributed, "gather", gather)
    record = TokenRecord()
    entropy_BT = torch.tensor([[1.0, 2.0, 9.0]])
    record.add(torch.tensor([[1, 1, 0]]), entropy=entropy_BT, logps=10 * entropy_BT)
    found = {name: values_T.tolist() for name, values_T in record.drain(accelerator).items()}
    all_T = [1.0, 2.0, 3.0, 4.0, 5.0] if main else []
    assert found == {"entropy": all_T, "logps": [10 * value for value in all_T]}


def test_percentiles_and_statistics_of_nothing_are_nan():
    empty = torch.empty(0)
    assert all(math.isnan(value) for value in entropy_percentiles(empty).values())
    assert all(math.isnan(value) for value in guide_statistics(empty, NoGuide()).values())


def test_batch_record_by_hand():
    # statuses: right, wrong | wrong, unparseable | right, right
    status_PN = torch.tensor([[0, 1], [1, 2], [0, 0]])
    length_B, clipped_B = torch.tensor([1, 2, 3, 4, 5, 6]), torch.tensor([1, 0, 0, 0, 0, 0])
    found = batch_record(status_PN, length_B, clipped_B)
    assert found["reward"] == pytest.approx(0.5)
    assert [found[f"grade/{s}"] for s in ("right", "wrong", "unparseable")] == [3, 2, 1]
    assert found["groups/zero_variance"] == pytest.approx(2 / 3)
    assert found["completions/length"] == pytest.approx(3.5)
    assert found["completions/clipped"] == pytest.approx(1 / 6)


def two_of_each_prompt():
    """Return two completions of each of two prompts, as the second of two processes has them."""
    prompts = [{"prompt": p, "gold": g, "row": 9} for p, g in (("1+1=", "2"), ("1+2=", "3"))]
    now = Rollouts(
        [prompts[0], prompts[0], prompts[1], prompts[1]],
        texts=["2", "3", "4", "3"],
        statuses=["right", "wrong", "wrong", "right"],
    )
    now.batch = {"row_ids_B": torch.tensor([4, 5, 6, 7])}
    other_42 = torch.full((4, 2), 9.0)  # of the first process
    own_42 = torch.tensor([[1.0, -0.25], [0.0, 0.0], [0.0, -0.5], [1.0, 0.0]])
    now.rewards_BF = torch.cat([other_42, own_42])
    now.raw_BF = torch.cat([other_42, torch.tensor([[1.0, math.nan], [0, 0], [0, 0.5], [1, 0]])])
    return now


def test_a_rollout_of_each_prompt_by_hand():
    rows = rollout_rows(two_of_each_prompt(), 2, ())
    assert rows == [
        {"prompt": "1+1=", "completion": "2", "gold": "2", "grade": "right", "reward": 0.75},
        {"prompt": "1+2=", "completion": "4", "gold": "3", "grade": "wrong", "reward": -0.5},
    ]


def test_a_rollout_has_what_graded_rewards_say_by_name():
    rows = rollout_rows(two_of_each_prompt(), 2, ("grade", "brevity"))
    assert [row["rewards"] for row in rows] == [
        {"grade": 1.0, "brevity": None},
        {"grade": 0.0, "brevity": 0.5},
    ]


def test_completions_that_neither_a_token_nor_a_text_ended_are_cut_off():
    ids, texts = [[5, 9], [5, 6, 7], [9, 6], [], [5, 6, 8]], ["a", "b", "c", "", "stop"]
    trainer = SimpleNamespace(eos_token_ids=[9], stopping=None)
    assert SageTrainer.cut_off(trainer, ids, texts) == [False, True, True, True, True]
    trainer.stopping = SimpleNamespace(stops=lambda text: text == "stop")
    assert SageTrainer.cut_off(trainer, ids, texts) == [False, True, True, True, False]


def checkpoint(folder, step, *, sealed=True):
    made = folder / f"checkpoint-{step}"
    made.mkdir(parents=True)
    (made / "weights").write_text("w" * step)
    if sealed:
        seal(made)
    return made


def test_the_newest_whole_checkpoint_counts_and_torn_ones_go(tmp_path):
    assert newest_sealed(tmp_path / "absent") is None
    checkpoint(tmp_path, 9)
    whole = checkpoint(tmp_path, 100)
    (checkpoint(tmp_path, 101) / "weights").write_text("short")
    checkpoint(tmp_path, 102, sealed=False)
    (checkpoint(tmp_path, 103, sealed=False) / "sealed.json").write_text("{}")  # without sizes
    assert newest_sealed(tmp_path) == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-100", "checkpoint-9"]


def test_another_runs_checkpoint_is_refused_and_nothing_removed(tmp_path):
    theirs, ours = tmp_path / "rl-theirs/checkpoints", tmp_path / "rl-ours/checkpoints"
    checkpoint(ours, 3, sealed=False)
    shutil.copytree(checkpoint(theirs, 5), ours / "checkpoint-5")
    for look in (check_own_checkpoints, newest_sealed):
        with pytest.raises(StoreError, match="checkpoint-5 was written by rl-theirs, another run"):
            look(ours)
    assert (ours / "checkpoint-3").is_dir()
    assert newest_sealed(theirs) == theirs / "checkpoint-5"
    moved = tmp_path / "elsewhere" / "rl-theirs"
    shutil.copytree(tmp_path / "rl-theirs", moved)
    assert newest_sealed(moved / "checkpoints") == moved / "checkpoints/checkpoint-5"


@pytest.mark.parametrize(
    ("keep", "kept", "then"),
    [
        (1, [30], [31]),
        (2, [20, 30], [30, 31]),
        (3, [10, 20, 30], [20, 30, 31]),
        (9, [10, 20, 30], [10, 20, 30, 31]),
    ],
)
def test_checkpoints_in_between_take_no_regular_ones_place(tmp_path, keep, kept, then):
    def steps():
        return sorted(int(path.name.partition("-")[2]) for path in tmp_path.iterdir())

    checkpoint(tmp_path, 99, sealed=False)  # which another process is writing
    for step in (7, 10, 12, 20, 21, 25, 30):
        checkpoint(tmp_path, step)
        rotate(tmp_path, keep, period=10)
        assert step in steps()
    assert steps() == [*kept, 99]
    checkpoint(tmp_path, 31)
    rotate(tmp_path, keep, period=10)
    assert steps() == [*then, 99]


def test_rows_of_a_problem_are_added_up_and_sorted():
    rows = [
        PromptRow("b", 1, 1, 0, 0, 0, 0, 7, 7, True),
        PromptRow("a", 1, 0, 1, 0, 0, 0, 5, 0, True),
        PromptRow("b", 1, 0, 0, 1, 0, 0, 2, 0, True),
        PromptRow("b", 1, 0, 1, 0, 0, 0, 3, 0, False),
    ]
    written = []
    ledger = SimpleNamespace(add=lambda *batch: written.append(batch))
    recorder = RunRecorder(None, ledger, None, [], None, None, _rows=rows)
    recorder.write_counts(7, main=False)
    assert written == []
    recorder._rows = rows
    recorder.write_counts(7, main=True)
    ((step, merged),) = written
    assert step == 7
    assert merged == [
        PromptRow("b", 1, 0, 1, 0, 0, 0, 3, 0, False),
        PromptRow("a", 1, 0, 1, 0, 0, 0, 5, 0, True),
        PromptRow("b", 2, 1, 0, 1, 0, 0, 9, 7, True),  # 7 + 2 tokens, 7 of them right
    ]


def kept_run(bench, configure, name="run", **rl):
    """Return a run of two prompts a step that keeps every completion."""
    settings = {"algo": "grpo", "prompts_per_step": 2, "rollouts_per_prompt": 2} | rl
    tracking = {"rollouts": "all"}
    bench.run(configure(rl=settings, tracking=tracking, anchor={"beta": 0.1}), name)
    return Run(bench.folder / name)


@pytest.mark.parametrize("dynamic", [False, True])
def test_ledger_and_completions_agree_with_the_records(bench, configure, dynamic):
    extra = {"dynamic_sampling": True, "max_extra_generations": 2} if dynamic else {}
    run = kept_run(bench, configure, **extra)
    ledger, completions = run.ledger.read().to_pylist(), run.completions().read().to_pylist()
    for record in run.metrics.read():
        own, rows = (
            [row for row in table if row["step"] == record["step"]]
            for table in (ledger, completions)
        )
        trained = [row for row in own if row["trained"]]
        replaced = [row for row in own if not row["trained"]]
        n = sum(row["n"] for row in trained)
        assert n == 4
        assert sum(row["right"] for row in trained) / n == pytest.approx(record["reward"])
        assert sum(row["tokens"] for row in own) == record["sampled/tokens"]
        assert sum(row["n"] for row in own) == record["sampled/completions"] == len(rows)
        assert sum(row["n"] for row in replaced) == 2 * record.get("groups/discarded", 0)
        assert record.get("groups/extra_generations", 0) <= 2
        assert not {row["problem"] for row in replaced} & {row["problem"] for row in trained}
        equal = sum(row["right"] in (0, row["n"]) for row in trained) / len(trained)
        assert equal == pytest.approx(record["groups/zero_variance"])
        assert sum(len(row["ids"]) for row in rows) == record["sampled/tokens"]
        taught = [row for row in rows if row["trained"]]
        assert [row["rewards"] for row in taught] == [
            [float(row["grade"] == "right")] for row in taught
        ]
        for first, second in zip(taught[::2], taught[1::2], strict=True):  # groups of two
            assert first["problem"] == second["problem"]
        for row in rows:
            assert bench.tokenizer.decode(row["ids"], skip_special_tokens=True) == row["text"]
            assert (row["rewards"] is None) == (not row["trained"])
    assert {row["problem"] for row in ledger} <= {problem.id for _, problem in PROMPTS}
    assert any(not row["trained"] for row in ledger) == dynamic


def test_keeping_completions_changes_nothing(bench, configure):
    kept = kept_run(bench, configure)
    rl = {"prompts_per_step": 2, "rollouts_per_prompt": 2, "algo": "grpo"}
    plain = bench.run(configure(rl=rl, anchor={"beta": 0.1}), "plain")
    assert [row["loss"] for row in kept.metrics.read()] == [row["loss"] for row in plain]
    assert not (bench.folder / "plain" / "completions").exists()
