"""Surfaces, slices, fronts and importances: drawn of anything, and what they say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from sweep_cells import BOTH, MEMORY, PASS_1, RANGES, at, done

from sage_cli.reports.provenance import Provenance
from sage_cli.reports.sweeps import slices
from sage_cli.reports.sweeps.data import Axis, SweepTrial
from sage_cli.reports.sweeps.document import sweep_document
from sage_cli.reports.sweeps.scale import Scale
from sage_cli.reports.sweeps.surface import colour_region


def points(count: int) -> list[SweepTrial]:
    """Trials anywhere in the two ranges."""
    generator = np.random.default_rng(7)
    return [
        done(
            at(RANGES, generator.uniform(0.2, 0.8), 10 ** generator.uniform(-6, -3)),
            seed, generator.normal(0, 0.5), objectives=BOTH,
        )
        for seed in range(count)
    ]  # fmt: skip


NAMES = [one.name for one in BOTH]
ENDED = [
    SweepTrial(at(RANGES, 0.3, 1e-5), "failed", failure=MEMORY),
    SweepTrial(at(RANGES, 0.4, 1e-4), "pruned", pruned="by asha"),
    SweepTrial(at(RANGES, 0.5, 1e-4), "cancelled"),
    SweepTrial(at(RANGES, 0.6, 1e-4), "running"),
    SweepTrial(at(RANGES, 0.7, 1e-4), "left"),
]


@pytest.fixture
def surfaces(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """The values of every surface that is drawn."""
    found, original = [], Axes.tricontourf

    def noting(self, triangles, values, **words):
        found.append(values)
        return original(self, triangles, values, **words)

    monkeypatch.setattr(Axes, "tricontourf", noting)
    return found


def written(folder: Path, trials, axes=RANGES, objectives=BOTH, **more) -> dict[str, str]:
    """The pictures as SVG, by stem."""
    report = sweep_document(axes, objectives, trials, Provenance(), **more).write(folder)
    return {path.stem: path.read_text() for path in report.files if path.suffix == ".svg"}


def words_in(svg: str, *words: str) -> list[int]:
    return [svg.count(f"<!-- {one} -->") for one in words]


def test_a_surface_has_every_measured_point_and_the_others_by_their_state(
    tmp_path: Path, surfaces
) -> None:
    base = done({}, 99, -1, objectives=BOTH)
    found = written(tmp_path, points(12) + ENDED, base=base)
    assert set(found) == {"surface", "parallel", "slices", "pareto", "importance"}
    assert [len(values) for values in surfaces] == [12, 12]
    for stem in ("surface", "slices"):
        states = ("failed", "pruned", "cancelled", "running")
        assert words_in(found[stem], *states) == [1, 1, 1, 1], stem
    # the learning rate is searched by factors: its ticks are powers of ten
    assert words_in(found["surface"], "1e-06", "1e-05", "0.0001", "0.001") == [1, 1, 1, 1]
    assert words_in(found["slices"], "base") == [2]  # one beside each row
    assert words_in(found["pareto"], "base", "Pareto front") == [1, 1]
    for stem, count in (("surface", 2), ("slices", 2), ("pareto", 0)):
        assert found[stem].count("<!-- best less initial policy +0.") == count, stem
    assert found["pareto"].count(": best less initial policy +0.") == 2


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_points_make_no_surface(count: int, tmp_path: Path, surfaces) -> None:
    assert "surface" in written(tmp_path, points(count) + ENDED[:1])
    assert surfaces == []


def test_points_on_one_line_make_no_surface(tmp_path: Path, surfaces) -> None:
    # log10 of the learning rates goes up in step with tau
    line = [done(at(RANGES, 0.2 + 0.1 * n, 10.0 ** (n - 6)), n, objectives=BOTH) for n in range(4)]
    written(tmp_path / "aslant", line)
    level = [
        replace(trial, settings=at(RANGES, 0.5, 10.0 ** (n - 6))) for n, trial in enumerate(line)
    ]
    written(tmp_path / "upright", level)
    assert surfaces == []


def test_equal_values_make_no_surface_but_points(tmp_path: Path, surfaces) -> None:
    flat = [replace(trial, values=dict.fromkeys(NAMES, 0.5), counts=None) for trial in points(5)]
    assert words_in(written(tmp_path, flat)["surface"], "best") == [1]
    assert surfaces == []


def test_a_slice_shows_the_trials_that_have_its_parameter(tmp_path: Path) -> None:
    axes = (
        Axis("guide", "guide.name", ("none", "a-guide-of-ones-own-with-a-long-name")),
        RANGES[0],
    )
    trials = [
        done({"guide.name": "none"}, 1),
        done({"guide.name": axes[0].values[1], "guide.tau": 0.5}, 2, -2),
        SweepTrial({"guide.name": "none"}, "failed", failure=MEMORY),
    ]
    found = written(tmp_path, trials, axes, (PASS_1,))
    assert set(found) == {"parallel", "slices"}
    assert words_in(found["slices"], "none", "a-guide-of-ones-o…", "τ") == [1, 1, 1]


@pytest.mark.parametrize(
    ("gains", "known", "rings", "words"),
    [
        ((0.4, 0.4, -2), True, [0, 1], "indistinguishable from the best"),
        ((3, -2, -2), True, [0], "indistinguishable from the best"),
        ((0.4, 0.4, 0.4), True, [], "all trials are indistinguishable from the best"),
        ((0.4, 0.4, -2), False, [0, 1], "best"),  # they tie
    ],
)
def test_a_slice_rings_whoever_may_be_the_best(
    gains, known, rings, words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = [done(at(RANGES[:1], 0.3 + 0.1 * n), n * known, gain) for n, gain in enumerate(gains)]
    trials = trials if known else [replace(trial, counts=None) for trial in trials]
    ringed: list[float] = []

    def noting(axes, x, y, name, **changes):
        ringed.extend([x] if name == "best" else [])

    monkeypatch.setattr(slices, "mark", noting)
    found = written(tmp_path, trials, RANGES[:1], (PASS_1,))["slices"]
    assert ringed == pytest.approx([0.3 + 0.1 * n for n in rings])
    assert words_in(found, words, "noise unknown") == [1, int(not known)]


def test_one_parameter_has_a_line_through_its_points(tmp_path: Path) -> None:
    trials = [done(at(RANGES[:1], tau), n) for n, tau in enumerate((0.7, 0.3, 0.5))]
    assert set(written(tmp_path, trials, RANGES[:1], (PASS_1,))) == {"slices"}


def test_trials_of_the_front_are_numbered_as_in_the_table(tmp_path: Path) -> None:
    values = [(0.2, 0.9), (0.1, 0.1), (0.5, 0.5), (0.5, 0.5)]
    trials = [
        replace(trial, values=dict(zip(NAMES, value, strict=True)), counts=None)
        for trial, value in zip(points(4), values, strict=True)
    ]
    front = written(tmp_path, trials)["pareto"]
    assert words_in(front, "1", "3, 4", "2", "other trials", "noise unknown") == [1, 1, 0, 1, 1]


def test_an_importance_is_grey_where_no_effect_is_seen(tmp_path: Path) -> None:
    """The values of `points` do not depend on tau or lr."""
    found = written(tmp_path, points(12))["importance"]
    assert words_in(found, "τ", "lr") == [2, 2] or words_in(found, "τ", "lr") == [1, 1]
    assert words_in(found, "no effect seen")[0] >= 3  # of two parameters by two objectives


def test_places_on_an_axis() -> None:
    factors = Scale(RANGES[1], ())
    assert factors.place(1e-5) == pytest.approx(-5)
    # from -6 to -3, and 6 % of that on both sides
    assert factors.ends == pytest.approx((-6.18, -2.82))
    words = Scale(Axis("guide", "guide.name", ("none", "branch")), ())
    assert (words.place("branch"), words.ends) == (1.0, (-0.5, 1.5))
    assert Scale(Axis("x", "a.b", (2, 2)), ()).ends == (1.5, 2.5)


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ((0.0, 0.0), (0.0, 0.02)),  # nothing is below no problem solved
        ((0.5, 0.5), (0.48, 0.5)),
        ((0.01, 0.01), (0.0, 0.02)),
        ((0.2, 0.6), (0.2, 0.6)),
    ],
)
def test_a_surfaces_colours_end_where_values_do(values, ends):
    assert colour_region(np.array(values)) == (
        pytest.approx(ends[0]),
        pytest.approx(ends[1]),
        False,
    )
