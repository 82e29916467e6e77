"""Where the run of a recipe is or will be: known from its settings and its parent alone.

No weights are read, so that a plan can say exactly what is done and what is missing. What the
weights really were is noted when a run ends (`sage_cli.policies.lineage`).
"""

from __future__ import annotations

from typing import Any

from sage_cli.config.consent import consents
from sage_cli.config.labels import base_label, rl_label
from sage_cli.config.model import PretrainedModel, ScratchModel, trained_dtype
from sage_cli.config.recipe import RlSpec, SftSpec
from sage_cli.errors import ConfigurationError
from sage_cli.models.folders import fingerprint, require_model
from sage_cli.policies.policy import Policy
from sage_cli.problems.identity import demonstrations_identity, training_identity
from sage_cli.store.identity import identity_of
from sage_cli.store.run import Run, Runs


def planned_base(recipe: SftSpec, runs: Runs) -> Policy:
    """The base of a recipe: a run's model, trained or not yet, or the model as it is.

    Raises ConfigurationError where a model from scratch is not to be trained.
    """
    if recipe.sft.enabled:
        return Policy.of_run(sft_run(recipe, runs), consent=consents(recipe.model))
    if isinstance(recipe.model, PretrainedModel):
        return Policy(recipe.model.path, section=recipe.model)
    raise ConfigurationError(
        "model.kind is 'scratch' and sft.enabled is false: random weights are no base for RL",
        "use --set sft.enabled=true, or --init RUN",
    )


def sft_run(recipe: SftSpec, runs: Runs) -> Run:
    """The run of a base: told by model, prompt, SFT settings and demonstrations."""
    determinants = {
        "model": _start(recipe.model),
        "prompt": recipe.prompt.determinants(),
        "sft": recipe.sft.determinants(),
        "data": demonstrations_identity(recipe.data, recipe.sft),
    }
    return runs.at("sft", base_label(recipe), identity_of("sft", determinants))


def rl_run(recipe: RlSpec, parent: Policy, runs: Runs, processes: int) -> Run:
    """The run of a policy that is trained by RL from `parent` in so many processes."""
    anchor, guide = recipe.anchor, recipe.guide
    lora = recipe.model.lora.determinants() if recipe.model.tuning == "lora" else None
    determinants = {
        "parent": parent.identity,
        "tuning": [recipe.model.tuning, trained_dtype(recipe.model), lora],
        "compute": recipe.model.compute_dtype,
        "prompt": recipe.prompt.determinants(),
        # each process draws rollouts of its own
        "rl": {**recipe.rl.determinants(), "processes": processes},
        "rollout": recipe.rollout.determinants(),
        "anchor": anchor.determinants() if anchor.kl != "none" else None,
        "guide": guide.determinants() if guide.name != "none" else None,
        "grading": recipe.grading.determinants(),
        "data": training_identity(recipe.data),
    }
    return runs.at("rl", rl_label(recipe), identity_of("rl", determinants))


def _start(model: PretrainedModel | ScratchModel) -> dict[str, Any]:
    """What decides the untrained weights and how they are tuned."""
    settings = {**model.determinants(), "dtype": trained_dtype(model)}
    if isinstance(model, ScratchModel):
        # random weights are always trained in full: the tuning is RL's
        return {key: v for key, v in settings.items() if key not in ("tuning", "lora")}
    require_model(model.path)
    return {**settings, "path": None, "weights": fingerprint(model.path, model.revision)}
