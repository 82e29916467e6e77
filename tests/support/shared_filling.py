"""A process that fills the sample set below argv[1] as fast as argv[2] says (seconds a sample).

Further arguments are those of `signalling_writer`. Says what it drew as JSON when it ends. Chunks
are small, so that writers meet often.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from signalling_writer import signal_at

from sage_cli.evaluation.measure import fill
from sage_cli.sampling.sampler import SampleRequest
from sage_cli.store import sample_set
from sage_cli.store.sample_parts import Completion
from sage_cli.store.sample_set import SampleIdentity, SampleSet

IDENTITY = SampleIdentity("model", "template", {}, 0)
PROMPTS = {f"p{i}": f"{i}+{i}=?" for i in range(6)}
N = 100
CHUNK, FLUSH_ROWS = 40, 10


class Slow:
    """Answers with the prompt and the index."""

    provenance: Mapping[str, str] = {"engine": "slow"}

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        for request in requests:
            for index in request.indices:
                time.sleep(self._pause_s)
                text = f"{request.prompt}{index}"
                yield Completion(request.problem_id, index, request.seed, text, 3, "stop")


def main() -> None:
    if len(sys.argv) > 3:
        number, part, moment = sys.argv[3:]
        signal_at(int(number), int(part), moment)
    sample_set.CHUNK, sample_set.FLUSH_ROWS, sample_set.POLL_S = CHUNK, FLUSH_ROWS, 0.05
    drawn: list[tuple[str, int]] = []
    fill(
        SampleSet(Path(sys.argv[1]), IDENTITY),
        PROMPTS,
        N,
        Slow(float(sys.argv[2])),
        lambda rows: drawn.extend((row.problem_id, row.index) for row in rows),
    )
    sys.stdout.write(json.dumps(drawn))


if __name__ == "__main__":
    main()
