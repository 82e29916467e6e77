"""Pays right answers for being short, within their group (as Kimi k1.5's length reward).

    sage rl --set "rl.rewards=[grade, {name: examples/rewards/length.py:shorter, weight: 0.1}]"

Among the completions of one problem in the batch the shortest gets 0.5, the longest -0.5; a gold
that isn't in the text takes away what would be above 0.
"""


def shorter(prompts, completions, completion_ids, gold, **columns):
    lengths = [len(ids) for ids in completion_ids]
    rewards = []
    for prompt, text, right, length in zip(prompts, completions, gold, lengths, strict=True):
        group = [n for other, n in zip(prompts, lengths, strict=True) if other == prompt]
        spread = max(group) - min(group)
        reward = 0.5 - (length - min(group)) / spread if spread else 0.0
        rewards.append(reward if right in text else min(0.0, reward))
    return rewards
