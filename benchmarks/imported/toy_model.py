"""A tiny random Llama whose tokens are characters: python toy_model.py FOLDER."""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CHARACTERS = [*"0123456789", *"+*=? \n"]
END = len(CHARACTERS)

entries = {one: number for number, one in enumerate(CHARACTERS)} | {"<eos>": END, "<unk>": END + 1}
tokens = Tokenizer(models.WordLevel(entries, unk_token="<unk>"))
tokens.pre_tokenizer = pre_tokenizers.Split("", "isolated")
tokens.decoder = decoders.Fuse()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=tokens,
    eos_token="<eos>",
    pad_token="<eos>",
    unk_token="<unk>",
    clean_up_tokenization_spaces=False,
)
torch.manual_seed(0)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=len(entries),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=256,
        eos_token_id=END,
        bos_token_id=END,
        pad_token_id=END,
    )
)
model.generation_config.eos_token_id = END
model.generation_config.do_sample = True
model.save_pretrained(sys.argv[1])
tokenizer.save_pretrained(sys.argv[1])
