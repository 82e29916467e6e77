"""What is trained how: steps, rewards and the anchor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from sage_cli.settings.own_code import OwnFunction, names_code, require_name
from sage_cli.settings.section import COSMETIC, WHERE_SET, Section

Optimizer = Literal["adamw_8bit", "adamw"]
Scheduler = Literal["linear", "cosine", "constant"]


class SftSection(Section):
    """Supervised warm-up, Table 7. `enabled: false` takes the model as it is for the base."""

    enabled: bool = True
    """Warm the model up before RL; false takes it as it is."""
    epochs: int = Field(2, ge=1)
    """Passes over the demonstrations."""
    steps: int | None = Field(None, ge=1)
    """Optimiser steps; when set it replaces `epochs`."""
    batch_size: int = Field(1, ge=1)
    """Demonstrations in an optimiser step."""
    micro_batch: int | None = Field(None, ge=1)
    """Demonstrations that go through the model at once; null: all of a step."""
    shuffle: bool = True
    """Shuffle the demonstrations in each epoch."""
    max_length: int = Field(2048, ge=8)
    """Tokens of a demonstration at most; longer ones are left out."""
    loss: Literal["completion", "text"] | None = None
    """What the loss covers: the completion alone, or prompt and completion. null leaves it to the
    demonstrations: a data set's count by their completion, a generator says it of each."""
    learning_rate: float = Field(2e-4, gt=0)
    """At the end of warm-up."""
    weight_decay: float = Field(0.01, ge=0)
    """AdamW's."""
    scheduler: Scheduler = "linear"
    """How the learning rate falls after warm-up."""
    warmup_steps: int | None = Field(5, ge=0)
    """Optimiser steps over which the learning rate rises."""
    warmup_ratio: float = Field(0.0, ge=0, lt=1)
    """Used when `warmup_steps` is null."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradients are scaled down to this norm."""
    optimizer: Optimizer = "adamw_8bit"
    """`adamw`, or with a quarter of its memory `adamw_8bit`, which needs a GPU and bitsandbytes."""
    gradient_checkpointing: bool = True
    """Compute activations twice instead of keeping them: less memory, more time."""
    save_every: int = Field(200, ge=1, json_schema_extra=COSMETIC)
    """Optimiser steps from one checkpoint to the next."""
    save_minutes: float = Field(10, gt=0, json_schema_extra=COSMETIC)
    """A checkpoint after so many minutes, too; after more where saving would take over 5 % of the
    time."""
    seed: int = 3407
    """Of the order of demonstrations and of adapters' first weights."""


GRADE, RANDOM, PLURALITY = "grade", "random", "plurality"
BUILT_IN_REWARDS = (GRADE, "format", "brevity", RANDOM, PLURALITY)
"""The grade; whether the answer stands where the prompt asks for it; how much of the length is
left; a coin; whether the answer is the group's most frequent."""
OVERLONG = "overlong"
_TAKEN = ("total", OVERLONG)
"""Names of other parts of the reward in a run's records."""


class Reward(Section):
    """A part of what a completion is paid: `weight` times what `name` says of it."""

    name: str
    """`grade`, `format`, `brevity`, `random`, `plurality`, or a function of one's own."""
    weight: float = 1.0
    """Its factor in the sum. 0: recorded and not paid."""
    p: float = Field(0.5, gt=0, lt=1)
    """`random`: the probability of 1."""

    @field_validator("name")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if names_code(name):
            OwnFunction.parse(name).require()
        else:
            require_name("reward", name, BUILT_IN_REWARDS)
        return name

    @model_validator(mode="after")
    def _no_idle_coin(self) -> Reward:
        if self.name != RANDOM and self.p != type(self).model_fields["p"].default:
            raise ValueError(f"p {self.p:g} is of the reward '{RANDOM}' alone (leave it out)")
        return self

    @property
    def label(self) -> str:
        """Its name in records: of a function of one's own the function's."""
        return _label(self.name)

    def determinants(self) -> dict[str, Any]:
        """Name, weight and p of a coin; code by the content of its file."""
        code = names_code(self.name)
        name = OwnFunction.parse(self.name).identity if code else self.name
        coin = {"p": self.p} if self.name == RANDOM else {}
        return {"name": name, "weight": self.weight, **coin}


