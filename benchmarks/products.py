"""What products in bfloat16 change: sampler against loss, and both against float32.

    python benchmarks/products.py POLICY smollm2/train.jsonl [--groups 4 --rows 8 --tokens 48]

POLICY is the folder of a LoRA adapter. Rollouts are sampled by `sage`'s own sampler, and scored as
in the loss, with gradients: in float32, under autocast to bfloat16, and with the head in float32
as `rl.cast_lm_head_to_fp32` has it. The Kullback-Leibler divergence is the mean of exp(d) - d - 1,
d = log pi_loss - log pi_sampler. float32's rollouts are scored in bfloat16, too: cosine of the
gradients, and tokens on which the branch guide's q changes between 1 and more than 1.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict, deque
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from trl.trainer.utils import add_fused_lm_head

from sage_cli.guides import BranchGuide
from sage_cli.models.loading import causal_of, load_model
from sage_cli.models.tokenizer import load_tokenizer
from sage_cli.problems.template import PromptTemplate
from sage_cli.sampling import decoder
from sage_cli.sampling.cohort import Cohort
from sage_cli.sampling.sampler import SampleRequest, SamplingParameters
from sage_cli.settings.prompt import PromptSection
from sage_cli.settings.rollout import RolloutSection
from sage_cli.training.heads import compute_logits_in_float32
from sage_cli.training.passes import completions_alone

Key = tuple[str, int]
"""A problem and the index of a completion."""


class Policy:
    """A LoRA policy, its prompts, and what the sampler says of the tokens that it chooses."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked, self.tokenizer = asked, load_tokenizer(asked.policy)
        self.model = load_model(asked.policy, dtype="float32", trainable=True).train()
        add_fused_lm_head(causal_of(self.model), outputs=("log_probs", "entropy"))
        template = PromptTemplate.from_section(PromptSection(), self.tokenizer)
        with asked.problems.open() as lines:
            questions = [json.loads(next(lines))["question"] for _ in range(asked.groups)]
        texts = [template.render(question) for question in questions]
        self.prompts = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        section = RolloutSection(max_tokens=asked.tokens, min_p=0)
        self.parameters = SamplingParameters.from_section(section, template)
        self.logps: defaultdict[Key, list[float]] = defaultdict(list)
        self._listen()

    def _listen(self) -> None:
        choose, advance, waiting = decoder.choose_by_sample, Cohort.advance, deque[float]()

        def choosing(logits_BV: Tensor, rows_S: Any, *arguments: Any) -> Any:
            tokens_S = choose(logits_BV, rows_S, *arguments)
            waiting.extend(logits_BV.float().log_softmax(dim=-1)[rows_S, tokens_S].tolist())
            return tokens_S

        def advancing(cohort: Any, *arguments: Any) -> Any:
            for request, _, index in cohort.samples:
                self.logps[request.problem_id, index].append(waiting.popleft())
            return advance(cohort, *arguments)

        decoder.choose_by_sample, Cohort.advance = choosing, advancing

    def sample(self) -> dict[Key, list[int]]:
        """Return completions' tokens; `logps` has the sampler's log-probabilities of them."""
        self.logps.clear()
        requests = [
            (SampleRequest(str(i), "", tuple(range(self.asked.rows)), 99), tuple(ids))
            for i, ids in enumerate(self.prompts)
        ]
        rows = self.asked.groups * self.asked.rows
        sampler = decoder.TransformersSampler(self.model, self.tokenizer, self.parameters, rows)
        sampled = sampler.sample_ids(requests)
        found = {(row.problem_id, row.index): list(row.token_ids or ()) for row in sampled}
        return dict(sorted(found.items()))

    def score(self, completions: dict[Key, list[int]]) -> tuple[Tensor, Tensor, Tensor]:
        """Return log-probabilities and entropies of tokens, and the gradient of a loss of them."""
        prompts = [torch.tensor(self.prompts[int(problem)]) for problem, _ in completions]
        answers = [torch.tensor(ids) for ids in completions.values()]
        width, parts = max(map(len, answers)), []
        ids_BT, mask_BT = (
            torch.cat(
                [
                    pad_sequence([ones(p) for p in prompts], True, 0, padding_side="left"),
                    pad_sequence([ones(a) for a in answers], True),
                ],
                dim=1,
            )
            for ones in (torch.clone, torch.ones_like)
        )
        weights_B = torch.randn(len(prompts), generator=torch.Generator().manual_seed(0))
        self.model.zero_grad(set_to_none=True)
        for rows in torch.arange(len(prompts)).split(16):
            labels_BT = ids_BT[rows].masked_fill(mask_BT[rows] == 0, -100)
            labels_BT[:, :-width] = -100
            with completions_alone(self.model, width, share=True):
                output = self.model(
                    input_ids=ids_BT[rows],
                    attention_mask=mask_BT[rows],
                    labels=labels_BT,
                    fused_lm_head=True,
                )
            (output.log_probs * weights_B[rows, None]).sum().backward()
            valid_BT = mask_BT[rows, -width:].bool()
            parts.append((output.log_probs.detach()[valid_BT], output.entropy.detach()[valid_BT]))
        gradients = [
            weight.grad.flatten() for weight in self.model.parameters() if weight.requires_grad
        ]
        logps_T, entropy_T = (torch.cat(values) for values in zip(*parts, strict=True))
        return logps_T.double(), entropy_T, torch.cat(gradients)


def main() -> None:
    """Print one JSON object for each type of products."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("policy", type=Path)
    parser.add_argument("problems", type=Path)
    for name, usual in {"groups": 4, "rows": 8, "tokens": 48}.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    policy = Policy(parser.parse_args())
    exact: dict[Key, list[int]] = {}
    of_exact: tuple[Tensor, Tensor, Tensor] | None = None
    for products in ("float32", "bfloat16", "bfloat16, head in float32"):
        if "head" in products:
            compute_logits_in_float32(causal_of(policy.model), 1.0)
        coarse = products != "float32"
        with torch.autocast("cpu", torch.bfloat16) if coarse else nullcontext():
            clock = [time.process_time()]
            completions = policy.sample()
            clock.append(time.process_time())
            scored = policy.score(completions)
            clock.append(time.process_time())
            again = policy.score(exact) if exact else None
        sampler_T = torch.tensor([p for key in completions for p in policy.logps[key]]).double()
        d_T = scored[0] - sampler_T
        record = {
            "products": products,
            "tokens": len(d_T),
            "sampler_s": clock[1] - clock[0],
            "loss_s": clock[2] - clock[1],
            "mismatch_mean": d_T.abs().mean().item(),
            "mismatch_kl": (d_T.exp() - d_T - 1).mean().item(),
        }
        if again is None or of_exact is None:
            exact, of_exact = completions, scored
        else:
            tau = BranchGuide().tau
            flips_T = (again[1] > tau) != (of_exact[1] > tau)
            cosine = torch.nn.functional.cosine_similarity(again[2], of_exact[2], dim=0)
            record |= {
                "difference_from_float32": (again[0] - of_exact[0]).abs().mean().item(),
                "cosine_of_gradients": cosine.item(),
                "q_flips": flips_T.float().mean().item(),
            }
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
