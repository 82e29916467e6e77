"""One JSON object in a file: whole, torn, or absent."""

import pytest

from sage_cli.errors import StoreError
from sage_cli.store.files import read_object


def test_a_whole_file(tmp_path):
    (tmp_path / "a.json").write_text('{"τ": 0.5}', encoding="utf-8")
    assert read_object(tmp_path / "a.json", "mend it") == {"τ": 0.5}


@pytest.mark.parametrize("torn", [b"", b'{"a": 1', b"[1]", b'"text"', b"\xff", b"[" * 10**5])
def test_a_torn_file_is_named_with_what_to_do(tmp_path, torn):
    (tmp_path / "a.json").write_bytes(torn)
    with pytest.raises(StoreError, match=r"a\.json is torn or was edited: ") as caught:
        read_object(tmp_path / "a.json", "mend it")
    assert caught.value.next_step == "mend it"


def test_an_absent_file_is_not_a_torn_one(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_object(tmp_path / "a.json", "mend it")
