"""Whatever an archive says: nothing outside the folder of runs, nothing over what is there."""

import gzip
import hashlib
import io
import json
import re
import tarfile
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stored import completion, put

from sage_cli.commands.stored.archive import archive, restore
from sage_cli.errors import SageError
from sage_cli.models.policies.policy import Policy
from sage_cli.store.archives.listing import DATA, SAMPLE_DATA
from sage_cli.store.runs.run import Runs
from sage_cli.store.samples.sample_set import SampleIdentity, SampleSet

RUN, PARENT = "rl-dapo-22222222", "sft-base-11111111"
NAMES = [
    "../../out", "../out", "..", ".", "", "/", "/etc/x", ".lock", ".staged", "sweeps", "reports",
    "samples", "suites", "a/b", "a\\b", "\x1b]52;c;eA==\x07", "-rf", "rl-é", "\x00", "\u202ex",
    RUN, RUN.upper(), PARENT, "rl-other-33333333", "0" * 16,
]  # fmt: skip
INSIDE = [
    "config.json", "manifest.json", "metrics.jsonl", "model/weights-left-out.json",
    "model/config.json", "model/evil.py", "model/model.safetensors", "model/a.bin",
    "checkpoints/checkpoint-1/sealed.json", "../../../out.json", "../manifest.json", ".lock",
    "a/" * 12 + "x.json", "x" * 90 + ".json", "\x1b[2J.json", "set.json", "engines.json", "index",
    "grades/0/a.grades", "claims/x.json",
]  # fmt: skip
TEXTS = [
    b"", b"{}", b"[]", b"null", b"[" * 50_000, b"\xff\xfe", b'{"parent": "' + RUN.encode() + b'"}',
    b'{"parent": 5, "status": {}}', b'{"model": 5}', b'{"model": {"kind": "pretrained"}}',
    b'{"fingerprint": "../x"}', bytes(4096),
]  # fmt: skip


@contextmanager
def place():
    """An empty folder that nobody else has."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


def run_with_samples(runs, id_, parent):
    kind, label, _ = id_.split("-")
    run = runs.at(kind, label, id_.split("-")[-1])
    with run.recording({}, kind=kind, parent=parent):
        run.model.mkdir()
        (run.model / "config.json").write_text("{}")
        (run.model / "model.safetensors").write_bytes(id_.encode())
    samples = SampleSet(runs.root, SampleIdentity(Policy.of_run(run).fingerprint, "t", {}, 0))
    with samples.writing({"engine": "test"}):
        put(samples, completion(text=id_), completion(index=1, text=id_))
    return run


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """The members of an archive of a run and its base, and the base's folder of runs."""
    at = tmp_path_factory.mktemp("honest")
    runs = Runs(at / "runs")
    run_with_samples(runs, PARENT, None)
    run_with_samples(runs, RUN, PARENT)
    archive(runs.root, RUN, at / "run.tar.gz")
    with tarfile.open(at / "run.tar.gz") as tar:
        return {one.name: tar.extractfile(one).read() for one in tar.getmembers()}


names = st.sampled_from(NAMES) | st.text(max_size=12)
members = st.builds(
    "/".join,
    st.tuples(st.sampled_from(["runs", "samples", "..", "/"]), names, st.sampled_from(INSIDE)),
) | st.sampled_from(NAMES)
changes = st.one_of(
    st.tuples(st.just("runs"), st.lists(names, max_size=3)),
    st.tuples(st.just("sample_sets"), st.lists(names, max_size=3)),
    st.tuples(st.just("add"), members, st.sampled_from(TEXTS)),
    st.tuples(st.just("text"), st.integers(0, 30), st.sampled_from(TEXTS)),
    st.tuples(st.just("drop"), st.integers(0, 30)),
    st.tuples(st.just("rename"), st.sampled_from(NAMES)),
    st.tuples(st.just("list"), st.sampled_from(TEXTS)),
    st.tuples(st.just("size"), st.integers(0, 30), st.integers(-1, 2**70)),
    st.tuples(st.just("kind"), st.integers(0, 30), st.sampled_from(list(b"125346xgLKS"))),
    st.tuples(st.just("cut"), st.integers(0, 10**4)),
    st.tuples(st.just("tail"), st.binary(max_size=20)),
)


