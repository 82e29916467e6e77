"""A completion token by token: read by its policy when asked, and stored beside the sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from typing_extensions import TypedDict

from sage_cli.config.consent import without_consent
from sage_cli.config.load import load
from sage_cli.errors import SageError, StoreError, TrainingError
from sage_cli.guides import Guide
from sage_cli.models.policy import Policy
from sage_cli.problems.problem import Problem
from sage_cli.settings.model import sampled_dtype
from sage_cli.settings.presets import read_layer
from sage_cli.store.annotations import Annotations
from sage_cli.store.completion import Completion
from sage_cli.store.sample_set import SampleSet
from sage_cli.view.stored_runs import MeasuredPolicy, Policies

_reading = Lock()
"""One model is loaded at a time."""


class TokensView(TypedDict):
    """A completion token by token; null where no model has read it yet.

    `q` is that of the run's guide, null if it has none or reads other signals; `log_ratio` is
    log π of the policy minus that of the initial policy, null without one.
    """

    policy: str
    reference: str | None
    guide: str | None
    temperature: float
    tokens: list[str] | None
    surprisal: list[float] | None
    entropy: list[float] | None
    q: list[float] | None
    log_ratio: list[float] | None


@dataclass(frozen=True)
class Reading:
    """What decides a reading: the policy, its initial policy and guide if it has some, the step."""

    measured: MeasuredPolicy
    initial: Policy | None
    guide: Guide | None
    step: int
    temperature: float

    @classmethod
    def from_policy(cls, measured: MeasuredPolicy, policies: Policies) -> Reading:
        """Return the reading of a run's policy at the temperature of its training."""
        run = policies.runs.find(measured.label.partition("@")[0]).run
        config = load(stored=without_consent(read_layer(run.folder / "config.json"))).config
        if run.read_manifest().get("kind") != "rl":
            return cls(measured, None, None, 0, measured.config.sampling.temperature)
        guide = None if config.guide.name == "none" else config.guide.for_training(config.rl.steps)
        step = (measured.policy.checkpoint or config.rl.steps or 1) - 1
        return cls(
            measured,
            _initial(run.read_manifest().get("parent"), policies),
            guide,
            step,
            config.rollout.temperature,
        )

    @property
    def determinants(self) -> Mapping[str, Any]:
        """Return everything that decides the values, known without loading a model."""
        policy = self.measured.policy
        return {
            "model": policy.fingerprint,
            "initial": self.initial and self.initial.fingerprint,
            "template": self.measured.samples.template.hash,
            "dtype": policy.dtype(sampled_dtype(self.measured.config.model)),
            "temperature": self.temperature,
            "guide": self.guide and self.guide.determinants(),
            "step": self.step,
        }

    def view(self, values: tuple[Any, ...] | None) -> TokensView:
        """Return the answer with a stored row's values, or without any."""
        texts, surprisal, entropy, q, initial = values or (None,) * 5
        ratio = initial and [
            of_initial - of_policy for of_policy, of_initial in zip(surprisal, initial, strict=True)
        ]
        return {
            "policy": self.measured.label,
            "reference": None if self.initial is None else self.initial.label,
            "guide": None if self.guide is None else self.guide.describe(),
            "temperature": self.temperature,
            "tokens": texts,
            "surprisal": surprisal,
            "entropy": entropy,
            "q": q,
            "log_ratio": ratio,
        }


def tokens_view(
    measured: MeasuredPolicy, policies: Policies, problem: str, seed: int, index: int
) -> TokensView:
    """Return the stored reading of a sample; its values are null if nothing has read it."""
    reading, stored = Reading.from_policy(measured, policies), _set(measured, seed)
    return reading.view(
        _stored(Annotations(stored, reading.determinants, "tokens"), problem, index)
    )


def read_tokens(
    measured: MeasuredPolicy, policies: Policies, problem: str, seed: int, index: int
) -> TokensView:
    """Return the reading of a sample, computed and stored if it is not yet.

    Raises StoreError for a sample that is not stored.
    """
    reading = Reading.from_policy(measured, policies)
    with _reading:
        store = Annotations(_set(measured, seed), reading.determinants, "tokens")
        values = _stored(store, problem, index)
        if values is None:
            row = _completion(measured, problem, seed, index)
            store.add([(row, *_read(reading, row))])
            store.flush()
            values = _stored(store, problem, index)
    return reading.view(values)


def _read(reading: Reading, row: Completion) -> tuple[Any, ...]:
    """Load the models; return texts, surprisal, entropy, q and the initial policy's surprisal."""
    from sage_cli.analysis.scoring import Forward
    from sage_cli.progress import Silent

    measured = reading.measured
    problems: dict[str, Problem] = {problem.id: problem for problem in measured.benchmark.problems}
    forward = Forward(measured.samples, reading.temperature, Silent())
    _, ids, logps_T, entropy_T = forward.tokens([row], problems)[0]
    initial = None
    if reading.initial is not None:
        samples = replace(measured.samples, policy=reading.initial)
        read = replace(row, token_ids=ids)
        initial = Forward(samples, reading.temperature, Silent()).tokens([read], problems)[0]
    q = _q(reading, (logps_T, entropy_T), initial and (initial[2], initial[3]), list(ids))
    texts = [forward.text(token) for token in ids]
    theirs = None if initial is None else (0 - initial[2]).tolist()
    return texts, (0 - logps_T).tolist(), entropy_T.tolist(), q, theirs


def _q(reading: Reading, policy: Any, initial: Any, ids: list[int]) -> list[float] | None:
    """Return q of each token; None without a guide, or if it reads what one sample doesn't tell."""
    from sage_cli.guides.token_values import token_values

    guide = reading.guide
    if guide is None:
        return None
    try:
        values, _ = token_values([policy], guide, reading.step, initial and [initial], [ids])
    except (TrainingError, SageError):
        return None
    return list(values[0].q_T)


def _initial(parent: Any, policies: Policies) -> Policy | None:
    try:
        return policies.policy(str(parent))
    except SageError:  # removed, or a model that no run here made
        return None


def _set(measured: MeasuredPolicy, seed: int) -> SampleSet:
    return measured.samples.at(seed, read_only=True)


def _completion(measured: MeasuredPolicy, problem: str, seed: int, index: int) -> Completion:
    for row in _set(measured, seed).completions([problem], index + 1):
        if row.index == index:
            return row
    raise StoreError(f"sample {index} of problem {problem} is not stored")


def _stored(store: Annotations, problem: str, index: int) -> tuple[Any, ...] | None:
    rows = store.stream([problem], index + 1)
    return next((tuple(values) for row, *values in rows if row.index == index), None)
