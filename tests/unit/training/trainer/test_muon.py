"""Muon: the iteration's singular values, one step by hand, and AdamW for everything else."""

import copy

import pytest
import torch
from torch import nn

from sage_cli.models.load import load_model
from sage_cli.training.trainer.muon import Muon, orthogonal, split


class TwoLayers(nn.Module):
    """An embedding, a square matrix with a bias, and an output layer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.embedding, self.inner, self.head = nn.Embedding(5, 2), nn.Linear(2, 2), nn.Linear(2, 5)

    def forward(self, ids):
        return self.head(torch.tanh(self.inner(self.embedding(ids))))

    def get_input_embeddings(self):
        return self.embedding

    def get_output_embeddings(self):
        return self.head


def iterated(x):
    """What five steps of the iteration make of one singular value."""
    for _ in range(5):
        x = 3.4445 * x - 4.7750 * x**3 + 2.0315 * x**5
    return x


@pytest.mark.parametrize("shape", [(4, 8, 8), (2, 12, 5), (3, 5, 12)])
def test_the_iteration_keeps_directions_and_levels_their_lengths(shape):
    torch.manual_seed(0)
    stack = torch.randn(shape, dtype=torch.float64)
    for before, after in zip(stack, orthogonal(stack), strict=True):
        u, lengths, v = torch.linalg.svd(before, full_matrices=False)
        # an odd polynomial of X = U S V' is U p(S) V': each length goes its own way
        expected = u @ torch.diag(iterated(lengths / lengths.norm())) @ v
        torch.testing.assert_close(after, expected, atol=1e-6, rtol=0)
        levelled = torch.linalg.svdvals(after)
        assert levelled.max() < 1.21
        assert levelled.min() > 0.68 or (lengths / lengths.norm()).min() < 0.005


def test_a_step_along_a_rotation_by_hand():
    model = TwoLayers()
    optimizer = Muon(model, learning_rate=0.01, weight_decay=0.5)
    before = model.inner.weight.detach().clone()
    rotation = torch.tensor([[0.6, -0.8], [0.8, 0.6]])
    model.inner.weight.grad = 7 * rotation
    optimizer.step()
    # Both singular values are equal, so over the norm they are 1 / sqrt 2; the learning rate of a
    # matrix is 10 x .01 and its decay 10 x .01 x .5 of itself.
    expected = before * (1 - 0.05) - 0.1 * iterated(0.5**0.5) * rotation
    torch.testing.assert_close(model.inner.weight.detach(), expected, atol=1e-6, rtol=0)


def test_a_second_step_follows_the_running_mean():
    model = TwoLayers()
    optimizer = Muon(model, learning_rate=0.01, weight_decay=0.0)
    one, other = torch.eye(2), torch.tensor([[0.0, -1.0], [1.0, 0.0]])
    model.inner.weight.grad = one.clone()
    optimizer.step()
    before = model.inner.weight.detach().clone()
    model.inner.weight.grad = other.clone()
    optimizer.step()
    # Mean after two gradients: .95 x .05 one + .05 other; Nesterov: .05 other + .95 mean
    drawn = 0.05 * other + 0.95 * (0.95 * 0.05 * one + 0.05 * other)
    moved = (before - model.inner.weight.detach()) / 0.1
    torch.testing.assert_close(moved, orthogonal(drawn[None])[0], atol=1e-5, rtol=0)


def test_tall_matrices_move_by_the_root_of_their_shape():
    tall = nn.Linear(2, 8, bias=False)
    tall.get_input_embeddings = tall.get_output_embeddings = lambda: None
    before = tall.weight.detach().clone()
    tall.weight.grad = torch.eye(8, 2)
    Muon(tall, learning_rate=0.01, weight_decay=0.0).step()
    # sqrt(8 / 2) = 2 times the length of a square matrix's step
    expected = before - 2 * 0.1 * iterated(0.5**0.5) * torch.eye(8, 2)
    torch.testing.assert_close(tall.weight.detach(), expected, atol=1e-6, rtol=0)


def test_embeddings_and_biases_move_as_adamw_moves_them():
    model, alone = TwoLayers(), TwoLayers()
    muon = Muon(model, learning_rate=0.01, weight_decay=0.1)
    adamw = torch.optim.AdamW(split(alone)[1], lr=0.01, weight_decay=0.1)
    for step in range(3):
        torch.manual_seed(step)
        for one, other in zip(model.parameters(), alone.parameters(), strict=True):
            one.grad = torch.randn_like(one)
            other.grad = one.grad.clone()
        muon.step()
        adamw.step()
    for one, other in zip(split(model)[1], split(alone)[1], strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(model.inner.weight, alone.inner.weight)


def test_a_saved_state_goes_on_exactly():
    ids, model = torch.tensor([0, 1, 2, 3, 4]), TwoLayers()
    optimizer = Muon(model, learning_rate=0.01, weight_decay=0.01)

    def train(policy, by, steps):
        for _ in range(steps):
            by.zero_grad()
            nn.functional.cross_entropy(policy(ids), ids.flip(0)).backward()
            by.step()

    train(model, optimizer, 3)
    twin = copy.deepcopy(model)
    resumed = Muon(twin, learning_rate=0.01, weight_decay=0.01)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(model, optimizer, 3)
    train(twin, resumed, 3)
    assert all(map(torch.equal, model.parameters(), twin.parameters()))


def test_a_models_matrices_are_those_between_its_embeddings(base):
    model = load_model(base)
    matrices, others = split(model)
    assert all(matrix.ndim == 2 for matrix in matrices)
    assert any(parameter is model.get_input_embeddings().weight for parameter in others)
    assert len(matrices) == 7 * model.config.num_hidden_layers  # q, k, v, o, gate, up, down
    assert len(matrices) + len(others) == sum(1 for _ in model.parameters())
