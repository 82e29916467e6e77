"""`from sage_cli import GuidedGRPOTrainer`: TRL's GRPOTrainer with a guide, for your own scripts.

Prompts, rewards, advantages and sampling are TRL's. Only the reference in the KL term is another:
q pi_ref (Eq. 3), by a guide.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Literal, get_args

from torch import Tensor
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from sage_cli.errors import ConfigurationError
from sage_cli.guides import Guide, NoGuide
from sage_cli.guides.divergences import AnchorSchedule
from sage_cli.guides.guide import ROW_SIGNALS
from sage_cli.settings.training import AnchorSection, Rows
from sage_cli.training.anchored_trainer import AnchoredTrainer
from sage_cli.training.step_record import TokenRecord, token_statistics

Estimator = Literal["k3", "k3-corrected", "head", "reward"]
GRADED = frozenset(ROW_SIGNALS) & {"right_B", "group_right_B"}
"""Signals that are known only where it is said which rewards mean a right completion."""


class GuidedGRPOTrainer(AnchoredTrainer):
    """trl.GRPOTrainer whose KL term holds the policy to q pi_ref.

    Takes TRL's arguments and those of the anchor. `estimator`, `rows`, `schedule` and `head_tokens`
    are as in the section `anchor` of `sage`; `estimator` takes the place of
    `use_bias_correction_kl` (`k3-corrected` is its True, TRL's default). A completion is right
    where its reward, the weighted sum of `reward_funcs`, is at least `right_at`: needed by `rows`
    other than `all` and by guides that read grades. TRL's logs get the divergences (`kl/…`) and
    what q did (`guide/…`).

    Raises ConfigurationError for what would have no effect, before a model is loaded.
    """

    def __init__(
        self,
        model: Any,
        reward_funcs: Any,
        args: GRPOConfig,
        *arguments: Any,
        guide: Guide | None = None,
        estimator: Estimator = "k3",
        schedule: AnchorSchedule = "constant",
        rows: Rows = "all",
        head_tokens: int = 32,
        right_at: float | None = None,
        **keywords: Any,
    ) -> None:
        guide = NoGuide() if guide is None else guide
        _check_choices(estimator=(estimator, Estimator), schedule=(schedule, AnchorSchedule))
        _check_choices(rows=(rows, Rows))
        _check_anchor(guide, args.beta, rows, right_at)
        if estimator == "head" and not guide.tells_of_others:
            raise ConfigurationError(
                f"estimator 'head' asks for q of tokens that were not sampled, and guide "
                f"'{guide.name}' knows it of sampled ones alone",
                "choose another estimator, or the guide token or branch",
            )
        self.right_at = right_at
        args = copy(args)
        args.use_bias_correction_kl = estimator == "k3-corrected"
        keywords |= dict(zip(_POSITIONAL, arguments, strict=False))
        super().__init__(
            guide=guide,
            anchor=AnchorSection.model_construct(
                estimator=estimator, schedule=schedule, rows=rows, head_tokens=head_tokens
            ),
            model=model,
            reward_funcs=reward_funcs,
            args=args,
            **keywords,
        )
        self.add_callback(_Length(self))

    def _tokenize_prompts(self, prompts: list[Any]) -> Any:
        """Return what TRL makes of prompts: conversations and texts of other templates, too."""
        return GRPOTrainer._tokenize_prompts(self, prompts)

    def _calculate_rewards(self, *arguments: Any) -> Tensor:
        rewards_BF: Tensor = super()._calculate_rewards(*arguments)
        weights_F = self.reward_weights.to(rewards_BF.device)
        self.rewards_B = (rewards_BF * weights_F).nansum(dim=1)
        return rewards_BF

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch = super()._generate_and_score_completions(inputs)
        rows_B = batch["row_ids_B"].to(self.rewards_B.device)
        batch["rewards_B"] = self.rewards_B[rows_B]
        if self.right_at is not None:
            training = self.model.training
            n = int(self.num_generations if training else self.num_generations_eval)
            right_B = self.rewards_B >= self.right_at
            share_P = right_B.view(-1, n).double().mean(dim=1)
            batch["right_B"] = right_B[rows_B]
            batch["group_right_B"] = share_P.repeat_interleave(n)[rows_B].to(self.rewards_B)
        return batch

    def prediction_step(self, *arguments: Any, **keywords: Any) -> Any:
        """Evaluate a batch as TRL does; what is recorded of tokens stays training's."""
        of_training, self.tokens = self.tokens, TokenRecord()
        try:
            return super().prediction_step(*arguments, **keywords)
        finally:
            self.tokens = of_training

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add divergences and what q did, means over the tokens since the last log, to TRL's."""
        if self.model.training:
            signals = self.tokens.drain(self.accelerator)
            if len(signals.get("entropy", ())):
                figures = token_statistics(signals, self.guide) | self.anchor_record(self.args.beta)
                # TRL's logs are numbers: what is undefined is left out
                logs |= {name: value for name, value in figures.items() if value is not None}
        super().log(logs, start_time)


_POSITIONAL = ("train_dataset", "eval_dataset", "processing_class")
"""The arguments of GRPOTrainer that follow the first three."""


class _Length(TrainerCallback):  # type: ignore[misc]
    """Tells the guide the number of steps, which Transformers computes when training begins."""

    def __init__(self, trainer: GuidedGRPOTrainer) -> None:
        self._trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Set the length of the guide's schedule."""
        self._trainer.guide = self._trainer.guide.for_training(state.max_steps)


def _check_choices(**given: tuple[str, Any]) -> None:
    for name, (value, choices) in given.items():
        if value not in get_args(choices):
            names = ", ".join(get_args(choices))
            raise ConfigurationError(f"{name} is '{value}'", f"it can be {names}")


def _check_anchor(guide: Guide, beta: float, rows: Rows, right_at: float | None) -> None:
    """Raise ConfigurationError for a guide or rows that has no effect or lack what they read."""
    shaped = rows != "all" or not isinstance(guide, NoGuide)
    if shaped and beta == 0:
        raise ConfigurationError(
            "GRPOConfig.beta is 0, TRL's default: there is no KL term that guide or rows could "
            "change",
            "set it, as in GRPOConfig(beta=0.05)",
        )
    graded = sorted(GRADED & guide.needs)
    if right_at is None and (rows != "all" or graded):
        asking = f"rows='{rows}'" if rows != "all" else f"guide '{guide.name}'"
        raise ConfigurationError(
            f"{asking} needs to know which completions are correct, and TRL only has rewards",
            "set the reward from which a completion counts as correct, for example right_at=1.0",
        )
    if "problem_ids_B" in guide.needs:
        raise ConfigurationError(
            f"guide '{guide.name}' reads problem ids, which TRL's data sets don't have",
            "train with `sage rl`, or choose another guide",
        )
