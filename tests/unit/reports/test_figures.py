"""Pictures: their bytes, styles and legends, and curves with differences below."""

import numpy as np
import pytest
from matplotlib.figure import Figure as MatplotlibFigure

from sage_cli.metrics import Counts, curve, paired_difference
from sage_cli.reports.figures import (
    Legend,
    _limits,
    draw_curves,
    heights,
    outputs,
    series_styles,
    without_paths,
)
from sage_cli.reports.tables import Estimate, by_method, seed_title
from sage_cli.settings.k_values import parse_ks


def test_seeds_of_a_method_belong_together_in_the_order_in_which_they_are_shown():
    labels = [
        "base",
        seed_title("grpo", 1),
        "grpo, no KL",
        seed_title("grpo", 2),
        ", seed 3",
        "a, seed x",
    ]
    assert by_method(labels) == {
        "base": ["base"],
        "grpo": ["grpo, seed 1", "grpo, seed 2"],
        "grpo, no KL": ["grpo, no KL"],
        ", seed 3": [", seed 3"],
        "a, seed x": ["a, seed x"],
    }


@pytest.mark.parametrize(("methods", "seeds"), [(9, 1), (9, 3), (14, 3), (42, 1)])
def test_no_two_series_look_the_same_and_a_methods_seeds_share_its_colour(methods, seeds):
    names = [f"method {place}" for place in range(methods)]
    labels = [seed_title(name, seed) for name in names for seed in range(1, seeds + 1)]
    styles = series_styles(labels)
    lines = {(one["color"], str(one["linestyle"])) for one in styles.values()}
    points = {(one["color"], one["marker"]) for one in styles.values()}
    assert len(lines) == len(points) == methods * seeds
    for name in names:
        assert len({styles[seed_title(name, seed)]["color"] for seed in range(1, seeds + 1)}) == 1


def test_a_legend_has_as_many_columns_as_fit_and_even_rows():
    # 10 letters take .38 + .63 in, and .25 before the next: two take 2.27 in, three 3.53
    labels = [f"{place:10}" for place in range(5)]
    legend = Legend.from_labels(labels, 3.5)
    assert legend.columns == 2
    assert legend.height_in == pytest.approx(3 * 0.19)
    assert Legend.from_labels(labels, 3.6).columns == 3
    # four take 4.79 in, and five want two rows all the same: three and two
    assert Legend.from_labels(labels, 4.8).columns == 3
    assert Legend.from_labels([], 3.6).height_in == 0


def test_the_initial_policy_looks_the_same_in_every_picture():
    alone = series_styles(["base"])["base"]
    beside = series_styles(["grpo, seed 1", "grpo, seed 2", "base"])
    assert (
        beside["base"]
        == alone
        == series_styles(["a", "sft-arithmetic-12ab"])["sft-arithmetic-12ab"]
    )
    assert list(beside) == ["grpo, seed 1", "grpo, seed 2", "base"]
    many = series_styles([f"method {place}" for place in range(12)])
    assert alone["color"] not in {style["color"] for style in many.values()}
    two = series_styles(["sft-a", "sft-b"])
    assert two["sft-a"]["linestyle"] != two["sft-b"]["linestyle"]


HALF = Estimate(0.5)


def test_a_row_is_read_across_its_panels_its_points_around_its_middle():
    panels = {
        "pass@1": {"grpo": {"less base": HALF}, "branch": {"less base": HALF, "− grpo": HALF}},
        "pass@8": {"no KL": {"− grpo": HALF}},
    }
    # two points at most, and air for 1.5: a step is 1 / 3.5, half of it .142857
    assert heights(panels) == {
        "grpo": {"less base": 0.0},
        "branch": {"less base": pytest.approx(0.857143), "− grpo": pytest.approx(1.142857)},
        "no KL": {"− grpo": 2.0},
    }
    panels = {"a": {"grpo": {"one": HALF}}, "b": {"grpo": {"two": HALF}}}
    assert list(heights(panels)["grpo"]) == ["one", "two"]
    assert heights({}) == {}


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
