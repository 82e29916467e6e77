"""Where `MethodContract` was: it is in `sage_cli.testing`."""

from sage_cli.moved import moved_contract

__getattr__ = moved_contract(__name__, "MethodContract")
