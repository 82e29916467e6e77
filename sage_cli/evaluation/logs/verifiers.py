"""Results of verifiers, which prime-rl evaluates with: a row per rollout or per episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sage_cli.counted import counted
from sage_cli.evaluation.logs.log import Log, ReadOptions
from sage_cli.evaluation.logs.program import Program
from sage_cli.evaluation.logs.row_fields import choose_column, content_text, read_rows
from sage_cli.evaluation.logs.scores import read_verdict
from sage_cli.evaluation.logs.source import LogSource, expecting, results_beside

if TYPE_CHECKING:
    from sage_cli.problems.row_files import FileRow

_COLUMNS = {"example_id", "prompt", "completion", "reward"}
_ROW = (
    'a row is as {"example_id": 0, "prompt": [{"role": "user", "content": "2+2=?"}], "completion": '
    '[{"role": "assistant", "content": "4"}], "answer": "4", "reward": 1.0}'
)
_EPISODE = {"env", "task", "traces"}
"""Columns of `traces.jsonl`, in which an episode has the traces of its agents."""
_EPISODE_ROW = (
    'a row is as {"env": {"id": "sums"}, "task": {"data": {"prompt": "2+2=?", "answer": "4"}}, '
    '"traces": [{"nodes": [...], "calls": [...], "rewards": {"correct": {"score": 1.0, "weight": '
    '1.0}}, "ok": true}]}'
)
_TRACE = {"question", "completion", "gold", "problem", "tokens", "finish_reason", "settings"}
"""What is read of a trace besides its reward and its named scores."""
_NO_SCORES = {*_COLUMNS, "answer", "task", "is_completed", "is_truncated", "num_turns"} - {"reward"}


def _read(source: LogSource, reading: ReadOptions) -> Log:
    """Return the samples of an evaluation; the verdict is the reward, or a metric of 0 and 1."""
    is_episodes = _EPISODE.issubset(source.first)
    return _read_episodes(source, reading) if is_episodes else _read_results(source, reading)


def _read_episodes(source: LogSource, reading: ReadOptions) -> Log:
    """Return the samples of `traces.jsonl`: the traces of the agents that are trained.

    A trace that failed is left out, as in verifiers' own mean. Raises DataError for a damaged row.
    """
    rows: list[FileRow] = []
    failed = 0
    for location, episode in source.rows():
        with expecting(location, _EPISODE_ROW):
            traces = episode["traces"]
            # a judge or a modelled user has no reward; an evaluation may train no agent at all
            scored = [
                trace for trace in traces if (trace.get("agent") or {}).get("trainable", True)
            ]
            whole = [trace for trace in scored or traces if trace.get("ok", True)]
            failed += max(1, len(scored or traces)) - len(whole)
            rows += [(location, _trace(trace, episode["task"])) for trace in whole]
    location = str(source)
    score, notes = choose_column(rows, reading, _TRACE, location, first=("reward",))
    settings = rows[0][1]["settings"] if rows else {}
    return read_rows(
        "verifiers",
        rows,
        reading,
        lambda row: {**row[1], "correct": read_verdict(row[1].get(score)) if score else None},
        _EPISODE_ROW,
        score=score,
        notes=tuple(notes),
        settings=settings,
        left_out={"their rollouts failed": failed} if failed else {},
    )


def _trace(trace: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is read of a trace: the last answer of the model, and its scores by name.

    The reward is the sum of the scores by their weights, as in verifiers.
    """
    data, calls = task["data"], trace.get("calls") or [{}]
    answers = [node["message"] for node in trace.get("nodes") or () if node.get("sampled")]
    rewards = {
        name: reward for name, reward in (trace.get("rewards") or {}).items() if reward is not None
    }
    weighted = [reward["score"] * reward.get("weight", 1.0) for reward in rewards.values()]
    asked = calls[-1].get("sampling") or {}
    text = trace.get("root_reply") or (content_text(answers[-1].get("content")) if answers else "")
    return {
        **{name: reward["score"] for name, reward in rewards.items()},
        **(trace.get("metrics") or {}),
        **({"reward": sum(weighted)} if weighted else {}),
        "question": data.get("prompt"),
        "completion": text,
        "gold": data.get("answer"),
        "problem": task.get("key") or task.get("hash") or data.get("id") or data.get("idx"),
        "tokens": (calls[-1].get("usage") or {}).get("completion_tokens"),
        "finish_reason": "length" if calls[-1].get("finish_reason") == "length" else "stop",
        "settings": {
            "model": calls[-1].get("model"),
            "task": task.get("type"),
            **{name: asked.get(name) for name in ("temperature", "top_p", "max_tokens", "seed")},
        },
    }


def _read_results(source: LogSource, reading: ReadOptions) -> Log:
    """Return the samples of `results.jsonl`.

    A rollout that failed counts with its reward, as in verifiers' own mean. Raises DataError for a
    damaged row.
    """
    rows = list(source.rows())
    score, notes = choose_column(rows, reading, _NO_SCORES, str(source), first=("reward",))
    failed = sum(bool(values.get("error")) for _, values in rows)
    if failed:
        notes.append(f"{counted(failed, 'rollout')} ended with an error: counted by their reward")

    def columns(row: FileRow) -> dict[str, Any]:
        _, values = row
        cut = values.get("is_truncated")
        return {
            "question": values["prompt"],
            "completion": values["completion"],
            "gold": values.get("answer"),
            "problem": values["example_id"],
            "correct": None if score is None else read_verdict(values.get(score)),
            "tokens": (values.get("token_usage") or {}).get("output_tokens"),
            "finish_reason": None if cut is None else "length" if cut else "stop",
        }

    def beside(stored: Any) -> dict[str, Any]:
        asked = stored.get("sampling_args") or {}
        kept = {name: asked.get(name) for name in ("temperature", "top_p", "max_tokens", "seed")}
        return {"model": stored.get("model"), "task": stored.get("env_id"), **kept}

    return read_rows(
        "verifiers",
        rows,
        reading,
        columns,
        _ROW,
        score=score,
        notes=tuple(notes),
        settings=results_beside(source.path.with_name("metadata.json"), beside),
    )


PROGRAM = Program(
    name="verifiers",
    title="verifiers and prime-rl",
    file="`results.jsonl` of `vf-eval` or `prime eval run`, or `traces.jsonl` of later releases",
    sample="a rollout; of an episode, the trace of each agent that is trained",
    verdict="`reward`, or a metric of 0 and 1",
    recognise=lambda source: _COLUMNS.issubset(source.first) or _EPISODE.issubset(source.first),
    read=_read,
)
