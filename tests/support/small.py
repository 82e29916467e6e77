"""The preset that commands are typed with where any policy will do."""

SMALL = """
model: {hidden: 32, layers: 1, heads: 2, feed_forward: 64, max_positions: 96}
data:
  arithmetic:
    {low: 2, high: 6, held_out: 4, validation: 4, familiar_share: 1.0,
     phases: [{share: 1.0, mix: {D: 1}}]}
rollout: {max_tokens: 16}
sampling: {max_tokens: 16}
"""
"""Behind `tiny`: a few thousand weights, products of two digits, short answers."""


def write_small(folder, more):
    """Leave small.yaml in a folder; `more` says how long is trained, and how is measured."""
    (folder / "small.yaml").write_text(SMALL + more)
