"""lighteval evaluates the toy model, one sample a problem and four; the scores are printed."""

import json
from pathlib import Path

import lighteval.tasks.registry as registry

# its own tasks ask the network when they are loaded
registry.Registry._load_from_files = staticmethod(lambda *_: {})
registry.Registry._load_from_subdirs = staticmethod(lambda *_: {})

from lighteval.logging.evaluation_tracker import EvaluationTracker  # noqa: E402
from lighteval.metrics.metrics import Metrics  # noqa: E402
from lighteval.models.model_input import GenerationParameters  # noqa: E402
from lighteval.models.transformers.transformers_model import TransformersModelConfig  # noqa: E402
from lighteval.pipeline import ParallelismManager, Pipeline, PipelineParameters  # noqa: E402
from lighteval.tasks.lighteval_task import LightevalTaskConfig  # noqa: E402
from lighteval.tasks.requests import Doc  # noqa: E402


def prompt(line, task_name=None):
    """A row of the data as lighteval's document."""
    return Doc(task_name=task_name, query=line["question"], choices=[line["gold"]], gold_index=0)


def task(name, metric):
    """A task on the toy data that samples one token."""
    return LightevalTaskConfig(
        name=name,
        prompt_function=prompt,
        hf_repo="toy-data",
        hf_subset="default",
        hf_avail_splits=["test"],
        evaluation_splits=["test"],
        generation_size=1,
        metrics=[metric],
        stop_sequence=["\n"],
    )


TASKS_TABLE = [
    task("toy1", Metrics.exact_match),
    task("toy4", Metrics.avg_at_n(sample_params={"n": 4})),
]

if __name__ == "__main__":
    pipeline = Pipeline(
        tasks="toy1|0,toy4|0",
        pipeline_parameters=PipelineParameters(
            launcher_type=ParallelismManager.ACCELERATE, custom_tasks_directory=__file__
        ),
        evaluation_tracker=EvaluationTracker(output_dir="lighteval", save_details=True),
        model_config=TransformersModelConfig(
            model_name="acme/toy",
            device="cpu",
            batch_size=8,
            generation_parameters=GenerationParameters(temperature=1.0, seed=3),
        ),
    )
    pipeline.evaluate()
    pipeline.save_and_push_results()
    for name, scores in pipeline.get_results()["results"].items():
        if name != "all":
            (score,) = (v for key, v in scores.items() if not key.endswith("_stderr"))
            short = name.partition(":")[0]
            (file,) = Path("lighteval/details").rglob(f"details_{short}*.parquet")
            print(json.dumps({"file": str(file), "score": float(score)}))
