""""""

import json

import pytest

from sage_cli.errors import DataError
from sage_cli.evaluation.counted_files import read_counts

EXPECTED = {"a": (3, 2), "7": (1, 0)}


def found(path):
    counts = read_counts(path)
    return {
        id_: (int(n), int(c))
        for id_, n, c in zip(counts.problem_ids, counts.n_P, counts.c_P, strict=True)
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.csv", "problem,correct\na,true\n7,0\na,False\na,1\n"),
        ("x.csv", "\ufeffproblem,n,c,note\na,3,2,hard\n7,1,0,\n"),
        (
            "x.jsonl",
            '{"problem": "a", "correct": [true, false, 1]}\n\n{"problem": 7, "correct": false}\n',
        ),
        ("x.jsonl", '{"problem": "a", "n": 3, "c": 2}\n{"problem": 7, "n": 1, "c": 0}'),
        ("x.json", '[{"problem": "a", "n": 3, "c": 2}, {"problem": 7, "correct": 0}]'),
        (
            "x.json",
            '{"k": [1], "problems": [{"problem": "a", "n": 3, "c": 2},'
            ' {"problem": "7", "n": 1, "c": 0}]}',
        ),
    ],
)
def test_reads_samples_and_counts(name, text, tmp_path):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert found(tmp_path / name) == EXPECTED


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.csv", "problem,correct\na,true\na,maybe\n", "line 3: correct is 'maybe'"),
        ("x.csv", "problem,right\na,true\n", "line 2: neither 'correct' nor 'n'"),
        ("x.csv", "problem,n,c\na,3,4\n", "line 2: problem 'a': c = 4 is more than n = 3"),
        ("x.csv", "problem,n,c\na,0,0\n", "line 2: problem 'a' has no samples"),
        ("x.csv", "problem,n,c\na,3,-1\n", "line 2: c is '-1'"),
        ("x.csv", "problem,n,c\na,3\n", "line 2, has 2 values, but the first line has 3"),
        ("x.csv", "problem,n,c\na,3,1\na,3,1\n", "line 3: problem 'a' was counted before"),
        ("x.csv", "problem,n,c\n,3,1\n", "line 2: no 'problem'"),
        (
            "x.jsonl",
            '{"problem": "a", "correct": 1}\n{"problem": "a", "n": 3, "c": 2}\n',
            "line 2: problem 'a' was counted before",
        ),
        (
            "x.jsonl",
            '{"problem": "a", "n": 3, "c": 2}\n{"problem": "a", "correct": 1}\n',
            "line 2: problem 'a' was counted before",
        ),
        ("x.jsonl", '{"problem": "a", "correct": 1}\n{"problem"\n', "line 2, isn't JSON"),
        ("x.jsonl", '{"problem": "a", "correct": []}\n', "line 1: 'correct' is an empty list"),
        ("x.json", '[{"problem": "a", "correct": 1}, [1]]', "row 2, is a JSON list, not an object"),
        ("x.json", '[{"problem": "a", "n": 2.5, "c": 1}]', "row 1: n is 2.5"),
        ("x.json", '[{"problem": "a", "correct": null}]', "row 1: correct is None"),
        ("x.json", '{"a": 1}', "row 1: no 'problem'"),
        # problem 1 of one benchmark is another problem than problem 1 of the other
        ("x.csv", "benchmark,problem,correct\nx,1,1\ny,1,0\n", "line 3: .*'1' .*benchmark x and y"),
        (
            "x.jsonl",
            '{"model": "a", "problem": 1, "correct": 1}\n'
            '{"model": "b", "problem": 1, "correct": 0}\n',
            "line 2: .*'1' .*model a and b",
        ),
        ("x.json", "[", "isn't JSON"),
        ("x.json", "[]", "has no rows"),
        ("x.txt", "a", "neither JSONL, JSON, CSV nor Parquet"),
    ],
)
def test_malformed_rows_are_named(name, text, said, tmp_path):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=said):
        read_counts(tmp_path / name)


def test_all_malformed_rows_are_counted_and_other_files_read_or_named(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(json.dumps({"problem": i, "correct": "?"}) for i in range(9)))
    with pytest.raises(DataError, match=r"line 5: .*\nand 4 more") as caught:
        read_counts(path)
    assert "line 6" not in caught.value.cause
    with pytest.raises(DataError, match="there is no file"):
        read_counts(tmp_path / "none.csv")
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="isn't UTF-8"):
        read_counts(tmp_path / "x.csv")
    file = tmp_path / "counts.csv"
    file.write_text("problem;n;c\na;4;1\nb;4;2\n")
    counts = read_counts(file)
    assert list(counts.c_P) == [1, 2]
