"""A Llama with a tokenizer of its own that has seen sums: python examples/own_model.py FOLDER."""

import random
import sys

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ["<pad>", "<eos>", "<unk>", "<SOLUTION>", "</SOLUTION>"]
STEPS = 300


def tokenizer() -> PreTrainedTokenizerFast:
    """Return one token per character, and one per tag, so that an answer is short."""
    words = [*SPECIAL, *"0123456789+=?"]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"</?SOLUTION>|."), "isolated")
    made.decoder = decoders.Fuse()
    ends = {"eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=made, **ends)


def main(folder: str) -> None:
    """Train it on sums, one answer in three wrong, so that RL has something to improve."""
    words, chance = tokenizer(), random.Random(0)
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(words),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=64,
            bos_token_id=None,
            eos_token_id=1,
            pad_token_id=0,
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(STEPS):
        pairs = [(chance.randrange(10), chance.randrange(10)) for _ in range(64)]
        sums = [a + b + chance.choice([0, 0, 1]) for a, b in pairs]
        texts = [
            f"{a}+{b}=?<SOLUTION>{c}</SOLUTION><eos>" for (a, b), c in zip(pairs, sums, strict=True)
        ]
        batch = words(texts, padding=True, return_tensors="pt", return_token_type_ids=False)
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        model(**batch, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    words.save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1])
