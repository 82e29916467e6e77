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
    """Supervised fine-tuning before RL (the paper's Table 7). With `enabled: false`, RL starts from
    the model as it is."""

    enabled: bool = True
    """Whether to run SFT before RL. If false, RL starts from the model as it is."""
    shipped: bool = Field(True, json_schema_extra=COSMETIC)
    """Whether RL starts from the base that comes with `sage`, which we trained with `sage sft`, if
    model, prompt, demonstrations and SFT settings are exactly those that it was trained with. If
    false, `sage rl` trains a base of its own. `sage sft` always does."""
    epochs: int = Field(2, ge=1)
    """Number of passes that SFT makes over the demonstrations."""
    steps: int | None = Field(None, ge=1)
    """Number of optimiser steps that SFT takes. If set, it replaces `epochs`."""
    batch_size: int = Field(1, ge=1)
    """Number of demonstrations that an optimiser step uses."""
    micro_batch: int | None = Field(None, ge=1)
    """Number of demonstrations per forward pass; null means all of a step."""
    shuffle: bool = True
    """Whether the demonstrations are shuffled in each epoch."""
    max_length: int = Field(2048, ge=8)
    """Length of the longest demonstration, in tokens. Longer ones are left out."""
    loss: Literal["completion", "text"] | None = None
    """Tokens that the loss covers: `completion` for those of the completion, `text` for prompt and
    completion. null uses `completion` for data sets, and for generated demonstrations what
    their generator says."""
    learning_rate: float = Field(2e-4, gt=0)
    """Peak learning rate, which is reached at the end of the learning rate's warm-up."""
    weight_decay: float = Field(0.01, ge=0)
    """Weight decay that AdamW applies."""
    scheduler: Scheduler = "linear"
    """Schedule by which the learning rate falls after its warm-up."""
    warmup_steps: int | None = Field(5, ge=0)
    """Number of optimiser steps over which the learning rate rises (its warm-up)."""
    warmup_ratio: float = Field(0.0, ge=0, lt=1)
    """Share of the steps over which the learning rate rises, used if `warmup_steps` is null."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Norm to which larger gradients are scaled down."""
    optimizer: Optimizer = "adamw_8bit"
    """Optimiser: `adamw`, or `adamw_8bit`, which needs a quarter of its memory, but also a GPU and
    bitsandbytes."""
    gradient_checkpointing: bool = True
    """Whether to recompute activations in the backward pass instead of keeping them, which saves
    memory and costs time."""
    save_every: int = Field(200, ge=1, json_schema_extra=COSMETIC)
    """Number of optimiser steps after which a checkpoint is written."""
    save_minutes: float = Field(10, gt=0, json_schema_extra=COSMETIC)
    """Number of minutes after which a checkpoint is written in any case. It grows if saving would
    take more than 5% of the time."""
    seed: int = 3407
    """Seed with which the demonstrations are shuffled and the weights of LoRA adapters
    initialised."""


GRADE, RANDOM, PLURALITY = "grade", "random", "plurality"
BUILT_IN_REWARDS = (GRADE, "format", "brevity", RANDOM, PLURALITY)
"""The grade; whether the answer stands where the prompt asks for it; how much of the length is
left; a coin; whether the answer is the group's most frequent."""
OVERLONG = "overlong"
_TAKEN = ("total", OVERLONG)
"""Names of other parts of the reward in a run's records."""


class Reward(Section):
    """A part of a completion's reward: `weight` times the value that `name` gives it."""

    name: str
    """Name of the reward: `grade`, `format`, `brevity`, `random`, `plurality`, or your own function
    (for example `mine.py:concise`)."""
    weight: float = 1.0
    """Factor of this part in the sum. With 0 it is recorded, but does not count."""
    p: float = Field(0.5, gt=0, lt=1)
    """Probability that the reward `random` is 1."""

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
            raise ValueError(f"p {self.p:g} only applies to the reward '{RANDOM}' (leave it out)")
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
    """Return True if the grade is the only reward, the default."""
    return [(reward.name, reward.weight) for reward in rewards] == [(GRADE, 1.0)]


def pays_nothing(rewards: Any) -> bool:
    """Return True for a list of rewards, as read or as typed, that is empty or all of weight 0."""
    if not isinstance(rewards, list | tuple):
        return False
    weights = (
        reward.get("weight", 1) if isinstance(reward, Mapping) else getattr(reward, "weight", 1)
        for reward in rewards
    )
    return not any(weights)


def reward_problems(rewards: Sequence[Reward], *, taught: bool = False) -> list[str]:
    """Return what is wrong with a list of rewards, a sentence each.

    A policy that is `taught` by another model learns without a reward.
    """
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
    if pays_nothing(rewards) and not taught:
        problems.append(
            "rl.rewards rewards nothing: it is empty, or every weight is 0 (only a policy that "
            "learns from a teacher, named by anchor.reference=MODEL, needs none)"
        )
    return problems


def rewards_in_words(rewards: Sequence[Reward]) -> str:
    """`grade + 0.2 x mine.py:brevity`, for plans."""
    parts = (
        f"{'' if reward.weight == 1 else f'{reward.weight:g} x '}{reward.name}"
        + (f" (p {reward.p:g})" if reward.name == RANDOM else "")
        for reward in rewards
    )
    return " + ".join(parts) or "none"


