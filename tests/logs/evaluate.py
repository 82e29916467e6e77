"""Inspect evaluates its mock model: python evaluate.py LOGS

LOGS is JSON, [epochs, prompt, answers] by the name of a log's folder. Prints accuracies by name.
Run by an environment that has Inspect and nothing of sage.
"""

import itertools
import json
import sys

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate

SUMS = {"3*4=?": "12", "5*6=?": "30", "2+5=?": "7"}


def outputs(answers):
    """The answers in turn; usage is given, since counting tokens would ask the network."""
    for answer in itertools.cycle(answers):
        output = ModelOutput.from_content("mockllm/model", answer)
        output.usage = ModelUsage(input_tokens=5, output_tokens=3, total_tokens=8)
        yield output


def accuracy(folder, epochs, prompt, answers):
    """Write a log into the folder and return the accuracy that Inspect tells."""
    samples = [Sample(input=prompt + sum_, target=gold) for sum_, gold in SUMS.items()]
    scorer = match(numeric=True)
    task = Task(dataset=samples, solver=generate(), scorer=scorer, epochs=epochs, name="sums")
    model = get_model("mockllm/model", custom_outputs=outputs(answers))
    (log,) = eval(task, model=model, log_dir=folder, display="none", max_samples=1)
    return log.results.scores[0].metrics["accuracy"].value


if __name__ == "__main__":
    logs = json.loads(sys.argv[1])
    accuracies = {folder: accuracy(folder, *asked) for folder, asked in logs.items()}
    sys.stdout.write(f"{json.dumps(accuracies)}\n")
