"""The tabular laboratory: the paper's equations, checked on problems small enough to enumerate."""

from sage_cli.theory.laboratory import statements
from sage_cli.theory.pictures import pictures
from sage_cli.theory.statement import TOLERANCE, Statement

__all__ = ["TOLERANCE", "Statement", "pictures", "statements"]
