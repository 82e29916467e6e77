"""Judge the trainer's passes and the sampler by plain passes over single rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sage_cli.methods.rollout_batch import RolloutBatch, whole_texts
from sage_cli.sampling.choosing import kept_weights
from sage_cli.sampling.sampler import SamplingParameters
from sage_cli.training.finding import Finding

CHECKED_TOKENS = 200
"""Tokens whose log-probabilities are compared, at least, where the batch has as many."""
EXACT_NATS = 1e-4
"""The largest difference in float32 of two passes over the same tokens."""
COARSE_FACTOR = 3.0
"""In bfloat16 a trainer's pass may differ from plain rows by so many times what padding does."""
SWITCHED_SHARE = 0.01
"""The share of a mixture's tokens that may differ, because rounding routes them elsewhere."""
SURPRISE_SIGMAS = 6.0
"""How far the mean surprisal of samples may be from their entropy, in standard errors."""
ENGINE_WARNS_NATS, ENGINE_STOPS_NATS = 0.05, 0.5
"""Mean differences of an engine's log-probabilities from the trainer's."""
STALE_FACTOR = 2.0
"""An engine whose log-probabilities are so many times nearer to the policy as it started than to
the policy as it is hasn't been given the update."""


@dataclass(frozen=True)
class LogpDifference:
    """Absolute differences of log-probabilities over `tokens`, in nats."""

    tokens: int
    mean: float
    high: float
    """The 99% quantile."""
    largest: float
    share_above: float
    """The share of tokens that differ by more than EXACT_NATS."""

    @classmethod
    def between(cls, a_BT: Tensor, b_BT: Tensor, mask_BT: Tensor) -> LogpDifference:
        """Compare log-probabilities (B, T) on the tokens of the mask."""
        # float64, so that the difference of two float32 numbers is not rounded again
        off_T = (a_BT.double() - b_BT.double())[mask_BT.bool()].abs()
        if not len(off_T):
            return cls(0, 0.0, 0.0, 0.0, 0.0)
        above = (~(off_T <= EXACT_NATS)).double().mean().item()  # NaN is above any bound
        high = off_T.nan_to_num(torch.inf).quantile(0.99).item()
        return cls(len(off_T), off_T.mean().item(), high, off_T.max().item(), above)


def judge_passes(
    trained: LogpDifference,
    again: LogpDifference,
    yardstick: LogpDifference | None,
    *,
    routes: bool,
) -> list[Finding]:
    """Return what is wrong with the trainer's passes against plain rows of the same tokens.

    `trained` compares the trainer's pass with plain rows, `again` two equal passes. Without a
    `yardstick` products are float32 and the bound is fixed; with it, it is what padding alone
    changes. A model that `routes` tokens to experts may send a few elsewhere.
    """
    if yardstick is None:
        wrong = trained.share_above > (SWITCHED_SHARE if routes else 0.0)
        noisy = again.share_above > (SWITCHED_SHARE if routes else 0.0)
        bound = f"{EXACT_NATS:g} nats in float32"
    else:
        # two passes that agree to the last bit would make a bound of 0
        floor = 2.0**-8
        most_mean = COARSE_FACTOR * max(yardstick.mean, floor)
        most_high = COARSE_FACTOR * max(yardstick.high, floor)
        wrong = not (trained.mean <= most_mean and trained.high <= most_high)
        noisy = not (again.mean <= most_mean and again.high <= most_high)
        bound = f"{most_mean:.2g} nats on average, three times what padding alone changes"
    remedy = "choose another model, and report this one: its architecture can't be trained as it is"
    findings = []
    if noisy:
        findings.append(
            Finding(
                True,
                (
                    f"two equal passes over the same {again.tokens} tokens differ by "
                    f"{again.mean:.3g} nats on average and {again.largest:.3g} at most: the model "
                    "adds noise in training (dropout, or the jitter of a router)"
                ),
                "set the model's noise to 0 in its config.json; or " + remedy,
            )
        )
    elif wrong:
        findings.append(
            Finding(
                True,
                (
                    "the trainer's log-probabilities differ from those of the model's own logits "
                    f"by {trained.mean:.3g} nats on average and {trained.largest:.3g} at most, "
                    f"over {trained.tokens} tokens (allowed: {bound})"
                ),
                remedy,
            )
        )
    return findings


@dataclass
class Surprise:
    """Whether samples are of the distribution that the trainer computes, by their surprisal.

    A sample's surprisal -log p has the distribution's entropy as its mean, so the sum `off` of the
    differences over tokens has mean 0 and as its variance the sum of the surprisals' variances.
    `impossible` counts samples that p doesn't allow.
    """

    tokens: int = 0
    off: float = 0.0
    variance: float = 0.0
    impossible: int = 0

    def add(self, logits_TV: Tensor, chosen_T: Tensor, parameters: SamplingParameters) -> None:
        """Compare sampled tokens (T,) with the logits (T, V) from which they should be drawn."""
        # the sampler's own cut of unlikely tokens, so that the distribution is the one sampled from
        weights_TV = kept_weights(logits_TV, parameters).double()
        p_TV = weights_TV / weights_TV.sum(dim=-1, keepdim=True)
        # 0 log 0 = 0: the clamp makes the logarithm finite, and p multiplies it by 0
        surprisal_TV = -p_TV.clamp_min(torch.finfo(p_TV.dtype).tiny).log()
        entropy_T = (p_TV * surprisal_TV).sum(dim=-1)
        variance_T = (p_TV * surprisal_TV.square()).sum(dim=-1) - entropy_T.square()
        allowed_T = p_TV.gather(1, chosen_T[:, None])[:, 0] > 0
        off_T = (surprisal_TV.gather(1, chosen_T[:, None])[:, 0] - entropy_T)[allowed_T]
        self.tokens += len(chosen_T)
        self.off += off_T.sum().item()
        self.variance += variance_T[allowed_T].clamp_min(0).sum().item()
        self.impossible += int((~allowed_T).sum())

    @property
    def sigmas(self) -> float:
        """Return how far the surprisal is from its expectation, in standard errors."""
        return self.off / self.variance**0.5 if self.variance > 0 else 0.0


