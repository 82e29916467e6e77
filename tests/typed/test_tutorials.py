"""Every command of the tutorials runs as it is printed, on a model that trains in seconds."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from string import Template

import pytest
import yaml
from own_model import tokenizer
from random_model import random_model
from small import write_small

REPOSITORY = Path(__file__).resolve().parents[2]
INSTALLING = re.compile(r"^(pip install|make \.venv/|source \.venv/).*\n", re.MULTILINE)
RECIPE = REPOSITORY / "docs/tutorials/instruct-model.md"
TUTORIALS = sorted({*(REPOSITORY / "docs/tutorials").glob("*.md")} - {RECIPE})
LANGUAGE_MODEL = REPOSITORY / "docs/language-model.md"
LEFT = {
    "first-result": ("my-study/README.md", "runs/reports/passk-*/passk.png"),
    "own-model": ("own/my-policy/sage.json",),
    "own-study": ("study/my-policy/README.md",),
    "suite": ("runs/suites/demo-*/report/demo.html",),
    "view": ("page/index.html",),
}
"""What a page says that its commands leave in the folder."""
MORE = """
sft: {steps: 40, batch_size: 32, max_length: 48, learning_rate: 1.0e-2}
rl: {steps: 2, prompts_per_step: 4, rollouts_per_prompt: 4, stop_when_stuck: false}
evaluation: {bootstrap: 100}
sweep: {steps: 1, samples: 64}
tracking: {wandb: off}
"""
LM = """
sft: {steps: 1, batch_size: 2}
rl: {prompts_per_step: 2, rollouts_per_prompt: 2, micro_batch: 2, stop_when_stuck: false}
rollout: {max_tokens: 4}
sampling: {max_tokens: 4}
tracking: {wandb: off}
"""
SAGE = f"""#!{sys.executable} -IS
# `sage` with small settings behind those that were typed.
import os, sys

words = sys.argv[1:]
others = "--preset" in words and words[words.index("--preset") + 1] != "tiny"
others |= words[1:2] == ["theirs"]  # imported samples have settings of their own
searching = words[0] == "sweep" and words[1:2][0].startswith("-")
measuring = words[0] in ("rl", "sft", "passk", "compare") or searching or " ".join(words[:2]) in (
    "suite run", "suite plan", "suite report", "samples tokens", "samples show"
)
measuring |= words[0] == "analyze" and "own.yaml" in words  # as `compare` measured
if measuring and not others:
    tiny = [] if "--preset" in words else ["--preset", "tiny"]
    words += [*tiny, "--preset", "PRESET"]
os.execv("WARM", ["sage", *words])
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory, warm):
    """A folder with a `sage` of its own, in which the tutorials are followed one after another."""
    folder = tmp_path_factory.mktemp("tutorials")
    write_small(folder, MORE)
    (folder / "bin").mkdir()
    sage = folder / "bin/sage"
    sage.write_text(SAGE.replace("PRESET", str(folder / "small.yaml")).replace("WARM", warm.sage))
    sage.chmod(0o755)
    shutil.copytree(REPOSITORY / "examples", folder / "examples")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-index",
            "--no-build-isolation",
            "--no-deps",
            "--target",
            str(folder / "site"),
            str(folder / "examples"),
        ],
        check=True,
    )
    return folder


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda file: file.stem)
def test_a_tutorial_can_be_followed(lab, tutorial):
    follow(lab, tutorial)
    for left in LEFT.get(tutorial.stem, ()):
        assert list(lab.glob(left)), left


