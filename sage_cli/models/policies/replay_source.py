"""The run whose completions a training replays: which one it is, and that it fits."""

from __future__ import annotations

from typing import Any

from sage_cli.config.specs import RlSpec
from sage_cli.errors import StoreError
from sage_cli.methods.method import Method
from sage_cli.methods.policy_gradient import PolicyGradient
from sage_cli.models.policies.policy import Policy
from sage_cli.models.policies.teacher import refuse_other_tokenizer
from sage_cli.problems.template import PromptTemplate
from sage_cli.store.runs.run import Run, Runs


def replay_source(rl: Method, runs: Runs) -> Run | None:
    """Return the run `rl.replay.run`; None if a training replays its own completions, or none.

    Raises StoreError if it is not finished: its completions would change.
    """
    if not isinstance(rl, PolicyGradient) or rl.replay.run is None:
        return None
    run = runs.find(rl.replay.run)
    run.require_whole()
    if not run.finished:
        raise StoreError(
            f"{run.id} is {run.status}, not finished, and rl.replay.run takes its completions",
            "type its command again to continue it",
        )
    return run


def replay_determinants(rl: Method, runs: Runs) -> dict[str, Any]:
    """Return the method's settings that decide a result, the replayed run by its identity."""
    settings, source = rl.determinants(), replay_source(rl, runs)
    if source is None:
        return settings
    return {**settings, "replay": {**settings["replay"], "run": source.identity or source.id}}


def require_fit_source(spec: RlSpec, start: Policy, runs: Runs) -> None:
    """Raise SageError for a replayed run whose completions `start` can't learn from.

    They were sampled with another tokenizer or prompt template, or without log-probabilities.
    """
    source = replay_source(spec.rl, runs)
    if source is None:
        return
    template = PromptTemplate.from_section(spec.prompt, start.tokenizer_facts).hash
    other = source.manifest.get("template")
    if other not in (None, template):
        raise StoreError(
            f"{source.id} was trained with prompt template {other}, and this training uses "
            f"{template}: its completions answer other prompts (rl.replay.run)",
            "name a run with the same prompt settings",
        )
    refuse_other_tokenizer(Policy.of_run(source), start, role="replayed run")
    logps = source.completions().read()["policy_logps"]
    if logps.null_count == len(logps):
        raise StoreError(
            f"{source.id} keeps no completion with log-probabilities, by which rl.replay weighs "
            "them",
            "name a run that was trained with --set tracking.rollouts=all",
        )
