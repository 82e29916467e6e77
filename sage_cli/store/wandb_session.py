"""Runs of W&B as sage begins them: quiet, in a folder of ours, offline where there is no key."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

log = logging.getLogger(__name__)


def chosen_mode(asked: str, id_: str) -> Literal["online", "offline"]:
    """What was asked for; online without a key becomes offline, since W&B would ask for one."""
    if asked == "online" and has_key():
        return "online"
    if asked == "online":
        log.warning("W&B has no key: %s is mirrored offline (`wandb login`)", id_)
    return "offline"


def has_key() -> bool:
    """Whether W&B finds a key, in its variable or in a file of the user's; nobody is asked."""
    import wandb

    return bool(wandb.login(prompt=False, verify=False))


def begin(folder: Path, id_: str, config: Mapping[str, Any], **words: Any) -> Any:
    """W&B's run called `id_` in `folder`, by what `words` add for `wandb.init`."""
    import wandb

    return wandb.init(
        dir=str(folder),
        id=id_,
        name=id_,
        config=dict(config),
        **words,
        reinit="finish_previous",  # one that was given up would be handed out again
        settings=wandb.Settings(console="off", silent=True, x_disable_stats=True),
    )


@contextmanager
def staging_in(folder: Path) -> Iterator[None]:
    """Let W&B put its copies of tables into `folder`, not home, unless the user said where."""
    name = "WANDB_DATA_DIR"
    if name in os.environ:
        yield
        return
    os.environ[name] = str(folder)
    try:
        yield
    finally:
        del os.environ[name]
