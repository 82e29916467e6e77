"""A folder is replaced wholly or left as it was."""

import pytest

from sage_cli.store.files import replacing_folder


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_new_folder_appears_with_everything_in_it(tmp_path):
    with replacing_folder(tmp_path / "deep" / "new") as temporary:
        (temporary / "inner").mkdir()
        (temporary / "inner" / "file").write_text("x")
        assert not (tmp_path / "deep" / "new").exists()
    assert (tmp_path / "deep" / "new" / "inner" / "file").read_text() == "x"
    assert names(tmp_path / "deep") == ["new"]


def test_the_old_content_is_gone(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old").write_text("old")
    with replacing_folder(tmp_path / "a") as temporary:
        (temporary / "new").write_text("new")
        assert (tmp_path / "a" / "old").read_text() == "old"
    assert names(tmp_path / "a") == ["new"]
    assert names(tmp_path) == ["a"]


def test_an_error_leaves_the_old_folder_and_nothing_beside(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old").write_text("old")

    def fill_until_the_disk_is_full():
        with replacing_folder(tmp_path / "a") as temporary:
            (temporary / "new").write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk"):
        fill_until_the_disk_is_full()
    assert names(tmp_path / "a") == ["old"]
    assert names(tmp_path) == ["a"]


def test_a_link_keeps_pointing_to_the_folder_it_named(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "old").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with replacing_folder(tmp_path / "link") as temporary:
        (temporary / "new").write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "real") == ["new"]
    assert names(tmp_path) == ["link", "real"]
