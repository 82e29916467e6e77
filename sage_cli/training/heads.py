"""What the head of a model says besides the logits that TRL asks it for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.guides.token_signals import Measure, tilted_temperature
from sage_cli.models.loading import causal_of, changes_weights
from sage_cli.training.trl_host import add_fused_lm_head

_Read = TypeVar("_Read")
TILE_STATES = 256
"""States of which whole vocabularies are there at once (`anchor.estimator=head`)."""
_SCALES = (
    "final_logit_softcapping",
    "logit_scale",
    "output_multiplier",
    "lm_head_multiplier",
    "logits_scaling",
)
"""What configurations call a change of logits that TRL's head knows and ours does not."""


def compute_logits_in_float32(causal: Any, temperature: float) -> None:
    """Make the head compute in float32, whatever autocast says, also in TRL's fused passes.

    Raises ConfigurationError for a head that an adapter changes: its own weights alone are read.
    """
    head = causal.get_output_embeddings()
    if changes_weights(head):
        raise ConfigurationError(
            "rl.cast_lm_head_to_fp32 computes with the head's own weights, and the adapter has "
            "others",
            "leave it out, or start from an adapter that leaves the head as it is",
        )

    def forward(states: Tensor) -> Tensor:
        bias = None if head.bias is None else head.bias.float()
        with torch.autocast(states.device.type, enabled=False):
            return torch.nn.functional.linear(states.float(), head.weight.float(), bias)

    head.forward = forward
    outputs = ("log_probs", "entropy")
    add_fused_lm_head(causal, temperature, cast_lm_head_to_fp32=True, outputs=outputs)


class _Head:
    """A causal LM whose backbone's output is given: TRL's fused head reads nothing else of it."""

    def __init__(self, model: Any) -> None:
        self._model, self.config, self.output = model, model.config, None

    def get_output_embeddings(self) -> Any:
        """Return the model's own head."""
        return self._model.get_output_embeddings()

    def base_model(self, *_: Any, **__: Any) -> Any:
        """Return the backbone's output."""
        return self.output

    model = base_model  # its name before transformers 5, for models of images too

    forward = base_model  # until TRL puts its fused head in this place


class _CutHead:
    """An output layer without the entries beyond `entries`, which no token of a tokenizer has."""

    def __init__(self, head: Any, entries: int) -> None:
        self._head, self._entries = head, entries

    @property
    def weight(self) -> Tensor:
        """The rows of the entries that are left, with their gradient."""
        weight: Tensor = self._head.weight[: self._entries]
        return weight

    @property
    def bias(self) -> Tensor | None:
        """Their biases, if the layer has any."""
        bias = getattr(self._head, "bias", None)
        return None if bias is None else bias[: self._entries]

    def __call__(self, states: Tensor) -> Tensor:
        """Return the logits of the entries that are left."""
        return torch.nn.functional.linear(states, self.weight, self.bias)


@contextmanager
def cut_to(model: Any, entries: int) -> Iterator[None]:
    """Normalise log-probabilities over the first `entries` of the output alone in passes inside.

    Models pad their vocabulary to a round number, each to its own: over all of it the same logits
    would have other log-probabilities in policy and teacher.
    """
    causal = causal_of(model)
    head = causal.get_output_embeddings()
    # an attribute of this object, which hides the method of its class; passes ask for the head anew
    causal.get_output_embeddings = lambda: _CutHead(head, entries)
    try:
        yield
    finally:
        del causal.get_output_embeddings


def never_sample_beyond(model: Any, entries: int) -> None:
    """Give entries beyond `entries` the probability 0 wherever whole logits are computed."""

    def bar(_head: Any, _states: Any, logits: Tensor) -> Tensor:
        # finite, so that 0 log 0 stays 0 in entropies, and far below any logit
        columns = torch.arange(logits.shape[-1], device=logits.device)
        return logits.masked_fill(columns >= entries, -1e4)

    causal_of(model).get_output_embeddings().register_forward_hook(bar)


@contextmanager
def tilting(
    model: Any,
    exponents: Sequence[float],
    temperature: float,
    tilted: dict[float, Tensor],
    *,
    in_float32: bool = False,
) -> Iterator[None]:
    """Collect the tilted log-probabilities of the labels in each fused pass over `model`.

    softmax(z / T)^phi, normalised, is softmax(phi z / T): TRL's fused head at another temperature,
    on the hidden states of the same pass. `tilted` gets those of all passes, below each other.
    `in_float32` computes logits so, as the trainer does.
    """
    causal = causal_of(model)
    heads = {}
    for exponent in exponents:
        # TRL's fused head never holds a whole batch's logits, which for 150,000 tokens would be the
        # largest tensor of the step; the same states go through it once for each exponent
        heads[exponent] = _Head(causal)
        add_fused_lm_head(
            heads[exponent],
            temperature=tilted_temperature(temperature, exponent),
            cast_lm_head_to_fp32=in_float32,
        )

    def keep(_module: Any, _inputs: Any, output: Any) -> None:
        for head in heads.values():
            head.output = output

    def score(_module: Any, _inputs: Any, arguments: dict[str, Any], _output: Any) -> None:
        for exponent, head in heads.items():
            # without what a mixture of experts adds to a loss, which nothing reads here
            scored = head.forward(
                shift_labels=arguments["shift_labels"],
                fused_lm_head=True,
                output_router_logits=False,
            )
            head.output = None
            rows = [tilted[exponent]] if exponent in tilted else []
            tilted[exponent] = torch.cat([*rows, scored.log_probs])

    with (
        causal.base_model.register_forward_hook(keep),
        causal.register_forward_hook(score, with_kwargs=True),
    ):
        yield