def _listed(given: Any) -> Any:
    """Take a name for the reward of that name, and one for a list of one."""
    several = given if isinstance(given, list | tuple) else [given]
    return tuple({"name": item} if isinstance(item, str) else item for item in several)


Rewards = Annotated[tuple[Reward, ...], BeforeValidator(_listed)]
THE_GRADE = (Reward(name=GRADE),)


def _label(name: str) -> str:
    return OwnFunction.parse(name).name if names_code(name) else name


def part_names(rewards: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the parts that are stored of a completion, of a stored `rl.rewards`."""
    labels = [_label(reward["name"]) for reward in rewards]
    return [*labels, *([] if GRADE in labels else [GRADE]), OVERLONG]


def are_usual(rewards: Sequence[Reward]) -> bool:
    """Return True if completions are paid their grades alone, as by default."""
    return [(reward.name, reward.weight) for reward in rewards] == [(GRADE, 1.0)]


def reward_problems(rewards: Sequence[Reward]) -> list[str]:
    """Return what is wrong with a list of rewards, a sentence each."""
    counts, problems = Counter(reward.label for reward in rewards), []
    for label, count in counts.items():
        if count > 1:
            problems.append(f"rl.rewards has two rewards called '{label}' (rename a function)")
    for reward in rewards:
        if reward.label in _TAKEN or (reward.label == GRADE and names_code(reward.name)):
            problems.append(
                f"rl.rewards: '{reward.label}' is the name of another part of the reward in a "
                f"run's records (rename the function {reward.name})"
            )
    if not any(reward.weight for reward in rewards):
        problems.append("rl.rewards pays nothing: it is empty, or every weight is 0")
    return problems


def in_words(rewards: Sequence[Reward]) -> str:
    """`grade + 0.2 x mine.py:brevity`, for plans."""
    parts = (
        f"{'' if reward.weight == 1 else f'{reward.weight:g} x '}{reward.name}"
        + (f" (p {reward.p:g})" if reward.name == RANDOM else "")
        for reward in rewards
    )
    return " + ".join(parts)


Rows = Literal["all", "informative", "wrong", "right"]


class AnchorSection(Section):
    """The KL anchor q(x, y) pi_ref(y | x), Eqs. 3 to 6.

    `estimator` tells four methods apart that share a formula: `k3` as a loss term (the authors'),
    `k3-corrected` times the importance ratio, `head` exact over a state's likeliest tokens,
    `reward` the exact gradient of Eq. 6.
    """

    kl: Literal["reverse", "forward", "none"] = "reverse"
    """Direction of the divergence to the anchor; `none` has no anchor."""
    beta: float = Field(0.05, ge=0)
    """Weight of the KL term."""
    schedule: Literal["constant", "cosine"] = "constant"
    """`cosine` takes beta from its value down to 0 over the training; a guide's force with it."""
    estimator: Literal["k3", "k3-corrected", "head", "reward"] = "k3"
    """`k3`, `k3-corrected`, `head` or `reward`: which gradient the KL term has."""
    head_tokens: int = Field(32, ge=1, json_schema_extra=WHERE_SET)
    """Estimator `head`: the reference's likeliest tokens of each state, over which the divergence
    is summed; past them it is estimated."""
    rows: Rows = "all"
    """The completions that the KL term acts on: `all`, `wrong` ones, `right` ones, or those of
    `informative` groups, which have right and wrong ones. Each is pulled as under `all`: the term's
    mean stays one over all completions."""
    tokens: Literal["all", "certain", "uncertain"] = Field("all", json_schema_extra=WHERE_SET)
    """The tokens of those completions that the KL term acts on: `all`, the `uncertain` ones, whose
    entropy under the policy is above its quantile within the completion, or the `certain` ones. The
    term's mean stays one over all tokens."""
    uncertain_share: float = Field(0.2, gt=0, lt=1, json_schema_extra=WHERE_SET)
    """Share of a completion's tokens that is uncertain."""
    reference: Literal["initial", "base"] = "initial"
    """`initial`: the policy as it starts; `base`: the model without its adapter (LoRA), or before
    supervised warm-up (full tuning)."""
    ema: float | None = Field(None, gt=0, le=1)
    """The reference follows the policy: it becomes `ema` times itself plus the rest of the policy,
    every `ema_every` steps. 1 leaves it where it is, null too."""
    ema_every: int = Field(1, ge=1)
    """Optimiser steps from one such average to the next."""
    reset_every: int | None = Field(None, ge=1)
    """After so many optimiser steps, and again, the policy as it is becomes the reference, and the
    optimiser forgets its moments: at the end of the generation batch that the step is in."""
    reference_samples: int = Field(8, ge=1)
    """Forward KL: completions sampled once from the frozen reference, of each problem that the
    training comes to."""

    @property
    def moves(self) -> bool:
        """Return True if the reference changes in training."""
        return self.ema is not None or self.reset_every is not None

    @property
    def changes(self) -> list[str]:
        """Return phrases on what isn't as in the paper: rows, tokens, how the reference moves."""
        phrases = [f"rows {self.rows}"] if self.rows != "all" else []
        if self.tokens != "all":
            phrases.append(f"{self.tokens} tokens (uncertain: {self.uncertain_share:.0%})")
        if self.ema is not None:
            phrases.append(f"reference averaged with ema {self.ema:g} {_every(self.ema_every)}")
        if self.reset_every is not None:
            phrases.append(f"reference reset to the policy {_every(self.reset_every)}")
        return phrases

    @model_validator(mode="after")
    def _nothing_idle(self) -> AnchorSection:
        idle = (
            ("reference_samples", self.kl == "forward", "are those of forward KL", "kl=forward"),
            ("head_tokens", self.estimator == "head", "are those of the estimator head",
             "estimator=head"),
            ("uncertain_share", self.tokens != "all", "divides a completion's tokens",
             "tokens=certain"),
            ("ema_every", self.ema is not None, "is how often the reference is averaged", "ema=.9"),
        )  # fmt: skip
        for name, is_read, role, reader in idle:
            value = getattr(self, name)
            if not is_read and value != type(self).model_fields[name].default:
                raise ValueError(
                    f"{name} {value} {role} (add --set anchor.{reader}, or leave {name} out)"
                )
        return self

    def conflicts(self, steps: int) -> list[str]:
        """Return why rows, tokens and a moving reference can't be as asked in so many `steps`."""
        fields = type(self).model_fields
        names = [
            name for name in ("rows", "tokens", "ema", "reset_every")
            if getattr(self, name) != fields[name].default
        ]  # fmt: skip
        problems = []
        if names and (self.kl != "reverse" or self.beta == 0):
            no_kl = f"anchor.kl is '{self.kl}' (use --kl reverse)"
            problems.append(
                f"anchor.{names[0]} is {getattr(self, names[0])}, and there is no reverse KL to "
                "the policy's own completions: "
                + ("anchor.beta is 0 (use a --beta above 0)" if self.kl == "reverse" else no_kl)
            )
        if self.moves and self.reference == "base":
            problems.append(
                "anchor.reference is 'base', another model than the policy: it can't follow it "
                "(use --set anchor.reference=initial, or leave out anchor.ema and reset_every)"
            )
        if self.reset_every is not None and self.reset_every >= steps:
            problems.append(
                f"anchor.reset_every is {self.reset_every}, and the training ends after {steps} "
                "steps: the reset would never come (use a smaller one, or leave it out)"
            )
        return problems


def _every(steps: int) -> str:
    return "every step" if steps == 1 else f"every {steps} steps"
