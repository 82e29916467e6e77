"""The example rewards and judges, called as a training and a grader call them."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sage_cli.config.load import load
from sage_cli.errors import TrainingError
from sage_cli.grading import Grader
from sage_cli.problems.problem import Problem
from sage_cli.settings.own_code import OwnFunction
from sage_cli.training.rewards import called_reward, problem_columns

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def rewards(name, completions, *, gold="27", lengths=None, **meta):
    """What an example says of the completions of one problem."""
    config = load(["tiny"], sets=[f"rl.rewards={EXAMPLES}/rewards/{name}"]).config
    columns = problem_columns([Problem("p", "toy", "3*9=?", gold, meta)])
    ids = [[1] * length for length in lengths or map(len, completions)]
    return called_reward(config.rl.rewards[0], config, columns)(
        row=[0] * len(ids),
        prompts=["3*9=?"] * len(ids),
        completions=completions,
        completion_ids=ids,
        gold=[gold] * len(ids),
        trainer_state=None,
    )


def test_form():
    answer = "<SOLUTION>27</SOLUTION>"
    texts = [f"3 times 9 is 27 {answer}\n", answer, f"{answer} indeed", "27", answer + answer]
    assert rewards("form.py:form", texts) == [1.0, 0.5, 0.0, 0.0, 0.0]


def test_length():
    """Lengths 2, 4, 6: .5 - 0/4, .5 - 2/4, .5 - 4/4; without the gold nothing above 0 is left."""
    assert rewards("length.py:shorter", ["27", "so 27", "well, 27"], lengths=[2, 4, 6]) == [
        0.5,
        0.0,
        -0.5,
    ]
    assert rewards("length.py:shorter", ["no", "so 27", "never"], lengths=[2, 4, 6]) == [
        0.0,
        0.0,
        -0.5,
    ]
    assert rewards("length.py:shorter", ["27", "27"]) == [0.0, 0.0]


TESTS = ["assert double(2) == 4", "assert double('a') == 'aa'"]
PROGRAMS = {
    "return 2 * x": 1.0,
    "return x + x": 1.0,
    "return 4": 0.5,
    "return x *": 0.0,
    "while True: pass": 0.0,
    "import time; time.sleep(60)": 0.0,
    "return len(bytearray(1 << 30)) and 2 * x": 0.0,
    "open('full', 'w').write('x' * 9999); return 2 * x": 0.0,
    "raise SystemExit(0)": 0.0,
    "import os; os._exit(0)": 0.0,
}


def test_unit_tests():
    texts = [f"It is\n```python\ndef double(x):\n    {body}\n```\n" for body in PROGRAMS]
    found = rewards("unit_tests.py:passes", [*texts, "no program"], tests=TESTS)
    assert found == [*PROGRAMS.values(), 0.0]
    assert rewards("unit_tests.py:passes", ["x"], tests=[]) == [None]


def test_programs_have_no_network_where_it_can_be_cut_off():
    passes = OwnFunction.parse(f"{EXAMPLES}/rewards/unit_tests.py:passes").load()
    if not passes.__globals__["ALONE"]:
        pytest.skip("this kernel makes no network namespaces for users")
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        port = server.server_address[1]
        connects = f"import socket; socket.create_connection(('127.0.0.1', {port}), 1)"
        text = f"```python\n{connects}\n```"
        assert rewards("unit_tests.py:passes", [text], tests=["pass"]) == [0.0]


@pytest.fixture
def server(monkeypatch):
    """A server that pays a tenth for each character, and fails for texts with an x."""

    class Scores(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found = [len(text) / 10 for text in asked["completions"]]
            self.send_response(500 if "x" in "".join(asked["completions"]) else 200)
            self.end_headers()
            self.wfile.write(json.dumps({"scores": found}).encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Scores) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{found.server_address[1]}/score"
        monkeypatch.setenv("SAGE_REWARD_URL", address)  # read when the file is loaded
        yield
        found.shutdown()


@pytest.mark.usefixtures("server")
def test_server():
    assert rewards("server.py:scores", ["abc", "ab"]) == [0.3, 0.2]
    with pytest.raises(TrainingError, match=r"(?s)500 Internal .*at completion 1 of 2"):
        rewards("server.py:scores", ["abc", "x"])


def test_near():
    """|26 - 27| / 27 = 1/27 away: 1 - 10/27."""
    with Grader(judge=f"{EXAMPLES}/judges/near.py:near") as grader:
        texts = [f"<SOLUTION>{one}</SOLUTION>" for one in ("27", "27.0", "26", "40", "many")]
        grades = grader.grade_many([("27", text) for text in texts])
    assert [grade.status for grade in grades] == ["right", "right", "wrong", "wrong", "wrong"]
    assert [grade.reward for grade in grades] == pytest.approx([1, 1, 1 - 10 / 27, 0, 0])
