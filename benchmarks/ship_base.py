"""Put a base that `sage sft` trained into the package, in the place of the one that ships.

    git clone . build/clone && cd build/clone && make .venv/.installed
    .venv/bin/sage sft                        # the preset as it is, seed 0, the result not selected
    python benchmarks/ship_base.py runs/sft-arithmetic-*

Needed where SFT of the preset tiny gets another run hash: after a change of its settings, or of
`RESULT_VERSION`. Tests name the base that no longer serves. Run hashes of `sage rl` change with it,
and so do the numbers of README.md and docs/tutorials/first-result.md.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from sage_cli.file_hash import sealed_hashes
from sage_cli.models import shipped_base
from sage_cli.store.json_files import write_object
from sage_cli.store.result_hash import identity_of
from sage_cli.store.run import Run

COPIED = ("config.json", "metrics.jsonl", "model")
OF_A_MACHINE = ("host",)
"""What a manifest says of the machine alone."""


def ship(trained: Run) -> Run:
    """Replace the base in the package by a finished run. Raises SystemExit for any other."""
    manifest = trained.read_manifest()
    if manifest["kind"] != "sft" or not trained.is_finished() or trained.changed(*COPIED):
        raise SystemExit(f"{trained.folder} is no finished run of `sage sft`, as it ended")
    identity = identity_of(
        shipped_base.SHIPPED,
        {"trained_as": trained.read_identity(), "weights": manifest["weights"]},
    )
    label = trained.id.rpartition("-")[0]
    folder = Path(shipped_base.__file__).with_name(shipped_base.SHIPPED) / f"{label}-{identity[:8]}"
    for earlier in folder.parent.glob(f"{label}-*"):
        shutil.rmtree(earlier)
    folder.mkdir(parents=True)
    for name in COPIED:
        source = trained.folder / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    paths = [path for name in COPIED for path in (folder / name, *(folder / name).rglob("*"))]
    told = {key: value for key, value in manifest.items() if key not in OF_A_MACHINE}
    write_object(
        folder / "manifest.json",
        {
            **told,
            "id": folder.name,
            "identity": identity,
            "origin": shipped_base.SHIPPED,
            "trained_as": trained.read_identity(),
            "files": sealed_hashes(folder, paths),
        },
    )
    return Run(folder)


if __name__ == "__main__":
    print(ship(Run(Path(sys.argv[1]))).folder)
