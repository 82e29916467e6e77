"""Figures of curves, drawn for real."""

import numpy as np
import pytest
from matplotlib.figure import Figure as MatplotlibFigure

from sage_cli.metrics import Counts, curve, paired_difference
from sage_cli.reports.figures.curves import _limits, draw_curves, without_paths
from sage_cli.reports.figures.style import outputs
from sage_cli.settings.k_values import parse_ks

PNG = b"\x89PNG\r\n\x1a\n"


def some_curve(ks, seed=0):
    generator = np.random.default_rng(seed)
    c_P = generator.binomial(64, generator.beta(0.5, 2, 30))
    return curve(Counts(tuple(map(str, range(30))), np.full(30, 64), c_P), parse_ks(ks))


@pytest.fixture
def panel():
    return {"base": some_curve("1..64"), "cost $1 and $2": some_curve("1..64", seed=1)}


def test_draws_png_and_svg_with_every_label_and_power_of_two(panel, tmp_path):
    draw_curves({"AIME": panel}, tmp_path / "figures" / "passk.v1")
    png, svg = outputs(tmp_path / "figures" / "passk.v1")
    assert (png.name, svg.name) == ("passk.v1.png", "passk.v1.svg")
    assert png.read_bytes().startswith(PNG)
    drawn = svg.read_text()  # text is drawn as outlines, each with its words in a comment
    for words in ("AIME", "base", "cost $1 and $2", "pass@k", "1", "2", "4", "8", "16", "32", "64"):
        assert f"<!-- {words} -->" in drawn, words
    assert "<!-- 30 problems; pointwise 95% bands -->" in drawn
    assert sorted(path.name for path in png.parent.iterdir()) == [png.name, svg.name]


def test_same_curves_same_bytes_and_panels_share_one_legend(panel, tmp_path):
    draw_curves({"AIME": panel, "AMC23": panel}, tmp_path / "first")
    first = outputs(tmp_path / "first")
    draw_curves({"AIME": panel, "AMC23": panel}, tmp_path / "again")
    again = outputs(tmp_path / "again")
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes()
    draw_curves({"AIME": panel, "AMC23": {"base": panel["base"]}}, tmp_path / "two")
    _, svg = outputs(tmp_path / "two")
    assert svg.read_text().count("<!-- base -->") == 1


@pytest.mark.parametrize("panels", [1, 2])
def test_a_figure_is_drawn_once_for_each_file(panels, panel, tmp_path, monkeypatch):
    draws = []
    draw = MatplotlibFigure.draw

    def counted(figure, renderer):
        draws.append(type(renderer).__name__)
        draw(figure, renderer)

    monkeypatch.setattr(MatplotlibFigure, "draw", counted)
    draw_curves({f"b{place}": panel for place in range(panels)}, tmp_path / "x")
    assert draws == ["RendererAgg", "MixedModeRenderer"]


def some_difference(ks):
    a, b = (Counts(("p", "q", "r"), [64] * 3, c_P) for c_P in ([30, 64, 5], [20, 60, 9]))
    return paired_difference(a, b, parse_ks(ks))


@pytest.mark.parametrize("panels", [1, 2])
@pytest.mark.parametrize("ks", ["1..64:pow2", "8"])
def test_a_difference_has_a_panel_of_its_own_below_the_curves(panels, ks, tmp_path):
    curves = {"grpo": some_curve(ks), "base": some_curve(ks, seed=1)}
    names = [f"b{place}" for place in range(panels)]
    differences = {name: some_difference(ks) for name in names}
    draw_curves(dict.fromkeys(names, curves), tmp_path / "x", differences=differences)
    _, svg = outputs(tmp_path / "x")
    drawn = svg.read_text()
    assert drawn.count("<!-- difference -->") == 1
    assert drawn.count("<!-- grpo − base -->") == panels
    assert drawn.count("<!-- k (samples per problem) -->") == panels  # below the lower one alone


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("AIME 2024", "AIME 2024"),
        ("smollm2/test.jsonl", "smollm2 test"),
        (
            "/data/my-set/dev.parquet, correct by mine.py:near",
            "my-set dev, correct by mine.py:near",
        ),
        ("problems.csv", "problems"),
    ],
)
def test_a_title_names_a_file_without_its_path(title, shown):
    assert without_paths(title) == shown


def test_axes_show_no_value_that_cannot_be():
    ceiling = Counts(tuple("abc"), [4, 4, 4], [4, 4, 4])
    floor = Counts(tuple("abc"), [4, 4, 4], [0, 0, 0])
    low, high = _limits([curve(ceiling, (1, 4)), curve(floor, (1, 4))], 0.0)
    assert (low, high) == (0.0, 1.0)
    low, high = _limits([paired_difference(ceiling, floor, (1, 4))], -1.0)
    assert low >= -1.0
    assert high == 1.0


@pytest.mark.parametrize("ks", ["1", "7", "5..7", "1..64:pow2"])
def test_any_ks_can_be_drawn(ks, tmp_path):
    draw_curves({"AIME": {"base": some_curve(ks)}}, tmp_path / "any")
    png, _ = outputs(tmp_path / "any")
    assert png.read_bytes().startswith(PNG)
