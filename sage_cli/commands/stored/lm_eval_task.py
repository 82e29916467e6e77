"""A task of lm-eval for an exported model: prompts as sage renders them, and the same answer."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.models.policies.policy import Policy
from sage_cli.problems.template import PromptTemplate
from sage_cli.settings.sections.model import PromptSection
from sage_cli.settings.sections.sampling import SamplingSection
from sage_cli.store.atomic import write_text

FOLDER = "lm_eval"
_BOXED = r"\\boxed\{([^{}]*)\}"


@dataclass(frozen=True)
class LmEvalTask:
    """A task: its name, its YAML, and the rows of its data."""

    name: str
    description: dict[str, Any]
    rows: Sequence[dict[str, str]]

    def write(self, folder: Path) -> None:
        """Write `lm_eval/NAME.yaml` and `lm_eval/NAME.jsonl` below `folder`."""
        place = folder / FOLDER
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows)
        write_text(place / f"{self.name}.jsonl", lines)
        text = yaml.safe_dump(self.description, sort_keys=False, allow_unicode=True)
        write_text(place / f"{self.name}.yaml", text)


def lm_eval_task(policy: Policy, config: SageConfig) -> LmEvalTask:
    """Return the task of the configured benchmark, prompt and decoding.

    Raises ConfigurationError for several benchmarks, and for answers that are searched for in the
    whole text.
    """
    benchmarks = load_benchmarks(config.evaluation, config.data, config.grading.judge)
    if len(benchmarks) != 1:
        raise ConfigurationError(
            f"--lm-eval writes one task, and {config.evaluation.benchmark} is "
            f"{len(benchmarks)} benchmarks",
            "name one with --benchmark",
        )
    (benchmark,) = benchmarks
    section = config.prompt
    tokenizer = policy.tokenizer() if section.format == "chat" else policy.tokenizer_facts
    template = PromptTemplate.from_section(section, tokenizer)
    name = "sage_" + re.sub(r"\W+", "_", Path(benchmark.name).stem)
    return LmEvalTask(
        name,
        _description(name, section, config.sampling),
        [
            {"id": one.id, "prompt": template.render(one.question), "gold": one.gold}
            for one in benchmark.problems
        ],
    )


def _description(name: str, prompt: PromptSection, sampling: SamplingSection) -> dict[str, Any]:
    """Return the task as lm-eval reads it.

    Generation ends at the end of sequence alone, and the first closed tags count: there sage stops.
    A stop text would be cut off, and an answer that was truncated would look like a closed one.
    """
    tags = prompt.answer == "tags"
    opened, closed = re.escape(prompt.answer_open), re.escape(prompt.answer_close)
    pattern = rf"{opened}\s*([\s\S]*?)\s*{closed}" if tags else _BOXED
    greedy = sampling.temperature == 0 or sampling.top_k == 1
    decoding = {"top_p": sampling.top_p, "top_k": sampling.top_k, "min_p": sampling.min_p}
    neutral = {"top_p": 1.0, "top_k": 0, "min_p": 0.0}
    chosen = {key: value for key, value in decoding.items() if value != neutral[key]}
    # an absent top_k would be Transformers' 50
    random = {"temperature": sampling.temperature, "top_k": 0, **chosen}
    return {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": f"{FOLDER}/{name}.jsonl"}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{prompt}}",
        "doc_to_target": "{{gold}}",
        "generation_kwargs": {
            "until": [],
            "max_gen_toks": sampling.max_tokens,
            "do_sample": not greedy,
            **({} if greedy else random),
        },
        "filter_list": [
            {
                "name": "answer",
                "filter": [
                    {
                        "function": "regex",
                        "regex_pattern": pattern,
                        "group_select": 0 if tags else -1,
                        "fallback": "",
                    },
                    {"function": "take_first"},
                ],
            }
        ],
        "metric_list": [
            {
                "metric": "exact_match",
                "aggregation": "mean",
                "higher_is_better": True,
                "ignore_case": True,
            }
        ],
        "metadata": {"version": 1.0},
    }
