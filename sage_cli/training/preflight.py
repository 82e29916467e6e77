"""Looks at a run's first completions before the first update, for what would waste the run.

A run whose answers nobody can read, or whose log-probabilities are of another distribution than its
samples, trains without an error and without a use. Both show in the first generation batch, which
is sampled anyway.
"""

from __future__ import annotations

import random
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate.utils import broadcast_object_list, gather_object
from rich.markup import escape
from torch import Tensor

from sage_cli.errors import DivergedError, is_out_of_memory
from sage_cli.methods.hooks import Generated, Rollouts, Row, share_of
from sage_cli.methods.rollout_batch import RolloutBatch, rows_of, whole_texts
from sage_cli.sampling.decoder import kept_weights
from sage_cli.sampling.sampler import SamplingParameters
from sage_cli.store.preflights import KnownPreflight
from sage_cli.training.in_float32 import bytes_for_copies, in_float32
from sage_cli.training.step_record import COMPLETION_IDS, COMPLETION_TEXTS

UNREADABLE = "unparseable"
"""The status of a completion without an answer that the grader can read."""
ENOUGH = 64
"""Completions without a readable answer that stop a run: of a policy that is readable in one case
of ten, 64 completions are all unreadable in one run of 850 (0.9^64), and 8 in 43% of runs."""
LOW_SHARE = 0.5
"""A share of readable answers below which a run is warned of."""
CUT_SHARE = 0.5
"""A share of completions that are cut off at the limit above which a run is warned of."""
EQUAL_SHARE = 0.9
"""A share of groups with equal rewards above which a run is warned of."""
_SHOWN_CHARACTERS = 2000
"""How much of the shown completion is printed; the rest is counted."""

CHECKED_TOKENS = 200
"""Tokens whose log-probabilities are compared, at least, where the batch has as many."""
EXACT_NATS = 1e-4
"""The largest difference in float32 of two passes over the same tokens."""
COARSE_FACTOR = 3.0
"""In bfloat16 a trainer's pass may differ from plain rows by so many times what padding does."""
SWITCHED_SHARE = 0.01
"""The share of a mixture's tokens that may differ, because rounding routes them elsewhere."""
SURPRISE_SIGMAS = 6.0
"""How far the mean surprisal of samples may be from their entropy, in standard errors."""
LIBRARIES = {"transformers": "Transformers", "trl": "TRL"}
"""Packages whose errors in the first batch are those of a model's architecture, and their names."""
NOT_IN_FLOAT32 = (
    "they are not compared in float32, because no layer fits into the free memory in float32, or "
    "the weights are quantized or spread over processes"
)
ENGINE_WARNS_NATS, ENGINE_STOPS_NATS = 0.05, 0.5
"""Mean differences of an engine's log-probabilities from the trainer's."""
STALE_FACTOR = 2.0
"""An engine whose log-probabilities are so many times nearer to the policy as it started than to
the policy as it is hasn't been given the update."""


class JudgedCompletion(NamedTuple):
    """A completion as it was judged, with its number of tokens; `cut_off` by the length limit."""

    completion: str
    gold: str
    extracted: str | None
    status: str
    cut_off: bool
    tokens: int


@dataclass(frozen=True)
class FirstAnswers:
    """What was found of the answers of the first completions of all processes.

    `read` completions have an answer that the grader can read, `correct` the correct one. `cut_off`
    ended at the length limit of `limit` tokens. Of `groups` with one prompt each, `equal` have
    equal rewards. `shown` is one of the completions, an unreadable one if there is one.
    """

    completions: int
    read: int
    correct: int
    cut_off: int
    mean_tokens: float
    limit: int
    groups: int
    equal: int
    shown: JudgedCompletion

    def in_words(self) -> tuple[str, str]:
        """Return the facts as one line, and the shown completion as far as it can be read."""
        equal = f"; {self.equal} of {self.groups} groups have equal rewards" if self.groups else ""
        facts = (
            f"first {self.completions} completions: {self.read} with a readable answer, "
            f"{self.correct} correct, {self.cut_off} cut off at {self.limit:,} tokens, "
            f"{self.mean_tokens:,.0f} tokens on average{equal}"
        )
        text, extracted = self.shown.completion, self.shown.extracted
        left = len(text) - _SHOWN_CHARACTERS
        rest = f" ... and {left:,} more characters" if left > 0 else ""
        answer = "no answer was found" if extracted is None else f"answer: {extracted}"
        shown = (
            f"for example: {text[:_SHOWN_CHARACTERS]}{rest}\n({answer}; gold: {self.shown.gold})"
        )
        return facts, shown


