"""A Llama with a tokenizer of its own that has seen sums.

usage: python examples/own_model.py FOLDER [--chat]

With --chat it has a chat template and answers in \\boxed{}, and has seen sums up to 19+19, not 9+9.
"""

import random
import re
import sys

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ["<pad>", "<eos>", "<unk>"]
TAGS, BOX = ("<SOLUTION>", "</SOLUTION>"), ("\\boxed{", "}")
# of a chat it reads the user's message alone: it has no tokens for the words of a system prompt
CHAT_TEMPLATE = (
    "{% for message in messages if message.role == 'user' %}{{ message.content }}{% endfor %}"
)
STEPS = 300


def tokenizer(*, chat: bool = False) -> PreTrainedTokenizerFast:
    """Return one token per character, and one per end of an answer, so that an answer is short."""
    ends_of_answer = BOX if chat else TAGS
    words = [*SPECIAL, *ends_of_answer, *"0123456789+=?"]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>"))
    whole = "|".join(map(re.escape, ends_of_answer))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(f"{whole}|."), "isolated")
    made.decoder = decoders.Fuse()
    ends = {"eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
    template = {"chat_template": CHAT_TEMPLATE} if chat else {}
    return PreTrainedTokenizerFast(tokenizer_object=made, **ends, **template)


def main(folder: str, *, chat: bool = False) -> None:
    """Train it on sums, one answer in three wrong, so that RL has something to improve."""
    words, chance = tokenizer(chat=chat), random.Random(0)
    opening, closing = BOX if chat else TAGS
    numbers = 20 if chat else 10
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
        pairs = [(chance.randrange(numbers), chance.randrange(numbers)) for _ in range(64)]
        sums = [a + b + chance.choice([0, 0, 1]) for a, b in pairs]
        texts = [
            f"{a}+{b}=?{opening}{c}{closing}<eos>" for (a, b), c in zip(pairs, sums, strict=True)
        ]
        batch = words(texts, padding=True, return_tensors="pt", return_token_type_ids=False)
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        model(**batch, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    words.save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1], chat="--chat" in sys.argv[2:])
