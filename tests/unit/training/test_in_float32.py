"""A model in float32 for a while: whole, its first layers, and as it was afterwards."""

import copy

import pytest
import torch
from random_model import of_architecture

from sage_cli.training.in_float32 import in_float32

IDS = torch.tensor([[5, 9, 11, 7]])


def coarse_model(tokenizer, family="llama"):
    return of_architecture(family, tokenizer, num_hidden_layers=3).bfloat16().eval()


def state(model):
    return {name: (t.dtype, t.data_ptr(), t.clone()) for name, t in model.state_dict().items()}


def copied_bytes(model, *, without_layers):
    """Bytes of float32 copies of a model whose last layers are left out."""
    layers = model.base_model.layers
    left_out = {id(p) for p in layers[len(layers) - without_layers :].parameters()}
    tensors = [*model.parameters(), *model.buffers()]
    return sum(4 * t.numel() for t in tensors if t.itemsize < 4 and id(t) not in left_out)


@torch.no_grad()
@pytest.mark.parametrize("left_out", [0, 1, 2])
def test_passes_are_of_as_many_layers_as_fit_and_nothing_stays_changed(tokenizer, left_out):
    model = coarse_model(tokenizer)
    before, coarse = state(model), model(input_ids=IDS).logits
    expected = copy.deepcopy(model).float()
    expected.base_model.layers = expected.base_model.layers[: 3 - left_out]
    free = copied_bytes(model, without_layers=left_out)
    with in_float32(model, free) as layers:
        assert layers == (3 - left_out, 3)
        logits = model(input_ids=IDS).logits
        assert logits.dtype == torch.float32
        assert torch.equal(logits, expected(input_ids=IDS).logits)
        with torch.autocast("cpu", torch.bfloat16, enabled=False):
            assert torch.equal(model(input_ids=IDS).logits, logits)
    after = state(model)
    assert {name: kept[:2] for name, kept in after.items()} == {
        name: kept[:2] for name, kept in before.items()
    }
    assert all(torch.equal(after[name][2], before[name][2]) for name in before)
    assert torch.equal(model(input_ids=IDS).logits, coarse)


def test_nothing_is_computed_where_no_layer_fits(tokenizer):
    model = coarse_model(tokenizer)
    with in_float32(model, copied_bytes(model, without_layers=2) - 1) as layers:
        assert layers is None
        assert {p.dtype for p in model.parameters()} == {torch.bfloat16}


def test_an_error_inside_leaves_the_model_as_it_was(tokenizer):
    model = coarse_model(tokenizer)
    with pytest.raises(KeyError), in_float32(model, 1e9):
        raise KeyError
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert len(model.base_model.layers) == 3
