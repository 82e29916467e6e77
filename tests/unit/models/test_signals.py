"""Surprisal and entropy of given tokens, against arithmetic and against a plain loop."""

import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from sage_cli.guides.token_signals import tilted_logps
from sage_cli.models.loading import build_scratch
from sage_cli.models.signals import batch_signals
from sage_cli.models.tokenizer import build_tokenizer
from sage_cli.settings.model import ScratchModel

SMALL = ScratchModel(kind="scratch", hidden=16, layers=1, heads=2, feed_forward=32, seed=3)


class Spoken:
    """A model whose logits depend on the token before: a row of a table."""

    device = torch.device("cpu")

    def __init__(self, table_VV):
        self.table_VV = torch.tensor(table_VV)

    def __call__(self, input_ids, use_cache, logits_to_keep):
        logits = self.table_VV[input_ids][:, -logits_to_keep:]
        return SimpleNamespace(logits=logits)


# after token 0: probabilities 1/2, 1/4, 1/4; after 1: 1, 0, 0; after 2: all equal
TABLE = [[math.log(2), 0.0, 0.0], [0.0, -math.inf, -math.inf], [5.0, 5.0, 5.0]]


def test_logps_and_entropies_by_hand():
    logps_T, entropy_T = batch_signals(Spoken(TABLE), [([2, 0], [1, 0, 0, 2])])[0]
    # 1 after 0: log 1/4; 0 after 1: log 1; 0 after 0: log 1/2; 2 after 0: log 1/4
    expected = [-math.log(4), 0.0, -math.log(2), -math.log(4)]
    assert logps_T.tolist() == pytest.approx(expected, abs=1e-6)
    # H(1/2, 1/4, 1/4) = 1/2 log 2 + 2 x 1/4 log 4 = 3/2 log 2; H(1, 0, 0) = 0
    branching = 1.5 * math.log(2)
    assert entropy_T.tolist() == pytest.approx([branching, 0.0, branching, branching], abs=1e-6)
    logps_T, entropy_T = batch_signals(Spoken(TABLE), [([0], [0])], temperature=0.5)[0]
    # logits 2 log 2, 0, 0: weights 4, 1, 1, so p = 2/3, 1/6, 1/6
    assert logps_T.item() == pytest.approx(math.log(2 / 3), abs=1e-6)
    expected = -(2 / 3) * math.log(2 / 3) - 2 / 6 * math.log(1 / 6)
    assert entropy_T.item() == pytest.approx(expected, abs=1e-6)
    logps_T, entropy_T = batch_signals(Spoken(TABLE), [([0, 1], [])])[0]
    assert len(logps_T) == len(entropy_T) == 0


def test_a_long_completion_agrees_with_one_pass_per_token():
    model = build_scratch(SMALL, build_tokenizer(SMALL, ("<a>",), [])).eval()
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, 90, (310,), generator=generator).tolist()
    logps_T, entropy_T = batch_signals(model, [(ids[:10], ids[10:])])[0]
    assert len(logps_T) == 300
    for place in (0, 1, 127, 128, 129, 255, 256, 299):
        with torch.no_grad():
            logits_V = model(torch.tensor([ids[: 10 + place]])).logits[0, -1]
        spoken = torch.distributions.Categorical(logits=logits_V)
        chosen = torch.tensor(ids[10 + place])
        assert logps_T[place].item() == pytest.approx(spoken.log_prob(chosen).item(), abs=1e-5)
        assert entropy_T[place].item() == pytest.approx(spoken.entropy().item(), abs=1e-5)


def test_a_batch_says_what_its_rows_say_alone():
    tokenizer = build_tokenizer(SMALL, [], [])
    model = build_scratch(SMALL, tokenizer).eval()
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(30)  # so that every place says something else
    rows = [([5, 6], [7, 8, 9]), ([5, 6, 7, 8], [9]), ([4], [6, 5]), ([3, 3], [])]
    together = batch_signals(model, rows, temperature=0.7)
    for (prompt, completion), (logps_T, entropy_T) in zip(rows, together, strict=True):
        alone = batch_signals(model, [(prompt, completion)], temperature=0.7)[0]
        assert logps_T.tolist() == pytest.approx(alone[0].tolist(), abs=1e-5)
        assert entropy_T.tolist() == pytest.approx(alone[1].tolist(), abs=1e-5)


def likeliest(logits_XV, chosen_X):
    assert len(logits_XV) == len(chosen_X)
    return logits_XV.max(dim=1).values


def test_measures_say_what_follows_from_scaled_logits():
    measures, row = (likeliest, partial(tilted_logps, exponent=0.5)), ([2, 0], [1, 0, 0, 2])
    *plain, likeliest_T, tilted_T = batch_signals(Spoken(TABLE), [row], 0.5, measures)[0]
    for values_T, expected_T in zip(
        plain, batch_signals(Spoken(TABLE), [row], 0.5)[0], strict=True
    ):
        assert torch.equal(values_T, expected_T)
    # at temperature 0.5, p^0.5 is the model at temperature 1
    torch.testing.assert_close(tilted_T, batch_signals(Spoken(TABLE), [row])[0][0])
    # after 0, 1, 0, 0 the largest logits are log 2, 0, log 2, log 2, divided by 0.5
    two = 2 * math.log(2)
    assert likeliest_T.tolist() == pytest.approx([two, 0.0, two, two], abs=1e-6)
    nothing = batch_signals(Spoken(TABLE), [([0, 1], [])], 1.0, measures)[0]
    assert [len(values_T) for values_T in nothing] == [0, 0, 0, 0]
