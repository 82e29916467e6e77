"""A run to be mirrored."""

from mirrored_run import run

__all__ = ["run"]
