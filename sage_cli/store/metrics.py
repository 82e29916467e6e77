"""metrics.jsonl: one JSON object per optimiser step, the authoritative record of a training.

rollouts.jsonl has the same form: some completions of some steps, each a record.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import Any

from sage_cli.json_value import json_value
from sage_cli.store.files import storing, warn_once, write_text
from sage_cli.store.locks import Lease

SHOWN = 5
"""Torn lines that a warning names by number."""
END_BYTES = 4096
"""A record of a step has about one and a half thousand."""


class MetricsFile:
    """Append-only except for `rewind`, by which a resumed training repeats no step."""

    def __init__(
        self,
        path: Path,
        needs: Mapping[str, type] | None = None,
        lease: Lease | None = None,
        sealed: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`needs` are the keys, with the types of their values, without which a line is torn.

        `lease` is that of the run, which every record requires. `sealed` returns the SHA-256 that
        the file of a finished run must have.
        """
        self.path, self._needs, self._lease = path, needs or {}, lease
        self._sealed = sealed

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record as one line and flush it.

        Raises StoreError if that fails, or if another process has taken the run over.
        """
        if self._lease is not None:
            self._lease.require()
        with storing(self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps(record, allow_nan=True) + "\n")

    def read(self) -> list[dict[str, Any]]:
        """Return all whole records in order; torn lines are left out with one warning.

        There is no warning for a torn last line: it is being written, or was when the writer was
        killed, and the resumed training writes it again.
        """
        records = list(map(self._record, self._lines()))
        torn = [number for number, record in enumerate(records[:-1], start=1) if record is None]
        if torn:
            warn_once(_torn(self.path, torn))
        return [record for record in records if record is not None]

    def last(self, step: int) -> list[dict[str, Any]]:
        """Return the records of `step`, the last one that was written; none if it has none."""
        whole = filter(None, map(self._record, reversed(self._lines())))
        return list(takewhile(lambda record: record["step"] == step, whole))[::-1]

    def latest(self, *, compared: bool = False) -> dict[str, Any]:
        """Return the last whole record; empty if there is none.

        Only the end of the file is read, unless that has no whole record, or the file is to be
        `compared` with what its training left.
        """
        for lines in (self._lines,) if compared else (self._last_lines, self._lines):
            if record := next(filter(None, map(self._record, filter(None, lines()[::-1]))), None):
                return record
        return {}

    def rewind(self, step: int) -> None:
        """Remove every record after optimiser step `step` (0 removes all).

        If there is none, the file is not replaced, for programs that follow it.
        """
        if self.path.is_file():
            records = [record for record in self.read() if record["step"] <= step]
            text = "".join(json.dumps(record) + "\n" for record in records)
            if text.encode() != self.path.read_bytes():
                write_text(self.path, text)

    def _lines(self) -> list[bytes]:
        """Return the lines and the text after the last newline; none without a file.

        A file that isn't what its training left is named once.
        """
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            content = b""
        if self._sealed() not in (None, hashlib.sha256(content).hexdigest()):
            warn_once(f"{self.path} has been changed since its training ended")
        return content.split(b"\n") if content else []

    def _last_lines(self) -> list[bytes]:
        """Return the lines that end in the last END_BYTES of the file and begin there, too."""
        try:
            with self.path.open("rb") as handle:
                if handle.seek(0, os.SEEK_END) <= END_BYTES:
                    return []
                handle.seek(-END_BYTES, os.SEEK_END)
                return handle.read().split(b"\n")[1:]
        except FileNotFoundError:
            return []

    def _record(self, line: bytes) -> dict[str, Any] | None:
        """Return a line's record; None if it is no JSON object with the needed keys."""
        try:
            record = json_value(line)
        except ValueError:
            return None
        if not isinstance(record, dict):
            return None
        whole = all(isinstance(record.get(key), kind) for key, kind in self._needs.items())
        return record if whole else None


def _torn(path: Path, torn: list[int]) -> str:
    numbers = ", ".join(map(str, torn[:SHOWN])) + (", ..." if len(torn) > SHOWN else "")
    lines = f"lines {numbers} are" if len(torn) > 1 else f"line {numbers} is"
    return f"{path} is torn or was edited: {lines} left out"


