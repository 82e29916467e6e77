""""""

import math

import pytest

from sage_cli.errors import ConfigurationError
from sage_cli.methods.loop import Method
from sage_cli.reports.published import published_rows
from sage_cli.settings.section import built_in
from sage_cli.trials.suites.declaration import (
    Verdict,
    parse_claim,
    read_suite,
    suite_names,
    with_included,
)


def test_a_claim_is_read_and_no_verdict_on_models_says_that_it_holds():
    claim = parse_claim("grpo-no-kl <  grpo at pass@256 on aime")
    assert (claim.a, claim.b, claim.k, claim.benchmark) == ("grpo", "grpo-no-kl", 256, "aime")
    assert parse_claim("a > b at pass@1").benchmark is None
    for verdict in (Verdict.AS_CLAIMED, Verdict.OTHERWISE, Verdict.OPEN_MODELS):
        assert verdict.value.startswith("these models: ")
        assert "holds" not in verdict.value


@pytest.mark.parametrize("text", ["a > b", "a = b at pass@1", "a > b at pass@x", "a>b at pass@1"])
def test_what_is_no_claim_is_refused_with_an_example(text):
    with pytest.raises(ConfigurationError, match="is not a claim") as refused:
        parse_claim(text)
    assert "pass@256" in str(refused.value.next_step)


@pytest.mark.parametrize(
    ("difference", "p_holm", "verdict", "of_models"),
    [
        (0.1, 0.05, Verdict.HOLDS, Verdict.AS_CLAIMED),  # 0.05 is enough
        (-0.1, 0.01, Verdict.REVERSED, Verdict.OTHERWISE),
        (0.1, 0.0501, Verdict.OPEN, Verdict.OPEN_MODELS),
        (0.0, 0.01, Verdict.OPEN, Verdict.OPEN_MODELS),  # equal is neither
        (math.nan, 0.01, Verdict.UNKNOWN, Verdict.UNKNOWN),
        (0.1, math.nan, Verdict.UNKNOWN, Verdict.UNKNOWN),
    ],
)
def test_a_verdict_needs_sign_and_certainty(difference, p_holm, verdict, of_models):
    claim = parse_claim("a > b at pass@1")
    assert claim.verdict(difference, p_holm, "methods") == verdict
    assert claim.verdict(difference, p_holm, "models") == of_models


PAPERS = [
    "figure2",
    "figure3",
    "figure4",
    "figure6",
    "figure7",
    "paper",
    "table1",
    "table2",
    "table3",
    "table4",
    "table5",
    "table6",
    "table9",
]
OWN = [
    "advantages",
    "anchors",
    "demo",
    "neighbours",
    "null-rewards",
    "smollm2",
    "smollm2-dose",
    "smollm2-full",
    "strong-guide",
    "tuned",
]
EVERY = sorted([*PAPERS, *OWN])


def written(folder, name, text):
    path = folder / f"{name}.yaml"
    path.write_text(f"title: {name}\n{text}")
    return str(path)


