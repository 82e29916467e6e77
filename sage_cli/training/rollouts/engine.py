"""The rollout engine of this machine, and the obstacles to it."""

from __future__ import annotations

from importlib.util import find_spec

import torch

from sage_cli.errors import ConfigurationError
from sage_cli.settings.sections.rollout import Backend, RolloutSection
from sage_cli.training.launch.processes import holds_all_weights

_INSTEAD = "use --set rollout.backend=transformers"


def settled_engine(rollout: RolloutSection, processes: int) -> RolloutSection:
    """`rollout` with the backend that samples here: `auto` is decided.

    Raises ConfigurationError where vLLM is asked for and can't run in so many `processes`, or the
    sampler and a launcher spreads the weights.
    """
    obstacle = _obstacle()
    backend = rollout.backend
    if backend == "auto":
        backend = _without_vllm() if obstacle else "vllm"
    if backend == "sampler" and not holds_all_weights():
        raise ConfigurationError(
            "rollout.backend 'sampler' needs all weights in each process, and the launcher spreads "
            "them over several",
            _INSTEAD,
        )
    if backend == "vllm":
        if obstacle:
            raise ConfigurationError(f"rollout.backend 'vllm' {obstacle[0]}", obstacle[1])
        _require_groups(rollout, processes)
        if problem := rollout.correction_problem():
            raise ConfigurationError(f"rollout.{problem[0]}", problem[1])
    return rollout.model_copy(update={"backend": backend})


def is_colocated(rollout: RolloutSection) -> bool:
    """Return True if the training processes hold a vLLM engine of their own."""
    wanted = rollout.backend == "vllm" or (rollout.backend == "auto" and _obstacle() is None)
    return wanted and rollout.vllm.mode == "colocate"


def require_heads(rollout: RolloutSection, heads: int | None) -> None:
    """Raise ConfigurationError where a model's attention heads can't be dealt out to an engine."""
    parts = rollout.vllm.tensor_parallel
    if rollout.backend == "vllm" and heads is not None and heads % parts:
        fitting = [str(n) for n in range(1, parts) if heads % n == 0]
        raise ConfigurationError(
            f"rollout.vllm.tensor_parallel {parts} doesn't divide the model's {heads} "
            "attention heads",
            f"use one of {', '.join(fitting)}: --set rollout.vllm.tensor_parallel={fitting[-1]}",
        )


def _require_groups(rollout: RolloutSection, processes: int) -> None:
    parts = rollout.vllm.tensor_parallel
    if rollout.vllm.mode == "colocate" and processes % parts:
        raise ConfigurationError(
            f"rollout.vllm.tensor_parallel {parts} doesn't divide the training's {processes} "
            f"process{'es' if processes > 1 else ''}, which hold the engine on a GPU each",
            f"use --processes {-(-processes // parts) * parts}, or a smaller tensor_parallel",
        )


def _without_vllm() -> Backend:
    """Return the backend without vLLM; on GPUs the speed of `sampler` has not been measured."""
    whole = holds_all_weights() and not torch.cuda.is_available()
    return "sampler" if whole else "transformers"


def _obstacle() -> tuple[str, str] | None:
    """Return why vLLM cannot sample rollouts here and the remedy, or None."""
    if not torch.cuda.is_available():
        return (
            "needs a GPU, and this machine has none: on CPUs the weights can't be handed from the "
            "trainer to the engine",
            _INSTEAD,
        )
    if find_spec("vllm") is None:
        return "needs vLLM, which isn't installed", f"pip install 'sage-rlvr[vllm]', or {_INSTEAD}"
    return None
