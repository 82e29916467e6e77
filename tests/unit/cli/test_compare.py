"""`sage compare`: which runs, models and files are compared, and what is refused."""

import json
from inspect import get_annotations

import numpy as np
import pytest
from shown_runs import SETTINGS, by_chance, stored_run

from sage_cli.cli.compare import command
from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, MetricError
from sage_cli.evaluation.compare import (
    compare,
    compare_files,
    compare_named,
    find_statistic,
    is_training,
)
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.metrics import Counts, about
from sage_cli.metrics.counts import STATISTICS
from sage_cli.models.compatibility import training_seed
from sage_cli.models.policy import Policy
from sage_cli.progress import Silent
from sage_cli.store.run import Run

P_P = np.random.default_rng(0).beta(1, 2, 24)


def counts(seed, gain=0.0):
    c_P = np.random.default_rng(seed).binomial(16, P_P + gain * (1 - P_P))
    return Counts(tuple(f"p{i}" for i in range(24)), np.full(24, 16), c_P)


def write_counts(file, measured, **changes):
    """Write a file of counts and return its name."""
    rows = [{"problem": f"p{i}", "n": 16, "c": int(c)} for i, c in enumerate(measured.c_P)]
    file.write_text(json.dumps([{**row, **changes} for row in rows]))
    return str(file)


@pytest.fixture
def config(tmp_path):
    return load(sets=[f"run.root={tmp_path}/runs"]).config


def counts_of(name):
    """`good-1` and `base-2`, one run each with two evaluation seeds on one or two benchmarks."""
    method, seed = name.split("-")
    gain = 0.3 if method == "good" else 0.0
    measured = [counts(10 * int(seed) + place, gain) for place in range(2)]
    return {"aime": measured} if seed == "9" else {"aime": measured, "amc23": measured}


def test_two_models():
    found = compare_named(["good-1"], ["base-1"], counts_of, (1, 2, 4))
    assert list(found) == ["aime", "amc23"]
    one = found["aime"]
    assert (one.a.label, one.b.label) == ("good-1", "base-1")
    assert one.difference.mean_K[0] > 0
    assert one.difference.p_K[0] < 0.01
    np.testing.assert_allclose(
        one.curves[0].mean_K - one.curves[1].mean_K, one.difference.mean_K, atol=1e-12
    )
    assert one.crossing is not None
    assert one.support is not None


def test_two_methods_on_the_benchmarks_that_all_runs_have():
    found = compare_named(["good-1", "good-9"], ["base-1", "base-2", "base-3"], counts_of, (1,))
    assert list(found) == ["aime"]
    assert found["aime"].difference.runs == (2, 3)
    assert found["aime"].crossing is None
    assert found["aime"].a.label == "good-1 +1"


def test_a_method_against_a_base_counts_its_seeds_in():
    names = (["good-1", "good-2"], ["base-1"])
    found = compare_named(*names, counts_of, (1,), bases={"base-1"})["aime"]
    assert found.difference.runs == (2, 1)
    assert (found.a.base, found.b.base) == (False, True)
    assert about(found.a, found.b) == "methods"
    assert found.crossing is None
    # one training of a method is a model; nobody knows what another seed would give
    unknown = compare_named(*names, counts_of, (1,))["aime"]
    assert about(unknown.a, unknown.b) == "models"


def test_runs_of_rl_are_trainings_and_what_they_began_with_is_a_base(tmp_path):
    kinds = {}
    for kind in ("sft", "rl"):
        run = Run(tmp_path / kind)
        with run.recording({}, kind=kind):
            pass
        kinds[kind] = is_training(Policy.of_run(run))
    assert kinds == {"sft": False, "rl": True}
    assert not is_training(Policy("a-model-of-somebody"))


def test_nothing_in_common_is_refused():
    elsewhere = {"a-1": {"aime": [counts(1)]}, "b-1": {"gsm8k": [counts(1)]}}
    with pytest.raises(ConfigurationError, match="were not measured on a common benchmark"):
        compare_named(["a-1"], ["b-1"], elsewhere.__getitem__, (1,))


def test_sides_are_told_apart_and_a_run_is_not_compared_with_itself():
    measured = {"x/model": {"": [counts(1)]}, "y/model": {"": [counts(2)]}}
    found = compare_named(["x/model"], ["y/model"], measured.__getitem__, (1,))[""]
    assert (found.a.label, found.b.label) == ("x/model", "y/model")
    with pytest.raises(ConfigurationError, match="good-1 is on both sides"):
        compare_named(["good-1", "good-2"], ["base-1", "good-1"], counts_of, (1,))


