"""Logs that would fill the memory are refused before they do, and damaged ones are named."""

import gzip
import io
import json
import re
import struct
import subprocess
import sys
import zipfile

import pyarrow as pa
import pytest

from sage_cli.errors import DataError
from sage_cli.evaluation.logs.registry import read_log

MEMORY_MB = 512
"""What a process may hold that refuses a file, with Python and pyarrow."""
READ = """
import re, sys
from pathlib import Path
from sage_cli.errors import DataError
from sage_cli.evaluation.logs.registry import read_log
try:
    read_log(Path(sys.argv[1]))
except DataError as error:
    print(error.cause)
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024)
"""
ROW = {"question": "2+2=?", "gold": "4", "completion": "4", "correct": True}
SAMPLE = {
    "id": 1,
    "epoch": 1,
    "input": "2+2",
    "target": "4",
    "output": {"choices": [{"message": {"content": "4"}, "stop_reason": "stop"}]},
    "scores": {"m": {"value": "C", "answer": "4"}},
}
HEADER = {"eval": {"model": "m", "task": "t"}, "status": "success", "plan": {}}


def packed(**files):
    """The bytes of an archive with a header and these files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(HEADER))
        for name, text in files.items():
            archive.writestr(f"samples/{name}.json", text)
    return content.getvalue()


def lists():
    return "[" + "[]," * 30_000_000 + "[]]"


def eval_of_lists():
    """An archive of 90 kB with 90 MB of empty lists, which are 1.9 GB of Python's objects."""
    return packed(one=lists())


def gzip_of_lists():
    return gzip.compress(json.dumps({**ROW, "x": 0}).replace("0", lists()).encode(), 5)


def zstd_of_rows():
    return pa.Codec("zstd").compress((json.dumps(ROW) + "\n").encode() * 4_000_000, asbytes=True)


def eval_of_texts():
    """Eight samples of 60 MB, each of which is read and dropped, but for its text."""
    samples = (json.dumps({**SAMPLE, "id": n, "input": "x" * 60_000_000}) for n in range(8))
    return packed(**{f"sample{n}": text for n, text in enumerate(samples)})


BOMBS = {
    "texts.eval": eval_of_texts,
    "lists.eval": eval_of_lists,
    "lists.jsonl.gz": gzip_of_lists,
    "rows.jsonl.zst": zstd_of_rows,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_a_small_log_that_would_fill_the_memory_is_refused_before_it_does(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(BOMBS[name]())
    words = [sys.executable, "-c", READ, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    *said, peak_mb = done.stdout.splitlines()
    assert re.search(r"would take more than \d+ MiB of memory", "".join(said))
    assert int(peak_mb) < MEMORY_MB


def test_a_log_may_be_much_larger_than_what_is_kept_of_it(tmp_path):
    """Events of an agent's samples, 8 MB each, are unpacked and dropped one after the other."""
    path, events = tmp_path / "log.eval", [{"event": "x" * 500}] * 16_000
    samples = {f"sample{n}": json.dumps({**SAMPLE, "id": n, "events": events}) for n in range(40)}
    path.write_bytes(packed(**samples))
    assert len(read_log(path).samples) == 40


WHOLE = packed(one=json.dumps(SAMPLE))
ENTRY = WHOLE.rindex(b"PK\x01\x02")
"""Where the archive's list has the sample: its flags are 8 bytes in, then come the method of
compression (10), the sizes packed and unpacked (20, 24) and the place (42)."""


def changed(at, form, value):
    content = bytearray(WHOLE)
    struct.pack_into(form, content, at, value)
    return bytes(content)


DAMAGED = {
    "a flipped byte": changed(len(WHOLE) // 2, "B", WHOLE[len(WHOLE) // 2] ^ 0xFF),
    "half": WHOLE[: len(WHOLE) // 2],
    "a list alone": WHOLE[-22:],
    "a smaller size": changed(ENTRY + 24, "<I", 5),
    "another compression": changed(ENTRY + 10, "<H", 93),
    "an unknown compression": changed(ENTRY + 10, "<H", 77),
    "a password": changed(ENTRY + 8, "<H", 1),
    "another place": changed(ENTRY + 42, "<I", 0xFFFFFFF0),
    "nesting": packed(one="[" * 100_000),
    "other types": packed(one=json.dumps({"id": [], "epoch": {}, "input": 5, "output": []})),
    "a number as scores": packed(one=json.dumps({**SAMPLE, "scores": [1, 2]})),
    "mixed epochs": packed(one=json.dumps(SAMPLE), two=json.dumps({**SAMPLE, "epoch": "x"})),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_archive_is_named(damage, tmp_path):
    path = tmp_path / "log.eval"
    path.write_bytes(DAMAGED[damage])
    with pytest.raises(DataError, match=re.escape(str(path))):
        read_log(path)


def test_any_flipped_byte_is_named_or_harmless(tmp_path):
    path = tmp_path / "log.eval"
    path.write_bytes(WHOLE)
    whole = read_log(path)
    for at in range(len(WHOLE)):
        path.write_bytes(changed(at, "B", WHOLE[at] ^ 0xFF))
        try:
            log = read_log(path)
        except DataError as error:
            assert str(path) in error.cause  # noqa: PT017  or it is harmless
        else:
            assert [sample.correct for sample in log.samples] == [
                sample.correct for sample in whole.samples
            ]


LM_EVAL = {
    "doc_id": 0,
    "arguments": {"gen_args_0": {"arg_0": "2+2=?", "arg_1": {"temperature": 0.8}}},
    "resps": [["4"]],
    "filtered_resps": ["4"],
    "filter": "none",
    "metrics": ["exact_match"],
    "exact_match": 1.0,
    "target": "4",
}
LIGHTEVAL = {
    "doc": {"id": "0", "query": "2+2=?", "choices": ["4"], "gold_index": 0},
    "model_response": {"text": ["4"]},
    "metric": {"em": 1.0},
}


@pytest.mark.parametrize(
    "row",
    [
        {**LM_EVAL, "filter": {"a": 1}},
        {**LM_EVAL, "arguments": []},
        {**LM_EVAL, "resps": 5},
        {**LM_EVAL, "metrics": [["a"]]},
        {**LM_EVAL, "doc_id": {"x": [1]}},
        {**LIGHTEVAL, "doc": {}},
        {**LIGHTEVAL, "metric": []},
        {**LIGHTEVAL, "model_response": {"text": [5]}},
        {**LIGHTEVAL, "doc": {"id": "0", "query": "q", "choices": 5, "gold_index": [0]}},
        {**LIGHTEVAL, "metric": {"em": 10**400}},
        {**ROW, "completions": {"a": 1}},
        {**ROW, "gold": {"a": 4}},
    ],
)
def test_values_of_other_types_are_read_or_named(row, tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(row) + "\n")
    try:
        read_log(path)
    except DataError as error:
        assert str(path) in error.cause  # noqa: PT017  or the program says nothing else by it
