"""A package with a guide whose trainings die where a trial's settings say so: real files."""

SOURCE = '''
import os
import signal
from pathlib import Path
from typing import Literal

from sage_cli.guides import Guide


class Faulty(Guide):
    """q = rho everywhere. With rho 0.8 a training dies of SIGKILL in its first step: where tau is
    1 once, where it is 2 always."""

    name: Literal["faulty"] = "faulty"
    tau: float = 0.0
    rho: float = 1.0

    def q(self, signals, step):
        seen = Path(os.environ["FAULTY"]) / f"died-{self.tau:g}-{self.rho:g}"
        if self.rho == 0.8 and (self.tau == 2 or (self.tau == 1 and not seen.exists())):
            with seen.open("a") as deaths:
                deaths.write("died\\n")
            os.kill(os.getpid(), signal.SIGKILL)
        return signals.logps_BT.new_ones(signals.logps_BT.shape) * self.rho
'''


def install(folder):
    """Lay the package out in `folder`, which stands on a module search path."""
    (folder / "faulty_guide").mkdir(parents=True)
    (folder / "faulty_guide" / "__init__.py").write_text(SOURCE)
    metadata = folder / "faulty_guide-0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty-guide\nVersion: 0.1\n")
    (metadata / "entry_points.txt").write_text("[sage_cli.guides]\nfaulty = faulty_guide:Faulty\n")
