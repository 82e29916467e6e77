"""The loss of guided RL, by weights and by logits, against its formulas in double precision.

The formulas take one completion at a time, with own advantages, own q, own masks: rows and tokens
are looped over, and nothing of `sage` or TRL computes what is expected. By weights the trainer
computes in float32, padded, with shared prompts or apart, with full tuning or adapters, before and
after the policy has moved away from the one that sampled. By logits it computes in float64.
"""

import copy
import hashlib
import math
from dataclasses import dataclass
from statistics import NormalDist

import pytest
import torch
from toy_policy import PROMPTS, reference_completions
from trl import GRPOTrainer

from sage_cli.guides import BranchGuide, NoGuide, RandomGuide, TokenGuide
from sage_cli.models.loading import attach_lora, load_model
from sage_cli.training import passes

MASK64 = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class Formula:
    """What is computed, with the numbers that it reads."""

    loss: str
    level: str
    guide: str
    estimator: str
    held: str
    """Which tokens the KL term acts on: `all`, the fifth of highest entropy (`uncertain`), or the
    others (`certain`)."""
    beta: float
    step: int
    steps: int
    limit: int
    """The longest completion."""
    tau: float
    rho: float
    epsilon: tuple[float, float] = (0.1, 0.0)
    """The ends of the share of tokens that the guide random perturbs."""
    low: float = 0.2
    high: float = 0.2

    def terms(self, row, logps, entropies, reference, old, advantage):
        """The terms (T,) of a completion; `row` is its place in the generation batch.

        `logps` carry the gradient. `entropies` are plain numbers, and so is the advantage.
        """
        q = self.q(logps.tolist(), entropies, row)
        log_q = torch.tensor([math.log(x) for x in q], dtype=torch.float64)
        length, threshold = len(logps), quantile(entropies, 0.8)
        acts = [
            self.held == "all" or (self.held == "uncertain") == (h > threshold) for h in entropies
        ]
        log_ratio = logps - old
        sequence = log_ratio.sum() / length
        phi = (
            gamma_weight(advantage, float(log_ratio.detach().sum()))
            if self.loss == "vespo"
            else 0.0
        )
        terms = []
        for t in range(length):
            ratio = (sequence if self.level == "sequence" else log_ratio[t]).exp()
            mine = advantage
            if self.estimator == "reward":
                mine -= self.beta * sum(
                    float((logps[s] - log_q[s] - reference[s]).detach())
                    for s in range(t, length)
                    if acts[s]
                )
            term = self.surrogate(ratio, torch.tensor(mine, dtype=torch.float64), logps[t], phi)
            if self.estimator in ("k3", "k3-corrected") and acts[t]:
                d = log_q[t] + reference[t] - logps[t]
                k3 = d.exp() - d - 1
                corrected = self.estimator == "k3-corrected"
                term = term + self.beta * (k3 * ratio if corrected else k3)
            terms.append(term)
        return torch.stack(terms)

    def q(self, logps, entropies, row):
        """q of a completion's tokens, from plain numbers."""
        if self.guide == "branch":
            q = [1 + self.rho * max(0.0, h - self.tau) for h in entropies]
        elif self.guide == "token":
            low, high = (quantile([-x for x in logps], share) for share in (0.05, 0.95))
            span = (high - low) or math.inf  # of equal surprisals none stands out
            w = [(min(max(-x, low), high) - low) / span for x in logps]
            alpha, sigma = self.annealed(0.3, 0.1), self.annealed(0.25, 0.1)
            q = [1 + x * (alpha + sigma * self.normal(row, t, 0)) for t, x in enumerate(w)]
        elif self.guide == "random":
            share, sigma = self.annealed(*self.epsilon), self.annealed(0.15, 0.05)
            q = [
                1 + sigma * self.normal(row, t, 1) if self.uniform(row, t, 0) < share else 1.0
                for t in range(len(logps))
            ]
        else:
            q = [1.0] * len(logps)
        return [min(max(x, 0.6), 1.4) for x in q]

    def annealed(self, upper, lower):
        """Cosine cycles: eight in all, each upper end nine tenths of the one before."""
        length = self.steps // 8
        phase, top = (self.step % length) / length, upper * 0.9 ** (self.step // length)
        return lower + (top - lower) * (1 + math.cos(math.pi * phase)) / 2

    def uniform(self, row, place, which):
        """The documented noise: SplitMix64 seeded by the output of another, 53 bits."""
        digest = hashlib.blake2b(repr((3407, self.step)).encode(), digest_size=8).digest()
        seed = int.from_bytes(digest, "little", signed=True)
        inner = splitmix(seed + (row + 1) * GOLDEN)
        return (splitmix(inner + (2 * place + which + 1) * GOLDEN) >> 11) * 2.0**-53

    def normal(self, row, place, which):
        u = self.uniform(row, place, which)
        return NormalDist().inv_cdf(min(max(u, 2.0**-53), 1 - 2.0**-53))

    def surrogate(self, ratio, advantage, logp, phi):
        """One token's policy term; ratios are the completion's at the level of sequences."""
        if self.loss == "cispo":
            return -torch.clamp(ratio, max=self.high).detach() * advantage * logp
        if self.loss == "sapo":
            temperature = 1.0 if advantage > 0 else float(torch.tensor(1.05))  # TRL's is float32
            return -torch.sigmoid(temperature * (ratio - 1)) * 4 / temperature * advantage
        if self.loss == "vespo":
            return -phi * advantage * logp
        clipped = torch.clamp(ratio, 1 - self.low, 1 + self.high)
        return -torch.minimum(ratio * advantage, clipped * advantage)

    def aggregated(self, terms):
        """The batch's loss, of each completion's terms."""
        if self.loss in ("grpo", "sapo"):
            return sum(row.mean() for row in terms) / len(terms)
        if self.loss == "luspo":
            return sum(row.sum() for row in terms) / len(terms)
        if self.loss == "dr_grpo":
            return torch.cat(terms).sum() / (len(terms) * self.limit)
        return torch.cat(terms).mean()


def splitmix(x):
    x &= MASK64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK64
    return x ^ (x >> 31)


def quantile(values, share):
    ascending = sorted(values)
    place = share * (len(ascending) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (ascending[above] - ascending[below]) * (place - below)


def gamma_weight(advantage, log_w):
    """VESPO's weight of a completion; w is the product of its ratios."""
    k, rate = (2.0, 3.0) if advantage >= 0 else (3.0, 2.0)
    w = math.exp(min(max(log_w, math.log(1e-8)), 20.0))
    return math.exp(rate + k * math.log(w) - rate * w)


TEMPERATURE, BETA, GROUP, PROBLEMS, LIMIT, STEP, STEPS = 0.7, 0.3, 4, 4, 14, 3, 40
TAU, RHO, EPSILON = 0.8, 0.4, (0.6, 0.3)
SETTINGS_OF_GUIDES = {"branch": {"tau": TAU, "rho": RHO}, "random": {"epsilon": EPSILON}}
TOLERANCE = 1e-5
"""Relative, of a whole gradient; float32 rows were seen to differ by 7.7e-6 at most."""
LORA = {"targets": ["q_proj", "v_proj", "down_proj"], "rank": 3, "dropout": 0.0}
CASES = [
    # algo or loss, guide, estimator, tokens held, lora, moved, prompts shared
    ("grpo", "none", "k3", "all", False, False, True),
    ("grpo", "branch", "k3", "all", False, False, True),
    ("grpo", "branch", "k3", "all", False, True, False),
    ("bnpo", "branch", "k3-corrected", "all", False, True, True),
    ("dapo", "branch", "reward", "all", False, False, True),
    ("dapo", "none", "k3-corrected", "all", False, True, False),
    ("dr-grpo", "branch", "k3", "all", False, True, True),
    ("dr-grpo", "none", "reward", "all", False, False, False),
    ("grpo", "branch", "head", "all", False, False, True),
    ("bnpo", "branch", "head", "all", False, True, True),
    ("grpo", "branch", "k3", "all", True, True, True),
    ("bnpo", "none", "reward", "all", True, True, False),
    ("dapo", "branch", "k3-corrected", "all", True, True, True),
    ("dr-grpo", "branch", "k3", "all", True, True, False),
    ("gspo", "branch", "k3", "all", False, True, True),
    ("gspo", "token", "k3-corrected", "all", False, True, False),
    ("grpo", "token", "k3", "all", False, True, True),
    ("dapo", "token", "reward", "uncertain", False, True, True),
    ("grpo", "token", "k3", "all", True, False, True),
    ("dapo", "random", "k3", "all", False, True, True),
    ("bnpo", "random", "reward", "all", False, False, False),
    ("dr-grpo", "random", "k3-corrected", "all", True, True, True),
    ("cispo", "branch", "k3", "all", False, True, True),
    ("cispo", "token", "reward", "all", False, True, False),
    ("sapo", "branch", "k3", "all", False, True, True),
    ("sapo", "random", "k3-corrected", "all", True, True, True),
    ("luspo", "token", "k3", "all", False, True, True),
    ("luspo-sequence", "branch", "k3", "all", False, True, True),
    ("vespo", "branch", "k3", "all", False, True, True),
    ("grpo", "branch", "k3", "uncertain", False, True, True),
    ("bnpo", "token", "k3-corrected", "certain", False, True, True),
    ("grpo", "none", "forward", "all", False, True, True),
    ("dapo", "none", "forward", "all", False, False, False),
    ("bnpo", "none", "k3", "all", False, True, False),
    ("bnpo", "token", "reward", "all", False, False, True),
    ("dr-grpo", "token", "k3", "all", False, False, False),
    ("dr-grpo", "random", "reward", "all", False, True, True),
    ("grpo", "none", "head", "all", False, True, False),
    ("dapo", "random", "head", "all", False, False, True),
    ("bnpo", "token", "k3-corrected", "all", True, True, False),
    ("dr-grpo", "token", "reward", "all", True, True, True),
    ("dapo", "branch", "k3", "uncertain", True, True, True),
    ("grpo", "none", "forward", "all", True, True, True),
]
LOSSES = {"dr-grpo": "dr_grpo", "gspo": "grpo", "luspo-sequence": "luspo"}
"""The loss of what isn't called by it."""
CLIP = {"dapo": (0.2, 0.28), "gspo": (3e-4, 4e-4), "cispo": (0.2, 5.0)}


def prompts():
    """Of five to eight tokens, so that most rows are padded."""
    return [(text + "+" * (i % 4), problem) for i, (text, problem) in enumerate(PROMPTS)]


def logps_of(model, prompt, completion):
    """Float64 log-probabilities (T, V) where a single row's completion is predicted."""
    logits = model(input_ids=torch.tensor([prompt + completion]), use_cache=False).logits
    return (logits[0, len(prompt) - 1 : -1] / TEMPERATURE).log_softmax(-1)


def of_tokens(logps_TV, completion):
    return logps_TV[range(len(completion)), completion]


def advantages(algo, rewards):
    """Of one group."""
    mean = sum(rewards) / len(rewards)
    if algo == "dr-grpo":
        return [reward - mean for reward in rewards]
    deviation = math.sqrt(sum((r - mean) ** 2 for r in rewards) / (len(rewards) - 1))
    return [(reward - mean) / (deviation + 1e-4) for reward in rewards]


def formula_of(case):
    algo, guide, estimator, held, *_ = case
    low, high = CLIP.get(algo, (0.2, 0.2))
    return Formula(
        LOSSES.get(algo, algo),
        "sequence" if algo in ("gspo", "luspo-sequence") else "token",
        *(guide, estimator, held),
        beta=BETA,
        step=STEP,
        steps=STEPS,
        limit=LIMIT,
        tau=TAU,
        rho=RHO,
        epsilon=EPSILON,
        low=low,
        high=high,
    )


def loss_of(case, rows, policy, reference, old):
    """The loss of rows (number, prompt, completion, reward) in float64."""
    algo, _, estimator, *_ = case
    formula = formula_of(case)
    groups = {}
    for number, *_, reward in rows:
        groups.setdefault(number // GROUP, []).append((number, reward))
    credit = {
        number: value
        for group in groups.values()
        for (number, _), value in zip(
            group, advantages(algo, [reward for _, reward in group]), strict=True
        )
    }
    terms = []
    for i, (number, prompt, completion, _) in enumerate(rows):
        logps_TV = logps_of(policy, prompt, completion)
        with torch.no_grad():
            reference_TV = logps_of(reference, prompt, completion)
        logps, anchor = of_tokens(logps_TV, completion), of_tokens(reference_TV, completion)
        detached_TV = logps_TV.detach()
        entropies = (-(detached_TV.exp() * detached_TV).sum(-1)).tolist()
        before = old[i] if old else logps.detach()
        term = formula.terms(number, logps, entropies, anchor, before, credit[number])
        if estimator == "head":
            q = formula.q(logps.tolist(), entropies, number)
            log_q = torch.tensor([math.log(x) for x in q], dtype=torch.float64)
            top = reference_TV.topk(32, dim=-1).indices
            head_TH = logps_TV.gather(-1, top)
            held = reference_TV.gather(-1, top) + log_q[:, None]
            divergence = (head_TH.exp() * (head_TH - held)).sum(-1)
            inside = (top == torch.tensor(completion)[:, None]).any(-1)
            rest = (logps - before).exp() * (logps - anchor - log_q)
            term = term + BETA * (divergence + torch.where(inside, 0.0, rest))
        terms.append(term)
    return formula.aggregated(terms)


def forward_kl(rows, policy, sampled, generation):
    """The cross-entropy of the reference's completions, in nats a token: a mean over rows.

    `sampled` are tokens by problem, of which row j of a group takes the completion
    `generation` * GROUP + j, counted round.
    """
    means = []
    for number, prompt, problem in rows:
        completions = sampled[problem]
        turn = number % GROUP + generation * GROUP
        ids = completions[turn % len(completions)]
        means.append(-of_tokens(logps_of(policy, prompt, ids), ids).mean())
    return sum(means) / len(means)


def encoded(tokenizer, completion):
    """A stored completion's tokens, with the end where it came to one."""
    ids = tokenizer(completion.text, add_special_tokens=False)["input_ids"]
    return ids + [tokenizer.eos_token_id] * (completion.finish_reason == "stop")


def settings_of(algo):
    """The section `rl` of an algorithm, or of GRPO with the loss that is called so."""
    if algo == "dapo":
        return {"algo": algo, "dynamic_sampling": False, "overlong_buffer": None}
    if algo in ("grpo", "bnpo", "dr-grpo", "gspo"):
        return {"algo": algo}
    if algo == "vespo":
        return {"algo": "grpo"}
    of_loss = {"loss": LOSSES.get(algo, algo)}
    if algo == "cispo":
        of_loss["epsilon_high"] = 5.0
    if algo == "luspo-sequence":
        of_loss["importance_sampling_level"] = "sequence"
    return {"algo": "grpo", **of_loss}


def moved_by(model, generator, scale):
    with torch.no_grad():
        for weights in model.parameters():
            if weights.requires_grad:
                weights.mul_(1 + scale * torch.randn(weights.shape, generator=generator))


def in_double(model):
    """A copy in float64 whose forward is the model's own."""
    copied = copy.deepcopy(model)
    whole = copied.get_base_model() if hasattr(copied, "get_base_model") else copied
    whole.__dict__.pop("forward", None)
    return copied.double().train(False)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_the_gradient_is_that_of_rows_alone(bench, configure, monkeypatch, case):
    algo, guide, estimator, held, lora, moved, shared = case
    generator = torch.Generator().manual_seed(100)
    anchor = {"kl": "reverse", "beta": BETA, "estimator": estimator}
    sampled = reference_completions(3) if estimator == "forward" else None
    if sampled:
        anchor = {"kl": "forward", "beta": BETA}
    if held != "all":
        anchor |= {"tokens": held, "uncertain_share": 0.2}
    config = configure(
        rl={
            **settings_of(algo),
            "steps": STEPS,
            "prompts_per_step": PROBLEMS,
            "rollouts_per_prompt": GROUP,
            "steps_per_generation": 1,
            "iterations": 2 if moved else 1,
        },
        guide={"name": guide} | SETTINGS_OF_GUIDES.get(guide, {}),
        anchor=anchor,
        rollout={"max_tokens": LIMIT, "temperature": TEMPERATURE},
        model={
            "kind": "pretrained",
            "tuning": "lora" if lora else "full",
            **({"lora": LORA} if lora else {}),
        },
    )
    model = load_model(bench.base, trainable=True)
    if lora:
        model = attach_lora(model, config.model.lora)
        with torch.no_grad():
            for name, weights in model.named_parameters():
                if "lora_B" in name:
                    weights.copy_(torch.randn(weights.shape, generator=generator) * 0.3)
        reference = in_double(model)
    else:
        reference = load_model(bench.base).double()
        moved_by(model, generator, 0.05)
    if not shared:
        monkeypatch.setattr(passes, "can_share", lambda _: False)
    trainer = bench.trainer(
        config,
        model=model,
        reference=None if lora or sampled else bench.base,
        prompts=prompts(),
        reference_completions=sampled,
    )
    if algo == "vespo":  # a loss of TRL's that `sage` doesn't offer
        trainer.loss_type = algo
    trainer.state.global_step, trainer.current_gradient_accumulation_steps = STEP, 1
    trainer.model.train()
    asked = [row for row in list(trainer.train_dataset)[:PROBLEMS] for _ in range(GROUP)]
    batch = trainer._generate_and_score_completions(asked)
    rewards = batch["right_B"].double().tolist()
    rows = []
    for i, number in enumerate(batch["row_ids_B"].tolist()):
        prompt, completion = (
            batch[f"{part}_ids"][i][batch[f"{part}_mask"][i].bool()].tolist()
            for part in ("prompt", "completion")
        )
        rows.append((number, prompt, completion, rewards[i]))
    assert len({len(prompt) for _, prompt, *_ in rows}) > 1  # some are padded
    plain, old = trainer.accelerator.unwrap_model(trainer.model), []
    if moved:
        with torch.no_grad():
            before = in_double(plain)
            old = [of_tokens(logps_of(before, prompt, row), row) for _, prompt, row, _ in rows]
        moved_by(plain, generator, 0.06)
    policy = in_double(plain)

    trainer._compute_loss(trainer.model, batch).backward()
    found = {n: w.grad.double() for n, w in plain.named_parameters() if w.grad is not None}
    for name, weights in policy.named_parameters():
        weights.requires_grad_(name in found)
    expected = loss_of(case, rows, policy, reference, old)
    if sampled:
        ids = [PROMPTS[row][1].id for row in batch["prompt_row_B"].tolist()]
        asked = [(n, prompt, id_) for (n, prompt, *_), id_ in zip(rows, ids, strict=True)]
        tokens = {id_: [encoded(bench.tokenizer, c) for c in sampled[id_]] for id_ in ids}
        expected = expected + BETA * forward_kl(asked, policy, tokens, STEP // (2 if moved else 1))
    expected.backward()
    off = whole = 0.0
    for name, weights in policy.named_parameters():
        if name in found:
            off += float((weights.grad - found[name]).norm() ** 2)
            whole += float(weights.grad.norm() ** 2)
    assert whole > 1e-6
    assert math.sqrt(off / whole) < TOLERANCE


ROWS, TOKENS, ENTRIES, LATE, MANY = 5, 8, 7, 37, 200
LENGTHS = (8, 5, 3, 7, 6)
LOW, HIGH, HIGH_CISPO = 0.2, 0.28, 5.0
IDS = (4, 0, 3, 1, 2)
"""The rows' places in the generation batch."""
GUIDES = {
    "none": NoGuide(),
    "branch": BranchGuide(tau=1.2, rho=0.8),
    "token": TokenGuide(),
    "random": RandomGuide(epsilon=(0.6, 0.3)),
}
CASES_BY_LOGITS = [
    # loss, level, guide, estimator, tokens held, off-policy
    ("grpo", "token", "branch", "k3", "all", False),
    ("dapo", "token", "branch", "k3", "all", True),
    ("bnpo", "token", "branch", "k3", "all", False),
    ("grpo", "token", "token", "k3", "all", True),
    ("dr_grpo", "token", "random", "k3", "all", False),
    ("grpo", "token", "none", "k3", "all", True),
    ("grpo", "token", "branch", "reward", "all", False),
    ("dapo", "token", "token", "reward", "all", False),
    ("grpo", "token", "branch", "k3-corrected", "all", True),
    ("bnpo", "token", "random", "reward", "all", True),
    ("dapo", "token", "token", "k3-corrected", "all", True),
    ("dr_grpo", "token", "none", "reward", "all", False),
    ("dapo", "token", "random", "k3", "all", True),
    ("dapo", "token", "none", "none", "all", True),
    ("cispo", "token", "branch", "k3", "all", True),
    ("cispo", "token", "token", "reward", "all", True),
    ("sapo", "token", "branch", "k3", "all", True),
    ("sapo", "token", "random", "k3-corrected", "all", True),
    ("luspo", "sequence", "branch", "k3", "all", True),
    ("luspo", "token", "token", "k3", "all", True),
    ("vespo", "token", "branch", "k3", "all", True),
    ("grpo", "sequence", "token", "k3", "all", True),
    ("grpo", "sequence", "branch", "k3-corrected", "all", True),
    ("grpo", "token", "branch", "k3", "uncertain", True),
    ("dapo", "token", "token", "reward", "uncertain", False),
    ("dapo", "token", "random", "k3-corrected", "certain", True),
]


def expected_loss(case, logits_BTV, batch):
    loss, level, guide, estimator, held, off_policy = case
    formula = Formula(
        *(loss, level, guide, estimator, held),
        beta=BETA,
        step=LATE,
        steps=MANY,
        limit=LIMIT,
        tau=1.2,
        rho=0.8,
        epsilon=(0.6, 0.3),
        low=LOW,
        high=HIGH_CISPO if loss == "cispo" else HIGH,
    )
    terms = []
    for b, length in enumerate(LENGTHS):
        logps_TV = logits_BTV[b, :length].log_softmax(-1)
        logps = logps_TV[range(length), batch["completion_ids"][b, :length]]
        entropies = (-(logps_TV.exp() * logps_TV).sum(-1)).tolist()
        reference = batch["ref_per_token_logps"][b, :length] if estimator != "none" else None
        old = batch["old_per_token_logps"][b, :length] if off_policy else logps.detach()
        advantage = float(batch["advantages"][b])
        terms.append(formula.terms(IDS[b], logps, entropies, reference, old, advantage))
    return formula.aggregated(terms)


def batch_of(case, logits_BTV):
    generator = torch.Generator().manual_seed(8)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    ids_BT = torch.randint(0, ENTRIES, (ROWS, TOKENS), generator=generator)
    mask_BT = (torch.arange(TOKENS) < torch.tensor(LENGTHS)[:, None]).long()
    near_BTV = (logits_BTV.detach() + 0.6 * draw(ROWS, TOKENS, ENTRIES)).log_softmax(-1)
    logps_BT = logits_BTV.detach().log_softmax(-1).gather(2, ids_BT[..., None])[..., 0]
    batch = {
        "prompt_ids": torch.zeros(ROWS, 2, dtype=torch.long),
        "prompt_mask": torch.ones(ROWS, 2, dtype=torch.long),
        "completion_ids": ids_BT,
        "completion_mask": mask_BT,
        "advantages": draw(ROWS),
        "row_ids_B": torch.tensor(IDS),
        "num_items_in_batch": mask_BT.sum(),
        "prompt_row_B": torch.arange(ROWS) % 3,
    }
    if case[3] != "none":
        batch["ref_per_token_logps"] = near_BTV.gather(2, ids_BT[..., None])[..., 0]
    if case[-1]:
        batch["old_per_token_logps"] = logps_BT + 0.3 * draw(ROWS, TOKENS)
    return batch


def of_logits(logits_BTV, ids_BT):
    """What a pass says, in double precision."""
    logps_BTV = logits_BTV.log_softmax(-1)
    entropy_BT = -(logps_BTV.exp() * logps_BTV).sum(-1)
    return logps_BTV.gather(2, ids_BT[..., None])[..., 0], entropy_BT, None


@pytest.fixture
def prepared(bench, configure):
    def prepare(case, **anchor):
        loss, level, guide, estimator, held, _ = case
        kl = {"kl": "none"} if estimator == "none" else {"estimator": estimator, "beta": BETA}
        tokens = {} if held == "all" else {"tokens": held, "uncertain_share": 0.2}
        config = configure(
            rl={"loss": "grpo", "micro_batch": 8, "steps": MANY},
            rollout={"max_tokens": LIMIT},
            anchor=kl | tokens | anchor,
        )
        given = {"reference_completions": reference_completions()} if "kl" in anchor else {}
        trainer = bench.trainer(config, **given)
        trainer.guide = GUIDES[guide].for_training(MANY)
        # `sage` refuses some of these, which TRL computes all the same
        trainer.loss_type, trainer.importance_sampling_level = loss, level
        trainer.epsilon_low = LOW
        trainer.epsilon_high = HIGH_CISPO if loss == "cispo" else HIGH
        trainer.args.steps_per_generation = 1
        trainer.current_gradient_accumulation_steps = 1
        trainer.state.global_step = LATE
        trainer.model.train()
        return trainer

    return prepare


@pytest.fixture(name="logits_BTV")
def logits():
    generator = torch.Generator().manual_seed(2)
    drawn_BTV = torch.randn(ROWS, TOKENS, ENTRIES, generator=generator, dtype=torch.float64)
    return (1.2 * drawn_BTV).requires_grad_()


def same(found, expected, logits_BTV):
    torch.testing.assert_close(found, expected, atol=1e-10, rtol=1e-9)
    mine, (theirs,) = (
        torch.autograd.grad(found, logits_BTV),
        torch.autograd.grad(expected, logits_BTV),
    )
    torch.testing.assert_close(mine[0], theirs, atol=1e-10, rtol=1e-9)
    assert theirs.abs().max() > 1e-4


@pytest.mark.parametrize("case", CASES_BY_LOGITS, ids=lambda case: "-".join(map(str, case)))
def test_loss_and_gradient_by_logits(prepared, monkeypatch, logits_BTV, case):
    trainer, batch = prepared(case), batch_of(case, logits_BTV)
    said = of_logits(logits_BTV, batch["completion_ids"])
    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", lambda *_, **__: said)
    untouched = {name: value.clone() for name, value in batch.items()}
    found = trainer._compute_loss(trainer.model, batch)
    same(found, expected_loss(case, logits_BTV, batch), logits_BTV)
    assert all(torch.equal(batch[name], value) for name, value in untouched.items())


def test_forward_kl_adds_the_cross_entropy_of_the_references_texts(
    prepared, monkeypatch, logits_BTV
):
    case = ("grpo", "token", "none", "none", "all", True)
    trainer, batch = prepared(case, kl="forward", beta=BETA), batch_of(case, logits_BTV)
    passes = []

    def answer(_self, _model, _ids, mask, tokens, *_, **__):
        if not passes:
            passes.append(of_logits(logits_BTV, batch["completion_ids"]))
        else:  # the completions of the reference: log-probabilities made of the same leaf
            share_BT = logits_BTV.sum(-1).repeat(1, 4)[:, :tokens]
            passes.append((-share_BT.exp(), None, None))
            masks.append(mask[:, -tokens:])
        return passes[-1]

    masks = []
    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", answer)
    found = trainer._compute_loss(trainer.model, batch)
    (mask_BT,) = masks
    tokens = mask_BT.shape[1]
    shares = (logits_BTV.sum(-1).repeat(1, 4)[:, :tokens]).exp()
    forward = 0.0
    for b in range(ROWS):
        length = int(mask_BT[b].sum())
        assert length > 0
        forward = forward + shares[b, :length].sum() / length
    plain = expected_loss(case, logits_BTV, batch)
    same(found, plain + BETA * forward / ROWS, logits_BTV)
    assert len(PROMPTS) > ROWS // 2
