"""The bases of guides, plain or noisy: a positive factor q on the anchor, from signals."""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

from pydantic import ConfigDict, Field, PrivateAttr, model_validator

from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.guides.token_signals import TOKEN_SIGNALS, Measure, TokenSignal, tilted_logps
from sage_cli.settings.own_code import load_plugin, named
from sage_cli.settings.section import Extensible
from sage_cli.splitmix import GOLDEN, mixed, shifted

if TYPE_CHECKING:
    from torch import Tensor


Signal = Literal["policy", "reference"]
Clock = Literal["optimiser_step", "loss_call"]
PAPER_STEPS = 1000
"""Optimiser steps of Table 8."""

RowSignal = Literal["right_B", "rewards_B", "group_right_B", "problem_ids_B"]
ROW_SIGNALS: tuple[RowSignal, ...] = get_args(RowSignal)
"""What may be known of a completion as a whole: whether it is correct, its reward (1 for a correct
one, plus punishments where there are some), the share of correct completions among the N that its
prompt had first, and the id of its problem."""
OPTIONAL_SIGNALS = (*TOKEN_SIGNALS, *ROW_SIGNALS)

Known = Mapping[str, "Tensor | tuple[str, ...]"]
"""Optional signals by name: tensors, and problem ids as strings."""
_TINY = 2.0**-53
"""Keeps uniform numbers inside (0, 1), so that normal ones are finite: 1 - 2^-53 is the largest
double below 1. In single precision one in 2^25 uniform numbers is rounded to 1."""
NOISE = {"noise": "splitmix64"}
"""What identities of guides with noise hold since it comes from a counter."""


@dataclass(frozen=True)
class Signals:
    """Per-token signals of B completions of at most T tokens, without gradients.

    `logps_BT` are log-probabilities of the sampled tokens and `entropy_BT` the entropies H_t of
    the distributions they come from (Eq. 12), both in nats and of the model that the guide's
    `signal` names; `mask_BT` is 1 on completion tokens. `row_ids_B` is each row's index in the
    whole generation batch, so that noise depends neither on micro-batches nor on processes;
    without it rows count from 0.

    `optional` holds what a guide asks for by its `needs`: the completions' token ids,
    log-probabilities and entropies of the policy and of the reference, both at once, and of each
    row the grade, the reward, its group's share of correct completions, and its problem: all of
    `OPTIONAL_SIGNALS`, and token signals of the guide's own. They are read by their names
    (`signals.token_ids_BT`); what wasn't asked for raises TrainingError, which says who the
    `reader` is.
    """

    logps_BT: Tensor
    entropy_BT: Tensor
    mask_BT: Tensor
    row_ids_B: Tensor | None = None
    optional: Known = field(default_factory=dict)
    reader: str = "a guide"

    @property
    def problem_ids_B(self) -> tuple[str, ...]:  # noqa: N802
        """The id of each completion's problem."""
        ids: Any = self.__getattr__("problem_ids_B")
        return tuple(ids)

    def __getattr__(self, name: str) -> Tensor:
        """Return an optional signal; TrainingError for one that the reader did not declare."""
        optional: Mapping[str, Any] = vars(self).get("optional", {})
        if name in optional:
            tensor: Tensor = optional[name]
            return tensor
        if name not in OPTIONAL_SIGNALS:
            raise AttributeError(f"there is no signal {name}")
        raise TrainingError(
            f"{self.reader} reads {name}, which it did not declare",
            f"add it to the guide's needs: needs = frozenset({{{name!r}}})",
        )

    def only(self, needs: Iterable[str], reader: str) -> Signals:
        """Return a copy with the optional signals in `needs` alone; KeyError if one is missing."""
        return replace(self, optional={name: self.optional[name] for name in needs}, reader=reader)


