"""The reports that were written below a folder of runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sage_cli.json_value import json_value


@dataclass(frozen=True)
class Written:
    """A report's folder, what it is about, when it was written last, and by which command."""

    folder: str
    name: str
    title: str
    written: str
    command: str | None


def written_reports(root: Path) -> list[Written]:
    """Every report below `root`, newest first; what is torn or no report is passed over."""
    found = []
    for file in (root / "reports").glob("*/*.json"):
        try:
            report = json_value(file.read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(report, dict) and "content" in report and report.get("name") == file.stem:
            command = (report.get("provenance") or {}).get("command")
            moment = datetime.fromtimestamp(file.stat().st_mtime, UTC)
            when = moment.isoformat(timespec="seconds")
            title = str(report.get("title", ""))
            found.append(Written(str(file.parent), file.stem, title, when, command))
    return sorted(found, key=lambda one: (one.written, one.folder), reverse=True)