def test_files_of_counts_are_compared_without_a_model(tmp_path, config):
    files = [
        write_counts(tmp_path / f"{name}.json", counts(1, gain))
        for name, gain in (("good", 0.3), ("base", 0.0))
    ]
    result = compare_files(config, files[:1], files[1:], (), None, Silent())
    assert result.folder.parent == tmp_path / "runs" / "reports"
    written = json.loads((result.folder / "compare.json").read_text(), parse_constant=pytest.fail)
    found = written["comparisons"]["counts"]
    assert found["k"] == list(range(1, 17))
    assert found["sides"][0]["name"] == "good"
    assert found["p"][0] < 0.01
    assert {path.name for path in result.folder.iterdir()} == {
        "compare.json",
        "compare.md",
        "compare-counts.csv",
        "compare.tex",
        "compare.png",
        "compare.svg",
    }
    assert "good against base on counts" in (result.folder / "compare.md").read_text()
    again = compare_files(config, files[:1], files[1:], (), None, Silent())
    assert again.folder == result.folder
    assert compare_files(config, files[1:], files[:1], (), None, Silent()).folder != result.folder
    with pytest.raises(ConfigurationError, match="pass@32 is undefined with 16"):
        compare_files(config, files[:1], files[1:], (), "1..32", Silent())


def test_files_are_compared_by_another_statistic(tmp_path, config):
    files = [
        write_counts(tmp_path / f"{name}.json", counts(1, gain))
        for name, gain in (("good", 0.3), ("base", 0.0))
    ]
    by_name = {
        name: compare_files(config, files[:1], files[1:], (), None, Silent(), statistic=name)
        for name, of in STATISTICS.items()
        if not of.of_answers
    }
    assert len({result.folder for result in by_name.values()}) == len(by_name) == 3
    for name, result in by_name.items():
        statistic = STATISTICS[name].name
        written = json.loads((result.folder / "compare.json").read_text())
        assert written["statistic"] == statistic
        side, other = written["comparisons"]["counts"]["sides"]
        found = np.array(side[statistic]) - np.array(other[statistic])
        assert written["comparisons"]["counts"]["difference"] == pytest.approx(found.tolist())
        of_side = STATISTICS[name].values(counts(1, 0.3), range(1, 17))
        assert side[statistic] == pytest.approx(of_side.mean(axis=0).tolist())
        text = (result.folder / "compare.md").read_text()
        assert (f"{statistic}: the chance that" in text) == (name != "pass")
    with pytest.raises(MetricError, match="only correct and wrong samples were counted") as refusal:
        compare_files(config, files[:1], files[1:], (), None, Silent(), statistic="maj")
    assert "--set grading.judge=math" in refusal.value.next_step
    with pytest.raises(ConfigurationError, match="there is no statistic 'median'") as refusal:
        compare_files(config, files[:1], files[1:], (), None, Silent(), statistic="median")
    assert refusal.value.next_step == "choose --statistic pass, pass-all, g-pass, maj"
    with pytest.raises(ConfigurationError, match="--guess has the pass@k of guesses"):
        find_statistic("g-pass", "mine.py:guess")
    (option,) = get_annotations(command, eval_str=True)["statistic"].__metadata__
    assert all(f"{name} ({of.name}" in option.help for name, of in STATISTICS.items())