@dataclass(frozen=True)
class HeadReader:
    """Reads H tokens of each state's distribution, a tile of states at a time, in other passes.

    The output layer alone is computed again, since TRL's fused head keeps no logits.
    """

    tokens: int
    """H."""
    temperature: float
    in_float32: bool

    def require(self, model: Any, reader: str) -> None:
        """Raise TrainingError for a model that changes its logits after the output layer."""
        config = model.config.get_text_config()
        scaled = [name for name in _SCALES if getattr(config, name, None) not in (None, 1, 1.0)]
        if scaled:
            raise TrainingError(
                f"{reader} does not support models that rescale their logits ({scaled[0]})",
                "choose another estimator or guide",
            )

    @contextmanager
    def likeliest(self, model: Any) -> Iterator[list[tuple[Tensor, Tensor]]]:
        """Collect (ids, log-probabilities) (B, T, H) of the likeliest tokens, a pair a pass."""

        head = model.get_output_embeddings()

        def of_tile(hidden_XD: Tensor) -> tuple[Tensor, Tensor]:
            logits_XV = self._logits(head, hidden_XD)
            most = min(self.tokens, logits_XV.shape[-1])
            logits_XH, ids_XH = logits_XV.topk(most, dim=-1)
            return ids_XH, logits_XH - logits_XV.logsumexp(dim=-1, keepdim=True)

        def read(hidden_BTD: Tensor) -> tuple[Tensor, Tensor]:
            # a tile at a time: 256 states x 150,000 tokens in float32 are 150 MB; a batch's would
            # be gigabytes
            tiles = map(of_tile, torch.split(hidden_BTD.flatten(0, 1), TILE_STATES))
            ids_XH, logps_XH = (torch.cat(parts) for parts in zip(*tiles, strict=True))
            shape = (*hidden_BTD.shape[:2], -1)
            return ids_XH.reshape(shape), logps_XH.reshape(shape)

        with _listening(model, read) as passes:
            yield passes

    @contextmanager
    def asked(self, model: Any, ids_BTH: Tensor) -> Iterator[list[tuple[Tensor, Tensor]]]:
        """Collect the log-probabilities of `ids_BTH`, with gradient, of one pass over all rows."""

        # asked for now: a gradient's second pass over a tile comes after a cut head is taken back
        head = model.get_output_embeddings()

        def of_tile(hidden_XD: Tensor, ids_XH: Tensor) -> Tensor:
            logits_XV = self._logits(head, hidden_XD)
            return logits_XV.gather(1, ids_XH) - logits_XV.logsumexp(dim=-1, keepdim=True)

        def read(hidden_BTD: Tensor) -> tuple[Tensor, Tensor]:
            pairs = zip(
                torch.split(hidden_BTD.flatten(0, 1), TILE_STATES),
                torch.split(ids_BTH.flatten(0, 1), TILE_STATES),
                strict=True,
            )
            # a tile's vocabulary is computed again for its gradient, and not kept until then
            tiles = [checkpoint(of_tile, *pair, use_reentrant=False) for pair in pairs]
            return ids_BTH, torch.cat(tiles).reshape(ids_BTH.shape)

        with _listening(model, read) as passes:
            yield passes

    @contextmanager
    def measured(
        self, model: Any, measures: Mapping[str, Measure], chosen_BT: Tensor
    ) -> Iterator[list[dict[str, Tensor]]]:
        """Collect what each measure says of the chosen tokens (B, T), a dictionary a pass.

        `chosen_BT` are the tokens of all passes, in the order in which they come to the rows.
        """
        rest_BT, head = chosen_BT, model.get_output_embeddings()

        def read(hidden_BTD: Tensor) -> dict[str, Tensor]:
            nonlocal rest_BT
            rows_BT, rest_BT = rest_BT[: len(hidden_BTD)], rest_BT[len(hidden_BTD) :]
            tiles: list[list[Tensor]] = []
            with torch.no_grad():
                pairs = zip(
                    torch.split(hidden_BTD.flatten(0, 1), TILE_STATES),
                    torch.split(rows_BT.flatten(), TILE_STATES),
                    strict=True,
                )
                for hidden_XD, chosen_X in pairs:
                    logits_XV = self._logits(head, hidden_XD)
                    tiles.append([measure(logits_XV, chosen_X) for measure in measures.values()])
            columns = (
                torch.cat(parts).reshape(rows_BT.shape) for parts in zip(*tiles, strict=True)
            )
            return dict(zip(measures, columns, strict=True))

        with _listening(model, read) as passes:
            yield passes

    def _logits(self, head: Any, hidden_XD: Tensor) -> Tensor:
        # autocast would take a head in float32 back to bfloat16
        exact = torch.autocast(hidden_XD.device.type, enabled=False)
        with exact if self.in_float32 else nullcontext():
            logits_XV: Tensor = head(hidden_XD).float()
        # in place: the logits are this function's own copy (`float()` of bfloat16, or the head's
        # fresh output)
        return logits_XV if self.temperature == 1 else logits_XV.div_(self.temperature)


@contextmanager
def _listening(model: Any, read: Callable[[Tensor], _Read]) -> Iterator[list[_Read]]:
    """Collect what `read` returns for the backbone's states in each pass of `completions_alone`."""
    causal = causal_of(model)
    passes: list[_Read] = []

    def keep(_module: Any, _inputs: Any, output: Any) -> None:
        passes.append(read(output.last_hidden_state))

    with causal.base_model.register_forward_hook(keep):
        yield passes