class Guide(Extensible):
    """q(x, y) = prod_t q_t(x, y_<t, y_t) of Eqs. 3 and 7.

    A guide is a subclass with `name: Literal["NAME"] = "NAME"`, settings and `q`, in a file of
    `sage_cli.guides` or behind an entry point of that group. Clamp, mask and detachment are done
    here. `needs` names what `q` reads besides log-probabilities and entropies (see `Signals`);
    nothing else is computed. `own_signals` are token signals of the guide's own, by name. Two
    settings that a guide may have are known here: `signal: Signal`, whose log-probabilities and
    entropies it reads (without it, the policy's), and `schedule_clock: Clock`, what its steps count
    (without it, optimiser steps).
    """

    package = "sage_cli.guides"
    needs: ClassVar[frozenset[str]] = frozenset()
    own_signals: ClassVar[Mapping[str, TokenSignal]] = {}
    """Token signals that no other guide reads, measured as those of `TOKEN_SIGNALS` are."""
    of_states: ClassVar[bool] = False
    """True if q is the same for all tokens that may follow a state."""
    is_noise: ClassVar[bool] = False
    """True if q depends on no signal, so that its effect has expectation 0 as far as it goes."""

    name: str = "none"
    """Name of the guide, which multiplies the KL term's reference by a factor q per token: one that
    comes with sage, or one that another package registers."""
    q_min: float = Field(0.6, gt=0)
    """Lower bound of q, to which smaller values are clamped."""
    q_max: float = Field(1.4, gt=0)
    """Upper bound of q, to which larger values are clamped."""
    _training_steps: int = PrivateAttr(PAPER_STEPS)

    @model_validator(mode="after")
    def _clamp_is_an_interval(self) -> Self:
        if self.q_min > self.q_max:
            raise ValueError(f"q_min {self.q_min} is above q_max {self.q_max}")
        return self

    @abstractmethod
    def q(self, signals: Signals, step: int) -> Tensor:
        """Return unclamped factors q_BT at the clock's `step`; masked positions may hold anything.

        It depends on its arguments alone, so that a resumed training computes the same.
        """

    def log_q(self, signals: Signals, step: int) -> Tensor:
        """Return log q_BT, clamped to [log q_min, log q_max], 0 outside the mask, no gradient.

        Raises TrainingError, with the guide's name, if `q` gives NaN or infinity, and errors as
        `unchecked_log_q` does.
        """
        log_q_BT, valid_BT = self.unchecked_log_q(signals, step), signals.mask_BT.bool()
        of_tokens = (v for name, v in signals.optional.items() if name not in ROW_SIGNALS)
        by_token: list[Any] = [signals.logps_BT, signals.entropy_BT, *of_tokens]
        require_finite(self, log_q_BT[valid_BT], (values_BT[valid_BT] for values_BT in by_token))
        return log_q_BT

    def unchecked_log_q(self, signals: Signals, step: int) -> Tensor:
        """Return `log_q`, NaN or infinity where q is, which `require_finite` is asked about later.

        A training would wait for its GPU to know. Raises TrainingError if `q` gives another shape
        or needs a signal that is not known, and ConfigurationError if another package's `q` raises.
        """
        import torch

        lacking = sorted(self.needs - signals.optional.keys())
        if lacking:
            raise TrainingError(
                f"{_title(self)} needs {', '.join(lacking)}, which is not available here",
                "a guide can need what sage_cli.guides.guide lists; without a reference none of "
                "its signals is known, and rewards and groups are known in training alone",
            )
        read = signals.only(self.needs, _title(self))
        with torch.no_grad(), named("q of guide", type(self)):
            q_BT = self.q(read, step)
        _require_shape(self, q_BT, signals)
        q_BT = q_BT.detach().to(signals.logps_BT)
        clamped_BT = q_BT.clamp(self.q_min, self.q_max).where(q_BT.isfinite(), q_BT.abs())
        return torch.where(signals.mask_BT.bool(), clamped_BT.log(), torch.zeros_like(q_BT))

    def q_of_others(self, signals: Signals, step: int, others_BTH: Tensor) -> Tensor:
        """Return unclamped factors (B, T, H) of tokens with log-probabilities `others_BTH`.

        They might have stood in the places of the sampled tokens that `signals` are about. Asked
        for by the estimator `head`, and by default q's own where `of_states`.
        """
        return self.q(signals, step)[..., None].expand(others_BTH.shape)

    def log_q_of_others(self, signals: Signals, step: int, others_BTH: Tensor) -> Tensor:
        """Return log q (B, T, H) of tokens that were not sampled, clamped, no gradient."""
        import torch

        read = signals.only(self.needs, _title(self))
        with torch.no_grad(), named("q_of_others of guide", type(self)):
            q_BTH = self.q_of_others(read, step, others_BTH)
        return q_BTH.detach().to(others_BTH).clamp(self.q_min, self.q_max).log()

    @property
    def tells_of_others(self) -> bool:
        """True if q is known of tokens that were not sampled."""
        return self.of_states or type(self).q_of_others is not Guide.q_of_others

    def for_training(self, steps: int) -> Self:
        """Return the guide for a training of `steps` optimiser steps, the length of schedules."""
        guide = self.model_copy()
        guide._training_steps = steps
        return guide

    def now(self, step: int, call: int, calls: int) -> int:
        """Return what the clock shows in loss call `call` of the `calls` of optimiser step `step`.

        All count from 0. Nothing is remembered, so a resumed training continues where it was.
        """
        clock: Clock = getattr(self, "schedule_clock", "optimiser_step")
        return step if clock == "optimiser_step" else step * calls + call

    @property
    def source(self) -> Signal:
        """The model whose log-probabilities and entropies it reads."""
        source: Signal = getattr(self, "signal", "policy")
        return source

    @property
    def reads_reference(self) -> bool:
        """True if it reads any signal of the reference."""
        return self.source == "reference" or any(
            signal.of == "reference"
            for name, signal in self.token_signals().items()
            if name in self.needs
        )

    @property
    def reads_reference_entropy(self) -> bool:
        """True if the reference's entropies have to be computed as well."""
        return self.source == "reference" or "reference_entropy_BT" in self.needs

    @classmethod
    def token_signals(cls) -> Mapping[str, TokenSignal]:
        """Return the token signals that it may need: the table's and its own."""
        return {**TOKEN_SIGNALS, **cls.own_signals}

    def measured(self, of: Signal) -> dict[str, Measure]:
        """Return how the signals of a model that it needs follow from logits, by name.

        Those that every pass gives are not among them, nor are tilted log-probabilities.
        """
        listed = ((name, self.token_signals().get(name)) for name in sorted(self.needs))
        return {
            name: signal.measure
            for name, signal in listed
            if signal is not None and signal.of == of and signal.measure is not None
        }

    def measured_of_row(self, of: Signal, *, right: bool) -> dict[str, Measure]:
        """Return `measured` for a completion whose grade is known, with what depends on it."""
        tilted = of == "reference" and "reference_tilted_logps_BT" in self.needs
        exponent = self.exponents[right]
        return {
            **self.measured(of),
            **(
                {"reference_tilted_logps_BT": partial(tilted_logps, exponent=exponent)}
                if tilted
                else {}
            ),
        }

    @property
    def exponents(self) -> tuple[float, float]:
        """Exponents phi of the tilted reference for wrong and for correct completions.

        They are read where `needs` has `reference_tilted_logps_BT`; 1 is the reference as it is.
        """
        return 1.0, 1.0

    @property
    def tilts(self) -> frozenset[float]:
        """Exponents other than 1 for which the tilted reference has to be computed."""
        asked = "reference_tilted_logps_BT" in self.needs
        return frozenset(self.exponents) - {1.0} if asked else frozenset()

    def describe(self) -> str:
        """Return `branch (tau 0.465, rho 0.775, signals of the policy, q in [0.6, 1.4])`."""
        settings = self.model_dump(mode="json", exclude={"name", "q_min", "q_max"})
        # a guide's own settings before those that its base classes share
        first = {name: settings[name] for name in get_annotations(type(self)) if name in settings}
        words = {"signal": "signals of the"}
        listed = "".join(
            f"{words.get(k, k)} {value}, " for k, value in {**first, **settings}.items()
        )
        return f"{self.name} ({listed}q in [{self.q_min:g}, {self.q_max:g}])"

    @classmethod
    def stored(cls) -> type[Guide]:
        """Return the class for a finished run's guide that can't be loaded."""
        return StoredGuide

    @classmethod
    def defect(cls) -> tuple[str, str] | None:
        """Return why the base could not stand for what the guide gives, and the next step."""
        if cls.log_q is not Guide.log_q:
            return (
                "has a log_q of its own, so that nothing would check what it gives",
                "implement q alone: clamp, mask and detachment are done by sage_cli.guides.Guide",
            )
        if cls.__abstractmethods__:
            return "has no q", "implement q(self, signals, step)"
        choices_by_setting = {"signal": get_args(Signal), "schedule_clock": get_args(Clock)}
        for setting in choices_by_setting.keys() & cls.model_fields.keys():
            choices = get_args(cls.model_fields[setting].annotation)
            if not choices or not set(choices) <= set(choices_by_setting[setting]):
                return (
                    f"has a setting {setting} with other choices than those of sage_cli.guides",
                    f"it can be {' or '.join(choices_by_setting[setting])}, as a Literal",
                )
        if not isinstance(cls.needs, Set):
            return f"needs {cls.needs!r}, which is not a set", "make it a frozenset"
        listed = {*cls.token_signals(), *ROW_SIGNALS}
        if unknown := sorted(map(str, cls.needs - listed)):
            return (
                f"needs {', '.join(unknown)}, which no training has",
                f"a guide can need {', '.join(OPTIONAL_SIGNALS)}, and what its own_signals name",
            )
        return None


