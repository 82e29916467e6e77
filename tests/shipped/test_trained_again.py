"""The base that comes with sage is what `sage sft` trains here, within what processors differ by.

Not to the bit: another processor rounds otherwise, and two of them gave pass@1 of .229 and .275.
"""

import json
import subprocess
import sys

import pytest

ALIKE = 0.08
"""A difference of pass@1 that two processors may have: about twice the .046 that two had."""


@pytest.fixture
def sage(tmp_path):
    def type_(*words):
        command = [sys.executable, "-m", "sage_cli", *words, "--json"]
        typed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert typed.returncode == 0, typed.stderr
        return json.loads(typed.stdout)

    return type_


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_training_it_again_gives_a_policy_that_answers_alike(sage):
    trained = sage("sft", "--set", "tracking.wandb=off")
    (base,) = sage("rl", "--dry-run")["stages"][:1]
    assert base["run"] != trained["id"]
    compared = sage("compare", trained["id"], base["run"], "--n", "16", "--k", "1,8")
    found = compared["comparisons"]["arithmetic"]
    assert found["low"][0] < ALIKE
    assert found["high"][0] > -ALIKE
    # both are the start that the preset is made for: often wrong, and rarely without a chance
    for side in found["sides"]:
        pass_at_1, *_, pass_at_16 = side["pass@k"]
        assert 0.1 < pass_at_1 < 0.5 < pass_at_16
