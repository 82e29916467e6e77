"""Asks a server, as one that holds a reward model: {prompts, completions} there, {scores} back.

    SAGE_REWARD_URL=http://127.0.0.1:8765/score \\
        sage rl --set "rl.rewards=[grade, {name: examples/rewards/server.py:scores, weight: 0.5}]"

A server that doesn't answer in 20 s, or not with scores, ends the training, which the same command
resumes. What the server says is no part of the run's identity: note its model yourself.
"""

import os

import httpx

URL = os.environ.get("SAGE_REWARD_URL", "http://127.0.0.1:8765/score")


def scores(prompts, completions, **columns):
    asked = {"prompts": prompts, "completions": completions}
    with httpx.Client(timeout=20, trust_env=False) as client:  # no proxy between us and 127.0.0.1
        answer = client.post(URL, json=asked)
    answer.raise_for_status()
    return answer.json()["scores"]
