"""Forbid variables whose name says nothing; prints each with its file and line.

A name says a role (`trial`, `replicate`, `policy`, `ledger`). Checked are assignments, parameters
and targets of loops in the package.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

EMPTY = {"one", "found", "said", "every"}
PACKAGE = Path(__file__).resolve().parents[1] / "sage_cli"


def bound(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the names that a module binds to values, with their lines; not those of settings."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    fields = {
        line.target for node in classes for line in node.body if isinstance(line, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        if node in fields:
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno


def main() -> int:
    """Print the empty names of the package; return 1 if there is one."""
    lines = [
        f"{path.relative_to(PACKAGE.parent)}:{line}: the variable '{name}' says nothing"
        for path in sorted(PACKAGE.rglob("*.py"))
        for name, line in bound(ast.parse(path.read_text(encoding="utf-8")))
        if name in EMPTY
    ]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
