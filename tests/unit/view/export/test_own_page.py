"""The page that a suite's or a sweep's command writes beside its report."""

import json
import re

import pytest

from sage_cli.progress import Silent
from sage_cli.view.export.selection import write_own_page


@pytest.mark.parametrize(
    ("kind", "name"), [("suite", "demo-12345678"), ("sweep", "tau-rho-12345678")]
)
def test_it_begins_with_the_report_and_holds_its_runs(shown, tmp_path, kind, name):
    file = tmp_path / "page.html"
    write_own_page(shown, kind, name, file, Silent())
    held = json.loads(re.search(r'id="data">(.*?)</script>', file.read_text())[1])
    assert held["begin"] == f"#/{kind}?{kind}={name}"
    assert held["answers"][f"{kind}?{kind}={name}"]["report"]
    assert "run?run=rl-dapo-branch-bbbbbbbb" in held["answers"]
    assert [one["name"] for one in held["answers"][f"{kind}s"][f"{kind}s"]] == [name]