class StoredGuide(Guide):
    """The settings of a finished run whose guide is not installed: they can be read, not used."""

    model_config = ConfigDict(extra="allow")

    def determinants(self) -> dict[str, Any]:
        """Return all settings: which of them are cosmetic only the guide's class says."""
        return self.model_dump(mode="json")

    def q(self, signals: Signals, step: int) -> Tensor:  # noqa: ARG002
        """Raise as `for_training` does."""
        raise self._unusable()

    def for_training(self, steps: int) -> Self:  # noqa: ARG002
        """Raise ConfigurationError that says what is wrong with the guide's package."""
        raise self._unusable()

    def _unusable(self) -> ConfigurationError:
        try:
            load_plugin(self.package, self.name)
            Guide.named(self.name)
        except ConfigurationError as error:
            return error
        return ConfigurationError(
            f"guide '{self.name}' was not installed when its settings were read",
            "run the command again",
        )


def _require_shape(guide: Guide, q_BT: Any, signals: Signals) -> None:
    """Raise TrainingError if `q_BT` is not a factor for each token."""
    from torch import Tensor

    expected = tuple(signals.logps_BT.shape)
    if not isinstance(q_BT, Tensor) or q_BT.shape != expected:
        given = tuple(q_BT.shape) if isinstance(q_BT, Tensor) else f"a {type(q_BT).__name__}"
        raise TrainingError(
            f"q of {_title(guide)} is {given}, and the batch is {expected} (completions, tokens)",
            "return one factor for each token, in the shape of signals.logps_BT",
        )


