"""The settings of finished runs whose methods are not installed."""

from __future__ import annotations

from pydantic import ConfigDict

from sage_cli.methods.policy_gradient import PolicyGradient


class StoredMethod(PolicyGradient):
    """The settings of a finished run whose method is not installed here: read, never trained."""

    model_config = ConfigDict(extra="allow")
