"""A training of the toy policy as a process of its own, to be killed: python toy_run.py JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from toy_policy import Bench, configuration
from transformers import AutoTokenizer


def main(order: dict[str, Any]) -> None:
    base = Path(order["base"])
    bench = Bench(base, AutoTokenizer.from_pretrained(base), Path(order["folder"]))
    bench.run(configuration(**order["sections"]), order["name"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
