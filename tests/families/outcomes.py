"""What becomes of the families that are not trained: refused, or not tried here."""

APART = "differ from those of the model's own logits"
OTHERS = "do not follow the distribution that the trainer computes"
ERROR = "the first batch ended in an error of "

REFUSED = {
    # attend to both sides before they are decoders, or count positions from the padding on
    **dict.fromkeys(("bert", "camembert", "data2vec-text", "ernie", "megatron-bert"), APART),
    **dict.fromkeys(("roberta", "roberta-prelayernorm", "roc_bert", "roformer"), APART),
    **dict.fromkeys(("xlm-roberta", "xlm-roberta-xl", "xmod"), APART),
    # a layer between backbone and output embeddings, which a fused head leaves out
    **dict.fromkeys(("electra", "rembert"), ERROR + "TRL"),
    "modernbert-decoder": APART,
    "cpmant": ERROR + "TRL",
    # a cap, a scale or a mask that the trainer's passes don't know
    **dict.fromkeys(("doge", "inkling_text", "recurrent_gemma"), APART),
    # attention that is drawn at random
    "big_bird": "two equal passes over the same",
    # padding changes a recurrent state, or the samples are of another distribution
    **dict.fromkeys(("moshi", "rwkv", "xlm"), OTHERS),
    # decoders of encoder-decoders, whose cache has no layers of their own
    **dict.fromkeys(("bart", "bigbird_pegasus", "blenderbot", "blenderbot-small"), ERROR),
    **dict.fromkeys(("marian", "mbart", "mvp", "pegasus"), ERROR),
    # positions that must not be given, states of another shape, caches without attention
    **dict.fromkeys(("prophetnet", "qwen4_exp", "qwen4_exp_text", "xlstm"), ERROR),
    **dict.fromkeys(("llama4", "llama4_text"), "has no backbone apart from its head"),
}
"""Families that a run refuses before its first update, and what it says."""

NOT_TRIED = {
    "blt": "patches of bytes with a model of their own: no tiny one is built in a minute",
    "cohere_compass_text": "its configuration wants types of layers that two layers don't have",
    "dbrx": "its configuration is not complete in this release of Transformers",
    "emu3": "its text part alone is not a causal model for AutoModelForCausalLM",
    "falcon_h1": "its sizes depend on each other otherwise than those of the others",
    "gemma4_assistant": "drafts for another model, and has no vocabulary of its own",
    "gemma4_unified_assistant": "drafts for another model, and has no vocabulary of its own",
    "mllama": "its text part alone is not a causal model for AutoModelForCausalLM",
    "musicgen": "is made of three configurations, and writes sounds",
    "musicgen_melody": "is made of three configurations, and writes sounds",
    "nemotron_h": "asks the Hub for kernels",
    "phi4_multimodal": "brings parts for images and sounds that are not tiny",
    "plbart": "its heads have two names, of which one is not settable alone",
    "reformer": "its sizes depend on each other otherwise than those of the others",
    "whisper": "its heads have two names, of which one is not settable alone; writes from sounds",
    "zamba": "its sizes depend on each other otherwise than those of the others",
    "zamba2": "its sizes depend on each other otherwise than those of the others",
}
"""Families of which no tiny model is tried, and why."""
