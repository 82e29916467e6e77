"""The page as files: everything in one, so that it opens from disk and from any web server."""

from __future__ import annotations

import base64
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from sage_cli.errors import ConfigurationError
from sage_cli.store.atomic import storing, write_text
from sage_cli.store.json_files import compact_json
from sage_cli.view.assets import FILES, PAGE
from sage_cli.view.security import hash_of
from sage_cli.view.topics.passk import DifferenceView, PasskView
from sage_cli.view.topics.problems import ProblemsView
from sage_cli.view.topics.run import RecordsView
from sage_cli.view.topics.samples import SampleRow

INDEX = "index.html"
SCRIPTS = ("vendor/d3.min.js", "vendor/plot.min.js")
ONLY_SERVED = "early.js"
_IMPORT = re.compile(r'((?:from|import\()\s*")(\.{1,2}/[^"]+)(")')


class HeldPolicy(TypedDict):
    """What an export holds of a policy on a benchmark: its curve, its problems, some samples.

    `stored` is the number of its stored samples.
    """

    policy: str
    benchmark: str
    passk: PasskView
    problems: ProblemsView
    golds: dict[str, str]
    stored: int
    longest: int
    samples: list[SampleRow]


class Export(TypedDict):
    """What a page without a server is made of; `said` tells what was left out.

    `answers` are by address, `records` by run with all figures. `begin` is where the page begins.
    """

    begin: str
    said: str
    left_out: list[str]
    answers: dict[str, Any]
    records: dict[str, RecordsView]
    policies: list[HeldPolicy]
    differences: list[DifferenceView]


def write_export(contents: Export, folder: Path) -> Path:
    """Write the page with these contents into `folder` and return its file.

    Raises ConfigurationError for a folder that holds other things than an export.
    """
    refuse_other_folder(folder)
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / INDEX, page_of(contents))
    return folder / INDEX


def refuse_other_folder(folder: Path) -> None:
    """Raise ConfigurationError for a file, and for a folder with anything but an export."""
    if folder.is_dir() and {path.name for path in folder.iterdir()} <= {INDEX}:
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError(
            f"{folder} holds other things than an export", "name a folder that is empty or new"
        )


def page_of(contents: Export) -> str:
    """Return the page's HTML with its scripts, style and data inside.

    Chromium loads neither modules nor data from files, so modules become `data:` addresses of an
    import map. The policy in its head lets nothing else run and reaches no network.
    """
    style = (PAGE / "view.css").read_text(encoding="utf-8")
    vendored = [(PAGE / name).read_text(encoding="utf-8") for name in SCRIPTS]
    imports = compact_json({"imports": _modules()})
    start = 'import "sage/main.js";'
    allowed = " ".join(map(hash_of, (*vendored, imports, start)))
    policy = (
        f"default-src 'none'; script-src {allowed} data:; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    icon = base64.b64encode((PAGE / "icon.svg").read_bytes()).decode()
    head = [
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        f'<link rel="icon" href="data:image/svg+xml;base64,{icon}">',
        f"<style>{style}</style>",
        f"<!--\n{_licences()}-->",
        *(f"<script>{one}</script>" for one in vendored),
        f'<script type="application/json" id="data">{in_script(contents)}</script>',
        f'<script type="importmap">{imports}</script>',
        f'<script type="module">{start}</script>',
    ]
    page = (PAGE / INDEX).read_text(encoding="utf-8")
    kept = [line for line in page.splitlines() if not line.startswith(("<link", "<script"))]
    return "\n".join(kept).replace("</head>", "\n".join([*head, "</head>"])) + "\n"


def _licences() -> str:
    """Return the licences of the vendored scripts, which must come with them."""
    texts = [(PAGE / name).read_text() for name in sorted(FILES) if name.endswith(".LICENSE")]
    return "\n".join(texts).replace("--", "—")


def in_script(value: object) -> str:
    """Return JSON for a script element; `<` is escaped, so that no text can close it."""
    return compact_json(value).replace("<", "\\u003c")


def _modules() -> Mapping[str, str]:
    """Return name -> address of every module; they import each other by these names."""
    names = [
        name
        for name in sorted(FILES)
        if name.endswith(".js") and name not in (*SCRIPTS, ONLY_SERVED)
    ]
    return {f"sage/{name}": _address(name) for name in names}


def _address(name: str) -> str:
    def named(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), match[2]))
        return f"{match[1]}sage/{path}{match[3]}"

    text = _IMPORT.sub(named, (PAGE / name).read_text(encoding="utf-8"))
    return f"data:text/javascript;base64,{base64.b64encode(text.encode()).decode()}"
