"""A token report shows the values that the guide computed in training."""

import torch
from toy_policy import base, bench, configure, tokenizer  # noqa: F401  (fixtures)

from sage_cli.models.signals import batch_signals


def test_signals_are_the_trainers(bench, configure):  # noqa: F811
    config = configure(rollout={"temperature": 0.7, "max_tokens": 12}, guide={"name": "branch"})
    trainer = bench.trainer(config)
    prompt, completion = [5, 17, 40], [3, 60, 60, 8, 21, 90, 2]
    ids_1L = torch.tensor([prompt + completion])
    with torch.no_grad():
        expected = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids_1L, torch.ones_like(ids_1L), len(completion), compute_entropy=True
        )
    logps_T, entropy_T = batch_signals(trainer.model, [(prompt, completion)], 0.7)[0]
    torch.testing.assert_close(logps_T, expected[0][0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(entropy_T, expected[1][0], atol=1e-5, rtol=1e-5)
