"""Methods with losses of their own, in the trainer, against plain code in double precision."""

import math
from dataclasses import replace
from functools import wraps
from itertools import product

import pytest
import torch
from scored_batch import assert_same_gradients, log_chances, row_of, rows_of
from toy_policy import PROMPTS, weights
from transformers import TrainerCallback
from trl import GRPOTrainer

from sage_cli.grading import Grade
from sage_cli.methods.dars import extra_rollouts
from sage_cli.methods.hooks import Rollouts
from sage_cli.methods.initial_texts import HeldProblems, pseudo_rewards
from sage_cli.methods.pacs import PacsLoss
from sage_cli.models.loading import load_model
from sage_cli.store.completion import Completion, token_ids
from sage_cli.training.trainer import SageTrainer

GROUP, STEPS, PROMPTS_A_STEP, LIMIT = 4, 3, 4, 8.0
TOKENS = 12
"""The most that a completion has."""
STEP = {
    "prompts_per_step": PROMPTS_A_STEP,
    "rollouts_per_prompt": GROUP,
    "micro_batch": 4,
    "learning_rate": 1e-2,
    "warmup_ratio": 0.0,
    "max_grad_norm": 1e9,
}


class StepsSeen(TrainerCallback):
    """Before each optimiser step the policy, in double precision, and its gradients by name.

    The policy is a copy without the trainer's own forward; `also` gives what else is kept. And the
    record of each step.
    """

    def __init__(self, trainer, base, also=tuple):
        self.trainer, self.base, self.also = trainer, base, also
        self.steps = []
        self.records = []
        trainer.add_callback(self)
        trainer.recorder.on_step = lambda record: self.records.append(dict(record))

    def on_pre_optimizer_step(self, *_, **__):
        model = self.trainer.accelerator.unwrap_model(self.trainer.model)
        gradients = {name: p.grad.double() for name, p in model.named_parameters()}
        alike = load_model(self.base)
        alike.load_state_dict(model.state_dict())
        self.steps.append((alike.double(), gradients, *self.also()))


def agree(model, gradients, record, loss, least=0.0):
    """Compare a step with the formulas' loss; True if the step teaches."""
    model.zero_grad()
    loss.backward()
    assert record["loss"] == pytest.approx(loss.item(), abs=1e-5, rel=1e-5)
    assert_same_gradients(model, gradients, least)
    return model.lm_head.weight.grad.norm().item() > 0.01


DARS = {**STEP, "algo": "dars", "most_rollouts": 10}


def strict_grader(golds, completions):
    """Right where the first character's code is a multiple of 4: about one in four at first."""
    return [Grade("right" if t and ord(t[0]) % 4 == 0 else "wrong", None) for t in completions]


@pytest.fixture
def hard(bench):
    return replace(bench, grader=strict_grader)


def pooled_loss(now, drew, rows):
    """The clipped loss over pools with both grades, a token at a time."""
    pools = {number: [row for row in rows if row[0] == number] for number, *_ in rows}
    total, taught = torch.zeros((), dtype=torch.float64), 0
    for pool in pools.values():
        share = sum(right for *_, right in pool) / len(pool)
        if share in (0, 1):
            continue
        taught += len(pool)
        for _, prompt, completion, right in pool:
            with torch.no_grad():
                old_T = log_chances(drew, prompt, completion)
            ratio_T = (log_chances(now, prompt, completion) - old_T).exp()
            advantage = right - share
            clipped_T = ratio_T.clamp(0.8, 1.2) * advantage
            total = total - torch.minimum(ratio_T * advantage, clipped_T).sum()
    return total / (taught * TOKENS)


