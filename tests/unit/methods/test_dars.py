"""DARS's second stage, by hand."""

from sage_cli.methods.dars import extra_rollouts


def test_the_harder_the_more():
    # N = 8. c = 0: a = 1/16, W = 15/128, 8 W = .9375; et (4 - .9375) / W = 26.1, at most 24;
    # hw (2 x 15/16 x 4 - .9375) / W = 56
    # c = 1: W = 7/32, 8 W = 1.75; et 2.25 / W = 10.3; hw (7 - 1.75) / W = 24
    # c = 2: W = 3/8; et 1 / W = 2.67; hw (6 - 3) / W = 8; c = 3: W = 15/32; et .53, hw 2.67
    assert [extra_rollouts(c, 8, "et", 32) for c in range(9)] == [24, 11, 3, 1, 0, 0, 0, 0, 0]
    assert [extra_rollouts(c, 8, "hw", 64) for c in range(9)] == [56, 24, 8, 3, 0, 0, 0, 0, 0]
