"""Which mirrors a run has: the one place that knows them all by name."""

from __future__ import annotations

from importlib.util import find_spec

from sage_cli.config.records import TrackingSection
from sage_cli.errors import ConfigurationError
from sage_cli.store.mirror import Follower, Mirror
from sage_cli.store.run import Run
from sage_cli.store.tensorboard_mirror import TensorboardMirror
from sage_cli.store.wandb_mirror import WandbMirror


def mirrors_of(tracking: TrackingSection, run: Run) -> list[Follower]:
    """The mirrors that `tracking` asks for, not yet begun."""
    mirrors: list[Mirror] = []
    if tracking.wandb != "off":
        mirrors.append(WandbMirror(run, tracking.wandb))
    if tracking.tensorboard:
        mirrors.append(TensorboardMirror(run.folder / "tensorboard"))
    return [Follower(mirror, run) for mirror in mirrors]


def require_mirrors(tracking: TrackingSection) -> None:
    """Refuse a mirror whose package isn't installed, before anything is trained."""
    if tracking.tensorboard and find_spec("tensorboard") is None:
        raise ConfigurationError(
            "tracking.tensorboard is true, and the package tensorboard is not installed",
            "pip install tensorboard, or use --set tracking.tensorboard=false",
        )
