"""Whether a run's weights are still those that its training left, and that others grew from.

A run is named by its settings. Two trainings of the same settings on different machines may end
with different weights under one name; a child that meets them is refused.
"""

from __future__ import annotations

from sage_cli.errors import StoreError
from sage_cli.policies.policy import Policy
from sage_cli.store.runs.run import Run, Runs


def note_weights(run: Run) -> None:
    """Write down what the weights are that a training has just left."""
    run.note(weights=Policy.of_run(run).fingerprint)


def require_own_weights(policy: Policy) -> None:
    """Raise StoreError where a run's final model isn't what its training left."""
    if policy.run is None or policy.checkpoint is not None:
        return
    left = policy.run.manifest.get("weights")
    if left not in (None, policy.fingerprint):
        raise StoreError(
            f"{policy.run.model} has been changed: its training left weights {left}, and "
            f"{policy.fingerprint} are there now",
            f"restore them, or train {policy.run.id} again with --fresh; a changed model can be "
            "used from a folder of its own",
        )


def require_same_parent(run: Run, parent: Policy) -> None:
    """Raise StoreError where `run` began from other weights than `parent` has now."""
    began_from = run.manifest.get("parent_weights")
    if began_from not in (None, parent.fingerprint):
        raise StoreError(
            f"{run.id} began from weights {began_from} of {parent.label}, which has "
            f"{parent.fingerprint} now",
            f"restore {parent.label}, or begin again with --fresh",
        )


def require_childless(run: Run, runs: Runs) -> None:
    """Raise StoreError where other runs grew from `run`, whose weights a new training may change.

    They would be left without the weights that they began from.
    """
    if children := runs.children(run):
        raise StoreError(
            f"{', '.join(children)} grew from {run.id}: trained anew, it may end with other "
            "weights, and what isn't finished of them couldn't go on",
            "say --replace-parent to train it anew all the same, or remove them first",
        )
