"""A package that registers a judge: real files, with the metadata that pip would write."""

from pathlib import Path

PARITY = '''
from sage_cli.grading.judges import Judge


class Parity(Judge):
    """Two numbers are alike when both are even or both odd; long ones are left to `full`."""

    def quick(self, gold, answer, tolerance):
        if not answer.isdecimal():
            return "unparseable"
        return None if len(answer) > 3 else self.full(gold, answer, tolerance, 0.0)

    def full(self, gold, answer, tolerance, deadline):
        if answer == "1000000":
            raise TimeoutError
        if answer == "1000001":
            return "perhaps"
        return "right" if int(gold) % 2 == int(answer) % 2 else "wrong"
'''


def install(folder: Path, module: str, source: str, entry_points: str) -> None:
    """Lay out version 0.3 of a package in `folder`, which stands on a module search path."""
    (folder / module).mkdir(parents=True)
    (folder / module / "__init__.py").write_text(source)
    metadata = folder / f"{module}-0.3.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {module.replace('_', '-')}\nVersion: 0.3\n"
    )
    (metadata / "entry_points.txt").write_text(f"[sage_cli.judges]\n{entry_points}\n")
