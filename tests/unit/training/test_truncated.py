"""`rl.mask_truncated_completions`: no loss reads truncated tokens, and groups count their rows."""

import math
from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch
from scored_batch import generated
from toy_policy import SETTINGS, reference_completions

from sage_cli.methods.loop import Method
from sage_cli.methods.online import OnlineMethod
from sage_cli.settings.section import built_in
from sage_cli.training.trainer import SageTrainer

ONLINE = {
    name: {
        "rl": {"algo": name, **SETTINGS.get(name, {})},
        "anchor": {} if method.takes_a_guide else {"kl": method.kl_without_guide},
    }
    for name, method in built_in(Method).items()
    if issubclass(method, OnlineMethod) and name != "rlpr"  # which pays the toy policy nothing
}
SECTIONS = [
    *ONLINE.values(),
    *({"rl": {"loss": loss}} for loss in ("grpo", "bnpo", "dapo", "dr_grpo", "luspo")),
    {"rl": {"loss": "sapo"}},
    {"rl": {"loss": "cispo", "epsilon_high": 5.0}},
    {"rl": {"entropy_coefficient": 1}},
    {"rl": {"loss": "dapo", "steps_per_generation": 2, "iterations": 2, "micro_batch": 4}},
    *({"anchor": {"estimator": estimator}} for estimator in ("k3-corrected", "reward", "head")),
    *({"guide": {"name": guide}} for guide in ("random", "token", "branch", "rapo")),
]
FIGURES = ("loss", "grad_norm", "entropy", "kl/reference", "kl/k3", "guide/q_mean", "reward")


def trained(bench, config):
    """The records of a training that may take completions of the initial policy."""
    beforehand = reference_completions() if config.rl.samples_beforehand else None
    return bench.records(config, reference_completions=beforehand)


def masking(configure, sections, *, masked=True):
    rl = {"steps": 2, "mask_truncated_completions": masked} | deepcopy(sections.get("rl", {}))
    return configure(**{**sections, "rl": rl})


def overwritten(self, model, inputs):
    """The loss of a micro-batch whose truncated completions hold other tokens."""
    for part in inputs.get("parts", [(1.0, inputs)]):
        part[1]["completion_ids"][part[1]["truncated_B"]] = 7
    return LOSS(self, model, inputs)


LOSS = SageTrainer._compute_loss


@pytest.mark.parametrize("sections", SECTIONS, ids=str)
def test_truncated_tokens_change_neither_loss_nor_gradient(bench, configure, monkeypatch, sections):
    whole = trained(bench, masking(configure, sections))
    assert 0 < whole[0]["completions/clipped"] < 1
    assert whole[0]["grad_norm"] > 0
    monkeypatch.setattr(SageTrainer, "_compute_loss", overwritten)
    other = trained(bench, masking(configure, sections))
    for step, (record, changed) in enumerate(zip(whole, other, strict=True)):
        for name in FIGURES:
            assert changed.get(name, 0) == pytest.approx(record.get(name, 0), rel=1e-4, abs=1e-6), (
                step,
                name,
            )


def test_without_the_setting_they_change_both(bench, configure, monkeypatch):
    whole = trained(bench, masking(configure, {}, masked=False))
    monkeypatch.setattr(SageTrainer, "_compute_loss", overwritten)
    other = trained(bench, masking(configure, {}, masked=False))
    assert abs(whole[0]["grad_norm"] / other[0]["grad_norm"] - 1) > 1e-3


@pytest.mark.parametrize("name", [name for name in ONLINE if name != "dars"])
def test_their_rewards_count_in_their_groups(bench, configure, name):
    initial = {"reference_completions": reference_completions()}
    on, off = (
        generated(bench.trainer(masking(configure, ONLINE[name], masked=masked), **initial))
        for masked in (True, False)
    )
    assert torch.equal(on["completion_ids"], off["completion_ids"])
    assert torch.equal(on["advantages"], off["advantages"])
    truncated_B = off["truncated_B"]
    read = off["completion_mask"].sum(dim=1)[~truncated_B].sum()
    assert on["num_items_in_batch"] == read < off["num_items_in_batch"]


def test_a_completion_that_ends_at_a_stop_text_is_not_truncated(bench, configure, monkeypatch):
    trainer = bench.trainer(masking(configure, {}))
    stopping = SimpleNamespace(stops=lambda text: len(text) % 2 == 0, cut=lambda ids, _: (ids, ""))
    monkeypatch.setattr(trainer, "stopping", stopping)
    batch = generated(trainer)
    texts = trainer.now.texts
    ended_B = torch.isin(batch["completion_ids"], torch.tensor(trainer.eos_token_ids)).any(dim=1)
    stopped_B = torch.tensor([len(text) % 2 == 0 for text in texts])
    assert (stopped_B & ~ended_B).sum() > 0
    assert torch.equal(batch["tool_mask"].any(dim=1), ended_B | stopped_B)
    cut = (~(ended_B | stopped_B)).float().mean().item()
    assert trainer._batch_record["completions/clipped"] == pytest.approx(cut)


@pytest.mark.parametrize("sections", SECTIONS, ids=str)
def test_a_batch_of_truncated_completions_alone_teaches_nothing(
    bench, configure, monkeypatch, sections
):
    monkeypatch.setattr(SageTrainer, "cut_off", lambda _, ids, texts: [True] * len(ids))
    one = {**sections, "rl": sections.get("rl", {}) | {"steps": 1}}
    (record,) = trained(bench, masking(configure, one))
    assert record["grad_norm"] == 0
    assert math.isfinite(record["loss"])