RECORDED: Mapping[str, str] = {
    "step": "The optimiser step, from 1.",
    "of": "Number of steps of the training.",
    "loss": "The minimised loss. Under RL it says nothing about progress.",
    "learning_rate": "Learning rate at the start of the step.",
    "grad_norm": "Norm of the gradient before clipping.",
    "mean_token_accuracy": "SFT: share of tokens that are the model's own first choice.",
    "entropy": "Mean entropy at the sampled tokens, in nats.",
    "entropy/p*": "Percentiles of these entropies over tokens; a guide's tau lies among them.",
    "reward": "Share of completions with a right answer (under `rlpr`, too).",
    "reward/*": "Unweighted mean of one of `rl.rewards`, or of `overlong`, the punishment of "
    "overlong completions.",
    "reward/grade": "Mean of what the grade pays, with other rewards or a named judge.",
    "reward/total": "Mean of the maximised weighted sum, with other rewards or a named judge.",
    "grade/*": "Number of completions with that grade.",
    "groups/zero_variance": "Share of prompts whose rewards are all equal, which teach nothing.",
    "groups/discarded": "Dynamic sampling: prompts left out for that reason.",
    "groups/extra_generations": "Dynamic sampling: further generations that filled the batch.",
    "groups/filtered": "RLPR: groups whose rewards deviate too little to teach.",
    "groups/second_stage": "DARS: prompts with a second stage of rollouts.",
    "groups/rescued": "DARS: those of them whose first right answer is in it.",
    "groups/taught": "DARS: prompts with right and wrong completions, those in the loss.",
    "groups/held": "DPH-RL: problems of the batch that the divergence holds.",
    "rollouts/extra": "DARS: completions of the second stage.",
    "completions/length": "Mean number of tokens.",
    "completions/clipped": "Share of completions truncated at the limit.",
    "sampled/*": "Completions and tokens sampled for the step, discarded ones included.",
    "clip_ratio": "Share of tokens whose ratio pi / pi_old was clipped, averaged as in TRL; 0 with "
    "one update a batch.",
    "kl/reference": "Mean of log pi - log pi_ref over the sampled tokens (k1), without the guide.",
    "kl/shaped": "Mean of log pi - log(q pi_ref), the pseudo-KL of Eq. 5 by k1: may be negative.",
    "kl/k3": "The k3 term of the shaped anchor, as `k3` has it in the loss.",
    "kl/head": "The reverse KL under `anchor.estimator=head`.",
    "anchor/head_mass": "The policy's probability of `head`'s tokens.",
    "kl/forward": "The cross-entropy on the reference's own completions (`anchor.kl=forward`).",
    "divergence": "DPH-RL: mean divergence from the initial policy on held problems' completions.",
    "floor": "support-floor: nats a token that stored texts are below their floors, a mean over "
    "the step's problems that have some.",
    "mismatch/difference_*": "vLLM: mean and largest |log pi - log pi_vllm| of the sampled tokens.",
    "mismatch/ratio_*": "Smallest, mean and largest importance ratio pi / pi_vllm before "
    "truncation: of tokens, or of completions under `sequence_*`. The mean is about 1; under "
    "`importance_correction=none` with truncated sampling it is the kept tokens' probability.",
    "mismatch/cut": "Share of ratios above `rollout.vllm.importance_cap`.",
    "mismatch/kl": "KL(pi_vllm || pi) in nats a token, by k3.",
    "guide/q_*": "Mean, smallest and largest q of the step's tokens.",
    "guide/shaped": "Share of tokens with a q other than 1.",
    "guide/clamped": "Share of tokens with q at `guide.q_min` or `guide.q_max`.",
    "guide/log_q": "Mean of log q over tokens.",
    "anchor/rows": "Share of tokens that the KL term acts on (`anchor.rows`, `anchor.tokens`).",
    "anchor/equal_groups": "Share of the KL term (k3) in groups of equal grades, which the anchor "
    "alone moves; absent while policy and reference are the same.",
    "anchor/beta": "The KL term's coefficient at this step, if annealed.",
    "reward/probability": "RLPR: the gold's mean probability in the answer's place.",
    "reward/formed": "RLPR: share of completions in the required form.",
    "reward/repeating": "RLPR: share of completions that repeat themselves.",
    "reward/deviation": "RLPR: mean deviation of the rewards within a group.",
    "reward/spread": "RLPR: running average of these deviations, the filter's from step 11 on.",
    "reward/paid": "RLPR: mean of the reward in the advantages.",
    "problems/tried": "Guided retries, first step: problems tried without a hint.",
    "problems/failed": "Those of them without a right completion.",
    "problems/retried": "Those of them retried with a hint.",
    "problems/rescued": "Those of them with a right completion then.",
    "pairs/found": "Pairs of a right completion with the hint and a wrong one without it.",
    "pairs/margin": "DPO: mean of beta times log-ratio, of right completions less of wrong ones.",
    "pairs/chosen": "Mean of beta times log pi / pi_ref of the right completions.",
    "pairs/rejected": "The same of the wrong ones.",
    "pairs/accuracy": "Share of pairs whose right completion has the higher log-ratio.",
    "sft/examples": "Right completions in the supervised fine-tuning before DPO.",
    "sft/loss": "Its loss at its last step.",
    "entropy/coefficient": "The entropy bonus's coefficient, if it adapts.",
    "eval/pass@*": "pass@k on the validation problems, every `evaluation.every` steps.",
    "time/generate_s": "Seconds of sampling, in the first process like all phases.",
    "time/sync_s": "Seconds of sending weights to vLLM.",
    "time/grade_s": "Seconds of grading.",
    "time/reference_s": "Seconds of the log-probabilities of reference and earlier policies.",
    "time/loss_s": "Seconds of loss and gradients.",
    "time/generated_tokens_per_s": "Tokens of all processes a second of sampling.",
    "time/trained_tokens_per_s": "Tokens in the loss a second of the step.",
    "memory/peak_gib": "Peak memory of the step on the fullest GPU; without one, the process's.",
    "memory/peak_gib/*": "The same of each process, if there are several.",
    "time/step_s": "Seconds of the whole step.",
    "time/validation_s": "Seconds of validation, outside the step's.",
}
"""Key, or pattern of keys -> what it is."""


def meaning(key: str) -> str | None:
    """Return the meaning of a key of metrics.jsonl; None for an unknown key."""
    exact = RECORDED.get(key)
    if exact is not None:
        return exact
    return next((text for name, text in RECORDED.items() if fnmatchcase(key, name)), None)
