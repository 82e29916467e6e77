"""The settings of RL that starts from a model by its name."""

from __future__ import annotations

from sage_cli.config.load import changed
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.models.policy import named_policy, named_run
from sage_cli.settings.model import ScratchModel
from sage_cli.settings.presets import DEFAULT_PRESET
from sage_cli.store.run import Runs


def with_model_of(init: str | None, config: SageConfig) -> SageConfig:
    """Return `config` with the model called `init` in the place of one from scratch.

    A folder or a model of the Hub that no run made describes itself. What `sage export` wrote is a
    run's, and stays with the run's settings.
    """
    if init is None or not isinstance(config.model, ScratchModel):
        return config
    runs = Runs(config.run.root)
    if named_run(init, runs) is not None or named_policy(init, runs).own_settings:
        return config
    started = changed(config, {"model.kind": "pretrained", "model.path": init})
    for name in ScratchModel.model_fields:
        typed = any(layer.typed and layer.names(f"model.{name}") for layer in config._layers)
        if typed and not hasattr(started.model, name):
            raise ConfigurationError(
                f"model.{name} has no effect, because {init} has its own config.json",
                "leave it out",
            )
    return started


def unnamed_preset(init: str | None, config: SageConfig, *, named: bool) -> str | None:
    """Return a note where a model that no run made gets the settings of a preset not `named`."""
    if named or with_model_of(init, config) is config:
        return None
    tau = f", τ {config.guide.tau:g}" if hasattr(config.guide, "tau") else ""
    return (
        f"no preset was given, so all other settings are those of the preset {DEFAULT_PRESET} "
        f"({config.rollout.max_tokens} new tokens{tau}); -p NAME chooses another"
    )