def require_finite(guide: Guide, log_q_T: Tensor, signals: Iterable[Tensor]) -> None:
    """Raise TrainingError if log q is NaN or infinite on a token, and no signal of a token is.

    NaN or infinity in the signals comes from the training, which reports it itself.
    """
    wrong_T = ~log_q_T.isfinite()
    if wrong_T.any() and all(values_T.isfinite().all() for values_T in signals):
        value = "NaN" if log_q_T.isnan().any() else "infinite"
        raise TrainingError(
            f"q of {_title(guide)} is {value} for {int(wrong_T.sum())} of the batch's "
            f"{len(log_q_T)} tokens",
            "check it with sage_cli.testing.GuideContract; a division by 0 and the "
            "logarithm of a number that is not positive are the usual causes",
        )


def _title(guide: Guide) -> str:
    """Return `guide Mine (package.module)`."""
    return f"guide {type(guide).__name__} ({type(guide).__module__})"


class AnnealedGuide(Guide):
    """A guide with noise whose strengths fall from an upper to a lower end, cycle by cycle."""

    cycles: int = Field(8, ge=1)
    """Number of cosine cycles that the schedule has in a run."""
    decay: float = Field(0.9, gt=0, le=1)
    """Factor by which the upper end of the schedule is multiplied after each cycle."""
    schedule_clock: Clock = "optimiser_step"
    """Clock that the schedule follows: `optimiser_step`, or `loss_call`, which counts each
    micro-batch's loss as the authors' code does."""
    seed: int = 3407
    """Seed with which the noise is drawn."""

    def annealed(self, step: int, ends: tuple[float, float]) -> float:
        """Return a strength at `step` of the clock; `ends` are the schedule's (upper, lower)."""
        return cosine_cycles(step, ends, self._training_steps, self.cycles, self.decay)

    def noise(self, signals: Signals, step: int) -> Tensor:
        """Return uniform numbers u_2BT, two for every token, laid out as the log-probabilities."""
        return uniforms((self.seed, step), signals, 2).to(signals.logps_BT)

    def determinants(self) -> dict[str, Any]:
        """Return the settings that decide a result, and where the noise comes from."""
        return super().determinants() | NOISE


