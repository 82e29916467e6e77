"""What a file would take in memory is counted before it is held, and never too low."""

import io
import json
import random
import subprocess
import sys
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sage_cli.errors import DataError
from sage_cli.problems.held_size import ALWAYS_HELD, RATIO, HeldSize
from sage_cli.problems.row_files import read_file

MEMORY_MB = 512
"""What a process may hold that refuses a file, with Python and pyarrow."""
READ = """
import re, sys
from pathlib import Path
from sage_cli.errors import DataError
from sage_cli.problems.row_files import read_file
try:
    rows = list(read_file(Path(sys.argv[1])))
except DataError as error:
    print(error.cause)
# the kernel's maximum of a process begins with that of the one which started it
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024)
"""


def read(path):
    """Return what refused a file in a process of its own, and the most memory that was held."""
    done = subprocess.run(
        [sys.executable, "-c", READ, path], capture_output=True, text=True, check=True
    )
    *said, peak_mb = done.stdout.splitlines()
    return "".join(said), int(peak_mb)


def held_by_python(value):
    """The bytes of a value and of all that is in it, each object as if it were there once."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    keys = value if isinstance(value, dict) else ()
    return sys.getsizeof(value) + sum(map(held_by_python, inner)) + sum(map(sys.getsizeof, keys))


def counted(text, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    size = HeldSize(file)
    size.add_json(io.BytesIO(text))
    return size._held


LEAF = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
JSON = st.recursive(
    LEAF, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=40
)


@settings(max_examples=50)
@given(value=JSON, compact=st.booleans(), ascii_=st.booleans())
def test_the_count_of_json_is_not_too_low(value, compact, ascii_, tmp_path_factory):
    """Of values that take something: a process holds a hundred bytes without noticing."""
    form = {"separators": (",", ":")} if compact else {}
    text = json.dumps([value] * 50, ensure_ascii=ascii_, **form).encode()
    folder = tmp_path_factory.getbasetemp()
    # the head of a text of several letters is 49 to 76 bytes, which two quotation marks, the
    # letters and the comma or colon behind them make up for; a table of a dictionary is 232
    assert counted(text, folder) >= 0.5 * held_by_python(json.loads(text))


@pytest.mark.parametrize(
    ("item", "bytes_"),
    [
        (b"[],", 64),  # an empty list of 56 and its place of 8
        (b"{},", 72),
        (b"1234567,", 36),
        (b'"abcdefgh",', 65),
        (b'{"a":1},', 192),  # the head and the table of a dictionary, and its place
        ('"\U0001f600aaaaaaaaaaaaaaaaaaaa",'.encode(), 168),  # 21 letters of 4 bytes, and 76 + 8
    ],
)
def test_what_costs_most_is_counted(item, bytes_, tmp_path):
    many = item * 100_000
    assert counted(b"[" + many[:-1] + b"]", tmp_path) >= 100_000 * bytes_


def test_prose_and_formulas_cost_little_more_than_their_letters(tmp_path):
    text = r"We have \frac{1}{2} + x_{3} = \sqrt{5}, so that f(x) is at most 7: done. " * 1000
    assert counted(json.dumps({"text": text}).encode(), tmp_path) < 4 * len(text)


def repeated(count, letters):
    """A text of so many letters in so many rows, stored once."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), ["x" * letters])


def dictionary_bomb(path):
    """3,000 rows of three columns that share one text of two megabytes: 18 GB."""
    columns = dict.fromkeys(("question", "gold", "completion"), repeated(3000, 2_000_000))
    pq.write_table(pa.table(columns), path, compression="zstd")


def nested_bomb(path):
    """The same inside lists inside objects."""
    turns = pa.ListArray.from_arrays(pa.array(range(0, 901, 3), pa.int32()), repeated(900, 10**6))
    rows = pa.StructArray.from_arrays([turns], ["turns"])
    pq.write_table(pa.table({"question": rows}), path, compression="zstd")


def many_rows(path):
    """Three million rows whose values are the same: some 900 MB of Python's objects."""
    columns = {name: pa.array(["q"] * 3_000_000) for name in ("question", "gold", "completion")}
    pq.write_table(pa.table(columns), path, compression="zstd")


