"""Secrets that are given in every way they can be stand in no byte of what is written."""

import gzip
import io
import json
import re
import subprocess
import tarfile
import zipfile
from base64 import b64encode
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from endpoint import Endpoint, serving
from sweep_lab import SweepLab

pytestmark = pytest.mark.slow

SECRETS = {
    "SAGE_SERVER_API_KEY": "s3cret-of-the-key",
    "WANDB_API_KEY": "5ec" + "0123456789abcdef" * 2 + "e75ec",
    "HF_TOKEN": "hf_s3cretOfTheHub",
}
TYPED = ("s3cret-of-a-server", "s3cret%2Fof%20a%20server")
ANY_FORM = (*SECRETS.values(), *TYPED, "s3cret/of a server", "s3cret")
HOSTILE = (
    "7 \x1b]52;c;aGk=\x07 \x1b[2J \x9b31m \u202eevil\u2066 \x00\x7f\r ok\tand\nmore </SOLUTION>"
)


@pytest.fixture(scope="module")
def endpoint():
    """A server whose completions are commands for terminals."""

    def says(_, usual):
        usual[1]["choices"][0]["text"] = HOSTILE
        return usual

    made = Endpoint(models=[{"id": "served"}], says=says)
    with serving(made):
        yield made


@pytest.fixture(scope="module")
def lab(tmp_path_factory, warm, endpoint):
    """A folder in which a run, its measurement and a sweep were made."""
    folder = tmp_path_factory.mktemp("secrets")
    servers = [
        endpoint.address.replace("://", "://ann@"),
        endpoint.address.replace("127.0.0.1", "bob@localhost") + "/v1",
    ]
    passwords = dict(zip(servers, ("s3cret-of-a-server", "s3cret/of a server"), strict=True))
    words = (
        "--set",
        f"sampling.servers={json.dumps(servers)}",
        "--set",
        "sampling.server_model=served",
        "--set",
        "tracking.wandb=offline",
    )
    lab = SweepLab(
        folder,
        warm,
        words,
        {**SECRETS, "WANDB_MODE": "offline", "SAGE_PASSWORDS": json.dumps(passwords)},
    )
    presets = ("--preset", "tiny", "--preset", "small.yaml", *words)
    few = ("--set", "evaluation.samples=4", "--set", "evaluation.k=1..4:pow2")
    here(lab, "rl", *presets, *few, "--measure")
    here(lab, "passk", *presets, "--n", "4", "--k", "1,4", "rl-")
    lab.run("--space", lab.space([0], [0.8, 1.0]), "--workers", "1")
    return lab


def here(lab, *words, code=0):
    """What a command prints, on both streams."""
    done = subprocess.run(
        [lab.warm.sage, *words],
        cwd=lab.folder,
        env=lab.surroundings,
        text=True,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
    )
    assert done.returncode == code, done.stdout[-3000:]
    return done.stdout


def found_in(folder, secrets):
    """Which of `secrets` stands where below `folder`, in contents and in names of files."""
    wanted = list(secrets)
    pieces = [
        (f"{path.relative_to(folder)}{inside}", content)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
        for inside, content in _pieces(path.read_bytes())
    ]
    names = [(str(path), str(path).encode()) for path in folder.rglob("*")]
    return [
        (secret, where)
        for where, content in [*pieces, *names]
        for secret in wanted
        if secret.encode() in content
    ]


def _pieces(content, inside=""):
    """A file's content, and that of whatever is packed in it, with the way to it."""
    yield inside, content
    packed = []
    if content[:2] == b"\x1f\x8b":
        packed = [("gunzip", gzip.decompress(content))]
    elif content[:4] == b"PAR1":
        packed = [("rows", _rows(content))]
    elif content[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(content)) as folder:
            packed = [(name, folder.read(name)) for name in folder.namelist()]
    elif content[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(content)) as folder:
            files = [(one.name, folder.extractfile(one)) for one in folder if one.isfile()]
            packed = [(name, file.read()) for name, file in files if file is not None]
    elif content[:4] == b"\x28\xb5\x2f\xfd":
        with suppress(OSError):
            packed = [("unzstd", pa.input_stream(pa.BufferReader(content), "zstd").read())]
    for name, part in packed:
        yield from _pieces(part, f"{inside}!{name}")


def _rows(content):
    table = pq.ParquetFile(pa.BufferReader(content)).read()
    return repr((table.schema.metadata, table.to_pylist())).encode()


def test_no_byte_of_any_file_holds_one(lab):
    files = {path.suffix for path in lab.folder.rglob("*") if path.is_file()}
    assert {".json", ".parquet", ".log", ".wandb", ".jsonl", ".md"} <= files
    assert found_in(lab.folder / "runs", ANY_FORM) == []
    assert found_in(lab.folder, ANY_FORM) == []
    # the search itself finds what is there, packed or not
    where = {Path(name.split("!")[0]).suffix for _, name in found_in(lab.folder, ["served"])}
    assert {".json", ".parquet"} <= where
    assert found_in(lab.folder, ["evil"])


def test_the_servers_were_told_them_and_are_named(lab, endpoint):
    """Also by the tasks of the sweep, which get them in their environment."""
    pairs = ("ann:s3cret-of-a-server", "bob:s3cret/of a server")
    basic = {f"Basic {b64encode(pair.encode()).decode()}" for pair in pairs}
    assert set(endpoint.authorizations) == basic
    address = endpoint.address.removeprefix("http://")
    manifests = [path.read_text() for path in lab.folder.glob("runs/rl-*/manifest.json")]
    assert all(f"ann@{address}" in manifest for manifest in manifests)
    log = next(lab.folder.glob("runs/sweeps/*/tasks/rl-*.log")).read_text()
    assert f"is sampled by http://ann@{address}" in " ".join(log.split())


def test_files_that_name_services_are_their_owners_alone(lab, endpoint):
    address = endpoint.address.removeprefix("http://").encode()
    ours = (".json", ".log")
    naming = [
        path
        for path in lab.folder.glob("runs/**/*")
        if path.suffix in ours and "wandb" not in path.parts and address in path.read_bytes()
    ]
    assert {"config.json", "manifest.json"} <= {path.name for path in naming}
    assert {path.suffix for path in naming} == set(ours)
    assert [path for path in naming if path.stat().st_mode & 0o077] == []


def test_a_run_alone_sends_nothing_to_the_servers_of_its_configuration(lab, endpoint):
    """Not even to read what is stored: the samples of a server are another set."""
    before = len(endpoint.authorizations)
    run = next(lab.folder.glob("runs/rl-*")).name
    here(lab, "passk", run, "--n", "2", "--k", "1,2")
    assert len(endpoint.authorizations) == before


def test_completions_are_shown_and_not_obeyed(lab):
    (run,) = (path.name for path in lab.folder.glob("runs/rl-*") if "faulty" not in path.name)
    words = ("samples", "show", run, "--preset", "tiny", "--preset", "small.yaml", *lab.words)
    shown = here(lab, *words, "--limit", "1")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    said = r"7 \x1b]52;c;aGk=\x07 \x1b[2J \x9b31m \u202eevil\u2066 \x00\x7f\x0d ok"
    assert said in shown
    assert "and\nmore" in shown
    printed = here(lab, *words, "--limit", "1", "--json")
    text = printed[printed.index("{") :]
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    (one,) = json.loads(text)["samples"]
    assert one["completion"]["text"] == HOSTILE