def answers_of(
    seen: Sequence[JudgedCompletion], limit: int, groups: int = 0, n: int = 1
) -> FirstAnswers:
    """Return what was found of completions, of which the first `groups` times `n` are in groups."""
    correct = [completion.status == "right" for completion in seen]
    unreadable = [completion for completion in seen if completion.status == UNREADABLE]
    return FirstAnswers(
        completions=len(seen),
        read=len(seen) - len(unreadable),
        correct=sum(correct),
        cut_off=sum(completion.cut_off for completion in seen),
        mean_tokens=sum(completion.tokens for completion in seen) / len(seen),
        limit=limit,
        groups=groups,
        equal=sum(sum(correct[at * n : at * n + n]) in (0, n) for at in range(groups)),
        shown=[*unreadable, *seen][0],
    )


@dataclass(frozen=True)
class Finding:
    """Something that wastes a run: its cause and what to type; `stops` if the run can't go on."""

    stops: bool
    cause: str
    remedy: str


@dataclass(frozen=True)
class Format:
    """What decides whether an answer can be read: the prompt, and how the run begins."""

    prompt: str
    """`prompt.format`."""
    answer_open: str
    answer_close: str
    trained_by_sft: bool
    """True if SFT has taught the policy how to answer."""
    max_tokens: int


def judge_answers(answers: FirstAnswers, form: Format, *, may_stop: bool) -> list[Finding]:
    """Return what is wrong with the first completions, the worst first.

    A run that mayn't be stopped is warned: one whose rewards don't read the grade, to which an
    answer is nothing, or one that goes on where it is stuck (`rl.stop_when_stuck=false`).
    """
    findings = []
    nothing_read = answers.completions >= ENOUGH and not answers.read
    all_cut = answers.completions >= ENOUGH and answers.cut_off == answers.completions
    if nothing_read or all_cut:
        what = (
            f"none of the first {answers.completions} completions has a readable answer"
            if nothing_read
            else f"all of the first {answers.completions} completions were cut off at "
            f"{answers.limit:,} tokens"
        )
        cut = f", and {answers.cut_off} were cut off at {answers.limit:,} tokens"
        cause = what + (cut if nothing_read and answers.cut_off else "")
        findings.append(Finding(may_stop, cause, _likeliest_remedy(answers, form)))
    elif answers.read < LOW_SHARE * answers.completions:
        cause = f"only {answers.read} of {answers.completions} completions have a readable answer"
        findings.append(Finding(False, cause, _likeliest_remedy(answers, form)))
    elif answers.cut_off > CUT_SHARE * answers.completions:
        cause = (
            f"{answers.cut_off} of {answers.completions} completions were cut off at "
            f"{answers.limit:,} tokens"
        )
        findings.append(Finding(False, cause, _longer(form)))
    if answers.groups and answers.equal > EQUAL_SHARE * answers.groups and not findings:
        cause = (
            f"{answers.equal} of {answers.groups} groups have equal rewards, so they give no "
            "learning signal"
        )
        remedy = "use easier or harder problems, or more rollouts: --set rl.rollouts_per_prompt=16"
        findings.append(Finding(False, cause, remedy))
    return findings


