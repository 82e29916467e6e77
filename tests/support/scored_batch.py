"""A scored batch of the toy policy, and its log-probabilities in double precision."""

import torch

from sage_cli.models.loading import load_model

TEMPERATURE = 0.7


def moved(bench):
    """Return the toy policy some way from its reference."""
    model = load_model(bench.base, trainable=True)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(1 + 0.05 * torch.randn(weights.shape, generator=generator))
    return model


def generated(trainer):
    rows = [row for row in list(trainer.train_dataset)[:4] for _ in range(4)]
    return trainer._generate_and_score_completions(rows)


def log_probabilities(model, batch):
    """Return float64 log-probabilities (B, T, V) where the completions' tokens are predicted."""
    ids, mask = (
        torch.cat([batch[f"prompt_{name}"], batch[f"completion_{name}"]], dim=1)
        for name in ("ids", "mask")
    )
    tokens = batch["completion_ids"].shape[1]
    logits_BTV = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
    return (logits_BTV[:, -tokens - 1 : -1] / TEMPERATURE).log_softmax(dim=-1)


def of_tokens(logps_BTV, batch):
    return logps_BTV.gather(2, batch["completion_ids"][..., None])[..., 0]


def prepared(bench, configure, *, guide, anchor, model):
    """Return a trainer of the policy past its first step."""
    config = configure(
        guide=guide,
        rl={"loss": "grpo"},
        rollout={"temperature": TEMPERATURE, "min_p": 0.0},
        anchor=anchor,
    )
    trainer = bench.trainer(config, model=model)
    trainer.state.global_step = 1
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    return trainer


def row_of(batch, i):
    """Problem, prompt and completion of a row, without padding."""
    prompt, completion = (
        batch[f"{part}_ids"][i][batch[f"{part}_mask"][i].bool()].tolist()
        for part in ("prompt", "completion")
    )
    return int(batch["prompt_row_B"][i]), prompt, completion


def rows_of(trainer):
    """Number, problem, prompt and completion of each row of the generation batch, in order."""
    return sorted(
        (number, *row_of(batch, i))
        for batch in trainer._buffered_inputs
        for i, number in enumerate(batch["row_ids_B"].tolist())
    )


def log_chances(model, prompt, completion):
    """Return log pi of each token of a row without padding."""
    logits_TV = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
    return logits_TV.log_softmax(-1)[range(len(completion)), completion]


def gradients_of(model):
    """Return the gradients by the weights' names, in double precision."""
    return {name: weight.grad.double() for name, weight in model.named_parameters()}


def assert_same_gradients(model, gradients, least=0.0):
    """Compare a step's gradients with those of the model's backward pass, weight by weight."""
    for name, parameter in model.named_parameters():
        off, whole = (gradients[name] - parameter.grad).norm(), parameter.grad.norm()
        assert off <= 1e-5 * whole + least, name
