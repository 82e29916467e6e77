"""Numbers as people read them."""

import pytest

from sage_cli.reports.estimate import Estimate, p_value


@pytest.mark.parametrize(
    ("measure", "text"),
    [
        (Estimate(0.12345), "0.123"),
        (Estimate(0.12345, 0.01), "0.123 ± 0.010"),
        (Estimate(0.12345, float("nan")), "0.123"),
        (Estimate(-0.5, interval=(-0.75, 0.25), signed=True), "−0.500 [−0.750, 0.250]"),
        (Estimate(0.5, interval=(0.25, 0.75)), "0.500 [0.250, 0.750]"),
        (p_value(0.7541), "0.75"),
        (p_value(1.0), "1.0"),
        (p_value(0.5), "0.50"),
        (p_value(0.03096), "0.031"),
        (p_value(0.00012), "0.00012"),
        (p_value(0.00001), "<0.0001"),
        (p_value(0.003, below=0.05), "<0.05"),
        (Estimate(0.5, signed=True), "+0.500"),
        (Estimate(0.00012, digits=4), "0.0001"),
        (Estimate(float("nan"), 0.1), "–"),
    ],
)
def test_measures_read_as_people_write_them(measure, text):
    assert str(measure) == text


def test_the_opposite_difference_has_the_opposite_interval_and_its_zero_has_no_sign():
    found = Estimate(0.1, interval=(-0.2, 0.0), signed=True)
    # b − a of a − b: both ends change sign and place; 0 − 0 is 0 and not −0
    assert str(found.negated()) == "−0.100 [0.000, 0.200]"
    assert found.negated().negated() == found
    assert Estimate(0.0).negated().interval is None
    assert str(Estimate(0.0).negated()) == "0.000"
