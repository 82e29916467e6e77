"""Settings of the objective that could do nothing, or not what they say, beside the others."""

from __future__ import annotations

from sage_cli.config.rollout import RolloutSection
from sage_cli.config.training import AnchorSection, RlSection, batch_of

_QUANTILE_LIMIT = 2**24
"""Values that `torch.quantile` takes."""

ONE_UPDATE = "one update per generation, in which pi / pi_old is 1"
MORE_UPDATES = "use rl.iterations or rl.steps_per_generation above 1"


def inert(rl: RlSection, anchor: AnchorSection, rollout: RolloutSection) -> list[str]:
    """A sentence for each, with what to use; `rl` is one whose completions can be divided."""
    found = rl.options.refusals(rl)
    if rl.steps_per_batch == 1 and rl.importance_sampling_level == "sequence":
        found.append(
            f"rl.importance_sampling_level 'sequence' (GSPO) changes nothing with {ONE_UPDATE}, of "
            f"completions as of tokens ({MORE_UPDATES})"
        )
    if rl.steps_per_batch == 1 and rl.delta is not None:
        found.append(f"rl.delta has nothing to clip with {ONE_UPDATE} ({MORE_UPDATES})")
    per_token = rl.options.shapes_tokens or (anchor.kl, anchor.estimator) == ("reverse", "reward")
    if per_token and rl.importance_sampling_level == "sequence":
        whose = (
            f"rl.advantage '{rl.advantage}'"
            if rl.options.shapes_tokens
            else "anchor.estimator 'reward'"
        )
        found.append(
            f"{whose} gives each token an advantage of its own, and under "
            "rl.importance_sampling_level 'sequence' (GSPO) all tokens of a completion share one "
            "gradient (use rl.importance_sampling_level=token)"
        )
    return found + _of_the_quantile(rl, rollout)


def _of_the_quantile(rl: RlSection, rollout: RolloutSection) -> list[str]:
    tokens = rollout.max_tokens * (rl.micro_batch or batch_of(rl, rl.processes).micro_batch)
    if rl.top_entropy_quantile == 1 or tokens <= _QUANTILE_LIMIT:
        return []
    return [
        f"rl.top_entropy_quantile sorts a micro-batch's tokens, up to {tokens:,} here, and at most "
        f"{_QUANTILE_LIMIT:,} can be sorted (use a smaller rl.micro_batch)"
    ]