def test_two_updates_have_the_loss_and_gradient_of_the_pools(hard, configure, monkeypatch):
    trainer = hard.trainer(
        configure(rl={**DARS, "iterations": 2, "steps": 2}, anchor={"kl": "none"})
    )
    first, extra = [], []
    extend, score = trainer.hooks.extend, trainer.score_rows

    def graded(batch):
        statuses = trainer.hooks.reward.statuses
        return [(*row_of(batch, i), status == "right") for i, status in enumerate(statuses)]

    def extending(own, rollouts):
        first.extend(graded(rollouts.batch))
        return extend(own, rollouts)

    def scoring(rows, *before, **of):
        rollouts = score(rows, *before, **of)
        if of:  # further ones
            extra.extend(graded(rollouts.batch))
        return rollouts

    monkeypatch.setattr(trainer.hooks, "extend", extending)
    monkeypatch.setattr(trainer, "score_rows", scoring)
    seen = StepsSeen(trainer, hard.base)
    trainer.train()
    counts = [sum(r for *_, r in first[i : i + GROUP]) for i in range(0, 16, GROUP)]
    wanted = [extra_rollouts(c, GROUP, "et", DARS["most_rollouts"]) for c in counts]
    assert seen.records[0]["rollouts/extra"] == sum(wanted) > 0
    numbers = [first[i * GROUP][0] for i in range(4)]
    drawn = [n for n, count in zip(numbers, wanted, strict=True) for _ in range(count)]
    real = []  # without what only fills a portion of 16 up to whole groups
    while len(real) < len(drawn):
        portion = min(16, len(drawn) - len(real))
        real += extra[:portion]
        del extra[: -(-portion // GROUP) * GROUP]
    assert [number for number, *_ in real] == drawn
    for (model, gradients), record in zip(seen.steps, seen.records, strict=True):
        agree(model, gradients, record, pooled_loss(model, seen.steps[0][0], first + real))


def test_never_more_rows_at_once_than_without_it(hard, configure, monkeypatch):
    drawn, passed = [], []
    generate = SageTrainer.generate_rows
    forward = GRPOTrainer._get_per_token_logps_and_entropies

    def generating(self, rows):
        drawn.append(len(rows))
        return generate(self, rows)

    @wraps(forward)  # whose arguments the trainer checks
    def passing(self, model, ids, *rest, **named):
        at_once = (rest[2] if len(rest) > 2 else named.get("batch_size")) or len(ids)
        passed.append(min(at_once, len(ids)))
        return forward(self, model, ids, *rest, **named)

    monkeypatch.setattr(SageTrainer, "generate_rows", generating)
    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", passing)
    rl = {**DARS, "allocation": "hw", "most_rollouts": 30, "steps": 2}
    records = hard.records(configure(rl=rl))
    assert records[0]["rollouts/extra"] > 16
    assert max(drawn) == 16
    assert max(passed) == 4
    assert records[0]["groups/rescued"] <= records[0]["groups/second_stage"] <= 4


def paired_loss(now, drew, rows, right):
    """The paper's formulas, a completion at a time."""
    score = []
    for *_, prompt, completion in rows:
        with torch.no_grad():
            old = log_chances(drew, prompt, completion).sum()
        score.append(0.3 * (log_chances(now, prompt, completion).sum() - old))
    losses = []
    for p, labels in enumerate(right):
        mine, n = score[p * GROUP : (p + 1) * GROUP], sum(labels)
        for i, label in enumerate(labels):
            psi = mine[i] - sum(mine[j] for j in range(GROUP) if j != i) / (GROUP - 1)
            chance = torch.sigmoid(psi)
            count = n if label else GROUP - n
            weight = GROUP / (2 * count) if 0 < n < GROUP else 1.0
            losses.append(-weight * torch.log(chance if label else 1 - chance))
    return torch.stack(losses).mean()


def test_two_updates_of_a_generation_have_the_loss_and_gradient_of_the_paper(bench, configure):
    rl = STEP | {"prompts_per_step": 2, "micro_batch": 2, "iterations": 2, "steps": 2}
    rl |= {"algo": "pacs", "score_scale": 0.3}
    trainer = bench.trainer(configure(rl=rl, anchor={"kl": "none"}))
    seen = StepsSeen(trainer, bench.base)
    trainer.train()
    rows, right = rows_of(trainer), trainer.hooks._right_PN.double().tolist()
    assert any(0 < sum(labels) < GROUP for labels in right)
    losses = []
    for (model, gradients), record in zip(seen.steps, seen.records, strict=True):
        loss = paired_loss(model, seen.steps[0][0], rows, right)
        agree(model, gradients, record, loss)
        losses.append(loss.item())
    assert abs(losses[1] - losses[0]) > 0.01  # the second update's scores differ from 0


def test_no_pass_is_added_where_the_policy_is_the_one_that_drew(bench, configure, monkeypatch):
    monkeypatch.setattr(PacsLoss, "_score", None)  # can't be called
    rl = {"algo": "pacs", "steps": 2, "learning_rate": 1e-2}
    records = bench.records(configure(rl=rl, anchor={"kl": "none"}))
    # scores 0: each completion's loss is ln 2, and weights of a group have mean 1
    assert [record["loss"] for record in records] == pytest.approx([0.693147] * 2, abs=1e-5)


LEAST = 1e-7
"""A step may have no group that teaches."""
HELD = range(0, 12, 3)
"""Problems of which two initial samples in three are right (by the parity of the first character),
the second one first; of the others one is."""


def stored(texts_of):
    """Initial samples of each problem, by what they are in its row."""
    return {
        problem.id: [
            Completion(problem.id, i, 0, text, 3, "stop") for i, text in enumerate(texts_of(row))
        ]
        for row, (_, problem) in enumerate(PROMPTS)
    }


INITIAL = stored(lambda row: ("7", "2+2", "4") if row in HELD else ("7", "9", "4"))
# distinct right ones at 2 and 5, a quarter of eight; all right; none
EIGHT = [("7", "9", "4", "7", "5", "2+2", "3", "1"), ("2", "4") * 4, ("7",) * 8]
EIGHTS = stored(lambda row: EIGHT[row % 3])


def settings(**changed):
    own = {"algo": "dph-rl", "solved": 0.6, "initial_samples": 3, "steps": STEPS}
    return {**STEP, **own, **changed}


FORMULAS = {
    "forward": lambda u: u - 1 - u.log(),
    "js": lambda u: u * u.log() - (u + 1) * ((u + 1) / 2).log(),
    "alpha": lambda u: (u**0.7 - 0.7 * u - 0.3) / (0.3 * -0.7),
}


def plain_loss(now, start, right_text, rows, reward, of):
    """The loss a problem at a time, and the divergences of those that are held."""
    kind, weight = of
    terms, found = [], []
    for first in range(0, len(rows), GROUP):
        group, mine = rows[first : first + GROUP], torch.tensor(reward[first : first + GROUP])
        _, problem, prompt, _ = group[0]
        if problem in HELD:
            with torch.no_grad():
                before = log_chances(start, prompt, right_text)
            log_u = log_chances(now, prompt, right_text) - before
            assert log_u.max() < LIMIT
            value = FORMULAS[kind](log_u.exp()).mean()
            terms.append(weight * value)
            found.append(value.item())
            continue
        advantages = (mine - mine.mean()) / (mine.std() + 1e-4)
        each = [log_chances(now, prompt, completion) for *_, prompt, completion in group]
        ratios = torch.stack([(row - row.detach()).exp().mean() for row in each])
        terms.append(-(advantages * ratios).mean())
    return sum(terms) / len(terms), found


def watched(bench, config, samples):
    """Policy, gradients, rows and grades before each step of a training, and its record."""
    trainer = bench.trainer(config, reference_completions=samples)
    grades = lambda: trainer.now.rewards_BF[:, 0].tolist()  # noqa: E731
    seen = StepsSeen(trainer, bench.base, lambda: (rows_of(trainer), grades()))
    trainer.train()
    return list(zip(seen.steps, seen.records, strict=True))


@pytest.mark.parametrize(
    ("kind", "weight"), [("forward", 0.7), ("js", 0.7), ("alpha", 0.7), ("js", None), ("js", 0.0)]
)
def test_every_step_has_the_loss_and_gradient_of_the_formulas(
    bench, configure, monkeypatch, kind, weight
):
    if weight == 0:  # then no stored completion goes through the model again
        monkeypatch.setattr(HeldProblems, "values", None)
    own = {"divergence": kind, "weight": weight, "log_ratio_limit": LIMIT}
    rl = settings(**own, **({"alpha": 0.3} if kind == "alpha" else {}))
    config = configure(rl=rl, anchor={"kl": "none"})
    seen = watched(bench, config, INITIAL)
    text = token_ids(bench.tokenizer, INITIAL["2x2"][1], None)
    start, of = load_model(bench.base).double(), (kind, 0.125 if weight is None else weight)
    held, taught, pulls = 0, 0, []
    for (model, gradients, rows, reward), record in seen:
        loss, divergences = plain_loss(model, start, text, rows, reward, of)
        taught += agree(model, gradients, record, loss, LEAST)
        assert record["groups/held"] == len(divergences)
        held += len(divergences)
        if weight == 0 or not divergences:
            assert "divergence" not in record
        else:
            mean = sum(divergences) / len(divergences)
            assert record["divergence"] == pytest.approx(mean, abs=1e-5, rel=1e-5)
            pulls.append(mean)
    assert 0 < held < STEPS * PROMPTS_A_STEP
    assert taught >= 2
    assert weight == 0 or max(pulls) > 0.01  # the policy has left its start


def test_with_no_problem_held_it_is_grpo_to_the_bit(bench, configure):
    wrong = stored(lambda _: ("7",) * 3)
    usual = {**STEP, "steps": STEPS, "algo": "grpo", "epsilon_high": 0.28}
    for name, rl in (("held", settings()), ("plain", usual)):
        config = configure(rl=rl, anchor={"kl": "none"})
        bench.run(config, name, reference=None, reference_completions=wrong)
    assert weights(bench.folder / "held/model") == weights(bench.folder / "plain/model")


def test_updates_of_one_generation_and_a_guide_beside_it(bench, configure):
    rl = settings(steps=4, iterations=2, weight=1.0)
    guided = configure(rl=rl, guide={"name": "branch", "tau": 0.5})
    records = bench.records(guided, reference_completions=INITIAL)
    assert all(math.isfinite(record["loss"]) and "kl/shaped" in record for record in records)


def test_rollouts_of_held_problems_teach_nothing(bench, configure):
    config = configure(rl=settings(), anchor={"kl": "none"})
    trainer = bench.trainer(config, reference_completions=INITIAL)
    # two rollouts each of problem 3, which is held, and of 1, which isn't
    advantages_B = torch.tensor([0.7, 0.7, -0.7, -0.7])
    rollouts = Rollouts()
    rollouts.batch = {"prompt_row_B": torch.tensor([3, 1, 1, 3]), "advantages": advantages_B}
    rollouts.right_PN = torch.zeros(2, 2)
    found = trainer.hooks.advantages(trainer, rollouts)
    assert found.tolist() == pytest.approx([0, 0.7, -0.7, 0])


def policy_term(now, rows, advantages, *, tokens=None):
    """Minus advantage times ratio, a mean over each row's tokens (or over so many), and rows."""
    each = [log_chances(now, prompt, completion) for *_, prompt, completion in rows]
    ratios = [(row - row.detach()).exp().sum() / (tokens or len(row)) for row in each]
    return -sum(a * ratio for a, ratio in zip(advantages, ratios, strict=True)) / len(rows)


@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.9])
def test_alpha_dpg_has_the_gradient_of_its_pseudo_rewards(bench, configure, alpha):
    rl = settings(algo="alpha-dpg", initial_samples=8, alpha=alpha, pseudo_reward_limit=6.0)
    del rl["solved"]
    seen = watched(bench, configure(rl=rl, anchor={"kl": "none"}), EIGHTS)
    start, limited, taught = load_model(bench.base).double(), 0, 0
    for (model, gradients, rows, reward), record in seen:
        paid = []
        for right, (_, problem, prompt, completion) in zip(reward, rows, strict=True):
            with torch.no_grad():
                now, then = (
                    log_chances(of, prompt, completion).sum().exp().item() for of in (model, start)
                )
            # 2, 8 and none of 8 are right
            target = right * then / (0.25, 1.0, 1e-4)[problem % 3]
            paid.append(min((target / now) ** (1 - alpha) - 1, 6.0))
            limited += paid[-1] == 6.0
        advantages = []
        for first in range(0, len(rows), GROUP):
            group = paid[first : first + GROUP]
            advantages += [r - (sum(group) - r) / (GROUP - 1) for r in group]
        loss = policy_term(model, rows, advantages, tokens=TOKENS)
        taught += agree(model, gradients, record, loss, LEAST)
        assert record["anchor/rows"] == 0
    assert taught >= 2
    assert limited > 0 or alpha == 0.9


def test_pseudo_rewards_end_at_the_filtered_reference_or_at_a_part_of_it():
    """Enumerated: the reference is (.4 .3 .2 .1), and the first three are right."""
    reference = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    right, whole = torch.tensor([1.0, 1, 1, 0]), reference * torch.tensor([1, 1, 1, 0]) / 0.9
    part = torch.tensor([0.4 / 0.7, 0.3 / 0.7, 0, 0], dtype=torch.float64)
    for alpha, (policy, ends) in product(
        (0.0, 0.25, 0.9), ((whole, True), (part, True), (reference, False), (right / 3, False))
    ):
        log_t = policy.clamp(min=1e-300).log() - reference.log() + torch.tensor(0.9).log()
        paid = pseudo_rewards(right[None], log_t[None], alpha, 1e9)[0]
        # the gradient in the logits is pi (R - E R)
        slopes = policy * (paid - (policy * paid).sum())
        assert bool(slopes.abs().max() < 1e-7) is ends
    # what the uniform policy finds too seldom is raised: 4/9 and no less than 1/3
    assert slopes[0] > 0 > slopes[2]
