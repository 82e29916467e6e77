"""The settings of finished runs whose methods are not installed."""

from __future__ import annotations

from pydantic import ConfigDict

from sage_cli.methods.policy_gradient import PolicyGradient
from sage_cli.settings.plugins import load_plugin


class StoredMethod(PolicyGradient):
    """The settings of a finished run whose method is not installed here: read, never trained."""

    model_config = ConfigDict(extra="allow")

    def require_installed(self) -> None:
        """Raise ConfigurationError with what is wrong with the method's package."""
        load_plugin(self.package, self.algo)
