"""Each method's loss and gradient in the real trainer, against formulas in double precision.

What the policy says of the tokens is taken from the trainer's own passes; advantages, ratios,
masks and normalisers are computed anew, one token at a time.
"""

from itertools import combinations, pairwise
from math import comb, exp, log

import numpy as np
import pytest
import torch
from scored_batch import log_chances, rows_of
from trl import GRPOTrainer

from sage_cli.methods.reweighted import Psr
from sage_cli.models.loading import load_model

PROMPTS, GROUP, LIMIT = 4, 4, 12


def group_advantages(rewards):
    mean = sum(rewards) / GROUP
    deviation = (sum((one - mean) ** 2 for one in rewards) / (GROUP - 1)) ** 0.5
    return [(one - mean) / (deviation + 1e-4) for one in rewards]


def best_of_two(rewards):
    """Mean over the pairs with a completion of their normalised best grade."""
    pairs = {pair: max(rewards[i] for i in pair) for pair in combinations(range(GROUP), 2)}
    mean = sum(pairs.values()) / len(pairs)
    deviation = (sum((one - mean) ** 2 for one in pairs.values()) / len(pairs)) ** 0.5
    of = [[best - mean for pair, best in pairs.items() if i in pair] for i in range(GROUP)]
    return [sum(one) / len(one) / deviation if deviation else 0.0 for one in of]


def worth_in_pairs(rewards):
    """What the best of each pair loses without the completion, over all pairs, times the group."""
    lost = [0.0] * GROUP
    for a, b in combinations(range(GROUP), 2):
        lost[a] += max(rewards[a], rewards[b]) - rewards[b]
        lost[b] += max(rewards[a], rewards[b]) - rewards[a]
    return [GROUP * loss / comb(GROUP, 2) for loss in lost]


def scaled_by_success(rewards):
    """Over the group's success rate: 1/p - 1 for the right ones, -1 for others."""
    p = sum(rewards) / GROUP
    return [(one - p) / (p + 1e-6) for one in rewards]


def risk_seeking(rewards):
    mean = sum(exp(2 * one) for one in rewards) / GROUP
    return [(exp(2 * one) / mean - 1) / 2 for one in rewards]


BY_GROUP = {
    "pass-at-k": best_of_two,
    "pkpo": worth_in_pairs,
    "maxrl": scaled_by_success,
    "rs-grpo": risk_seeking,
    "psr": lambda rewards: rewards,
    "nsr": lambda rewards: [one - 1 for one in rewards],
    "w-reinforce": lambda rewards: [0.1 if one else -1.0 for one in rewards],
}


def less_for_likely(rewards, logps):
    sums = [sum(one) for one in logps]
    ranks = [sum(other < mine for other in sums) for mine in sums]
    return group_advantages(
        [r * (1 - 0.25 * k / GROUP) for r, k in zip(rewards, ranks, strict=True)]
    )


def more_for_rare(rewards, logps):
    rarity = [exp(-sum(one) / len(one)) * r for one, r in zip(logps, rewards, strict=True)]
    right = sum(rewards)
    return [
        a * (0.8 + 0.2 * right * w / sum(rarity)) if r else a
        for a, w, r in zip(group_advantages(rewards), rarity, rewards, strict=True)
    ]


BY_LIKELIHOOD = {"unlikeliness": less_for_likely, "ucpo": more_for_rare}


def advantages_of(name, rewards, logps):
    """The group's advantages; `logps` are its completions' tokens' when they were sampled."""
    if name in BY_LIKELIHOOD:
        return BY_LIKELIHOOD[name](rewards, logps)
    return BY_GROUP.get(name, group_advantages)(rewards)


