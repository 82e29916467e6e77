"""Training problems chosen and sorted by stored pass rates (`data.rl.solved`, `data.rl.order`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sage_cli.config.specs import RlSpec
from sage_cli.errors import ConfigurationError
from sage_cli.problems.load import load_training_problems
from sage_cli.problems.problem import Problem
from sage_cli.store.identity import key_of


def training_problems(spec: RlSpec, root: Path) -> list[Problem]:
    """Return the problems that a training takes, in their source's order or in the curriculum's.

    Raises ConfigurationError if none is left, and StoreError without stored pass rates of them.
    """
    problems, source = load_training_problems(spec.data), spec.data.rl
    if source.solved_by is None:
        return problems
    from sage_cli.evaluation.pass_rates import in_order, stored_rates  # loads pyarrow

    rates = stored_rates(spec, root, problems)
    known = rates.among(problems)
    low, high = source.solved_range
    chosen = [problem for problem in known if low <= rates.of(problem) <= high]
    if not chosen:
        found = [rates.of(problem) for problem in known]
        raise ConfigurationError(
            f"no problem of {source.name} has a pass rate in {source.solved}: {rates.source} has "
            f"{min(found):.3g} to {max(found):.3g} on {len(known):,}",
            "widen data.rl.solved",
        )
    return in_order(chosen, [rates.of(problem) for problem in chosen], source.order, spec.rl.seed)


def pool_identity(spec: RlSpec, root: Path) -> dict[str, Any] | None:
    """Return what decides the choice and its order, pass rates by content; None without a pool."""
    source = spec.data.rl
    if source.solved_by is None:
        return None
    from sage_cli.evaluation.pass_rates import stored_rates

    problems = load_training_problems(spec.data)
    rates = stored_rates(spec, root, problems)
    counted = sorted(
        (one.id, rates.right[one.id], rates.n[one.id]) for one in rates.among(problems)
    )
    return {
        "solved": list(source.solved_range),
        "order": source.order,
        "rates": key_of({"counted": counted}),
    }


def pool_facts(spec: RlSpec, root: Path) -> dict[str, str]:
    """Describe for a dry run how many problems are left; empty without a pool."""
    source = spec.data.rl
    if source.solved_by is None:
        return {}
    from sage_cli.evaluation.pass_rates import stored_rates

    problems = load_training_problems(spec.data)
    rates, left = stored_rates(spec, root, problems), training_problems(spec, root)
    known = rates.among(problems)
    each = sum(rates.n[problem.id] for problem in known) / len(known)
    unknown = len(problems) - len(known)
    return {
        "problems": f"{source.name}, {len(left):,} of {len(problems):,}: pass rate "
        f"{source.solved or 'known'}, by {rates.source}, {each:.3g} completions each"
        + (f"; {unknown:,} have none" if unknown else ""),
        "order": source.order,
    }