def test_the_page_on_a_language_model_can_be_followed(tmp_path, warm):
    words = tokenizer()
    random_model(words, max_position_embeddings=1024).save_pretrained(tmp_path / "model")
    words.save_pretrained(tmp_path / "model")
    (tmp_path / "lm.yaml").write_text("model: {path: model}\n" + LM)
    asdiv = {"body": "Ann", "question": "1+1=?", "answer": "2 (pens)", "formula": "1+1=2"}
    svamp = {"Body": "1+1", "Question": "How many?", "Equation": "( 1.0 + 1.0 )", "Answer": 2.0}
    stories = [{**svamp, "Body": f"story {i // 2}"} for i in range(900)]
    (tmp_path / "train").mkdir()
    (tmp_path / "train/asdiv.jsonl").write_text((json.dumps(asdiv) + "\n") * 40)
    (tmp_path / "train/svamp.jsonl").write_text("\n".join(json.dumps(row) for row in stories))
    (tmp_path / "bin").mkdir()
    sage = tmp_path / "bin/sage"
    sage.write_text(f'#!/bin/sh\n[ $1 = rl ] && set -- "$@" -p lm.yaml\nexec {warm.sage} "$@"\n')
    sage.chmod(0o755)
    shutil.copytree(REPOSITORY / "examples", tmp_path / "examples")
    follow(tmp_path, LANGUAGE_MODEL, SAGE_DATA=str(tmp_path))


def test_the_recipe_for_an_instruct_model_can_be_followed(tmp_path, warm):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sage").symlink_to(warm.sage)  # the page's own preset has all settings
    shutil.copytree(REPOSITORY / "examples", tmp_path / "examples")
    follow(tmp_path, RECIPE, {"steps: 20": "steps: 3", "--steps 2": "--steps 1"})
    study = tmp_path / "math-study"
    guided, unguided = (
        {
            json.loads(file.read_text())["rl"]["seed"]
            for file in study.glob(f"runs/{of}-*/config.json")
        }
        for of in ("rl-grpo-branch", "rl-grpo-kl")
    )
    assert guided == unguided == {1, 2, 3}
    assert len(list(study.glob("runs/reports/compare-*/compare.md"))) == 2
    assert (study / "my-policy/sage.json").is_file()


def test_the_recipe_shows_the_preset_that_init_writes():
    template = (REPOSITORY / "templates/own-model/preset.yaml").read_text()
    written = Template(template).substitute(
        model="meta-llama/Llama-3.2-3B-Instruct",
        data="problems.jsonl",
        train="problems.jsonl:train",
        dev="problems.jsonl:dev",
        format="chat",
    )
    blocks = re.findall(r"^```yaml\n(.*?)^```", RECIPE.read_text(), re.DOTALL | re.MULTILINE)
    assert yaml.safe_load(blocks[0]) == {
        name: section for name, section in yaml.safe_load(written).items() if name != "sweep"
    }


def follow(folder, page, changes=(), **environment):
    """Type a page's commands in a folder, with the `sage` that is there: nothing is installed.

    `changes` replaces texts in the commands, for example a number of steps by a smaller one.
    """
    script = INSTALLING.sub("", commands(page))
    assert "sage " in script
    for text, smaller in dict(changes).items():
        assert text in script
        script = script.replace(text, smaller)
    done = subprocess.run(
        ["bash", "-ex", "-c", script],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": f"{REPOSITORY}:{folder / 'site'}",
            "OMP_NUM_THREADS": "1",
            **environment,
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def test_every_tutorial_of_the_site_is_typed():
    nav = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text())["nav"]
    (tutorials,) = (part["Tutorials"] for part in nav if "Tutorials" in part)
    pages = {REPOSITORY / "docs" / page for entry in tutorials for page in entry.values()}
    assert 4 <= len(pages) <= 8
    assert pages <= {*TUTORIALS, RECIPE, LANGUAGE_MODEL}


def test_the_first_tutorial_begins_with_a_result_and_ends_with_a_study():
    commands = [line.split()[1] for line in typed("first-result")]
    assert commands[:2] == ["rl", "passk"]
    assert commands[-1] == "init"


def test_a_study_with_everything_ones_own_takes_at_most_twelve_commands():
    lines = typed("own-study")
    assert len(lines) <= 12
    assert {"rl", "compare", "analyze", "export"} <= {line.split()[1] for line in lines}


def typed(tutorial):
    """Return the commands of a tutorial, as one types them."""
    page = REPOSITORY / f"docs/tutorials/{tutorial}.md"
    return re.findall(r"^(?:sage|python|pip) .*", commands(page), re.MULTILINE)


def commands(page):
    """What stands in a page's blocks marked `bash`."""
    blocks = re.findall(r"^```bash\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    return "\n".join(blocks)
