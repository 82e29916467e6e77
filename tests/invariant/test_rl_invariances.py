"""Settings that must not matter, and those that must, on whole trainings' records."""

from copy import deepcopy

import pytest
import torch
from datasets import Dataset
from toy_policy import PROMPTS, SETTINGS, defined, reference_completions, same, timeless
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOTrainer

from sage_cli.methods.loop import Method
from sage_cli.settings.section import built_in
from sage_cli.training import passes, trainer
from sage_cli.training.prompt_order import training_order
from sage_cli.training.rl import grpo_arguments


def comparable(records):
    """Records without timings and the guide's own keys."""
    return timeless(records, "guide/")


def assert_close(first, second, tolerance):
    assert len(first) == len(second)
    for one, other in zip(comparable(first), comparable(second), strict=True):
        assert one.keys() == other.keys()
        for key in one:
            assert defined(one[key]) == same(other[key], abs=tolerance, rel=tolerance), key


def exact(bench):
    """The toy policy in float64.

    Adam's first step is as long for a gradient that is only rounding as for any other. In float32
    the second step's records would tell how the first one's sums were ordered.
    """
    return bench.policy().double()


APART = (passes, "can_share", lambda causal: False)
SHUFFLED = (trainer, "regrouped", list)
IN_PARTS = {"micro_batch": 4}