def write_answers(file, by_problem):
    """Write a file of completions, each of which is one answer, and return its name."""
    rows = [
        {"question": f"1+{gold - 1}=?", "gold": str(gold), "completion": rf"\\boxed{{{answer}}}"}
        for gold, answers in by_problem.items()
        for answer in answers
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def test_files_of_completions_are_compared_by_a_vote(tmp_path, config):
    # right of 3: 2, 1 and 1. The vote of all three is right for 5, a tie of three for 7, wrong for
    # 9, where 10.0 and 10 would be two answers
    a = write_answers(tmp_path / "a.jsonl", {5: [5, 5, 1], 7: [7, 1, 2], 9: [9, 10, 10]})
    b = write_answers(tmp_path / "b.jsonl", {5: [5, 1, 1], 7: [1, 2, 3], 9: [9, 1, 2]})
    report = compare_files(config, [a], [b], (), "1,3", Silent(), statistic="maj")
    written = json.loads((report.folder / "compare.json").read_text())
    (found,) = written["comparisons"].values()
    assert found["k"] == [1, 2, 3]
    side, other = found["sides"]
    assert side["maj@k"][::2] == pytest.approx([4 / 9, (1 + 1 / 3 + 0) / 3])
    assert other["maj@k"][::2] == pytest.approx([2 / 9, (0 + 0 + 1 / 3) / 3])


def test_runs_are_compared_by_a_vote_of_their_answers(tmp_path):
    root = tmp_path / "runs"
    config = load(("tiny",), {**SETTINGS}, [f"run.root={root}"]).config
    sides = [[stored_run(root, f"m{n}", str(n), by_chance(n)).id] for n in (6, 4)]
    report = compare(Evaluation(config), *sides, Silent(), statistic="maj").document
    found = report.data["comparisons"]["arithmetic"]
    # six of eight samples outvote one wrong answer, four of eight tie with it, on 5 of 6 problems
    assert found["k"] == [1, 2, 4, 8]
    assert [side["maj@k"][-1] for side in found["sides"]] == pytest.approx([5 / 6, 5 / 12])
    assert found["difference"][0] == pytest.approx(2 / 8 * 5 / 6)  # one sample alone decides
    assert "the most frequent answer of k samples is correct" in " ".join(report.notes)
    assert " by maj@k on arithmetic" in report.tables[0].title
    with pytest.raises(ConfigurationError, match="is a vote of the answers that the first judge"):
        compare(Evaluation(config), *sides, Silent(), second="working", statistic="maj")


def test_a_model_is_named_once(tmp_path, config):
    with pytest.raises(ConfigurationError, match="good-1 is named twice on one side"):
        compare_named(["good-1", "good-1"], ["base-1", "base-2"], counts_of, (1,))
    a, copy = (write_counts(tmp_path / name, counts(1)) for name in ("a.json", "copy.json"))
    b = write_counts(tmp_path / "b.json", counts(1), c=8)
    content = r"copy.json \(the same content as .*a.json\) is on"
    with pytest.raises(ConfigurationError, match=content):
        compare_files(config, [a], [copy], (), None, Silent())
    with pytest.raises(ConfigurationError, match=r"the same content as .* is named twice on one"):
        compare_files(config, [a, copy], [b, b], (), None, Silent())
    assert not (tmp_path / "runs").exists()


def test_weights_tell_models_apart_whatever_they_are_called(tmp_path, config):
    for name, weights in (("one", "same"), ("two", "same"), ("x/m", "x"), ("y/m", "y")):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_text(weights)
    one, two, x, y = (str(tmp_path / name) for name in ("one", "two", "x/m", "y/m"))
    with pytest.raises(ConfigurationError, match=r"two \(the same content as .*one\) is on both"):
        compare(Evaluation(config), [one], [two], Silent())
    # two models of one name would be one in every table
    with pytest.raises(ConfigurationError, match="the same name in tables and figures"):
        compare(Evaluation(config), [x], [y], Silent())


def test_sides_are_called_as_they_are_labelled():
    named = compare_named(["base-1"], ["good-1"], counts_of, [1], labels=("Base", None))
    (comparison,) = {(one.a.label, one.b.label) for one in named.values()}
    assert comparison == ("Base", "good-1")
    with pytest.raises(ConfigurationError, match="both sides would be called 'X'"):
        compare_named(["base-1"], ["good-1"], counts_of, [1], labels=("X", "X"))


@pytest.mark.parametrize("turned", [False, True])
def test_two_methods_on_one_side_are_no_seeds_of_one(tmp_path, config, turned):
    root = tmp_path / "runs"
    guided = {"anchor": {"kl": "reverse"}, "guide": {"name": "branch"}}
    runs = [
        stored_run(root, label, identity, settings={"rl": {"algo": "dapo"}, **settings}).id
        for label, identity, settings in (
            ("branch", "1", guided),
            ("kl", "2", {"anchor": {"kl": "reverse"}}),
            ("x", "3", {}),
        )
    ]
    sides = (runs[2:], runs[:2]) if turned else (runs[:2], runs[2:])
    with pytest.raises(ConfigurationError, match=r"differ in guide.name \(branch and none\)"):
        compare(Evaluation(config), *sides, Silent())
    assert not (root / "reports").exists()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("sampled", [False, True])
def test_the_difference_from_the_own_control_comes_first(tmp_path, turned, sampled):
    root, dapo = tmp_path / "runs", {"rl": {"algo": "dapo"}}
    settings = {
        "guided": {**dapo, "anchor": {"kl": "reverse"}, "guide": {"name": "branch"}},
        "control": {**dapo, "anchor": {"kl": "reverse"}},
        "free": {**dapo, "anchor": {"kl": "none"}},
    }
    texts = {"guided": by_chance(6), "control": by_chance(4) if sampled else None}
    guided, control, free = (
        stored_run(root, name, str(i), texts.get(name, by_chance(2)), settings=settings[name]).id
        for i, name in enumerate(settings, 1)
    )
    config = load(("tiny",), {**SETTINGS}, [f"run.root={root}"]).config
    sides = ([free], [guided]) if turned else ([guided], [free])
    found = compare(Evaluation(config), *sides, Silent()).document
    titles = [table.title for table in found.tables]
    if not sampled:  # nothing is sampled that nobody named
        assert len(titles) == 1
        assert f"`sage compare {guided} {control}` comes first" in " ".join(found.notes)
        return
    assert titles[0].startswith(f"{guided} against unguided baseline {control} on arithmetic")
    assert titles[1].startswith(f"{sides[0][0]} against {sides[1][0]}")
    # 6, 4 and 2 right of 8 samples, on five of six problems
    own, other = found.data["own_control"]["arithmetic"], found.data["comparisons"]["arithmetic"]
    assert own["difference"][0] == pytest.approx(2 / 8 * 5 / 6)
    assert abs(other["difference"][0]) == pytest.approx(4 / 8 * 5 / 6)
    assert np.isnan(own["p_holm"]).all()
    assert "unguided baseline" not in " ".join(found.notes)


def pairs_of_runs(root, changes=()):
    """Runs of two methods with the training seeds 1 and 2 from one model; sides of ids.

    `changes` are settings of the second method's runs besides its anchor.
    """
    sides = []
    for identity, (kl, right) in enumerate((("reverse", (6, 5)), ("none", (4, 3)))):
        side = []
        for place, chance in enumerate(right):
            settings = {"rl": {"algo": "dapo"}, "anchor": {"kl": kl}}
            if kl == "none":
                settings |= dict(changes)
            name = f"{identity}{place}"
            run = stored_run(root, kl, name, by_chance(chance), settings=settings)
            run.note(seed=place + 1, parent_weights="weights", data=["rows"])
            side.append(run.id)
        sides.append(side)
    return sides


@pytest.mark.parametrize(
    ("changes", "unpaired", "seeds"),
    [
        ((), False, [1, 2]),
        ((), True, None),
        ([("data", {"rl": {"limit": 3}})], False, None),  # other rows
    ],
    ids=["alike", "on demand", "other rows"],
)
def test_runs_are_paired_by_training_seed_where_they_began_alike(
    tmp_path, changes, unpaired, seeds
):
    a, b = pairs_of_runs(tmp_path / "runs", changes)
    config = load(("tiny",), {**SETTINGS}, [f"run.root={tmp_path}/runs"]).config
    report = compare(Evaluation(config), a, b, Silent(), unpaired=unpaired)
    written = (report.folder / "compare.json").read_text()
    found, stored = report.document, json.loads(written, parse_constant=pytest.fail)
    pairing = stored["comparisons"]["arithmetic"]["pairing"]
    assert (pairing and pairing["seeds"]) == seeds
    assert pairing is None or set(pairing["correlation"]) == {None}  # of two seeds
    notes = " ".join(found.tables[0].notes)
    assert ("paired by training seed (1, 2)" in notes) == (seeds is not None)
    assert "a p below 0.05 is printed as <0.05" in notes


def test_other_seeds_of_the_same_methods_are_counted(tmp_path):
    root = tmp_path / "runs"
    a, b = pairs_of_runs(root)
    config = load(("tiny",), {**SETTINGS}, [f"run.root={root}"]).config

    def noted(*sides):
        document = compare(Evaluation(config), *sides, Silent()).document
        return [note for note in document.notes if "compared before" in note]

    assert noted(a, b) == []
    assert noted(a, b) == []  # the same runs again are no other set
    assert noted(b, a) == []
    (one,) = noted(a[:1], b[:1])
    assert one.startswith("1 other set of runs of these two methods was compared before")
    assert noted(a[1:], b[1:])[0].startswith("2 other sets")
    file = root / "reports" / "comparisons.json"
    file.write_text("torn")
    assert noted(a[1:], b[:1]) == []  # nothing but the note is lost


def test_questions_that_share_a_story_are_drawn_together(tmp_path, config):
    def rows(name, right, words):
        samples = [
            {
                "question": f"{words(story)} How many of {place} are left?",
                "gold": "1",
                "completion": "1",
                "correct": bool(place % right),
            }
            for place, story in enumerate(letter for letter in "abcdefghijkl" for _ in "12")
        ]
        file = tmp_path / name
        file.write_text("".join(json.dumps(row) + "\n" for row in samples))
        return [str(file)]

    a, b = (
        rows(f"{right}.jsonl", right, lambda story: f"The tale {story}. " * 4) for right in (5, 2)
    )
    found = compare_files(config, a, b, (), "1", Silent(), cluster="auto").document
    (comparison,) = found.data["comparisons"].values()
    assert (comparison["problems"], comparison["clusters"]) == (24, 12)
    assert comparison["safe"] is None
    assert any("by clusters (auto): 12 of them, the largest" in note for note in found.notes)
    guess = tmp_path / "guess.py"
    guess.write_text(
        "def chance(question, gold):\n    return 0.25 if 'tale a' in question else 0\n"
    )
    guessed = compare_files(config, a, b, (), "1", Silent(), guess=f"{guess}:chance")
    assert guessed.folder != compare_files(config, a, b, (), "1", Silent()).folder
    table = guessed.document.tables[0]
    place = [column.name for column in table.columns].index("guess")
    assert str(table.rows[0].cells[place]) == "0.021"  # 2 of 24 problems with .25: .0208
    (comparison,) = guessed.document.data["comparisons"].values()
    assert comparison["guess"][0] == pytest.approx(0.25 * 2 / 24)
    with pytest.raises(ConfigurationError, match="has no field 'level' to cluster by"):
        compare_files(config, a, b, (), "1", Silent(), cluster="level")
    same = [rows(f"all-{n}.jsonl", n, lambda _: "One phrase of all. " * 3) for n in (5, 2)]
    with pytest.raises(ConfigurationError, match="24 of 24 problems are one cluster"):
        compare_files(config, same[0], same[1], (), "1", Silent(), cluster="auto")
    counted = [write_counts(tmp_path / f"{i}.json", counts(i)) for i in range(2)]
    with pytest.raises(ConfigurationError, match="counts without questions and fields"):
        compare_files(config, counted[:1], counted[1:], (), "1", Silent(), cluster="auto")


def test_problems_of_logs_are_drawn_by_a_field_of_their_rows(tmp_path, config):
    """Of lm-eval's rows it is in `doc`; of one's own in a column; the second file needs none."""
    document = {
        "arguments": {"gen_args_0": {"arg_0": "", "arg_1": {}}},
        "filter": "none",
        "metrics": ["exact_match"],
        "filtered_resps": ["1"],
        "resps": [["1"]],
    }
    logged, own = [], []
    for place in range(24):
        asked = {"gen_args_0": {"arg_0": f"How many of {place}?", "arg_1": {}}}
        scored = {"doc_id": place, "target": "1", "exact_match": float(place % 5 > 0)}
        doc = {"level": place // 4}
        logged.append({**document, "arguments": asked, **scored, "doc": doc})
        own.append(
            {
                "question": f"How many of {place}?",
                "gold": "1",
                "completion": "1",
                "correct": place % 2 > 0,
                "level": place // 3,
            }
        )
    files = []
    for name, rows in (("a.jsonl", logged), ("b.jsonl", own)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        files.append([str(tmp_path / name)])
    for sides, clusters in ((files, 6), (files[::-1], 8)):  # 24 / 4 and 24 / 3
        found = compare_files(config, *sides, (), "1", Silent(), cluster="level").document
        (comparison,) = found.data["comparisons"].values()
        assert (comparison["problems"], comparison["clusters"]) == (24, clusters)
    with pytest.raises(ConfigurationError, match="no field 'topic' to cluster by") as raised:
        compare_files(config, *files, (), "1", Silent(), cluster="topic")
    assert "name one that every row has: level," in raised.value.next_step


@pytest.mark.parametrize("lost", ["seed", "parent_weights"])
def test_what_a_run_began_with_is_known_or_nothing_is_said(tmp_path, lost):
    (one, _), _ = pairs_of_runs(tmp_path)
    run = Run(tmp_path / one)
    began = training_seed(Policy.of_run(run))
    assert (began.number, began.run) == (1, one)
    older = json.loads((run.folder / "config.json").read_text())
    del older["data"]["rl"]["numeric_only"]  # a run from before there was this setting
    (run.folder / "config.json").write_text(json.dumps(older))
    assert training_seed(Policy.of_run(Run(tmp_path / one))) == began
    run.note(**{lost: None})
    assert training_seed(Policy.of_run(Run(tmp_path / one))) is None
    assert training_seed(Policy("a-model-of-somebody")) is None


def test_counts_of_several_seeds_are_told_to_be_unchecked(tmp_path, config):
    one, two, base = (write_counts(tmp_path / f"{i}.json", counts(i)) for i in range(3))
    told = [
        [
            note
            for note in compare_files(config, a, [base], (), "1", Silent()).document.notes
            if "could not check" in note
        ]
        for a in ([one, two], [one])
    ]
    assert [len(notes) for notes in told] == [1, 0]
    assert told[0][0].startswith(f"no settings are stored of {one}, {two}")
