"""`sage rl --dry-run`: what it would train, from which settings alone its run is named."""

from __future__ import annotations

from sage_cli.config.consent import consents
from sage_cli.config.in_words import Stage, rl_facts
from sage_cli.config.recipe import RlRecipe, SftRecipe
from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.missing import plan_measurement
from sage_cli.evaluation.reference import reference_facts
from sage_cli.models.policies.names import named_policy
from sage_cli.models.policies.planned import planned_base, rl_run, run_facts
from sage_cli.models.policies.policy import Policy
from sage_cli.planning.cards import card
from sage_cli.planning.stages import memory_stages, rl_hours
from sage_cli.store.runs.run import Run, Runs
from sage_cli.training.processes import is_launched, world_size
from sage_cli.workflows.sft import plan_base


def planned_parent(config: SageConfig, init: str | None) -> Policy:
    """What RL begins with: `init`, or the configuration's base, trained or not yet."""
    runs = Runs(config.run.root)
    if init is not None:
        return named_policy(init, runs, config.model)
    return planned_base(SftRecipe.of(config), runs)


def planned_run(config: SageConfig, parent: Policy) -> Run:
    """Where the policy that `sage rl` trains from `parent` is or will be."""
    recipe = RlRecipe.of(config)
    return rl_run(recipe, parent, Runs(config.run.root), processes(recipe))


def planned_policy(config: SageConfig, init: str | None = None) -> Policy:
    """The policy that `sage rl` ends with, trained or not yet."""
    run = planned_run(config, planned_parent(config, init))
    return Policy.of_run(run, consent=consents(config.model))


def plan(
    config: SageConfig,
    init: str | None = None,
    *,
    measure: bool = False,
    gpu: str | None = None,
) -> list[Stage]:
    """The stages of `sage rl`: base, training and measurement, with what is there of them.

    `gpu` names a card, against which memory is laid.
    """
    recipe, parent = RlRecipe.of(config), planned_parent(config, init)
    run = planned_run(config, parent)
    policy = Policy.of_run(run, consent=consents(config.model))
    return [
        plan_base(SftRecipe.of(config), parent)
        if init is None
        else Stage("start", {"policy": parent.label}),
        Stage(
            "RL",
            {
                **run_facts(run),
                **rl_facts(recipe),
                **reference_facts(recipe, parent, config.run.root),
                **rl_hours(recipe),
            },
        ),
        *([plan_measurement(config, [policy])] if measure else []),
        *(memory_stages(config, card(gpu), base=init is None, measure=measure) if gpu else []),
    ]


def processes(recipe: RlRecipe) -> int:
    """How many train together: as many as a launcher started, or as are to be launched."""
    return world_size() if is_launched() else recipe.rl.processes
