"""A guide on the KL anchor in a TRL script: python examples/guided_grpo.py MODEL."""

import sys

from datasets import Dataset
from torch.cuda import is_available
from trl import GRPOConfig

from sage_cli import GuidedGRPOTrainer
from sage_cli.guides import BranchGuide

PRODUCTS = [(a, b) for a in range(2, 10) for b in range(2, 10)]


def right(completions: list[str], gold: list[str], **_columns: object) -> list[float]:
    """Pay 1 for a completion that begins with the product."""
    return [float(text.startswith(wanted)) for text, wanted in zip(completions, gold, strict=True)]


def main(model: str) -> None:
    """Train `model`, a folder or a name of the Hub, for four steps."""
    rows = [{"prompt": f"{a}*{b}=?", "gold": str(a * b)} for a, b in PRODUCTS]
    arguments = GRPOConfig(
        output_dir="guided", beta=0.05, max_steps=4, logging_steps=1, learning_rate=1e-4,
        per_device_train_batch_size=16, num_generations=8, max_completion_length=16,
        bf16=is_available(),
    )  # fmt: skip
    trainer = GuidedGRPOTrainer(
        model, right, arguments, Dataset.from_list(rows), guide=BranchGuide(tau=1.0, rho=0.3)
    )
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main(sys.argv[1])
