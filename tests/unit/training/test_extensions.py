"""Guides and methods of one's own, through the real trainer."""

import sys
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Literal

import pytest
import torch
from scored_batch import row_of
from toy_policy import PROMPTS, adapted, timeless
from trl import GRPOTrainer

from sage_cli.errors import TrainingError
from sage_cli.guides import Guide
from sage_cli.methods.formulas import group_advantages
from sage_cli.methods.loop import Method
from sage_cli.methods.policy_gradient import PolicyGradient
from sage_cli.models.loading import load_model
from sage_cli.models.signals import batch_signals

SEEN = []


@pytest.fixture(autouse=True)
def package(monkeypatch):
    """A package that registers the guides and methods of this file by their lower-case names."""
    kinds = {
        "sage_cli.guides": (Tutor, Undefined, Unread),
        "sage_cli.methods": (ByGroup, ByToken, Hesitant, Infinite),
    }
    things = {thing.__name__: thing for kind in kinds.values() for thing in kind}

    def entry_points(group, name=None):
        found = [EntryPoint(t.__name__.lower(), f"p:{t.__name__}", group) for t in kinds[group]]
        return [point for point in found if name in (None, point.name)]

    monkeypatch.setattr("sage_cli.settings.own_code.entry_points", entry_points)
    monkeypatch.setattr(EntryPoint, "load", lambda self: things[self.attr])
    SEEN.clear()


class Tutor(Guide):
    """Reads everything there is."""

    name: Literal["tutor"] = "tutor"
    strength: float = 0.1
    q_min: float = 0.2
    q_max: float = 5.0
    needs = frozenset(
        {
            "token_ids_BT",
            "policy_logps_BT",
            "policy_entropy_BT",
            "reference_logps_BT",
            "reference_entropy_BT",
        }
    )

    def q(self, signals, step):
        SEEN.append(signals)
        surer_BT = (signals.policy_entropy_BT - signals.reference_entropy_BT).abs()
        apart_BT = (signals.policy_logps_BT - signals.reference_logps_BT).abs()
        return 1 + self.strength * (surer_BT + apart_BT) * (signals.token_ids_BT % 2)


class Undefined(Guide):
    name: Literal["undefined"] = "undefined"
    q_min: float = 0.2
    q_max: float = 5.0

    def q(self, signals, step):
        return (signals.logps_BT - signals.reference_logps_BT) * torch.nan


class Unread(Undefined):
    name: Literal["unread"] = "unread"
    needs = frozenset({"reference_logps_BT"})


class ByGroup(PolicyGradient):
    algo: Literal["bygroup"] = "bygroup"


class ByToken(PolicyGradient):
    algo: Literal["bytoken"] = "bytoken"

    def advantages(self, inputs):
        advantages_B = group_advantages(inputs.rewards_PN).flatten()
        return advantages_B[:, None].expand(inputs.mask_BT.shape)


class Hesitant(ByToken):
    algo: Literal["hesitant"] = "hesitant"
    weight: float = 1.0

    def advantages(self, inputs):
        SEEN.append(inputs)
        return super().advantages(inputs) * (1 + self.weight * inputs.entropy_BT)


class Infinite(PolicyGradient):
    algo: Literal["infinite"] = "infinite"

    def advantages(self, inputs):
        return super().advantages(inputs) / 0


@pytest.mark.parametrize("tuning", ["full", "lora"])
def test_a_guide_reads_token_ids_and_both_models(bench, configure, tuning):
    config = configure(
        guide={"name": "tutor", "strength": 0.3, "q_max": 5.0},
        anchor={"reference": "pre-sft"},
        model={"kind": "pretrained", "tuning": tuning},
        rl={"steps": 1},
        rollout={"temperature": 0.7},
    )

    def policy():
        """Another model than the reference, so that all signals differ."""
        if tuning == "lora":
            return adapted(bench, config)
        model = load_model(bench.base)
        with torch.no_grad():
            model.lm_head.weight.mul_(0.2)
        return model

    reference = bench.base if tuning == "full" else None
    trainer = bench.trainer(config, model=policy(), reference=reference)
    trainer.train()
    (batch,), (signals,) = trainer._buffered_inputs, SEEN
    mask_BT = batch["completion_mask"].bool()
    assert torch.equal(signals.token_ids_BT, batch["completion_ids"])
    models = {"policy": policy(), "reference": load_model(bench.base)}
    for row in range(len(mask_BT)):
        _, prompt, completion = row_of(batch, row)
        for whose, model in models.items():
            # as a report of tokens computes them
            logps_T, entropy_T = batch_signals(model, [(prompt, completion)], 0.7)[0]
            for kind, expected_T in (("logps", logps_T), ("entropy", entropy_T)):
                found_T = getattr(signals, f"{whose}_{kind}_BT")[row][mask_BT[row]]
                torch.testing.assert_close(found_T, expected_T, atol=1e-4, rtol=1e-4)
    expected_BT = Tutor(strength=0.3, q_max=5.0).log_q(signals, 0)
    assert torch.equal(batch["log_q_BT"], expected_BT)
    assert expected_BT.unique().numel() > 10


