"""The layers of docs/architecture.md are those that import-linter enforces."""

import re
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


def layers_of_the_page():
    page = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", page, re.MULTILINE)
    # a package or file opens a cell or follows a middle dot; others that a cell names lie inside
    names = [re.findall(r"(?:^|· )`(\w+)(?:/|\.py)`", cell) for _, cell in rows]
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    return [set(of_row) for of_row in names]


def enforced_layers():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = (
        contract["layers"]
        for contract in contracts
        if "containers" not in contract and contract["type"] == "layers"
    )
    return [set(re.findall(r"sage_cli\.(\w+)", layer)) for layer in layers]


def test_page_and_linter_say_the_same_layers():
    assert layers_of_the_page() == enforced_layers()


def test_every_package_and_module_has_a_layer():
    inside = (path for path in (REPOSITORY / "sage_cli").iterdir() if not path.name.startswith("_"))
    modules = {
        path.stem for path in inside if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert modules == set().union(*enforced_layers())
