"""Settings by which code may be run: they hold when they are typed, or said in a preset.

A stored configuration may be anybody's, restored or copied with a run. It says how something was
made, and never that code may be run here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sage_cli.config.schema import SageConfig
from sage_cli.config.stored import service_words
from sage_cli.errors import ConfigurationError
from sage_cli.settings.sections.model import PretrainedModel, ScratchModel

CONSENT = "model.trust_remote_code"
HOW_TO_CONSENT = f"read that code, and add --set {CONSENT}=true if it may be run here"


def without_consent(stored: Mapping[str, Any]) -> dict[str, Any]:
    """A stored configuration without consent to code."""
    model = stored.get("model")
    if not isinstance(model, Mapping):
        return dict(stored)
    return {**stored, "model": {key: v for key, v in model.items() if key != "trust_remote_code"}}


def asks_for_code(stored: Mapping[str, Any]) -> bool:
    """Return True if a stored configuration's model was run with code of its own."""
    model = stored.get("model")
    return isinstance(model, Mapping) and bool(model.get("trust_remote_code"))


def consents(model: PretrainedModel | ScratchModel | None) -> bool:
    """Return True if the configuration allows code that a model brings."""
    return isinstance(model, PretrainedModel) and model.trust_remote_code


def require_consent(stored: Mapping[str, Any], said: Mapping[str, Any]) -> None:
    """Raise ConfigurationError where `stored` asks for code and nothing that was `said` decides."""
    if asks_for_code(stored) and CONSENT not in said:
        raise ConfigurationError(
            f"the stored configuration has {CONSENT}=true: what it describes runs Python code that "
            "the model brings, and a stored configuration can't consent to that",
            f"{HOW_TO_CONSENT}; with =false it is another run, of Transformers' own code",
        )


def typed_again(config: SageConfig) -> tuple[str, ...]:
    """The options by which a command that reads `config` from a file may do what was typed here.

    That is, run a model's own code, ask servers, and send to W&B: a file alone allows none of it.
    """
    services = service_words(config.model_dump(mode="json"), ("sampling", "rollout"))
    code = ("--set", f"{CONSENT}=true") if consents(config.model) else ()
    online = ("--set", "tracking.wandb=online") if config.tracking.wandb == "online" else ()
    return (*services, *code, *online)
