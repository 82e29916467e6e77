"""open-instruct's rollouts of `--save_traces`: tokens and rewards, a row per completion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sage_cli.evaluation.logs.log import Log, ReadOptions
from sage_cli.evaluation.logs.program import Program
from sage_cli.evaluation.logs.row_fields import read_rows, step_notes
from sage_cli.evaluation.logs.source import LogSource

if TYPE_CHECKING:
    from sage_cli.problems.row_files import FileRow

_COLUMNS = {"prompt_idx", "prompt_tokens", "response_tokens", "reward"}
_ROW = (
    'a row is as {"step": 1, "prompt_idx": 0, "prompt_tokens": [3], "response_tokens": [7, 2], '
    '"reward": 10.0, "ground_truth": "4", "finish_reason": "stop"}'
)


def _read(source: LogSource, reading: ReadOptions) -> Log:
    """Return the samples of the rollouts; a completion with the one reward above 0 is correct.

    That reward is the run's `verification_reward`. With other rewards among them, such as one for
    the format, nothing says which completions are correct. Raises DataError for a damaged row.
    """
    rows = list(source.rows())
    rewards = sorted({float(values["reward"]) for _, values in rows})
    top = rewards[-1] if len(rewards) <= 2 and rewards[-1] > 0 else None
    known = set(rewards) <= {0.0, top}
    note = (
        f"a reward of {top:g} is taken for correct, and 0 for wrong"
        if known and top is not None
        else f"rewards are {', '.join(f'{reward:g}' for reward in rewards[:5])}"
    )

    def columns(row: FileRow) -> dict[str, Any]:
        _, values = row
        step, number = values.get("step", 0), values["prompt_idx"]
        return {
            # only the tokenizer of the run could read them
            "question": f"prompt of the tokens {' '.join(map(str, values['prompt_tokens']))}",
            "gold": values.get("ground_truth"),
            "problem": f"step {step}, prompt {number}",
            "correct": (values["reward"] == top) if known else None,
            "tokens": len(values["response_tokens"]),
            "finish_reason": "length" if values.get("finish_reason") == "length" else "stop",
        }

    return read_rows(
        "open-instruct",
        rows,
        reading,
        columns,
        _ROW,
        score="reward" if known else None,
        notes=(*step_notes(rows), note),
        ids_name_problems=True,
    )


PROGRAM = Program(
    name="open-instruct",
    title="open-instruct",
    file="`RUN_rollouts_000000.jsonl` of `--save_traces`",
    sample="a completion, as tokens",
    verdict="`reward`, where it is 0 or one other value",
    recognise=lambda source: _COLUMNS.issubset(source.first),
    read=_read,
)