def test_all_that_ship_can_be_read():
    assert suite_names() == EVERY
    for name in EVERY:
        suite = read_suite(name)
        assert suite.name == name
        assert suite.methods or suite.includes or suite.sweep
    for name in ("table1", "table2", "table3", "table4", "table5", "table9"):
        suite = read_suite(name)
        assert suite.published == name
        # Table 3 prints the base of Table 1 once more; our copy of the table doesn't
        assert set(published_rows(name)) <= set(suite.methods), name
    names = [suite.name for suite in with_included("paper")]
    assert names[-1] == "paper"
    assert sorted(names) == PAPERS
    with pytest.raises(ConfigurationError, match="no suite 'tabel1'") as refused:
        read_suite("tabel1")
    assert refused.value.next_step == "did you mean table1?"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("metods: {}", "a suite has no 'metods': did you mean methods?"),
        ("protocol: {sample: 3}", "protocol has no 'sample': did you mean samples?"),
        ("methods: {a: {of: grpo, setting: {}}}", "methods.a has no 'setting': did you mean sett"),
        ("methods: {a: grpo/branch/reverse/x}", "'grpo/branch/reverse/x' is not base"),
        ("methods: {a: {of: grpo, settings: {rl.step: 3}}}", "'rl.step'; did you mean rl.steps?"),
        ("methods: {grpo: grpo}\nclaims: gropo > grpo at pass@1", "'gropo'; did you mean grpo?"),
        ("claims: better", "'better' is not a claim"),
        ("methods: {a: grpo}\nanalyses: [{name: modes, methods: b}]", "modes names the method 'b'"),
        ("analyses: [{nam: lengths}]", "analyses.0 has no 'nam': did you mean name?"),
        ("analyses: [{name: support, options: {deltas: 0.1}}]", "'deltas': did you mean delta?"),
        ("seeds: 0", "seeds is 0"),
        ("published: table8", "no table of methods 'table8'"),
        ("settings: {rl.step: 3}", "'rl.step'; did you mean rl.steps?"),
        ("methods: {grpo: grpo}\nagainst: grop", "'grop'; did you mean grpo?"),
        ("methods: {grpo: grpo, b: {of: psr, control: grop}}", "'grop'; did you mean grpo?"),
        ("methods: {b: {of: psr, control: b}}", "methods.b.control names the method itself"),
        ("methods: {a: {of: grpo, contrl: b}}", "has no 'contrl': did you mean control?"),
        ("published: table1\nmethods: {brunch: grpo/branch}", "table1 has no row 'brunch'"),
        ("published: table1\nmethods: {grpo-brunch: grpo/branch}", "did you mean grpo-branch?"),
        ("methods: {grpo: grpo}\nagainst: brnach\n", "against names the method 'brnach'"),
    ],
)
def test_mistakes_are_named_with_what_was_meant(tmp_path, text, cause):
    with pytest.raises(ConfigurationError) as refused:
        read_suite(written(tmp_path, "mine", text))
    assert cause in f"{refused.value.cause}; {refused.value.next_step}"


def test_suites_include_each_other_once_and_not_in_a_cycle(tmp_path):
    a, b = (str(tmp_path / f"{name}.yaml") for name in "ab")
    written(tmp_path, "a", f"includes: [{b}]")
    written(tmp_path, "b", f"includes: [{a}]")
    with pytest.raises(ConfigurationError, match="a → b → a"):
        with_included(a)
    shared = written(tmp_path, "shared", "methods: {a: grpo}")
    left = written(tmp_path, "left", f"includes: [{shared}]")
    top = written(tmp_path, "top", f"includes: [{left}, {shared}]")
    assert [one.name for one in with_included(top)] == ["shared", "left", "top"]


def test_the_neighbours_are_methods_of_exploration_with_one_control_each():
    suite = read_suite("neighbours")
    every = [*suite.methods.values(), *read_suite("advantages").methods.values()]
    named = {method.choices["algo"] for method in every if not method.is_base}
    # a method that somebody adds need not be in the suite, whose results are published
    assert named <= set(built_in(Method)) - {"bnpo", "dr-grpo"}
    assert len(named) == 29
    # each but itself with GRPO, and each but itself with branch; those two with each other once
    trained = len(suite.methods) - 1
    assert len(suite.compared) == 2 * (trained - 1) - 1
    assert ("branch", "grpo") in suite.compared
    assert ("grpo", "branch") not in suite.compared
    assert ("base", "grpo") not in suite.compared


def test_some_methods_alone_bring_what_is_declared_about_them(tmp_path):
    text = (
        "methods: {a: grpo, b: grpo/branch, c: dapo}\nclaims: [a > b at pass@1, a > c at pass@1]\n"
        "analyses: [{name: exact}, {name: exact, methods: [a, c]}]\nagainst: [b, c]\n"
    )
    text = text.replace("b: grpo/branch", "b: {of: grpo/branch, control: c}")
    suite = read_suite(written(tmp_path, "mine", text)).only(["a", "b"])
    assert list(suite.methods) == ["a", "b"]
    assert suite.methods["b"].control is None
    assert suite.claims == ("a > b at pass@1",)
    assert suite.against == ("b",)
    assert [one.methods for one in suite.analyses] == [()]
    with pytest.raises(ConfigurationError, match="has no arm 'd'"):
        suite.only(["d"])
