"""A sweep's configuration: what its trials share, and what they differ in."""

from __future__ import annotations

from sage_cli.config.layers import leaves
from sage_cli.config.load import changed
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.sweep.space import Space, resolve, space_file


def trials(config: SageConfig) -> tuple[SageConfig, Space]:
    """The configuration that all trials share, and the search space in absolute values."""
    file = space_file(config.sweep.space)
    if file.guide is not None and file.guide != config.guide.name:
        raise ConfigurationError(
            f"the space '{config.sweep.space}' is about guide {file.guide}, "
            f"and the configuration has guide {config.guide.name}",
            f"add --guide {file.guide}",
        )
    settings = dict(leaves(config.model_dump(mode="json")))
    space = resolve(config.sweep.space, file, settings)
    shared = {
        "evaluation.benchmark": config.sweep.benchmark,
        "evaluation.samples": config.sweep.samples,
        **({"rl.steps": config.sweep.steps} if config.sweep.steps else {}),
    }
    return changed(config, shared), space