@torch.no_grad()
def plain_pass(
    model: Any, batch: Mapping[str, Any], parameters: SamplingParameters, *, padded: bool = False
) -> tuple[Tensor, Surprise]:
    """Return log-probabilities (B, T) by the model's own logits, and the surprisal of the tokens.

    The logits are `model(input_ids).logits` of single rows: nothing is shared, cut or fused, and
    there is no padding but, with `padded`, behind the row up to the longest. Rounding differs then
    as it may, and nothing else.
    """
    logps_BT = torch.zeros_like(batch["completion_ids"], dtype=torch.float32)
    surprise = Surprise()
    masks = batch["prompt_mask"].bool(), batch["completion_mask"].bool()
    rows = list(zip(batch["prompt_ids"], masks[0], batch["completion_ids"], masks[1], strict=True))
    longest = max(int(before_T.sum()) + int(after_T.sum()) for _, before_T, _, after_T in rows)
    for row, (prompt_T, before_T, completion_T, after_T) in enumerate(rows):
        prompt_T, chosen_T = prompt_T[before_T], completion_T[after_T]
        ids_1T = torch.cat([prompt_T, chosen_T])[None]
        keywords = {}
        if padded:
            mask_1T = torch.ones_like(ids_1T)
            behind = (0, longest - ids_1T.shape[1])
            ids_1T = torch.nn.functional.pad(ids_1T, behind)
            keywords["attention_mask"] = torch.nn.functional.pad(mask_1T, behind)
        # the logits at a position are of the next token: the prompt's last position predicts the
        # completion's first
        begin, count = len(prompt_T) - 1, len(chosen_T)
        logits_TV = model(input_ids=ids_1T, **keywords).logits[0][begin : begin + count]
        surprise.add(logits_TV, chosen_T, parameters)
        logps_TV = (logits_TV.float() / parameters.temperature).log_softmax(-1)
        logps_BT[row, :count] = logps_TV.gather(1, chosen_T[:, None])[:, 0]
    return logps_BT, surprise


def judge_surprise(surprise: Surprise) -> list[Finding]:
    """Return what is wrong with a sampler that reports no log-probabilities of its own."""
    possible = surprise.impossible <= SWITCHED_SHARE * surprise.tokens  # rounding at a cut
    if abs(surprise.sigmas) <= SURPRISE_SIGMAS and possible:
        return []
    cause = (
        "the sampled tokens do not follow the distribution that the trainer computes: the "
        f"surprisal of {surprise.tokens} tokens is {surprise.sigmas:+.1f} standard errors from its "
        f"expectation, and {surprise.impossible} tokens are impossible"
    )
    return [Finding(True, cause, "choose another `rollout.backend`")]


def judge_engine(now: LogpDifference, before: LogpDifference | None) -> list[Finding]:
    """Return what is wrong with an engine's own log-probabilities against the trainer's.

    `now` compares them with the policy as it is, `before`, after an update, with the policy as it
    started: an engine that is nearer to the latter hasn't been given the update.
    """
    if before is not None and now.mean > STALE_FACTOR * before.mean:
        cause = (
            f"the engine samples from the policy as it started: its log-probabilities are "
            f"{before.mean:.3g} nats from that policy and {now.mean:.3g} from the updated one"
        )
        return [
            Finding(
                True,
                cause,
                "the update doesn't reach the engine: choose another "
                "`rollout.backend`, or train all weights (model.tuning=full)",
            )
        ]
    if not now.mean <= ENGINE_WARNS_NATS:
        stops = not now.mean <= ENGINE_STOPS_NATS
        cause = (
            f"the engine's log-probabilities differ from the trainer's by {now.mean:.3g} nats per "
            f"token over {now.tokens} tokens"
        )
        remedy = "check that both load the same weights in the same type (model.dtype)"
        return [Finding(stops, cause, remedy)]
    return []


def checked_rows(mask_BT: Tensor, prompts: Sequence[int]) -> Tensor:
    """Return the indices of rows that together have CHECKED_TOKENS, two of each prompt.

    Two rows of a prompt share its pass, and prompts that are far apart have different lengths,
    which is what padding gets wrong.
    """
    lengths = mask_BT.sum(dim=1).tolist()
    names = list(dict.fromkeys(prompts))
    # prompts 0, P/2, P/4, 3P/4, ...: the bits of a number in reverse
    order = sorted(range(len(names)), key=lambda place: int(f"{place:032b}"[::-1], 2))
    chosen, tokens = list[int](), 0
    for place in order:
        if tokens >= CHECKED_TOKENS and place != order[1]:
            break
        pair = [row for row, name in enumerate(prompts) if name == names[place]][:2]
        chosen += pair
        tokens += sum(lengths[row] for row in pair)
    return torch.tensor(sorted(chosen), dtype=torch.long)


@torch.no_grad()
def trained_logps(trainer: Any, rows: RolloutBatch) -> Tensor:
    """Return log-probabilities (B, T) by the trainer's own pass: padded, shared, fused."""
    tokens = rows["completion_ids"].shape[1]
    logps_BT: Tensor = trainer.run_pass(
        "old policy", trainer.model, *whole_texts(rows), tokens
    ).logps_BT
    return logps_BT
