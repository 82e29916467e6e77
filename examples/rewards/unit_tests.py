"""Pays the share of a problem's `tests` that a program passes, each test in a limited process.

    sage rl --set data.rl.name=tasks.jsonl --set rl.rewards=examples/rewards/unit_tests.py:passes

A row of tasks.jsonl has `tests`, statements as "assert double(2) == 4"; the program is the last
```python block. Limited: processor time, wall time, memory, open files, writing to files, and where
`unshare` may make a namespace the network. Not limited: what it reads, as it runs as you do, and
what it prints. Programs that you don't trust belong in a container besides.
"""

import secrets
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

ALONE = ["unshare", "-Urn"] if not subprocess.call(["sh", "-c", "unshare -Urn true 2>&-"]) else []
LIMITED = """import resource as r, sys
r.setrlimit(r.RLIMIT_CPU, (2, 2)), r.setrlimit(r.RLIMIT_AS, (2**29, 2**29))
r.setrlimit(r.RLIMIT_FSIZE, (0, 0)), r.setrlimit(r.RLIMIT_NOFILE, (16, 16))
exec(compile(sys.stdin.read(), "program", "exec"), {"__name__": "__main__"})"""


def succeeds(program, test):
    told = secrets.token_hex(8)  # what ends before the test has passed doesn't say it
    source = f"{program}\n{test}\nprint({told!r}, flush=True)"
    words = [*ALONE, sys.executable, "-I", "-c", LIMITED]
    how = {"cwd": "/", "env": {}, "text": True, "capture_output": True, "timeout": 4}
    try:
        done = subprocess.run(words, input=source, **how)
    except subprocess.TimeoutExpired:
        return False
    return done.stdout.endswith(f"{told}\n")


def passes(completions, tests, **columns):
    programs = [text.rpartition("```python")[2].partition("```")[0] for text in completions]
    with ThreadPoolExecutor(4) as threads:
        found = [
            [threads.submit(succeeds, program, test) for test in those]
            for program, those in zip(programs, tests, strict=True)
        ]
    return [sum(one.result() for one in each) / len(each) if each else None for each in found]
