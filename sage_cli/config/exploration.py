"""Rows of the table of algorithms: methods of exploration that SAGE is compared with.

The settings are the sources', where these name them; each advantage's own defaults are in
`sage_cli.config.advantages`.
"""

from __future__ import annotations

from sage_cli.config.algorithm import Algorithm

_GRPO = {"loss": "grpo", "advantage": "group"}
_TOKEN_LOSS = {"loss": "dapo", "advantage": "group", "epsilon_high": 0.28}
_DRAWN_AHEAD = {"dynamic_sampling": True, "steps_per_generation": 8}

EXPLORATION: dict[str, Algorithm] = {
    "entropy-bonus": Algorithm(
        "GRPO with a bonus on the mean entropy of the tokens; 0.001 to 0.1 in PKPO's baselines",
        {**_GRPO, "entropy_coefficient": 0.01},
        read="paper",
        differs="the coefficient, for which no single value is named",
    ),
    "adaptive-entropy": Algorithm(
        "Skywork-OR1 (He et al. 2025, arXiv 2505.22312): a bonus that holds the entropy up",
        {**_GRPO, "entropy_target": 0.2},
        read="secondary",
        differs="the bonus alone, on GRPO",
    ),
    "80-20": Algorithm(
        "Wang et al. 2025 (arXiv 2506.01939): only the fifth of tokens of highest entropy",
        {
            **_TOKEN_LOSS,
            "dynamic_sampling": True,
            "overlong_punishment": True,
            "top_entropy_quantile": 0.2,
        },
        kl_without_guide="none",
        read="secondary",
        differs="the fifth is of a micro-batch",
    ),
    "gspo": Algorithm(
        "Zheng et al. 2025 (arXiv 2507.18071): one ratio for a completion, the tokens' mean",
        {
            **_GRPO,
            "importance_sampling_level": "sequence",
            "epsilon_low": 3e-4,
            "epsilon_high": 4e-4,
            "steps_per_generation": 4,
        },
        kl_without_guide="none",
        read="secondary",
    ),
    "pass-at-k": Algorithm(
        "Chen et al. 2025 (arXiv 2508.10751): the reward of a set of k is its best verdict",
        {"loss": "grpo", "advantage": "pass-at-k"},
        read="code",
        differs="on GRPO's loss; S without the code's 1e-6",
    ),
    "pkpo": Algorithm(
        "Walder and Karkhanis 2025 (arXiv 2505.15201): unbiased gradient of the best of k",
        {"loss": "dr_grpo", "advantage": "pkpo"},
        read="paper",
        differs="a length normaliser that is constant, Dr. GRPO's",
    ),
    "entropy-shaped": Algorithm(
        "Cheng et al. 2025 (arXiv 2506.14758): A + min(alpha H, |A| / kappa), token by token",
        {**_TOKEN_LOSS, "advantage": "entropy-shaped"},
        read="paper",
    ),
    "steer": Algorithm(
        "Hao et al. 2025 (arXiv 2510.10150): less weight where the entropy would move most",
        {**_TOKEN_LOSS, "advantage": "steer", "delta": 10.0, "steps_per_generation": 16},
        kl_without_guide="none",
        read="code",
        differs="extremes are a micro-batch's, as theirs are",
    ),
    "clip-cov": Algorithm(
        "Cui et al. 2025 (arXiv 2505.22617): leaves out a few tokens by which entropy falls",
        {
            **_TOKEN_LOSS,
            **_DRAWN_AHEAD,
            "advantage": "clip-cov",
            "epsilon_low": 1.0,
            "epsilon_high": 1.0,
        },
        kl_without_guide="none",
        read="code",
        differs="one token at least of each micro-batch, as theirs",
    ),
    "kl-cov": Algorithm(
        "Cui et al. 2025 (arXiv 2505.22617): holds back the tokens by which entropy falls most",
        {"loss": "dapo", **_DRAWN_AHEAD, "advantage": "kl-cov", "clip": False},
        kl_without_guide="none",
        read="code",
        differs="one token at least of each micro-batch, as theirs",
    ),
    "verl": Algorithm(
        "Huang et al. 2025 (arXiv 2509.23808): more where hidden states take more directions",
        {"loss": "grpo", "advantage": "verl"},
        form="reduced",
        read="code",
        differs="one bonus for a completion; their code has it on the last token, their script not "
        "at all",
    ),
    "annealed-kl": Algorithm(
        "Chen et al. 2025b (arXiv 2503.04548): GRPO whose beta falls to 0 on a cosine",
        _GRPO,
        read="paper",
        differs="beta starts at anchor.beta, theirs at 1e-3",
        anchor={"schedule": "cosine"},
    ),
    "pacs": Algorithm(
        "Li et al. 2025 (arXiv 2509.02522): verdicts as labels of the policy's log-ratios, a "
        "cross-entropy over each group; no advantages, no clipping",
        {"loss": "pacs", "advantage": "none"},
        kl_without_guide="none",
        read="code",
    ),
    "rlpr": Algorithm(
        "Yu et al. 2025 (arXiv 2506.18254): the gold's probability in the answer's place as "
        "reward, groups of little deviation left out",
        {**_GRPO, "epsilon_high": 0.27, "reward": "probability"},
        kl_without_guide="none",
        read="code",
        differs="groups that are left out stay in the batch with advantage 0",
    ),
    "dars": Algorithm(
        "Yang et al. 2025 (arXiv 2508.13755): hard prompts get a second stage of rollouts (ET, up "
        "to 32; rl.dars=hw weighs the hardest more), rewards less their pool's mean",
        {"loss": "dr_grpo", "advantage": "none", "dars": "et"},
        kl_without_guide="none",
        read="code",
    ),
    "guided-dpo": Algorithm(
        "Da et al. 2025 (arXiv 2506.11425, Agent-RLVR): failed problems are retried with a hint; "
        "right with it is preferred to wrong without",
        {"loss": "dpo", "advantage": "none"},
        kl_without_guide="none",
        form="reduced",
        differs="one turn, the worked solution's first lines in place of a teacher; rl.steps steps "
        "in place of one pass; DPO's beta isn't named there",
    ),
}
