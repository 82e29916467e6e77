"""What has become of a planned run, in words: finished, interrupted at a step, not begun."""

from __future__ import annotations

from typing import Any

from sage_cli.policies.policy import Policy
from sage_cli.store.runs.manifest import FAILED, FINISHED, PRUNED
from sage_cli.store.runs.run import TORN, Run


def run_facts(run: Run) -> dict[str, Any]:
    """The run's id and its state, for plans."""
    return {"run": run.id, "state": state(run)}


def base_facts(base: Policy) -> dict[str, Any]:
    """The same for what RL begins with: a run, or a model taken as it is."""
    return run_facts(base.run) if base.run else {"model": f"{base.path}, taken as it is"}


def state(run: Run) -> str:
    """`finished`, `interrupted at step 9 of 20`, `running`, `failed: ...` or `not trained yet`.

    Or `pruned at step 9 of 20: ...`, where a sweep ended it. With what has become of a run that
    was begun anew in its place.
    """
    if run.replacement.folder.is_dir():
        return f"{_state(run)}; replacement {_state(run.replacement)}"
    return _state(run)


def _state(run: Run) -> str:
    if not run.begun:
        return "not trained yet"
    if (torn := run.torn) is not None:
        return f"{TORN}: {torn.cause}"
    manifest, status = run.manifest, run.status
    if status == FINISHED:
        return status
    records = run.metrics.read()
    at = f" at step {records[-1]['step']} of {records[-1].get('of', '?')}" if records else ""
    explained = status in (FAILED, PRUNED) and manifest.get("reason")
    why = f": {manifest['reason']}" if explained else ""
    return f"{status}{at}{why}"