def long_value(path):
    """One text of 135 MB, which is decompressed as a whole."""
    table = pa.table({"question": ["x" * 135_000_000]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False)


def many_values(path):
    """One column of 80 MB in 8,000 texts, which are decompressed little by little, and 32 more."""
    columns = {"text": [f"{n:08}" * 1250 for n in range(8000)]}
    columns |= {f"more{n}": repeated(8000, 1000) for n in range(32)}
    pq.write_table(pa.table(columns), path, compression="zstd", use_dictionary=["more0"])


BOMBS = [dictionary_bomb, nested_bomb, many_rows, long_value, many_values]


@pytest.mark.slow
@pytest.mark.parametrize("make", BOMBS)
def test_a_small_file_that_would_fill_the_memory_is_refused_before_it_does(make, tmp_path):
    path = tmp_path / "bomb.parquet"
    make(path)
    said, peak_mb = read(path)
    assert f"{path} would take more than 256 MiB of memory" in said
    assert peak_mb < MEMORY_MB


NOISE_MB = 8


def padded_parquet(path):
    """The bomb in a file of 8 MB, most of which is a column of noise."""
    noise = random.Random(1).randbytes(NOISE_MB * 2**20)
    columns = {"noise": pa.array([noise] + [b""] * 2999), "text": repeated(3000, 2_000_000)}
    pq.write_table(pa.table(columns), path, compression="zstd")


def padded_lines(path):
    """Rows of some 200 MB in a file of 8 MB, the last of which is torn."""
    noise = random.Random(1).randbytes(NOISE_MB * 2**20 * 3 // 4).hex()
    row = json.dumps({"question": "x" * 2000, "gold": "4", "completion": "5"}) + "\n"
    text = json.dumps({"question": noise}) + "\n" + row * 80_000 + '{"question": "torn'
    path.write_bytes(pa.Codec("zstd").compress(text.encode(), asbytes=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "name", "complaint"),
    [
        (padded_parquet, "bomb.parquet", "would take more than"),
        (padded_lines, "log.jsonl.zst", "line 80002, isn't JSON"),
    ],
)
def test_a_file_of_8_mb_is_refused_within_512_mb(make, name, complaint, tmp_path):
    """Whether it is for its size or, within the bound, for its last line."""
    path = tmp_path / name
    make(path)
    assert 5e6 < path.stat().st_size < NOISE_MB * 2**20 * 1.1
    said, peak_mb = read(path)
    assert complaint in said
    assert peak_mb < MEMORY_MB


def test_letters_of_four_bytes_are_counted_as_python_has_them(tmp_path):
    """1,000 letters of which one is an emoji take 4,000 bytes."""
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"text": ["x" * 999 + "\U0001f600"]}), path)
    size = HeldSize(path)
    with pq.ParquetFile(path) as file:
        size.add_parquet(file)
    assert size._held >= sys.getsizeof("x" * 999 + "\U0001f600")


def test_the_same_text_in_many_rows_is_read(tmp_path):
    """Samples of one problem repeat its question: 20,000 rows of 2 kB are 40 MB."""
    path, question = tmp_path / "log.parquet", "x" * 2000
    pq.write_table(pa.table({"question": [question] * 20_000}), path, compression="zstd")
    assert path.stat().st_size < 20_000
    assert sum(row["question"] == question for _, row in read_file(path)) == 20_000


def test_a_large_file_may_take_many_times_its_size(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b" " * 20_000_000)
    HeldSize(path).add(RATIO * 20_000_000)
    assert RATIO * 20_000_000 > ALWAYS_HELD
    with pytest.raises(DataError, match="would take more than 610 MiB"):  # 640e6 / 2^20
        HeldSize(path).add(RATIO * 20_000_000 + 1)


def test_a_flipped_byte_of_a_parquet_file_is_named(tmp_path):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"question": ["a"] * 50, "gold": ["4"] * 50}), path)
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        with suppress(DataError):  # and nothing else; some bytes say nothing of the rows
            list(read_file(path))
    path.write_bytes(whole[:-20] + bytes(20))
    with pytest.raises(DataError, match=f"{path} isn't a Parquet file"):
        list(read_file(path))