def uniforms(key: tuple[int, int], signals: Signals, count: int) -> Tensor:
    """Return numbers in [0, 1 - 2^-53], `count` for each token, as double precision (count, B, T).

    They are a function of key (seed, step), row id and place, computed on the signals' device: the
    same row gets the same numbers in any micro-batch, however padded, and on any process. A row's
    are the outputs of SplitMix64, whose seeds are the outputs of another for the key.
    """
    import torch

    rows, tokens = signals.logps_BT.shape
    device, ids_B = signals.logps_BT.device, signals.row_ids_B
    rows_B = torch.arange(rows, device=device) if ids_B is None else ids_B.to(device)
    # hashed, because seed and step are small numbers, whose sums would meet: (3, 4) and (4, 3) need
    # different streams
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    seed = int.from_bytes(digest, "little", signed=True)
    # places of a token lie side by side: what is padded on the right has further ones
    places_NT = torch.arange(tokens * count, device=device).reshape(tokens, count).T
    z_NBT = mixed(mixed(seed + (rows_B + 1) * GOLDEN)[:, None] + (places_NT + 1)[:, None] * GOLDEN)
    uniform_NBT: Tensor = shifted(z_NBT, 11).double() * _TINY
    return uniform_NBT


def cosine_cycles(
    step: int, ends: tuple[float, float], max_steps: int, cycles: int, decay: float
) -> float:
    """Return the value at `step` of cosine annealing in `cycles` equal cycles.

    With (upper, lower) = `ends`, L = max_steps // cycles (at least 1), t = (step mod L) / L and
    c = min(step // L, cycles - 1): value = lower + (upper decay^c - lower) (1 + cos(pi t)) / 2.
    Each cycle starts at its upper end. Beyond the last cycle, which a clock of loss calls reaches,
    the phase continues to wrap and the decay stops.
    """
    upper, lower = ends
    # a run shorter than its cycles has cycles of one step, all at their upper end
    length = max(1, max_steps // cycles)
    phase = (step % length) / length
    top = upper * decay ** min(step // length, cycles - 1)
    return lower + (top - lower) * 0.5 * (1 + math.cos(math.pi * phase))


def to_normal(uniform: Tensor) -> Tensor:
    """Return standard normal numbers from uniform ones, by the inverse distribution function."""
    import torch

    normal: Tensor = torch.special.ndtri(uniform.double().clamp(_TINY, 1 - _TINY))
    return normal.to(uniform)
