"""Make a Hugging Face folder of a GGUF file: python -m sage_cli.models.from_gguf FILE FOLDER."""

import sys
from pathlib import Path
from typing import Any


def write_folder(file: Path, folder: Path) -> None:
    """Write the file's weights, widened to float32, and its tokenizer with the file's end token."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    given: dict[str, Any] = {"gguf_file": file.name}
    quantized = AutoModelForCausalLM.from_pretrained(file.parent, **given, dtype=torch.float32)
    stored = quantized.config.to_dict()
    for unfit in ("quantization_config", "_model_name_or_path"):  # Transformers refuses the first
        stored.pop(unfit, None)
    config = type(quantized.config)(**stored)
    model = type(quantized)(config)
    model.load_state_dict(quantized.state_dict())
    model.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, **given)
    tokenizer.model_max_length = config.max_position_embeddings
    # Transformers 5 takes the first special token for the end, at which most models never stop
    for name in ("bos_token", "eos_token", "pad_token"):
        if (number := getattr(config, f"{name}_id", None)) is not None:
            setattr(tokenizer, name, tokenizer.convert_ids_to_tokens(number))
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    write_folder(Path(sys.argv[1]), Path(sys.argv[2]))