def token_advantages(name, rows, clip):
    """Of each token, with everything else of the micro-batch at hand."""
    tokens = [(b, t) for b, row in enumerate(rows) for t in range(len(row["logp"]))]
    found = [[row["advantage"]] * len(row["logp"]) for row in rows]
    at = lambda key, b, t: rows[b][key][t]  # noqa: E731
    if name == "entropy-shaped":
        for b, t in tokens:
            found[b][t] += min(0.4 * at("entropy", b, t), abs(found[b][t]) / 2)
    if name == "steer":
        omega = {}
        for b, t in tokens:
            pi, old = exp(at("logp", b, t)), exp(at("old", b, t))
            rate = found[b][t] / old * pi * (1 - pi) * (log(pi) + at("old_entropy", b, t))
            omega[b, t] = abs(rate)
        least, greatest = min(omega.values()), max(omega.values())
        for b, t in tokens:
            share = (omega[b, t] - least) / (greatest - least) if greatest > least else 0.5
            found[b][t] *= 1.2 - 0.4 * share
    if name == "archer":
        for b, t in tokens:
            certain = at("entropy", b, t) <= np.quantile(rows[b]["entropy"], 0.8)
            if certain and clipped(rows[b], t, (0.005, 0.005)):
                found[b][t] = 0.0
                rows[b]["narrow"] = True
    if name in ("clip-cov", "kl-cov"):
        means = [
            np.mean([rows[b]["advantage"] for b, _ in tokens]),
            np.mean([at("logp", b, t) for b, t in tokens]),
        ]
        covariance = {
            (b, t): (rows[b]["advantage"] - means[0]) * (at("logp", b, t) - means[1])
            for b, t in tokens
        }
        if name == "kl-cov":
            count = max(1, int(0.1 * len(tokens)))
            for b, t in sorted(tokens, key=lambda one: covariance[one])[-count:]:
                if covariance[b, t] > 0:
                    rows[b]["held"].add(t)
        else:
            rows[0]["candidates"] = {
                (b, t)
                for b, t in tokens
                if 0.3 < covariance[b, t] < 5 and not clipped(rows[b], t, clip)
            }
            rows[0]["count"] = max(1, int(0.1 * len(tokens)))
    return found


def clipped(row, t, clip):
    ratio = exp(row["logp"][t] - row["old"][t])
    if row["advantage"] > 0:
        return ratio > 1 + clip[1]
    return ratio < 1 - clip[0] and row["advantage"] < 0


METHODS = {
    "pass-at-k": {"k": 2},
    "pkpo": {"k": 2},
    "entropy-shaped": {},
    "steer": {},
    "kl-cov": {"share": 0.1},
    "archer": {"epsilon_certain": 0.005},
    "clip-cov": {"share": 0.1, "covariance_low": 0.3},
    **{name: {} for name in (*BY_GROUP, *BY_LIKELIHOOD) if name not in ("pass-at-k", "pkpo")},
}


