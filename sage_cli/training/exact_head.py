"""Log-probabilities of the likeliest tokens of each state, for `anchor.estimator` head.

TRL's fused head gives those of sampled tokens alone, so the backbone's output is listened to, and
projected again. The head are the reference's likeliest tokens: they are known before the update,
and stay the same within an iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sage_cli.errors import TrainingError
from sage_cli.guides.guide import Guide, Signals
from sage_cli.guides.divergences import head_kl, log_ratio

TILE = 1024
"""States whose whole vocabularies are in memory at once."""
_SCALES = (
    "final_logit_softcapping", "logit_scale", "output_multiplier", "lm_head_multiplier",
    "logits_scaling",
)  # fmt: skip


class ExactHead:
    """Listens to forward passes, and has what the last one said of the head.

    `ids_BTH` and `logps_BTH` are the reference's H likeliest tokens and their log-probabilities
    after its pass; after the policy's, `logps_BTH` are the policy's of the tokens asked about.
    """

    def __init__(self, trainer: Any, tokens: int) -> None:
        if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
            raise TrainingError(
                "anchor.estimator head reads the whole output layer, and the launcher spreads it",
                "choose `rl.accelerate` ddp, or another estimator",
            )
        config = trainer.accelerator.unwrap_model(trainer.model).config.get_text_config()
        scaled = [name for name in _SCALES if getattr(config, name, None) not in (None, 1, 1.0)]
        if scaled:
            raise TrainingError(
                f"anchor.estimator head knows no models that change their logits ({scaled[0]})",
                "choose another estimator",
            )
        self._in_float32 = trainer.args.cast_lm_head_to_fp32
        self._tokens, self._temperature = min(tokens, config.vocab_size), trainer.temperature
        self.ids_BTH, self.logps_BTH = torch.empty(0), torch.empty(0)

    def reading(
        self, model: Any, completion: int, batch: dict[str, Any] | None
    ) -> AbstractContextManager[None]:
        """Return the context of a pass: before a loss the last one is the reference's.

        In the loss of a micro-batch the pass is the policy's.
        """
        if batch is None:
            return self.of_reference(model, completion)
        return self.of_policy(model, batch["head_ids"])

    def log_q(self, batch: dict[str, Any], guide: Guide, signals: Signals, now: int) -> Tensor:
        """Return log q (B, T, H) of the head's tokens, by the signal that the guide reads."""
        reads_policy = guide.source == "policy"
        others_BTH = self.logps_BTH.detach() if reads_policy else batch["head_reference"]
        return guide.log_q_of_others(signals, now, others_BTH)

    def divergence(self, batch: dict[str, Any], logps_BT: Tensor) -> Tensor:
        """Return `head_kl` of the micro-batch whose pass was read last, with its gradient."""
        in_head_BT = (batch["head_ids"] == batch["completion_ids"][..., None]).any(dim=-1)
        old_BT = batch.get("old_per_token_logps", logps_BT.detach())
        return head_kl(
            self.logps_BTH,
            batch["head_reference"] + batch["head_log_q"],
            in_head_BT,
            log_ratio(logps_BT, batch["ref_per_token_logps"], batch["log_q_BT"]),
            (logps_BT - old_BT).exp(),
        )

    @property
    def mass(self) -> Tensor:
        """The probability of the head (B, T) in the micro-batch whose pass was read last."""
        return self.logps_BTH.detach().exp().sum(dim=-1)

    @contextmanager
    def of_reference(self, model: Any, completion: int) -> Iterator[None]:
        """Find the likeliest tokens where the last `completion` tokens are predicted."""

        def likeliest(hidden_XD: Tensor) -> tuple[Tensor, Tensor]:
            logps_XH, ids_XH = self._logps(model, hidden_XD).topk(self._tokens, dim=-1)
            return ids_XH, logps_XH

        def read(hidden_BTD: Tensor) -> tuple[Tensor, Tensor]:
            tiles = [likeliest(tile_XD) for tile_XD in torch.split(hidden_BTD.flatten(0, 1), TILE)]
            ids_XH, logps_XH = (torch.cat(parts) for parts in zip(*tiles, strict=True))
            shape = (*hidden_BTD.shape[:2], -1)
            return ids_XH.reshape(shape), logps_XH.reshape(shape)

        with _listening(model, completion, read) as passes:
            yield
        self.ids_BTH, self.logps_BTH = (torch.cat(parts) for parts in zip(*passes, strict=True))

    @contextmanager
    def of_policy(self, model: Any, ids_BTH: Tensor) -> Iterator[None]:
        """Find the policy's log-probabilities of `ids_BTH`, with their gradient."""

        def of_ids(hidden_XD: Tensor, ids_XH: Tensor) -> Tensor:
            return self._logps(model, hidden_XD).gather(1, ids_XH)

        def read(hidden_BTD: Tensor) -> tuple[Tensor]:
            pairs = zip(
                torch.split(hidden_BTD.flatten(0, 1), TILE),
                torch.split(ids_BTH.flatten(0, 1), TILE),
                strict=True,
            )
            # a tile's vocabulary is computed again for its gradient, and not kept until then
            tiles = [checkpoint(of_ids, *pair, use_reentrant=False) for pair in pairs]
            return (torch.cat(tiles).reshape(ids_BTH.shape),)

        with _listening(model, ids_BTH.shape[1], read) as passes:
            yield
        ((self.logps_BTH,),) = passes

    def _logps(self, model: Any, hidden_XD: Tensor) -> Tensor:
        # autocast would take a head in float32 back to bfloat16
        exact = torch.autocast(hidden_XD.device.type, enabled=False)
        with exact if self._in_float32 else nullcontext():
            logits_XV = model.get_output_embeddings()(hidden_XD).float()
        logps_XV: Tensor = (logits_XV / self._temperature).log_softmax(dim=-1)
        return logps_XV


@contextmanager
def _listening(
    model: Any, completion: int, read: Callable[[Tensor], tuple[Tensor, ...]]
) -> Iterator[list[tuple[Tensor, ...]]]:
    """Give what `read` says of the backbone's states in each pass, those that predict tokens."""
    causal = model.get_base_model() if hasattr(model, "get_base_model") else model
    passes: list[tuple[Tensor, ...]] = []

    def keep(_module: Any, _inputs: Any, output: Any) -> None:
        passes.append(read(output.last_hidden_state[:, -completion - 1 : -1]))

    hook = causal.base_model.register_forward_hook(keep)
    try:
        yield passes
    finally:
        hook.remove()
