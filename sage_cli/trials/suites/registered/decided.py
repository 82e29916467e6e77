"""What a planned suite decides: declaration, settings, seeds, problems and identities."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sage_cli import RESULT_VERSION
from sage_cli.config.layers import leaves
from sage_cli.config.schema import SageConfig
from sage_cli.config.specs import EvaluationSpec, RlSpec, SftSpec
from sage_cli.problems.identity import problems_identity, training_identity
from sage_cli.store.identity import identity_of
from sage_cli.trials.suites.overrides import Overrides
from sage_cli.trials.suites.planned import Part, PlannedSuite
from sage_cli.trials.suites.registered.registration import (
    Decides,
    RegisteredMethod,
    RegisteredReplicate,
    RegisteredSuite,
    Typed,
)
from sage_cli.trials.trial import Replicate

Settings = dict[str, Any]
"""Dotted key -> value."""
DIGITS = 16
"""Hexadecimal digits of a hash that tells problems apart."""


def decides(plan: PlannedSuite) -> Decides:
    """Return all that decides the results of a planned suite; nothing is loaded or written."""
    return {
        "results": RESULT_VERSION,
        "typed": typed(plan.overrides),
        "suites": [_suite(part) for part in plan.parts],
    }


def typed(overrides: Overrides) -> Typed:
    """Return what was typed beside the suite's name."""
    wanted = overrides.initial_policies
    return {
        "presets": [*overrides.presets],
        "sets": [*overrides.sets],
        "seeds": overrides.seeds,
        "only": [*overrides.only],
        "initial_policies": [*wanted] if isinstance(wanted, tuple) else wanted,
    }


def settings_of(config: SageConfig, *, is_initial: bool) -> Settings:
    """Return the settings that decide the results of a replicate, by dotted key."""
    specs = [SftSpec.of(config), EvaluationSpec.of(config)]
    sections = {name: section for spec in specs for name, section in vars(spec).items()}
    if not is_initial:
        sections |= vars(RlSpec.of(config))
    found = {name: section.determinants() for name, section in sections.items()}
    # as JSON gives them back
    return {key: json.loads(json.dumps(value, default=str)) for key, value in leaves(found)}


def _suite(part: Part) -> RegisteredSuite:
    declared = part.suite.model_dump(mode="json", exclude={"registration"})
    every = {
        trial.label: [
            settings_of(one.config, is_initial=trial.is_initial) for one in trial.replicates
        ]
        for trial in part.trials
    }
    shared = _common([one for each in every.values() for one in each])
    methods: dict[str, RegisteredMethod] = {}
    for trial in part.trials:
        each = every[trial.label]
        own = _without(_common(each), shared)
        replicates = [
            _replicate(one, _without(settings, shared, own))
            for one, settings in zip(trial.replicates, each, strict=True)
        ]
        methods[trial.label] = {"settings": own, "replicates": replicates}
    return {
        "name": part.suite.name, "declaration": declared, "settings": shared, "methods": methods,
    }  # fmt: skip


def _replicate(one: Replicate, settings: Settings) -> RegisteredReplicate:
    config = one.config
    evaluation = config.evaluation
    measured = problems_identity(
        evaluation.benchmark, config.data, evaluation.fields, evaluation.limit
    )
    trained = None if one.is_initial else _short(training_identity(config.data))
    run = one.policy.run
    return {
        "initial_policy": one.start,
        "seed": one.seed + 1,
        "settings": settings,
        "run": (run.planned or run.id) if run is not None else one.policy.place,
        "measured": _short(measured),
        "trained": trained,
    }


def _common(every: Sequence[Settings]) -> Settings:
    """Return the settings that all have with the same value."""
    if not every:
        return {}
    first, *others = every
    return {
        key: value
        for key, value in first.items()
        if all(key in one and one[key] == value for one in others)
    }


def _without(settings: Settings, *others: Mapping[str, Any]) -> Settings:
    return {key: v for key, v in settings.items() if not any(key in one for one in others)}


def _short(identity: Any) -> str:
    return identity_of("problems", identity)[:DIGITS]