def _likeliest_remedy(answers: FirstAnswers, form: Format) -> str:
    if answers.cut_off > CUT_SHARE * answers.completions:
        return _longer(form)
    if form.prompt == "chat":
        return (
            f"see whether the prompt asks for {form.answer_open} ... {form.answer_close}: "
            "`sage data show --rendered` prints it, and --set prompt.system=... changes it"
        )
    if not form.trained_by_sft:
        return (
            f"the model doesn't write {form.answer_open} ... {form.answer_close} by itself: teach "
            "it by SFT (leave --init out, or start from a run of `sage sft`), or use an instruct "
            "model's own template: --set prompt.format=chat"
        )
    return (
        "compare the completion above with the prompt's format "
        f"(--set prompt.format=..., now {form.prompt})"
    )


def _longer(form: Format) -> str:
    return (
        f"give the completions more room: --set rollout.max_tokens={2 * form.max_tokens}; if they "
        "never end, the model wasn't taught to end its answers (SFT does it)"
    )


@dataclass(frozen=True)
class LogpDifference:
    """Absolute differences of log-probabilities over `tokens`, in nats."""

    tokens: int
    mean: float
    high: float
    """The 99% quantile."""
    largest: float
    share_above: float
    """The share of tokens that differ by more than EXACT_NATS."""

    @classmethod
    def between(cls, a_BT: Tensor, b_BT: Tensor, mask_BT: Tensor) -> LogpDifference:
        """Compare log-probabilities (B, T) on the tokens of the mask."""
        # float64, so that the difference of two float32 numbers is not rounded again
        off_T = (a_BT.double() - b_BT.double())[mask_BT.bool()].abs()
        if not len(off_T):
            return cls(0, 0.0, 0.0, 0.0, 0.0)
        above = (~(off_T <= EXACT_NATS)).double().mean().item()  # NaN is above any bound
        high = off_T.nan_to_num(torch.inf).quantile(0.99).item()
        return cls(len(off_T), off_T.mean().item(), high, off_T.max().item(), above)


def judge_passes(
    trained: LogpDifference,
    again: LogpDifference,
    yardstick: LogpDifference | None,
    *,
    routes: bool,
) -> list[Finding]:
    """Return what is wrong with the trainer's passes against plain rows of the same tokens.

    `trained` compares the trainer's pass with plain rows, `again` two equal passes. Without a
    `yardstick` products are float32 and the bound is fixed; with it, it is what padding alone
    changes. A model that `routes` tokens to experts may send a few elsewhere.
    """
    if yardstick is None:
        wrong = trained.share_above > (SWITCHED_SHARE if routes else 0.0)
        noisy = again.share_above > (SWITCHED_SHARE if routes else 0.0)
        bound = f"{EXACT_NATS:g} nats in float32"
    else:
        # two passes that agree to the last bit would make a bound of 0
        floor = 2.0**-8
        most_mean = COARSE_FACTOR * max(yardstick.mean, floor)
        most_high = COARSE_FACTOR * max(yardstick.high, floor)
        wrong = not (trained.mean <= most_mean and trained.high <= most_high)
        noisy = not (again.mean <= most_mean and again.high <= most_high)
        bound = f"{most_mean:.2g} nats on average, three times what padding alone changes"
    remedy = "choose another model, and report this one: its architecture can't be trained as it is"
    findings = []
    if noisy:
        findings.append(
            Finding(
                True,
                (
                    f"two equal passes over the same {again.tokens} tokens differ by "
                    f"{again.mean:.3g} nats on average and {again.largest:.3g} at most: the model "
                    "adds noise in training (dropout, or the jitter of a router)"
                ),
                "set the model's noise to 0 in its config.json; or " + remedy,
            )
        )
    elif wrong:
        findings.append(
            Finding(
                True,
                (
                    "the trainer's log-probabilities differ from those of the model's own logits "
                    f"by {trained.mean:.3g} nats on average and {trained.largest:.3g} at most, "
                    f"over {trained.tokens} tokens (allowed: {bound})"
                ),
                remedy,
            )
        )
    return findings


