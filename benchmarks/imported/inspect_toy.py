"""Inspect evaluates its mock model on three problems, four epochs; the score is printed."""

import itertools
import json

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import GenerateConfig, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate

ANSWERS = ["ANSWER: 12", "the answer is 7", "12", "I do not know", "30"]


def outputs():
    """The answers in turn; usage is given, since counting tokens would ask the network."""
    for answer in itertools.cycle(ANSWERS):
        output = ModelOutput.from_content("mockllm/model", answer)
        output.usage = ModelUsage(input_tokens=5, output_tokens=3, total_tokens=8)
        yield output


task = Task(
    dataset=[
        Sample(input="3*4=?", target="12"),
        Sample(input="5*6=?", target="30"),
        Sample(input="2+5=?", target="7"),
    ],
    solver=generate(),
    scorer=match(numeric=True),
    epochs=4,
    name="toy",
    config=GenerateConfig(temperature=0.8, max_tokens=64, seed=7),
)
for form in ("eval", "json"):
    model = get_model("mockllm/model", custom_outputs=outputs())
    (log,) = eval(task, model=model, log_dir=f"inspect-{form}", log_format=form, display="none")
    score = log.results.scores[0].metrics["accuracy"].value
    whole = read_eval_log(log.location)
    for sample in whole.samples:  # of what happened, which makes a log large
        sample.events, sample.events_data, sample.attachments = [], None, {}
    write_eval_log(whole, f"inspect.{form}", format=form)
    print(json.dumps({"file": f"inspect.{form}", "score": score}))
