"""Search spaces: from a file to cells in absolute values."""

import pytest

from sage_cli.errors import ConfigurationError
from sage_cli.sweep.space import SpaceFile, resolve, space_file

CONFIGURED = {"guide.tau": 0.465, "guide.rho": 0.775, "guide.name": "branch"}


def test_the_shipped_grid_around_the_configured_pair():
    space = resolve("tau,rho", space_file("tau, rho"), CONFIGURED)
    # 0.465 x (2/3, 1, 5/3) and 0.775 x (1/3, 1, 5/3)
    assert space.values["tau"] == pytest.approx((0.31, 0.465, 0.775), abs=1e-6)
    assert space.values["rho"] == pytest.approx((0.258333, 0.775, 1.291667), abs=1e-6)
    cells = list(space.cells())
    assert len(cells) == 9
    assert cells[0] == {"guide.tau": 0.31, "guide.rho": 0.258333}
    assert cells[1] == {"guide.tau": 0.31, "guide.rho": 0.775}  # the last parameter fastest


def test_absolute_values_need_no_configured_centre():
    file = SpaceFile.model_validate({"parameters": {"b": {"key": "anchor.beta", "values": [1, 2]}}})
    assert list(resolve("own", file, {}).cells()) == [{"anchor.beta": 1.0}, {"anchor.beta": 2.0}]


def test_times_needs_a_number_to_multiply():
    with pytest.raises(ConfigurationError, match=r"multiplies guide.tau, which is None here"):
        resolve("tau,rho", space_file("tau,rho"), {"guide.name": "none"})


def test_an_unknown_space_names_the_known():
    with pytest.raises(ConfigurationError, match="no search space 'tau,roh'; there are ") as caught:
        space_file("tau,roh")
    assert caught.value.next_step == "did you mean tau-rho?"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("parameters: {}", "parameters: "),
        ("parameters: {tau: {key: guide.tau}}", "either `values` or `times`"),
        ("parameters: {tau: {key: a.b, values: [1], times: [1]}}", "either `values` or `times`"),
        ("parameters: {tau: {key: a.b, vlaues: [1]}}", "parameters.tau.vlaues: "),
        ("- tau", "its top level must be names"),
        ("parameters: {tau: {key: a.b, times: []}}", "at least one value"),
        ("parameters: {tau: {key: a.b, values: [1, 1.0]}}", "twice"),
    ],
)
def test_files_that_are_no_space(tmp_path, text, said):
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        space_file(str(path))
    assert said in caught.value.cause
    assert str(path) in caught.value.cause