@dataclass
class Surprise:
    """Whether samples are of the distribution that the trainer computes, by their surprisal.

    A sample's surprisal -log p has the distribution's entropy as its mean, so the sum `off` of the
    differences over tokens has mean 0 and as its variance the sum of the surprisals' variances.
    `impossible` counts samples that p doesn't allow.
    """

    tokens: int = 0
    off: float = 0.0
    variance: float = 0.0
    impossible: int = 0

    def add(self, logits_TV: Tensor, chosen_T: Tensor, parameters: SamplingParameters) -> None:
        """Compare sampled tokens (T,) with the logits (T, V) from which they should be drawn."""
        # the sampler's own cut of unlikely tokens, so that the distribution is the one sampled from
        weights_TV = kept_weights(logits_TV, parameters).double()
        p_TV = weights_TV / weights_TV.sum(dim=-1, keepdim=True)
        # 0 log 0 = 0: the clamp makes the logarithm finite, and p multiplies it by 0
        surprisal_TV = -p_TV.clamp_min(torch.finfo(p_TV.dtype).tiny).log()
        entropy_T = (p_TV * surprisal_TV).sum(dim=-1)
        variance_T = (p_TV * surprisal_TV.square()).sum(dim=-1) - entropy_T.square()
        allowed_T = p_TV.gather(1, chosen_T[:, None])[:, 0] > 0
        off_T = (surprisal_TV.gather(1, chosen_T[:, None])[:, 0] - entropy_T)[allowed_T]
        self.tokens += len(chosen_T)
        self.off += off_T.sum().item()
        self.variance += variance_T[allowed_T].clamp_min(0).sum().item()
        self.impossible += int((~allowed_T).sum())

    @property
    def sigmas(self) -> float:
        """Return how far the surprisal is from its expectation, in standard errors."""
        return self.off / self.variance**0.5 if self.variance > 0 else 0.0


@torch.no_grad()
def plain_pass(
    model: Any, batch: Mapping[str, Any], parameters: SamplingParameters, *, padded: bool = False
) -> tuple[Tensor, Surprise]:
    """Return log-probabilities (B, T) by the model's own logits, and the surprisal of the tokens.

    The logits are `model(input_ids).logits` of single rows: nothing is shared, cut or fused, and
    there is no padding but, with `padded`, behind the row up to the longest. Rounding differs then
    as it may, and nothing else.
    """
    logps_BT = torch.zeros_like(batch["completion_ids"], dtype=torch.float32)
    surprise = Surprise()
    masks = batch["prompt_mask"].bool(), batch["completion_mask"].bool()
    rows = list(zip(batch["prompt_ids"], masks[0], batch["completion_ids"], masks[1], strict=True))
    longest = max(int(before_T.sum()) + int(after_T.sum()) for _, before_T, _, after_T in rows)
    for row, (prompt_T, before_T, completion_T, after_T) in enumerate(rows):
        prompt_T, chosen_T = prompt_T[before_T], completion_T[after_T]
        ids_1T = torch.cat([prompt_T, chosen_T])[None]
        keywords = {}
        if padded:
            mask_1T = torch.ones_like(ids_1T)
            behind = (0, longest - ids_1T.shape[1])
            ids_1T = torch.nn.functional.pad(ids_1T, behind)
            keywords["attention_mask"] = torch.nn.functional.pad(mask_1T, behind)
        # the logits at a position are of the next token: the prompt's last position predicts the
        # completion's first
        begin, count = len(prompt_T) - 1, len(chosen_T)
        logits_TV = model(input_ids=ids_1T, **keywords).logits[0][begin : begin + count]
        surprise.add(logits_TV, chosen_T, parameters)
        logps_TV = (logits_TV.float() / parameters.temperature).log_softmax(-1)
        logps_BT[row, :count] = logps_TV.gather(1, chosen_T[:, None])[:, 0]
    return logps_BT, surprise