def forged(honest, wanted):
    """An archive as somebody builds it who knows how it is read: hashes and sizes fit, but where
    a change is about them."""
    said = json.loads(honest["archive.json"])
    content = {name: text for name, text in honest.items() if name != "archive.json"}
    lies, kinds, listing, cut, tail = {}, {}, None, None, b""
    for change, *what in wanted:
        at = sorted(content)[what[0] % len(content)] if isinstance(what[0], int) else None
        match change:
            case "runs" | "sample_sets":
                said[change] = what[0]
            case "add":
                content[what[0]] = what[1]
            case "text":
                content[at] = what[1]
            case "drop" if len(content) > 1:
                del content[at]
            case "rename":  # a run or a set by another name, its files with it
                old = f"/{RUN}/"
                content = {k.replace(old, f"/{what[0]}/"): v for k, v in content.items()}
                said["runs"] = [what[0] if id_ == RUN else id_ for id_ in said["runs"]]
            case "list":
                listing = what[0]
            case "size":
                lies[at] = what[1]
            case "kind":
                kinds[at] = bytes([what[1]])
            case "cut":
                cut = what[0]
            case "tail":
                tail = what[0]
    said["files"] = {
        name: {"bytes": lies.get(name, len(text)), "sha256": hashlib.sha256(text).hexdigest()}
        for name, text in content.items()
    }
    return packed(listing or json.dumps(said).encode(), content, kinds)[:cut] + tail


def packed(listing, content, kinds):
    sink = io.BytesIO()
    with (
        gzip.open(sink, "wb", compresslevel=1) as zipped,
        tarfile.open(
            fileobj=zipped, mode="w", format=tarfile.GNU_FORMAT, errors="surrogateescape"
        ) as tar,
    ):
        for name, text in {"archive.json": listing, **content}.items():
            info = tarfile.TarInfo(name.replace("\x00", "0"))
            info.size, info.type, info.linkname = len(text), kinds.get(name, b"0"), "../../out"
            tar.addfile(info, io.BytesIO(text))
    return sink.getvalue()


def seen(folder):
    """Every file below a folder with its content, links by where they lead."""
    return {
        str(path.relative_to(folder)): path.readlink()
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else None
        for path in folder.rglob("*")
    }


@given(st.lists(changes, max_size=4), st.booleans())
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_restoring_puts_nothing_outside_and_nothing_over_what_is_there(honest, wanted, with_base):
    with place() as above:
        root = above / "home" / "runs"
        runs = Runs(root)
        if with_base:  # trained here: its samples are the archive's, and its weights are here
            run_with_samples(runs, PARENT, None)
        for name in ("sweeps/x/state.json", "reports/y/y.json", ".lock"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("mine")
        (above / "out").write_text("mine")
        file = above / "run.tar.gz"
        file.write_bytes(forged(honest, wanted))
        before = seen(above)
        try:
            held, new = restore(root, file)
        except SageError:
            assert seen(above) == before
            return
        after = seen(above)
        assert {name: after.get(name) for name in before} == before
        grown = {name: text for name, text in after.items() if name not in before}
        for name, text in grown.items():
            assert name.startswith("home/runs/")
            assert not isinstance(text, Path)  # no links
            below = Path(name).relative_to("home/runs")
            assert below.parts[0] in (*new, "samples")
            assert text is None or below.suffix in DATA | SAMPLE_DATA
        for id_ in new:
            assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", id_)
            assert id_.lower() not in ("sweeps", "reports", "samples", "suites")
        assert RUN in new or wanted
        assert set(new) <= {run.id for run in runs.all()} <= {*held.runs, PARENT}
        for key in held.sample_sets:
            described = json.loads((root / "samples" / key / "set.json").read_text())
            samples = SampleSet(root, SampleIdentity(**described))
            list(samples.completions())
        assert Policy.of_run(runs.find(held.runs[0])).fingerprint


def test_the_honest_one_is_restored(honest):
    with place() as above:
        (above / "run.tar.gz").write_bytes(forged(honest, []))
        held, new = restore(above / "runs", above / "run.tar.gz")
        assert set(new) == {RUN, PARENT} == set(held.runs)