Rows = Literal["all", "informative", "wrong", "right"]
OWN_REFERENCES = ("initial", "pre-sft")
"""The words of `anchor.reference` that mean a state of the policy itself."""
DISTILLING = ("reward", "head")
"""The estimators by which a teacher alone can train a policy; the first is the default then."""


class AnchorSection(Section):
    """The KL anchor q(x, y) pi_ref(y | x), Eqs. 3 to 6.

    `estimator` chooses between four gradients of the same formula: `k3` as a loss term (the
    authors'), `k3-corrected`, which multiplies it by the importance ratio, `head`, which is
    exact over a state's most likely tokens, and `reward`, which is the exact gradient of Eq. 6.
    """

    kl: Literal["reverse", "forward", "none"] = "reverse"
    """Direction of the KL divergence to the anchor: `reverse` or `forward`; `none` trains without
    an anchor."""
    beta: float = Field(0.05, ge=0)
    """Weight β that the KL term (the KL penalty) has."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Schedule of beta: with `cosine` it falls from its value to 0 over the run, and the guide's
    effect falls with it."""
    estimator: Literal["k3", "k3-corrected", "head", "reward"] = "k3"
    """KL estimator, which decides the gradient of the KL term: `k3`, `k3-corrected`, `head` or
    `reward`."""
    head_tokens: int = Field(32, ge=1, json_schema_extra=WHERE_SET)
    """Number of the reference's most likely tokens over which the estimator `head` sums the
    divergence exactly. The rest is estimated."""
    rows: Rows = "all"
    """Completions that the KL term acts on: `all`, only the `wrong` or the `right` (correct) ones,
    or those of `informative` groups, which contain both. The term is always averaged over all
    completions, so that each completion is pulled as strongly as under `all`."""
    tokens: Literal["all", "certain", "uncertain"] = Field("all", json_schema_extra=WHERE_SET)
    """Tokens that the KL term acts on: `all`, the `uncertain` ones, whose entropy under the policy
    is above the completion's quantile, or the `certain` ones. The term is always averaged over
    all tokens."""
    uncertain_share: float = Field(0.2, gt=0, lt=1, json_schema_extra=WHERE_SET)
    """Share of a completion's tokens that are taken as uncertain."""
    reference: str = Field("initial", min_length=1)
    """Reference model of the anchor. `initial` is the policy as RL starts. `pre-sft` is the model
    without its adapter, or before SFT; without SFT it is the same as `initial`. The old
    spelling `base` means `pre-sft`. Anything else names a teacher with the policy's vocabulary:
    a folder, a model of the Hub (ORG/MODEL) or a run. Without a reward (`rl.rewards=[]`) the
    policy is distilled from it."""
    ema: float | None = Field(None, gt=0, le=1)
    """Factor with which the reference follows the policy: every `ema_every` steps, it becomes `ema`
    times itself plus (1 − `ema`) times the policy. With null or 1, the reference does not
    change."""
    ema_every: int = Field(1, ge=1)
    """Number of optimiser steps after which the reference is updated again by `ema`."""
    reset_every: int | None = Field(None, ge=1)
    """Number of optimiser steps after which the current policy becomes the reference and the
    optimiser's moments are reset, repeatedly. This happens at the end of the step's generation
    batch."""
    reference_samples: int = Field(8, ge=1)
    """Number of completions of each training problem that are sampled for forward KL from the
    frozen reference, once."""

    @property
    def teacher(self) -> str | None:
        """The model that the policy is held to if it is none of the policy's own; else None."""
        return None if self.reference in OWN_REFERENCES else self.reference

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

    def conflicts(self, steps: int) -> list[str]:
        """Return why rows, tokens and a moving reference can't be as asked in so many `steps`."""
        fields = type(self).model_fields
        names = [
            name
            for name in ("rows", "tokens", "ema", "reset_every")
            if getattr(self, name) != fields[name].default
        ]
        problems = []
        if names and (self.kl != "reverse" or self.beta == 0):
            no_kl = f"anchor.kl is '{self.kl}' (use --kl reverse)"
            problems.append(
                f"anchor.{names[0]} is {getattr(self, names[0])}, and there is no reverse KL to "
                "the policy's own completions: "
                + ("anchor.beta is 0 (use a --beta above 0)" if self.kl == "reverse" else no_kl)
            )
        if self.moves and self.reference != "initial":
            problems.append(
                f"anchor.reference is '{self.reference}', another model than the policy: it can't "
                "follow it (use --set anchor.reference=initial, or leave out anchor.ema and "
                "reset_every)"
            )
        if self.teacher is not None and (self.kl != "reverse" or self.beta == 0):
            needed = "anchor.kl=reverse" if self.kl != "reverse" else "anchor.beta=1"
            problems.append(
                f"anchor.reference names the teacher '{self.teacher}', which teaches by the "
                f"reverse KL alone, and there is none (use --set {needed})"
            )
        if self.reset_every is not None and self.reset_every >= steps:
            problems.append(
                f"anchor.reset_every is {self.reset_every}, and the training ends after {steps} "
                "steps: the reset would never come (use a smaller one, or leave it out)"
            )
        return problems


def _every(steps: int) -> str:
    return "every step" if steps == 1 else f"every {steps} steps"
