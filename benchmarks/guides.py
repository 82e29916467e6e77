"""What guides cost: step times of one trainer whose guide alternates with none, in pairs.

    python benchmarks/guides.py --clock cpu

The learning rate is 0, so that every step does the same work. Sizes and clock are those of
`rl_step.py`.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from rl_step import Bench, alternating_seconds, guided, report, sizes_parser

from sage_cli.guides import BranchGuide, Guide, NoGuide, RapoGuide, TokenGuide

GUIDES: tuple[Guide, ...] = (BranchGuide(tau=0.465, rho=0.775), TokenGuide(), RapoGuide())


def main() -> None:
    """Measure and print one JSON object per guide."""
    sizes = sizes_parser(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), sizes)
        for guide in GUIDES:
            seconds = alternating_seconds(bench, sizes.pairs, guided(NoGuide()), guided(guide))
            print(json.dumps(report(f"{guide.name} / none", *seconds)), flush=True)


if __name__ == "__main__":
    main()
