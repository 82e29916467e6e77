"""Groups of equal grades are replaced by fresh prompts, within bounds, the same after resume."""

from types import SimpleNamespace

import pytest
import torch
from datasets import Dataset

from sage_cli.methods.hooks import DynamicSampling, equal_groups


def test_equal_groups_by_hand():
    right_PN = torch.tensor([[1, 1, 1], [0, 1, 0], [0, 0, 0], [1, 1, 0]])
    assert equal_groups(right_PN) == [0, 2]


class FakeTrainer:
    """Two rollouts per prompt; a prompt is right, wrong or mixed by its number modulo 3."""

    num_generations = 2
    accelerator = SimpleNamespace(process_index=0)
    state = SimpleNamespace(global_step=5)

    def __init__(self):
        self.asked = []
        self.away = []
        self.recorder = SimpleNamespace(record_replaced=self._replaced)

    def _replaced(self, step, rows, drawn, places):
        assert step == 6  # the first that trains on what is sampled after five steps
        assert [f"text {row['row']}" for row in rows] == drawn[2]
        self.away += [rows[place]["row"] for place in places]

    def generate_rows(self, rows):
        numbers = [row["row"] for row in rows]
        self.asked.append(numbers)
        return ([[n] for n in numbers], None, [f"text {n}" for n in numbers], {}, [])

    def grade_rows(self, rows, drawn):
        assert [f"text {row['row']}" for row in rows] == drawn[2]
        pairs = [(row["row"] % 3 == 0, row["row"] % 3 <= 1) for row in rows[::2]]
        return torch.tensor(pairs)  # 0: right, right; 1: wrong, right; 2: wrong, wrong


def rows_of(*numbers):
    return [{"row": number} for number in numbers for _ in range(2)]


def test_stale_groups_are_replaced_until_none_is_left():
    population = Dataset.from_dict({"row": [0, 2, 4, 1, 7, 10]}).select([0, 1, 2])
    # prompts by position: 0 -> right, 1 -> wrong (its number is 2), 2 -> mixed (its number is 4)
    sampling = DynamicSampling(population, bound=5, seed=0)
    trainer = FakeTrainer()
    rows, drawn = sampling.sample(trainer, rows_of(1, 0))
    assert [row["row"] for row in rows] == [1, 1, 4, 4]
    assert drawn[0] == [[1], [1], [4], [4]]
    assert drawn[1] is None
    assert trainer.asked == [[1, 1, 0, 0], [4, 4]]
    assert trainer.away == [0, 0]
    assert sampling.record == {"groups/discarded": 1, "groups/extra_generations": 1}


@pytest.mark.parametrize("bound", [0, 1, 2])
def test_the_bound_holds_and_discarded_groups_are_counted(bound):
    hopeless = Dataset.from_dict({"row": [3 * index for index in range(20)]})
    sampling = DynamicSampling(hopeless, bound=bound, seed=0)
    trainer = FakeTrainer()
    sampling.sample(trainer, rows_of(0, 3, 1))
    assert len(trainer.asked) == 1 + bound
    expected = {"groups/discarded": 2 * bound, "groups/extra_generations": bound}
    assert sampling.record == expected


def test_it_stops_where_no_fresh_prompt_is_left():
    sampling = DynamicSampling(Dataset.from_dict({"row": [0, 3]}), bound=5, seed=0)
    trainer = FakeTrainer()
    sampling.sample(trainer, rows_of(0, 1))
    assert sampling.record["groups/extra_generations"] == 0


def test_overlong_punishment_moves_lengths_not_the_reward(bench, configure):
    rl = {"steps": 3, "overlong_buffer": 0.5}
    records = bench.records(configure(rl=rl))
    for record in records:
        assert record["reward"] == pytest.approx(record["grade/right"] / 16)
        assert -1 <= record["reward/overlong"] < 0
