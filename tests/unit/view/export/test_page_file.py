"""The page as one file: nothing in it can end an element, and nothing else is overwritten."""

import base64
import json
import re

import pytest

from sage_cli.errors import ConfigurationError
from sage_cli.view.assets import FILES, PAGE
from sage_cli.view.export.page_file import in_script, page_of, write_export

CONTENTS = {
    "begin": "#/runs", "said": "</script><b>said</b>", "left_out": [], "answers": {},
    "records": {}, "policies": [], "differences": [],
}  # fmt: skip


def test_no_text_ends_the_script_that_it_is_in():
    text = in_script({"text": "</script><!-- <script>"})
    assert "<" not in text
    assert json.loads(text) == {"text": "</script><!-- <script>"}


def test_vendored_scripts_can_stand_inside_a_page():
    for name in FILES:
        if name.startswith("vendor/") and name.endswith(".js"):
            assert "</script" not in (PAGE / name).read_text().lower()


def test_every_module_imports_modules_of_the_page():
    page = page_of(CONTENTS)
    imports = json.loads(re.search(r'<script type="importmap">(.*?)</script>', page)[1])["imports"]
    assert {f"sage/{name}" for name in FILES if name.endswith(".js")} - {*imports} == {
        "sage/vendor/d3.min.js",
        "sage/vendor/plot.min.js",
        "sage/early.js",  # asks the server
    }
    for name, address in imports.items():
        text = base64.b64decode(address.partition(",")[2]).decode()
        pattern = r'^(?:import|export) .* from "([^"]+)";$|import\("([^"]+)"\)'
        for either in re.findall(pattern, text, re.M):
            assert "".join(either) in imports, (name, either)


def test_nothing_in_it_is_fetched():
    page = page_of(CONTENTS)
    assert not re.search(r'(?:src|href)="(?!data:|#)', page)
    assert "connect-src" not in page  # so default-src 'none' holds
    assert "default-src 'none'" in page


def test_licences_come_with_it(tmp_path):
    file = write_export(CONTENTS, tmp_path / "page")
    assert file == tmp_path / "page" / "index.html"
    licences = re.search("<!--(.*?)-->", file.read_text(), re.S)[1]
    assert "Mike Bostock" in licences
    assert "Observable" in licences
    write_export(CONTENTS, tmp_path / "page")  # an export may be made again


def test_other_files_are_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ConfigurationError, match="holds other things than an export"):
        write_export(CONTENTS, tmp_path)
    with pytest.raises(ConfigurationError, match="holds other things than an export"):
        write_export(CONTENTS, tmp_path / "mine.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
