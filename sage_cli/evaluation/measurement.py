"""What measuring a policy found, under the name that evaluation knows it by."""

from sage_cli.reports.measurement import Measured, record

__all__ = ["Measured", "record"]