@pytest.mark.parametrize(
    ("guide", "expected"),
    [
        ({"name": "none"}, [False, True]),
        ({"name": "branch"}, [False, True]),
        ({"name": "branch", "signal": "reference"}, [True, True]),
        ({"name": "tutor"}, [True, True]),
    ],
)
def test_only_what_is_asked_for_is_computed(bench, configure, monkeypatch, guide, expected):
    """Two passes in the first step: the reference's, with entropies or without, and the loss's."""
    asked = []
    plain = GRPOTrainer._get_per_token_logps_and_entropies

    def counting(self, *args, **named):
        asked.append(bool(named.get("compute_entropy")))
        return plain(self, *args, **named)

    trainer = bench.trainer(configure(guide=guide, rl={"steps": 1}))
    # leaves out the check at step 0, which is a pass of its own
    monkeypatch.setattr("sage_cli.training.trainer.check_reference", lambda *_: None)
    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", counting)
    trainer.train()
    assert asked == expected


@pytest.mark.parametrize(
    ("sections", "complaint"),
    [
        (
            {"guide": {"name": "undefined"}},
            "guide Undefined .*reads reference_logps_BT, which it did not declare",
        ),
        ({"guide": {"name": "unread"}}, r"q of guide Unread \(.*\) is NaN for \d+ of the"),
        ({"rl": {"algo": "infinite"}}, r"method 'infinite' \(p:Infinite\) returns NaN or inf"),
    ],
)
def test_nonsense_stops_the_first_step_by_name(bench, configure, sections, complaint):
    with pytest.raises(TrainingError, match=complaint):
        bench.run(configure(**sections))
    assert not (bench.folder / "run/metrics.jsonl").exists()


@pytest.mark.parametrize(("algo", "estimator"), [("bygroup", "k3"), ("bytoken", "reward")])
def test_the_groups_advantage_as_a_plugin_trains_as_trls_own(bench, configure, algo, estimator):
    def train(name):
        rl = {"algo": name, "micro_batch": 8, "iterations": 2, "overlong_buffer": 0.2}
        return timeless(bench.records(configure(rl=rl, anchor={"estimator": estimator})))

    for ours, theirs in zip(train(algo), train("grpo"), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5, rel=1e-4)


def test_an_advantage_reads_the_policys_signals_and_shapes_each_token(bench, configure):
    # prompts of unequal length, which are padded on the left
    uneven = [("1*" * (i % 3) + text, problem) for i, (text, problem) in enumerate(PROMPTS)]

    def first(weight):
        options = {"algo": "hesitant", "weight": weight}
        rl = {"steps": 1, "micro_batch": 4, **options}
        (record,) = bench.records(configure(rl=rl), prompts=uneven)
        return record

    flat, shaped = first(0.0), first(0.5)
    for inputs, record in zip(SEEN, (flat, shaped), strict=True):
        assert (inputs.step, inputs.steps) == (0, 1)
        assert inputs.right_PN.mean().item() == record["reward"]
        # the same numbers that the loss has seen, at the same weights
        entropy = inputs.entropy_BT[inputs.mask_BT.bool()].mean().item()
        assert entropy == pytest.approx(record["entropy"], rel=1e-5)
    assert shaped["reward"] == flat["reward"]
    assert abs(shaped["grad_norm"] - flat["grad_norm"]) > 1e-3


class Mine(Method):
    algo: Literal["mine"] = "mine"
    trained_by = "my_package.training"


def test_a_method_is_trained_by_the_module_that_it_names(monkeypatch):
    module = ModuleType("my_package.training")
    monkeypatch.setitem(sys.modules, "my_package", ModuleType("my_package"))
    monkeypatch.setitem(sys.modules, "my_package.training", module)
    assert Mine().load_training() is module