def judge_surprise(surprise: Surprise) -> list[Finding]:
    """Return what is wrong with a sampler that reports no log-probabilities of its own."""
    possible = surprise.impossible <= SWITCHED_SHARE * surprise.tokens  # rounding at a cut
    if abs(surprise.sigmas) <= SURPRISE_SIGMAS and possible:
        return []
    cause = (
        "the sampled tokens do not follow the distribution that the trainer computes: the "
        f"surprisal of {surprise.tokens} tokens is {surprise.sigmas:+.1f} standard errors from its "
        f"expectation, and {surprise.impossible} tokens are impossible"
    )
    return [Finding(True, cause, "choose another `rollout.backend`")]


def judge_engine(now: LogpDifference, before: LogpDifference | None) -> list[Finding]:
    """Return what is wrong with an engine's own log-probabilities against the trainer's.

    `now` compares them with the policy as it is, `before`, after an update, with the policy as it
    started: an engine that is nearer to the latter hasn't been given the update.
    """
    if before is not None and now.mean > STALE_FACTOR * before.mean:
        cause = (
            f"the engine samples from the policy as it started: its log-probabilities are "
            f"{before.mean:.3g} nats from that policy and {now.mean:.3g} from the updated one"
        )
        return [
            Finding(
                True,
                cause,
                "the update doesn't reach the engine: choose another "
                "`rollout.backend`, or train all weights (model.tuning=full)",
            )
        ]
    if not now.mean <= ENGINE_WARNS_NATS:
        stops = not now.mean <= ENGINE_STOPS_NATS
        cause = (
            f"the engine's log-probabilities differ from the trainer's by {now.mean:.3g} nats per "
            f"token over {now.tokens} tokens"
        )
        remedy = "check that both load the same weights in the same type (model.dtype)"
        return [Finding(stops, cause, remedy)]
    return []


def checked_rows(mask_BT: Tensor, prompts: Sequence[int]) -> Tensor:
    """Return the indices of rows that together have CHECKED_TOKENS, two of each prompt.

    Two rows of a prompt share its pass, and prompts that are far apart have different lengths,
    which is what padding gets wrong.
    """
    lengths = mask_BT.sum(dim=1).tolist()
    names = list(dict.fromkeys(prompts))
    # prompts 0, P/2, P/4, 3P/4, ...: the bits of a number in reverse
    order = sorted(range(len(names)), key=lambda place: int(f"{place:032b}"[::-1], 2))
    chosen, tokens = list[int](), 0
    for place in order:
        if tokens >= CHECKED_TOKENS and place != order[1]:
            break
        pair = [row for row, name in enumerate(prompts) if name == names[place]][:2]
        chosen += pair
        tokens += sum(lengths[row] for row in pair)
    return torch.tensor(sorted(chosen), dtype=torch.long)


class _Compared(NamedTuple):
    """What a comparison of the trainer's passes over rows with plain ones says."""

    findings: list[Finding]
    difference: LogpDifference
    """Of the pass in training mode."""
    trained_BT: Tensor
    """Its log-probabilities."""
    surprise: Surprise


REGARDLESS = "`--set rl.preflight=off` trains regardless"


@contextmanager
def refusing_architecture() -> Iterator[None]:
    """Raise DivergedError where Transformers or TRL fails in the first batch of a run.

    Some architectures can't be sampled from, padded before, or scored by TRL's fused head, and say
    so deep inside a library. What fails in other code is left alone, as is a lack of memory.
    """
    try:
        yield
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
        modules = [str(frame.f_globals.get("__name__")).partition(".")[0] for frame in frames]
        # torch says what is wrong, and who called it is to blame
        library = next(name for name in reversed(modules) if name != "torch")
        if library not in LIBRARIES or is_out_of_memory(error):
            raise
        raise DivergedError(
            f"the first batch ended in an error of {LIBRARIES[library]}, which can't compute this "
            f"model as RL does: {type(error).__name__}: {error}",
            "choose another model, --set rollout.backend=..., or another release of "
            f"{LIBRARIES[library]}",
        ) from error


