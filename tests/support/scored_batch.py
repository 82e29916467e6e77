"""Rows of a batch of the toy policy, their log-probabilities, and gradients."""

import torch


def generated(trainer):
    rows = [row for row in list(trainer.train_dataset)[:4] for _ in range(4)]
    return trainer._generate_and_score_completions(rows)


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