@pytest.mark.parametrize(
    ("without", "sections"),
    [
        (APART, {"rl": {"loss": "dapo"}}),
        (APART, {"rl": {"loss": "bnpo"}}),
        (APART, {"rl": {"algo": "dars", "most_rollouts": 8}}),
        (APART, {"rl": {"algo": "pacs"}}),
        (APART, {"anchor": {"estimator": "head"}}),
        (APART, {"guide": {"name": "rapo"}}),
        *(
            (SHUFFLED, {"rl": {"loss": loss, "steps_per_generation": 2, **IN_PARTS}})
            for loss in ("grpo", "dapo", "dr_grpo", "bnpo")
        ),
        (SHUFFLED, {"rl": {"algo": "80-20", **IN_PARTS}}),
        (SHUFFLED, {"rl": {"entropy_coefficient": 1, **IN_PARTS}}),
        (SHUFFLED, {"rl": {"entropy_coefficient": 1, "entropy_target": 99, **IN_PARTS}}),
        (SHUFFLED, {"rl": {"algo": "gspo", "iterations": 2, **IN_PARTS}}),
        (SHUFFLED, {"rl": {"algo": "pacs", "iterations": 2, **IN_PARTS}}),
        (SHUFFLED, {"rl": {"algo": "dars", "most_rollouts": 8, **IN_PARTS}}),
        (SHUFFLED, {"rl": {"algo": "clip-cov", **IN_PARTS}}),
        (SHUFFLED, {"anchor": {"estimator": "reward"}, "rl": IN_PARTS}),
        (SHUFFLED, {"guide": {"name": "rapo"}, "rl": IN_PARTS}),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else str(value),
)
def test_rows_shared_with_or_beside_those_of_their_prompt_change_rounding_alone(
    bench, configure, monkeypatch, without, sections
):
    sections = deepcopy(sections) | {"rl": {"steps": 2, **sections.get("rl", {})}}
    usual = bench.records(configure(**deepcopy(sections)), model=exact(bench))
    monkeypatch.setattr(*without)
    other = bench.records(configure(**sections), model=exact(bench))
    assert_close(usual, other, 1e-4)


@pytest.mark.parametrize(
    "guide",
    [
        {"name": "random", "epsilon": (0, 0)},
        {"name": "token", "alpha": (0, 0), "sigma": (0, 0)},
        {"name": "rapo", "phi_wrong": 1.0},
    ],
    ids=lambda guide: guide["name"],
)
def test_a_guide_without_strength_changes_nothing(bench, configure, guide):
    plain = bench.records(configure())
    still = bench.records(configure(guide=guide))
    assert comparable(still) == comparable(plain)


ELSEWHERE = {"bnpo", "dr-grpo", "dph-rl"}
"""Plain ones, and methods that take stored completions."""
GUIDED = [
    name
    for name, method in built_in(Method).items()
    if method.takes_a_guide and name not in ELSEWHERE
]


@pytest.mark.parametrize("name", GUIDED)
def test_with_a_flat_guide_a_method_ends_as_plain_to_the_last_bit(bench, configure, name):
    settings = {"algo": name, **SETTINGS.get(name, {}), "stop_when_stuck": False}
    settings |= {"micro_batch": 8, "steps_per_generation": 1, "iterations": 2, "steps": 3}
    if name == "80-20":
        settings["overlong_buffer"] = 0.5
    branch, models = {"name": "branch", "tau": 0.5}, [bench.policy(), bench.policy()]
    plain = bench.records(configure(rl=settings), model=models[0])
    flat = bench.records(configure(rl=settings, guide=branch | {"rho": 0.0}), model=models[1])
    assert comparable(flat) == comparable(plain)
    assert all(map(torch.equal, *(model.parameters() for model in models)))
    (steep,) = bench.records(configure(rl=settings | {"steps": 1}, guide=branch | {"rho": 3.0}))
    assert steep["loss"] != plain[0]["loss"]
    # what a step draws: all of a generation's completions in its first step, none in the second
    drawn = [record["sampled/completions"] for record in plain]
    assert min(drawn[::2]) >= 16
    assert drawn[1] == 0
    if name == "adaptive-entropy":
        coefficients = [record["entropy/coefficient"] for record in plain]
        assert coefficients == pytest.approx([0.005, 0.01, 0.015])


def test_adding_a_noisy_guide_leaves_the_first_completions_alone(bench, configure):
    first, *_ = bench.records(configure())
    noisy, *_ = bench.records(configure(guide={"name": "random", "epsilon": (0.9, 0.9)}))
    for key in ("entropy", "reward", "completions/length", "kl/reference"):
        assert noisy[key] == first[key]
    assert noisy["kl/k3"] != first["kl/k3"]


@pytest.mark.parametrize(
    ("loss", "guide"),
    [
        ("grpo", "none"),
        ("grpo", "branch"),
        ("grpo", "random"),
        ("dapo", "token"),
        ("dr_grpo", "token"),
        ("pacs", "token"),
        ("dars", "none"),
        ("dapo", "rapo"),
        ("dph-rl", "branch"),
    ],
)
def test_micro_batches_do_not_matter(bench, configure, loss, guide):
    settings = {"branch": {"tau": 0.5}, "random": {"epsilon": (0.9, 0.5)}}
    section = {"name": guide} | settings.get(guide, {})
    # in the second step pacs' scores come from another policy than the one that drew, and of dph-rl
    # the divergence is above 0
    own = {
        "pacs": {"iterations": 2},
        "dars": {"most_rollouts": 10, "steps": 1},
        "dph-rl": {"weight": 3.0, "learning_rate": 1e-2, "warmup_ratio": 0.0},
    }
    chosen = {"algo": loss, **own[loss]} if loss in own else {"loss": loss}
    rl = {"steps": 2, **chosen}
    runs = [
        bench.records(
            configure(guide=section, rl={**rl, "micro_batch": micro}),
            model=exact(bench),
            reference_completions=reference_completions() if loss == "dph-rl" else None,
        )
        for micro in (16, 2)
    ]
    assert_close(*runs, tolerance=2e-5)
    assert loss != "dph-rl" or runs[0][1]["divergence"] > 0.01


@pytest.mark.parametrize("estimator", ["k3", "k3-corrected", "head", "reward"])
@pytest.mark.parametrize(
    "held",
    [{"rows": "informative"}, {"rows": "wrong"}, {"rows": "right"}, {"tokens": "certain"}],
    ids=lambda held: next(iter(held.values())),
)
def test_micro_batches_do_not_matter_to_the_tokens_that_are_held(bench, configure, held, estimator):
    """Groups have 4 completions, so with micro-batches of 2 each group is split."""
    anchor = {**held, "estimator": estimator, "beta": 0.5, "ema": 0.8}
    rl = {"steps": 2, "learning_rate": 1e-2, "warmup_ratio": 0.0}
    runs = [
        bench.records(configure(anchor=anchor, rl={**rl, "micro_batch": micro}))
        for micro in (16, 2)
    ]
    assert_close(*runs, tolerance=2e-5)
    assert 0 < runs[0][-1]["anchor/rows"] < 1


@pytest.mark.parametrize(
    ("rl", "step", "differ"),
    [
        ({}, 0, False),
        ({"loss": "dapo"}, 0, False),
        ({"entropy_coefficient": 0.1}, 0, True),
        # its coefficient begins at 0
        ({"entropy_target": 5.0, "entropy_coefficient_step": 0.1}, 1, True),
        ({"loss": "bnpo"}, 0, True),
    ],
)
def test_micro_batches_matter_where_the_methods_page_says(bench, configure, rl, step, *, differ):
    """The gradient on the same completions, whose lengths differ."""
    norms = []
    for micro in (16, 4):
        section = {"steps": 2, "micro_batch": micro, "learning_rate": 1e-2, "warmup_ratio": 0.0}
        config = configure(rl=section | rl, anchor={"kl": "none"})
        norms.append(bench.records(config)[step]["grad_norm"])
    assert (abs(norms[0] / norms[1] - 1) > 2e-5) is differ


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("loss", ["grpo", "bnpo", "dapo", "dr_grpo"])
def test_no_guide_is_trls_own_trainer(bench, configure, loss, masked):
    # without a warm-up both have one schedule: ours begins above 0, TRL's at 0
    rl = {"loss": loss, "mask_truncated_completions": masked, "warmup_ratio": 0.0}
    config = configure(rl=rl)
    ours = bench.records(config, model=exact(bench))

    heard = []

    class Listener(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **_):
            if "loss" in logs:
                heard.append(dict(logs))

    def grade(completions, gold, **_):
        grades = bench.grader(gold, completions)
        return [float(grade.status == "right") for grade in grades]

    golds = [problem.gold for _, problem in PROMPTS]
    rows = Dataset.from_dict({"prompt": [text for text, _ in PROMPTS], "gold": golds})
    arguments = grpo_arguments(config, bench.folder / "theirs")
    arguments.mask_truncated_completions = masked
    trainer = GRPOTrainer(
        model=exact(bench),
        reward_funcs=[grade],
        args=arguments,
        train_dataset=rows.select(training_order(len(rows), config.rl)),
        processing_class=bench.tokenizer,
        callbacks=[Listener()],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    named = {
        **{key: key for key in ("loss", "grad_norm", "learning_rate", "reward", "entropy")},
        "kl/k3": "kl",
        "completions/length": "completions/mean_length",
        "completions/clipped": "completions/clipped_ratio",
        "groups/zero_variance": "frac_reward_zero_std",
    }
    assert len(heard) == len(ours) == 4
    for one, other in zip(ours, heard, strict=True):
        for our_key, their_key in named.items():
            assert defined(one[our_key]) == same(other[their_key], abs=1e-6, rel=1e-6), our_key
