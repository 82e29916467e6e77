"""A writer of samples that signals itself: python signalling_writer.py NUMBER PART MOMENT WORDS.

It does when it writes its PART-th part of a sample set: `writing`, half of it is on disk, or
`written`; with NUMBER 0 never. WORDS are a command line of `sage`, or `fill FOLDER PAUSE_S`: it
fills the set below FOLDER, with so many seconds a sample, and says what it drew as JSON. Chunks
are small then, so that writers meet often.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from sage_cli.cli.app import main
from sage_cli.evaluation.policy_sampler import fill
from sage_cli.store import sample_parts, sample_set
from sage_cli.store.completion import Completion
from sage_cli.store.sample_set import SampleIdentity, SampleSet

IDENTITY = SampleIdentity("model", "template", {}, 0)
PROMPTS = {f"p{i}": f"{i}+{i}=?" for i in range(6)}
N = 100
CHUNK, FLUSH_ROWS = 40, 10


def signal_at(number, part, moment):
    """Have this process send itself a signal at that moment of a part."""
    write, written = sample_parts.write_part, [0]

    def signalling(folder, *rest):
        written[0] += 1
        if written[0] == part and moment == "writing":
            (folder / ".part-half.parquet.0.tmp").write_bytes(b"half")
            os.kill(os.getpid(), number)
        path = write(folder, *rest)
        if written[0] == part and moment == "written":
            os.kill(os.getpid(), number)
        return path

    sample_set.write_part = signalling


class Slow:
    """Answers with the prompt and the index."""

    provenance: Mapping[str, str] = {"engine": "slow"}

    def __init__(self, pause_s):
        self._pause_s = pause_s

    def sample(self, requests):
        for request in requests:
            for index in request.indices:
                time.sleep(self._pause_s)
                text = f"{request.prompt}{index}"
                yield Completion(request.problem_id, index, request.seed, text, 3, "stop")


def fill_slowly(folder, pause_s):
    sample_set.CHUNK, sample_set._FLUSH_ROWS, sample_set._POLL_S = CHUNK, FLUSH_ROWS, 0.05
    drawn = []
    samples, sampler = SampleSet(Path(folder), IDENTITY), Slow(float(pause_s))

    def note(rows):
        drawn.extend((row.problem_id, row.index) for row in rows)

    fill(samples, PROMPTS, N, sampler, note)
    sys.stdout.write(json.dumps(drawn))


if __name__ == "__main__":
    number, part, moment, *words = sys.argv[1:]
    if number != "0":
        signal_at(int(number), int(part), moment)
    if words[0] == "fill":
        fill_slowly(*words[1:])
    else:
        sys.argv = ["sage", *words]
        main()
