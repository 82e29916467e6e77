"""Advantages where TRL has no name for them: of a generation batch, and in each update of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor

from sage_cli.methods.formulas import AdvantageInputs, Measure, Texts, Update, checked
from sage_cli.methods.method import OnlineMethod
from sage_cli.settings.plugins import load_plugin
from sage_cli.training.trainer.guide_signals import whole_texts


@torch.no_grad()
def hidden_measures(trainer: Any, batch: dict[str, Any], measure: Measure) -> Tensor:
    """`measure` of each of this process's completions, on the last layer's normed states."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    decoder = (model.get_base_model() if hasattr(model, "get_base_model") else model).base_model
    ids, mask = whole_texts(batch)
    lengths = batch["completion_mask"].sum(dim=1).tolist()
    tokens, found = batch["completion_ids"].shape[1], []
    at_once = trainer.args.per_device_train_batch_size
    for begin in range(0, len(ids), at_once):
        rows = slice(begin, begin + at_once)
        with trainer.accelerator.autocast():
            states = decoder(input_ids=ids[rows], attention_mask=mask[rows], use_cache=False)
        hidden_BTD = states.last_hidden_state[:, -tokens:]
        found += [
            measure(hidden_TD[:length].float())
            for hidden_TD, length in zip(hidden_BTD, lengths[rows], strict=True)
        ]
    return torch.stack(found)


def batch_advantages(
    trainer: Any, method: OnlineMethod, batch: dict[str, Any], right_PN: Tensor
) -> Tensor:
    """Advantages (B,) or (B, T) of this process's rows, from those of all processes."""
    mask_BT = batch["completion_mask"]

    def read_signals() -> tuple[Tensor, Tensor]:
        at_once = trainer.args.per_device_train_batch_size
        logps_BT, entropy_BT = trainer.policy_signals(batch, batch_size=at_once)
        return _gathered(trainer, logps_BT), _gathered(trainer, entropy_BT)

    def read_hidden(measure: Measure) -> Tensor:
        whole_BM: Tensor = trainer.accelerator.gather(hidden_measures(trainer, batch, measure))
        return whole_BM

    def read_reference() -> Tensor:
        return _gathered(trainer, batch["ref_per_token_logps"])

    def read_texts() -> Texts:
        texts = gather_object(list(trainer.hooks.reward.completions))
        places = trainer.accelerator.gather(batch["prompt_row_B"].to(mask_BT.device)).tolist()
        prompts = trainer.hooks.setup.prompts
        return Texts(tuple(texts), tuple(prompts[place][1].id for place in places))

    rewards_PN = trainer.rewards_BF.sum(dim=1).reshape(right_PN.shape)
    inputs = AdvantageInputs(
        rewards_PN=rewards_PN,
        right_PN=right_PN.to(rewards_PN),
        mask_BT=_gathered(trainer, mask_BT),
        step=trainer.state.global_step,
        steps=trainer.args.max_steps,
        read_signals=read_signals,
        read_hidden=read_hidden,
        memory=trainer.advantage_memory,
        beta=trainer.args.beta * trainer.beta_share,
        read_reference=read_reference if "ref_per_token_logps" in batch else None,
        read_texts=read_texts,
    )
    with torch.no_grad(), blaming(method) as name:
        found = checked(method.advantages(inputs), name, inputs, by_row=True)
    ours = found.to(rewards_PN)[batch["row_ids_B"]]
    return ours if ours.dim() == 1 else ours[:, : mask_BT.shape[1]]


def update_advantages(
    trainer: Any,
    method: OnlineMethod,
    batch: dict[str, Any],
    logps_BT: Tensor,
    entropy_BT: Tensor,
) -> Tensor:
    """Advantages (B, T) of a micro-batch as the policy is now, shaped of the generation batch's."""
    advantages, entropy_BT = batch["advantages"], entropy_BT.detach()
    per_token = advantages if advantages.dim() == 2 else advantages[:, None]
    old_logps_BT = batch.get("old_per_token_logps")
    step, place = trainer.state.global_step, trainer.place_in_step
    update = Update(
        advantages_BT=per_token.expand(entropy_BT.shape),
        logps_BT=logps_BT,
        old_logps_BT=logps_BT.detach() if old_logps_BT is None else old_logps_BT,
        entropy_BT=entropy_BT,
        old_entropy_BT=batch.get("old_entropy_BT", entropy_BT),
        mask_BT=batch["completion_mask"],
        clip=method.clip_range,
        step=step,
        seed=(method.seed, step, place, trainer.accelerator.process_index),
    )
    with blaming(method) as name:
        return checked(method.shape(update), name, update).to(update.advantages_BT)


@contextmanager
def blaming(method: OnlineMethod) -> Iterator[str]:
    """Give what messages call the method; name a plug-in in whatever its formulas raise."""
    name = f"method '{method.algo}'"
    if type(method).__module__.partition(".")[0] == method.package.partition(".")[0]:
        yield name
        return
    plugin = load_plugin(method.package, method.algo)
    with plugin.blamed():
        yield str(plugin)


def _gathered(trainer: Any, values_BT: Tensor) -> Tensor:
    """Rows of all processes, padded with 0 to the longest completion."""
    padded_BT = trainer.accelerator.pad_across_processes(values_BT, dim=1)
    whole_BT: Tensor = trainer.accelerator.gather(padded_BT)
    return whole_BT