@pytest.mark.parametrize("name", METHODS)
def test_loss_and_gradient_of_every_micro_batch_and_update(bench, configure, monkeypatch, name):
    settings = {"dynamic_sampling": False} | METHODS[name]
    settings |= {"micro_batch": 8, "steps_per_generation": 1, "iterations": 2, "warmup_ratio": 0.0}
    config = configure(rl={"algo": name, "learning_rate": 1e-2, **settings}, anchor={"kl": "none"})
    rl = config.rl
    trainer = bench.trainer(config)
    seen = {"updates": 0, "moved": 0.0}
    plain_pass, plain_loss = (
        GRPOTrainer._get_per_token_logps_and_entropies,
        GRPOTrainer._compute_loss,
    )

    def passing(self, *args, **named):
        found = plain_pass(self, *args, **(named | {"compute_entropy": True}))
        if not torch.is_grad_enabled():
            seen.setdefault("first", []).append(found)
        else:
            found[0].retain_grad()
            seen["now"] = found
        return found

    def scoring(self, inputs):
        seen["first"] = []
        seen["batch"] = plain_score(self, inputs)
        return seen["batch"]

    plain_score = GRPOTrainer._generate_and_score_completions

    def computing(self, model, view):
        loss = plain_loss(self, model, view)
        logps_BT = seen["now"][0]
        (gradient_BT,) = torch.autograd.grad(loss, logps_BT, retain_graph=True)
        check(loss.item(), gradient_BT.double(), view)
        return loss

    def check(loss, gradient_BT, view):
        ids, lengths = view["row_ids_B"].tolist(), view["completion_mask"].sum(dim=1).tolist()
        logps_BT, entropy_BT = (one.detach().double() for one in seen["now"][:2])
        old_BT, old_entropy_BT = (one.double() for one in seen["first"][0][:2])
        rewards_PN = trainer.now.total_B.double().reshape(PROMPTS, GROUP).tolist()
        every = seen["batch"]["completion_mask"].sum(dim=1).tolist()
        old = [old_BT[i, :length].tolist() for i, length in enumerate(every)]
        rows = []
        for b, (i, length) in enumerate(zip(ids, lengths, strict=True)):
            p = i // GROUP
            logps = old[p * GROUP : (p + 1) * GROUP]
            of_group = advantages_of(name, rewards_PN[p], logps)
            rows.append(
                {
                    "advantage": of_group[i % GROUP],
                    "held": set(),
                    "logp": logps_BT[b, :length].tolist(),
                    "old": old_BT[i, :length].tolist(),
                    "entropy": entropy_BT[b, :length].tolist(),
                    "old_entropy": old_entropy_BT[i, :length].tolist(),
                }
            )
        clip = (rl.epsilon_low, rl.epsilon_high)
        advantages = token_advantages(name, rows, clip)
        if name == "clip-cov":  # which of the candidates were drawn is the trainer's affair
            drawn = {
                (b, t)
                for b, row in enumerate(rows)
                for t in range(len(row["logp"]))
                if view["advantages"][b, t] == 0 and row["advantage"] != 0
            }
            candidates = rows[0]["candidates"]
            assert drawn <= candidates
            assert len(drawn) <= rows[0]["count"]  # some may be of groups without advantage
            for b, t in drawn:
                advantages[b][t] = 0.0
            seen["drawn"] = seen.get("drawn", 0) + len(drawn)
        seen["narrow"] = seen.get("narrow", False) or any("narrow" in row for row in rows)
        expected, slopes_BT = 0.0, torch.zeros_like(gradient_BT)
        for b, row in enumerate(rows):
            for t, advantage in enumerate(advantages[b]):
                x = row["logp"][t] - row["old"][t]
                ratio = exp(x)
                value, slope = -ratio * advantage, -ratio * advantage
                if rl.clip:
                    high = min(ratio, rl.delta) if rl.delta else ratio
                    within = min(max(ratio, 1 - clip[0]), 1 + clip[1])
                    value = -min(high * advantage, within * advantage)
                    slope = value if abs(value + ratio * advantage) < 1e-12 else 0.0
                if t in row["held"]:
                    value, slope = value + abs(x), slope + np.sign(x)
                weight = 1 / len(row["logp"]) / len(rows) / 2  # of two micro-batches
                if rl.loss == "dapo":
                    weight = 1 / view["num_items_in_batch"].item()
                elif rl.loss == "dr_grpo":
                    weight = 1 / LIMIT / len(rows) / 2
                expected += weight * value
                slopes_BT[b, t] = weight * slope
                seen["moved"] = max(seen["moved"], abs(x))
        assert loss == pytest.approx(expected, abs=1e-5)
        torch.testing.assert_close(gradient_BT, slopes_BT, atol=1e-5, rtol=1e-5)
        seen["updates"] += 1

    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", passing)
    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", scoring)
    monkeypatch.setattr(GRPOTrainer, "_compute_loss", computing)
    trainer.train()
    assert seen["updates"] == 2 * 4  # micro-batches, updates
    assert seen["moved"] > 0.01  # in the second update of a generation the ratio isn't 1
    assert name != "clip-cov" or seen["drawn"] > 0
    assert name != "archer" or seen["narrow"]


def advantages_found(trainer):
    """The trainer's advantages by row."""
    return {
        i: advantage
        for batch in trainer._buffered_inputs
        for i, advantage in zip(
            batch["row_ids_B"].tolist(), batch["advantages"].tolist(), strict=True
        )
    }