@dataclass(kw_only=True)
class Preflight:
    """Checks the first completions and passes of a run, in all processes together.

    `say` shows a line and `note` keeps the facts in the manifest; the main process alone is heard.
    Every process comes to the same findings, so that all end together. What another run has found
    under the same conditions (`known`) is repeated in place of a look before the first update.
    """

    form: Format
    parameters: SamplingParameters
    may_stop: bool
    say: Callable[[str], None]
    note: Callable[..., None]
    known: KnownPreflight | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    _answered: bool = False
    _is_known: bool = False

    def look(self, trainer: Any, now: Rollouts) -> None:
        """Look at a generation batch that has been scored, if it is one of the first two.

        Before the first update answers and passes are judged. After it samples are compared with
        the policy, which they should follow.
        """
        step, batch = trainer.state.global_step, now.batch
        if step > trainer.rl.steps_per_batch:
            return
        assert now.generated is not None  # as it was scored
        which = checked_rows(batch["completion_mask"], batch["prompt_row_B"].tolist())
        rows = rows_of(batch, which)
        if step:
            _, surprise = self._plain(trainer, rows)
            now_BT, started_BT = trained_logps(trainer, rows), rows.get("ref_per_token_logps")
            self._conclude(trainer, self._of_sampler(rows, now_BT, surprise, started_BT), [])
            return
        self.look_at_answers(trainer, now.rows, now.generated)
        if self._is_known:
            return
        self.look_at_passes(trainer, rows)
        # a run that was stopped has kept nothing: what stops it is looked for again once somebody
        # has tried to fix it
        if self.known is not None and trainer.accelerator.is_main_process:
            self.known.write(self.facts)

    def look_at_answers(self, trainer: Any, rows: Sequence[Row], sampled: Generated) -> None:
        """Judge what was sampled first, before any of it is replaced; later calls do nothing."""
        if self._answered or trainer.state.global_step:
            return
        self._answered = True
        if self._repeat(trainer):
            return
        seen = self._judged(trainer, rows, sampled[COMPLETION_IDS], sampled[COMPLETION_TEXTS])
        if len(seen) < ENOUGH and all(completion.status == UNREADABLE for completion in seen):
            seen += self._further(trainer, ENOUGH - len(seen))
        n = int(trainer.num_generations)
        groups = len(rows) * trainer.accelerator.num_processes // n
        answers = answers_of(seen, self.form.max_tokens, groups, n)
        self.facts["answers"] = {**asdict(answers), "shown": answers.shown._asdict()}
        findings = judge_answers(answers, self.form, may_stop=self.may_stop)
        self._conclude(trainer, findings, answers.in_words())

    def _repeat(self, trainer: Any) -> bool:
        """Repeat what another run found under the same conditions; False if none has looked.

        The first update is still looked at: whether it reaches the sampler is each run's own.
        """
        # one process reads, so that all go the same way: another run may write in between
        read = [self.known and self.known.read() if trainer.accelerator.is_main_process else None]
        facts: dict[str, Any] | None = broadcast_object_list(read)[0]
        if not facts:
            return False
        self._is_known = True
        lines, findings = facts.pop("said"), facts.pop("findings")
        self.facts = facts
        line = f"policy, prompt and sampling were checked by {facts['checked_by']}: {lines[0]}"
        self._conclude(trainer, [Finding(**finding) for finding in findings], [line])
        return True

    def look_at_passes(self, trainer: Any, rows: RolloutBatch) -> None:
        """Compare the trainer's passes over rows with plain ones, before the first update.

        Coarse products round differently when the shapes differ. How much is measured on this very
        model, by padding that changes nothing else; and what is hidden below that shows where the
        same passes are made in float32.
        """
        model = trainer.accelerator.unwrap_model(trainer.model)
        coarse = trainer.args.bf16 or trainer.args.fp16 or model.dtype.itemsize < 4
        compared = self._compare(trainer, rows, coarse=coarse)
        findings, difference = compared.findings, compared.difference
        lines = [
            f"log-probabilities of {difference.tokens} tokens: the trainer's passes are "
            f"{difference.mean:.1g} nats from the model's own logits on average, "
            f"{difference.largest:.1g} at most"
        ]
        if coarse and trainer.is_sharded:
            lines.append(NOT_IN_FLOAT32)
        elif coarse:
            free = bytes_for_copies(model.device)
            with (
                without_autocast(trainer),
                in_float32(model, free, trainer.model_forward) as layers,
            ):
                if layers is None:
                    lines.append(NOT_IN_FLOAT32)
                else:
                    exact = self._compare(trainer, rows, coarse=False, of="/float32")
                    findings += exact.findings
                    part = "" if layers[0] == layers[1] else f" (layers 1 to {layers[0]})"
                    largest = exact.difference.largest
                    lines.append(f"in float32{part} they are {largest:.1g} nats apart at most")
        findings += self._of_sampler(rows, compared.trained_BT, compared.surprise)
        self._conclude(trainer, findings, lines)

    def _compare(
        self, trainer: Any, rows: RolloutBatch, *, coarse: bool, of: str = ""
    ) -> _Compared:
        """Judge the trainer's passes, in training and in evaluation mode, by plain ones.

        Where products are `coarse`, what padding changes of plain ones is allowed. Keeps the facts,
        `of` the type in which the passes were made.
        """
        mask_BT, model = rows["completion_mask"], trainer.accelerator.unwrap_model(trainer.model)
        # twice: a model with noise in training (dropout, router jitter) differs from itself, and a
        # comparison with plain rows would say nothing
        trained_BT, again_BT = trained_logps(trainer, rows), trained_logps(trainer, rows)
        with evaluating(model):
            in_evaluation_BT = trained_logps(trainer, rows)
        plain_BT, surprise = self._plain(trainer, rows)
        again, yardstick = LogpDifference.between(trained_BT, again_BT, mask_BT), None
        if coarse:
            padded_BT, _ = self._plain(trainer, rows, padded=True)
            yardstick = LogpDifference.between(padded_BT, plain_BT, mask_BT)
        routes = bool(getattr(model.config.get_text_config(), "num_experts_per_tok", None))
        differences = {
            "training": LogpDifference.between(trained_BT, plain_BT, mask_BT),
            "evaluation": LogpDifference.between(in_evaluation_BT, plain_BT, mask_BT),
        }
        findings = []
        for mode, difference in differences.items():
            self.facts[f"passes/{mode}{of}"] = asdict(difference)
            findings += judge_passes(difference, again, yardstick, routes=routes)
        return _Compared(findings, differences["training"], trained_BT, surprise)

    def _of_sampler(
        self,
        rows: RolloutBatch,
        logps_BT: Tensor,
        surprise: Surprise,
        started_BT: Tensor | None = None,
    ) -> list[Finding]:
        """Judge the sampler: by what it says of its samples, or by their surprisal.

        `started_BT` are the log-probabilities of the policy as it started, once it has moved.
        """
        if "sampling_per_token_logps" not in rows:
            self.facts["sampler"] = {**asdict(surprise), "sigmas": surprise.sigmas}
            return judge_surprise(surprise)
        engine_BT, mask_BT = rows["sampling_per_token_logps"], rows["completion_mask"]
        now = LogpDifference.between(engine_BT, logps_BT, mask_BT)
        before = None
        if started_BT is not None:
            before = LogpDifference.between(engine_BT, started_BT, mask_BT)
        self.facts["sampler"] = asdict(now)
        return judge_engine(now, before)

    def _plain(
        self, trainer: Any, rows: RolloutBatch, *, padded: bool = False
    ) -> tuple[Tensor, Surprise]:
        """Return the `plain_pass` over rows: where weights are sharded, of the wrapped model."""
        model = trainer.accelerator.unwrap_model(trainer.model)
        with evaluating(model), trainer.accelerator.autocast():
            whole = trainer.model if trainer.is_sharded else model
            return plain_pass(whole, rows, self.parameters, padded=padded)

    def _judged(
        self,
        trainer: Any,
        rows: Sequence[Row],
        ids: Sequence[Sequence[int]],
        texts: Sequence[str],
    ) -> list[JudgedCompletion]:
        """Return the completions of all processes, as they are judged."""
        golds = [row["gold"] for row in rows]
        grades = trainer.hooks.reward.grader(golds, texts)
        cut = trainer.cut_off(ids, texts)
        judged = [
            JudgedCompletion(text, gold, grade.extracted, grade.status, off, len(tokens))
            for text, gold, grade, off, tokens in zip(texts, golds, grades, cut, ids, strict=True)
        ]
        return list(gather_object(judged))

    def _further(self, trainer: Any, count: int) -> list[JudgedCompletion]:
        """Sample and judge `count` further completions, on problems that aren't trained on.

        Nothing that the run draws from random numbers changes by it.
        """
        population = trainer.hooks.setup.population
        # problems that aren't trained on, so that looking changes nothing that is later drawn for
        # them
        taken = set(trainer.train_dataset["row"])
        numbers = [row for row in range(len(population)) if row not in taken]
        numbers = numbers or list(range(len(population)))
        wanted = [numbers[at % len(numbers)] for at in range(count)]
        rows = [population[row] for row in share_of(wanted, trainer.accelerator)]
        with unchanged_random_state():
            ids, texts = trainer.sample_aside([row["prompt"] for row in rows])
        return self._judged(trainer, rows, ids, texts)[:count]

    def _conclude(self, trainer: Any, findings: Sequence[Finding], lines: Sequence[str]) -> None:
        """Show and keep what was found, then end all processes if one of them must."""
        # all processes must decide alike: one that raises alone leaves the others waiting in a
        # collective operation
        worst: list[Finding] = gather_object(list(findings))
        worst = list(dict.fromkeys(sorted(worst, key=lambda finding: not finding.stops)))
        if trainer.accelerator.is_main_process:
            for line in lines:
                self.say(escape(line))
            self.facts["said"] = [*self.facts.get("said", []), *lines]
            self.facts["findings"] = [
                *self.facts.get("findings", []),
                *(asdict(finding) for finding in worst),
            ]
            self.note(preflight=self.facts)
            for finding in worst:
                if not finding.stops:
                    warnings.warn(f"{finding.cause}: {finding.remedy}", stacklevel=2)
        if worst and worst[0].stops:  # another try finds it, too
            raise DivergedError(worst[0].cause, f"{worst[0].remedy}; {REGARDLESS}")


@torch.no_grad()
def trained_logps(trainer: Any, rows: RolloutBatch) -> Tensor:
    """Return log-probabilities (B, T) by the trainer's own pass: padded, shared, fused."""
    tokens = rows["completion_ids"].shape[1]
    logps_BT: Tensor = trainer.run_pass(
        "old policy", trainer.model, *whole_texts(rows), tokens
    ).logps_BT
    return logps_BT


@contextmanager
def without_autocast(trainer: Any) -> Iterator[None]:
    """Make passes of TRL and of ours begin no autocast in the block."""
    accelerator = trainer.accelerator
    was, accelerator.native_amp = accelerator.native_amp, False
    try:
        yield
    finally:
        accelerator.native_amp = was


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Put the model into evaluation mode for the block."""
    was = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was)


@contextmanager
def unchanged_random_state() -> Iterator[None]:
    """Put the random numbers of Python, NumPy and torch back after the block."""
    of_python, of_numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