def test_mara_reads_the_reference_and_the_anchors_weight(bench, configure):
    """The trainer's advantages, against the frozen model's own log-probabilities."""
    config = configure(
        rl={"algo": "mara", "steps": 1, "micro_batch": 8, "most_added": None},
        anchor={"kl": "reverse", "beta": 0.25},
    )
    trainer = bench.trainer(config)
    trainer.train()
    model, found = load_model(bench.base).double(), advantages_found(trainer)
    with torch.no_grad():
        logps = {
            i: log_chances(model, prompt, completion).sum().item()
            for i, _, prompt, completion in rows_of(trainer)
        }
    right = trainer.now.total_B.double().tolist()
    mixed = 0
    for start in range(0, PROMPTS * GROUP, GROUP):
        rows = range(start, start + GROUP)
        best = max((logps[i] for i in rows if right[i]), default=0.0)
        rewards = [right[i] and 1 + 0.25 * (best - logps[i]) for i in rows]
        mixed += len(set(rewards)) > 2
        assert [found[i] for i in rows] == pytest.approx(group_advantages(rewards), abs=2e-5)
    assert mixed > 0  # some group has right completions that differ in likelihood


def test_a_method_reads_the_texts_and_problems_of_its_rows(bench, configure, monkeypatch):
    """In the rows' order: a text is graded as its row was, with its own problem's gold."""
    seen = {}

    def advantages(self, inputs):
        seen.update(texts=inputs.texts_B, ids=inputs.problem_ids_B, right=inputs.right_PN)
        return inputs.right_PN.flatten()

    monkeypatch.setattr(Psr, "advantages", advantages)
    trainer = bench.trainer(configure(rl={"algo": "psr", "steps": 1, "micro_batch": 8}))
    trainer.train()
    golds = {problem.id: problem.gold for _, problem in trainer.hooks.setup.prompts}
    assert len(set(seen["ids"])) == PROMPTS
    assert all(len(set(seen["ids"][start : start + GROUP])) == 1 for start in range(0, 16, GROUP))
    graded = bench.grader([golds[one] for one in seen["ids"]], list(seen["texts"]))
    right = [float(grade.status == "right") for grade in graded]
    assert right == seen["right"].flatten().tolist()
    assert 0 < sum(right) < len(right)


def rank_of(hidden_TD):
    values = np.linalg.svd(hidden_TD - hidden_TD.mean(axis=0), compute_uv=False)
    shares = values[values > 1e-9] / values.sum()
    return exp(-sum(q * log(q) for q in shares))


def test_effective_rank_measures_the_policys_hidden_states(bench, configure):
    options = {"algo": "effective-rank", "stride": 3}
    trainer = bench.trainer(configure(rl={"steps": 1, "micro_batch": 8, **options}))
    trainer.train()
    model, measured, found = load_model(bench.base), {}, advantages_found(trainer)
    for i, _, prompt, completion in rows_of(trainer):
        with torch.no_grad():
            states = model(torch.tensor([prompt + completion]), output_hidden_states=True)
        hidden_TD = states.hidden_states[-1][0, len(prompt) :].double().numpy()
        m = [rank_of(hidden_TD[:end]) for end in range(3, len(hidden_TD), 3)]
        v = [m[j] - sum(m[:j]) / j for j in range(1, len(m))]
        steps = [b - a for a, b in pairwise(v)]
        rank = rank_of(hidden_TD) if len(hidden_TD) > 1 else 1.0
        measured[i] = [rank, sum(v) / max(1, len(v)), sum(steps) / max(1, len(steps))]
    rewards_PN = trainer.now.total_B.double().reshape(PROMPTS, GROUP).tolist()
    assert len(found) == PROMPTS * GROUP
    for i, (_, change, growth) in measured.items():
        advantage = group_advantages(rewards_PN[i // GROUP])[i % GROUP]
        # the moving means begin at 0: every measure is as far above or below as can be
        gate = 1 / (1 + exp(-10 * np.sign(growth)))
        phi = gate * np.tanh(5) + (1 - gate) * np.tanh(5 * np.sign(change))
        expected = advantage + min(max(0.0, phi), abs(advantage) / 2)
        assert found[i] == pytest.approx(expected, abs=1e-5)
    usual = [0.3 * sum(column) / len(measured) for column in zip(*measured.values(), strict=True)]
    assert trainer.advantage_memory["usual"] == pytest.approx(usual, abs=1e-4)
