"""Errors for policies that don't fit a command, before anything is written."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from sage_cli.config.readers import unread
from sage_cli.config.schema import UNIONS, settings
from sage_cli.counted import counted
from sage_cli.errors import ConfigurationError, DataError, StoreError
from sage_cli.json_value import leaves
from sage_cli.models.config_json import (
    Facts,
    facts_of_folder,
    facts_of_section,
    model_config,
    model_differences,
)
from sage_cli.models.folders import (
    ADAPTER_FILE,
    adapter_base,
    embedding_rows,
    fingerprint,
    is_adapter,
    model_files,
    read_json,
)
from sage_cli.models.policy import Policy, check_same_template
from sage_cli.models.tokenizer_facts import stored_tokens
from sage_cli.problems.template import PromptTemplate
from sage_cli.settings.data import DataSection
from sage_cli.settings.model import ModelSection, PretrainedModel, ScratchModel
from sage_cli.settings.prompt import PromptSection
from sage_cli.store.names import fitting_names
from sage_cli.store.result_hash import identity_of
from sage_cli.store.run import Run, Runs, run_of

if TYPE_CHECKING:
    from sage_cli.metrics.comparison import TrainingSeed

ALL_SEEDS = "@seeds"
"""The end of a name that means every training seed of a method: `rl-grpo-branch@seeds`."""
_MODEL: TypeAdapter[PretrainedModel | ScratchModel] = TypeAdapter(ModelSection)
_HEADS = ("lm_head", "embed_out", "output_layer")
"""The names of output heads."""
_WITHOUT_BACKBONE = ("llama4_text",)
"""Types of models that name no part of themselves as what comes before the head."""
DETERMINING = {
    "rl": ("model", "prompt", "data", "rl", "rollout", "anchor", "guide", "grading"),
    "sft": ("model", "prompt", "data", "sft"),
}
"""By kind of run, the sections that its training reads."""
_NOT_READ = {"rl": ("data.sft.",), "sft": ("data.rl.",)}
NAMED_AT_MOST = 5
"""Differing settings that a message names."""
_Settings = dict[str, Any]


def check_fitting_start(
    policy: Policy,
    model: PretrainedModel | ScratchModel,
    prompt: PromptSection,
    *,
    other_template: bool,
) -> None:
    """Refuse to train from a policy of another model than `model`, or trained under another prompt.

    A run is compared by its configured model, a folder by its shape, an adapter by its base. Facts
    that are unknown without the network, as the shape of a model of the Hub, pass.
    `other_template` allows another prompt.
    """
    differing = model_differences(_facts(policy), facts_of_section(model))
    if differing:
        raise ConfigurationError(
            f"{policy.label} is not the model of the configuration: {', '.join(differing)}",
            (
                f"use its own settings with --config {policy.run.folder / 'config.json'}, "
                "or its --preset"
            )
            if policy.run
            else "describe it: --set model.kind=pretrained --set model.path=FOLDER, or a --preset",
        )
    template = PromptTemplate.from_section(prompt, policy.tokenizer_facts)
    check_same_template(policy, template, allowed=other_template, use="this training")


def check_fitting_tokenizer(policy: Policy, *, planned: PromptSection | None = None) -> None:
    """Refuse to train with tokens beyond the model's vocabulary, or without an end of sequence.

    Special tokens that no prompt has may lie beyond: Gemma 3's models of text have one for images.
    A plan gives its prompt as `planned`: then files alone are asked, for the prompt's template
    too, and what they don't tell passes.
    """
    if planned is not None:
        stored = stored_tokens(policy.files) if policy.is_here else None
        if stored is None:
            return
        ids, special, end = stored
    else:
        tokenizer = policy.tokenizer
        ids, end = tokenizer.get_vocab(), tokenizer.eos_token
        added = tokenizer.added_tokens_decoder.values()
        special = {token.content for token in added if token.special}
        special -= {tokenizer.bos_token, end, tokenizer.pad_token}
    rows = embedding_rows(policy.files) or model_config(str(policy.files)).get("vocab_size")
    template = f"{policy.tokenizer_facts.chat_template}"
    unused = {token for token in special if token not in template}
    entries = max(number for token, number in ids.items() if token not in unused) + 1
    if rows is not None and entries > rows:
        raise ConfigurationError(
            f"the tokenizer of {policy.label} has {entries} entries, and its model {rows}: it is "
            "another model's, or was enlarged without it",
            "put the model's own tokenizer beside it, or resize the model's embeddings",
        )
    if end is None:
        raise ConfigurationError(
            f"the tokenizer of {policy.label} has no end-of-sequence token, so no text would end",
            "name one as eos_token in its tokenizer_config.json",
        )
    if planned is not None:
        PromptTemplate.from_section(planned, policy.tokenizer_facts)


def check_fitting_layers(policy: Policy, model: PretrainedModel | ScratchModel) -> None:
    """Refuse to train a policy by RL whose head or adapter the training step can't compute with.

    The step multiplies the states before the head with the head's own weights. A LoRA adapter on
    the head (not one that saves it whole) would be left out, and one with biases on layers without
    them can be trained, but not merged by `sage export`. Only files are read.
    """
    if not policy.is_here:
        return
    adapter = read_json(policy.files / ADAPTER_FILE)
    targets = adapter.get("target_modules") if adapter else ()
    if not adapter and model.tuning == "lora":
        targets = model.lora.targets
    names = [targets] if isinstance(targets, str) else list(targets or ())
    heads = [name for name in names if name.rpartition(".")[2] in _HEADS]
    if heads:
        source = f"the adapter {policy.label}" if adapter else "model.lora.targets"
        raise ConfigurationError(
            f"{source} has {heads[0]} among its targets, and RL computes log-probabilities with "
            "the head's own weights",
            f"merge it first with `sage export {policy.word} FOLDER`, and give --init FOLDER"
            if adapter
            else f"leave {heads[0]} out of model.lora.targets",
        )
    if adapter.get("lora_bias"):
        raise ConfigurationError(
            f"the adapter {policy.label} has lora_bias, and `sage export` could not merge what is "
            "trained from it into layers without a bias",
            "make the adapter without lora_bias",
        )
    kind = None
    with suppress(DataError):  # of a base that isn't here yet
        folder = model_files(adapter_base(policy.files)) if adapter else policy.files
        kind = read_json(folder / "config.json").get("model_type")
    if kind in _WITHOUT_BACKBONE:
        raise ConfigurationError(
            f"RL can't start from {policy.label}: a {kind} has no part that computes the states "
            "before the head by itself",
            "use the whole model that the text model was taken from, or another family",
        )


def check_adapter_tuning(policy: Policy, tuning: str) -> None:
    """Refuse to tune every weight of what is an adapter on another model."""
    if tuning == "full" and is_adapter(Path(policy.path)):
        raise ConfigurationError(
            f"{policy.label} is a LoRA adapter, and model.tuning is 'full'",
            "use --set model.tuning=lora, or start from a model that was tuned in full",
        )


def _facts(policy: Policy) -> Facts:
    """Return the facts of a policy: from its run, its adapter's base's run, or its folder."""
    folder, run = Path(policy.path), policy.run
    if run is None and is_adapter(folder):
        run = run_of(Path(adapter_base(folder)))
    if run is None:
        return facts_of_folder(folder)
    section = run.read_config().get("model")
    return facts_of_section(_MODEL.validate_python(section)) if section else {}


def note_weights(run: Run) -> None:
    """Write down what the weights are that a training has just left."""
    run.note(weights=fingerprint(run.model))


def require_same_parent(run: Run, parent: Policy) -> None:
    """Raise StoreError where `run` began from other weights than `parent` has now."""
    began_from = run.read_manifest().get("parent_weights")
    if began_from not in (None, parent.fingerprint):
        raise StoreError(
            f"{run.id} was started from weights {began_from} of {parent.label}, which "
            f"now has {parent.fingerprint}",
            f"restore {parent.label}, or start again with --fresh (this deletes the stored run)",
        )


def require_childless(run: Run, runs: Runs) -> None:
    """Raise StoreError where other runs grew from `run`, whose weights a new training may change.

    They would be left without the weights that they began from.
    """
    if children := runs.children(run):
        raise StoreError(
            f"{', '.join(children)} was trained from {run.id}: training that run again "
            "may change its weights, and unfinished runs that start from it could not "
            "resume",
            "remove them first (`sage runs remove`), or train with another seed",
        )


def check_one_method(side: Sequence[Policy], opposite: Sequence[Policy], runs: Runs) -> None:
    """Raise ConfigurationError if runs of one side differ in more than seeds.

    Seeds are those of the training, and of data and SFT of the initial policy. Policies without
    stored settings are passed over (`unchecked`). `opposite` is the other side, for the next step.
    """
    described = [member for member in side if method_settings(member, runs)]
    for policy in described[1:]:
        differing = _differing(method_settings(described[0], runs), method_settings(policy, runs))
        if differing:
            pairs = [
                f"sage compare {member.word} {opposite[0].word}" for member in side if opposite
            ]
            raise ConfigurationError(
                f"{described[0].label} and {policy.label} are on one side of the "
                "comparison, which must contain training seeds of one method, but "
                f"they differ in {_named(differing)}",
                "compare them one by one: " + "; ".join(pairs or ["one run on each side"]),
            )


def named_training_seeds(names: Sequence[str], runs: Runs) -> list[str]:
    """Return `names`, with each `NAME@seeds` replaced by the runs that differ in seeds alone.

    NAME is the ID of one of them, or a part of their IDs; they are sorted by their training seed.
    Raises StoreError where NAME fits no run of RL, and ConfigurationError where it fits several
    methods, or where one of the runs isn't finished: which seeds are compared is never a surprise.
    """
    return [
        word
        for name in names
        for word in (
            _ids_of_method(name.removesuffix(ALL_SEEDS), runs)
            if name.endswith(ALL_SEEDS)
            else [name]
        )
    ]


def _ids_of_method(name: str, runs: Runs) -> list[str]:
    read = {run: run.read() for run in runs.whole()}
    trained = {run.id: run for run, state in read.items() if state.manifest.get("kind") == "rl"}
    fitting = fitting_names(name, trained)
    if not fitting:
        runs.find(name)  # says that there is none, or offers what was meant
        raise StoreError(f"{name} is not a run of `sage rl`", "name training runs")
    settings_of = {id_: method_settings(Policy.of_run(run), runs) for id_, run in trained.items()}
    methods: list[str] = []
    for id_ in fitting:
        if all(_differing(settings_of[id_], settings_of[other]) for other in methods):
            methods.append(id_)
    if len(methods) > 1:
        first, second = methods[:2]
        differing = _named(_differing(settings_of[first], settings_of[second]))
        raise ConfigurationError(
            f"'{name}' fits {len(methods)} methods: {first} and {second} differ in {differing}",
            "give the whole ID of one run of the method that you mean: "
            + " or ".join(f"{id_}{ALL_SEEDS}" for id_ in methods),
        )
    alike = sorted(
        (id_ for id_ in trained if not _differing(settings_of[id_], settings_of[methods[0]])),
        key=lambda id_: (read[trained[id_]].manifest.get("seed") or 0, id_),
    )
    finished = [id_ for id_ in alike if read[trained[id_]].finished]
    if unfinished := [id_ for id_ in alike if id_ not in finished]:
        raise ConfigurationError(
            f"of the {len(alike)} runs of {name}{ALL_SEEDS}, {len(unfinished)} can't be compared: "
            + ", ".join(f"{id_} is {read[trained[id_]].status}" for id_ in unfinished),
            "run its command again to resume it, or name the finished runs: "
            + (",".join(finished) or "there is none yet"),
        )
    return finished


def own_controls(
    side: Sequence[Policy], opposite: Sequence[Policy], runs: Runs
) -> tuple[list[Policy], list[str]]:
    """Return the own controls of a side's method that are on no side, and a note on them.

    A guide's own control is its unguided baseline: the same method and KL term without the guide,
    from the same initial policy, trained with any seed. The newest of each seed of the side is
    taken, else the newest of all. A method without a guide has none.
    """
    guided = [(policy.run, _exactly(policy.run, runs)) for policy in side if policy.run]
    if not guided or (guide := guided[0][1].get("guide.name", "none")) == "none":
        return [], []
    without = {"guide.name": (guide, "none")}
    made = [(run, _exactly(run, runs)) for run in runs.whole()]
    pairs = [(r, run) for r, a in guided for run, b in made if _differing(a, b) == without]
    states = {run: run.read() for pair in pairs for run in pair}
    seeds = {run: state.manifest.get("seed") for run, state in states.items()}
    of_seeds = [run for r, run in pairs if seeds[r] == seeds[run]]
    alike = list(dict.fromkeys(run for _, run in pairs))
    alike.sort(key=lambda run: (states[run].finished, run in of_seeds))
    label, step = side[0].label, side[0].checkpoint
    for policy in opposite:
        if policy.run in alike and policy.checkpoint == step:
            return [], [f"{policy.label} is {label}'s unguided baseline"]
    command = (
        f"`sage compare {side[0].word} {alike[-1].id}` comes first"
        if alike
        else _how_to_train_baselines([run for run, _ in guided])
    )
    whole = [run for run in alike if Policy.of_run(run).is_here and step is None]
    own = {seeds[run]: run for run in whole if run in of_seeds}
    return [Policy.of_run(run) for run in own.values() or whole[-1:]], [
        f"{label}'s unguided baseline (the same method and KL term without the guide) is not "
        f"compared: {command}"
    ]


def _how_to_train_baselines(guided: Sequence[Run]) -> str:
    """Return the command that trains the first guided run again without its guide.

    Its stored configuration keeps all other settings, so it needs no flag but the guide's, and the
    initial policy where that is another than the settings name.
    """
    run, others = guided[0], len(guided) - 1
    words = ["sage", "rl", "--config", str(run.folder / "config.json"), "--guide", "none"]
    manifest = run.try_manifest()
    if "--init" in str(manifest.get("command")).split():
        words += ["--init", str(manifest.get("parent"))]
    alike = f", and the same for the other {counted(others, 'run')}" if others else ""
    return f"train it with `{shlex.join(words)}`{alike}"


def unchecked(side: Sequence[Policy], runs: Runs) -> list[str]:
    """Return the labels of a side's policies without stored settings; none if there is only one."""
    return [policy.label for policy in side if len(side) > 1 and not method_settings(policy, runs)]


def method_settings(policy: Policy, runs: Runs) -> _Settings:
    """Return the settings that made a policy, without seeds; empty if nothing is stored of them."""
    made = {} if policy.run is None else dict(_of_run(policy.run, runs))
    if made and policy.checkpoint is not None:
        made["checkpoint"] = policy.checkpoint
    return made


def training_seed(policy: Policy) -> TrainingSeed | None:
    """Return what a policy's run of RL began with; None where that isn't known, or no run made it.

    The order of the rows follows from the training's seed and the rows alone, so two runs with one
    seed, the same initial weights, and the same rows under the same prompt draw the same problems
    in the same order, whatever their methods do with them.
    """
    from sage_cli.metrics.comparison import TrainingSeed  # loads numpy, which a plan does without

    run = policy.run
    known = {} if run is None else run.try_manifest()
    weights, number = known.get("parent_weights"), known.get("seed")
    if run is None or known.get("kind") != "rl" or weights is None or number is None:
        return None
    if not (run.folder / "config.json").is_file():
        return None
    schema, usual = settings(), dict(leaves({"data": DataSection().model_dump(mode="json")}))
    # a setting that is newer than the run has its default there
    rows = {
        key: value
        for key, value in leaves({"data": run.read_config().get("data") or {}})
        if not key.startswith("data.sft.")
        and not (key in schema and schema[key].cosmetic)
        and value != usual.get(key)
    }
    began = {"weights": weights, "rows": rows, "origins": known.get("data")}
    origin = identity_of("origin", {**began, "template": known.get("template")})
    return TrainingSeed(int(number), origin, policy.label)


def _exactly(run: Run, runs: Runs) -> _Settings:
    """Return the settings that made a run and its initial policy, without the training's seed."""
    return {
        **dict(_of_run(run, runs, seeds=True)),
        "initial policy": run.try_manifest().get("parent"),
    }


def _of_run(run: Run, runs: Runs, *, seeds: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield the settings that made a run, with `seeds` also those of its data."""
    config, manifest = run.read_config(), run.try_manifest()
    kind = str(manifest.get("kind"))
    if kind not in DETERMINING or not (run.folder / "config.json").is_file():
        return
    yield "kind", kind
    schema, scratch = settings(), config.get("model", {}).get("kind") == "scratch"
    # random weights are always trained in full: the tuning is RL's
    elsewhere = (
        *_NOT_READ[kind],
        *(("model.tuning", "model.lora.") if scratch and kind == "sft" else ()),
    )
    sections = {name: config[name] for name in DETERMINING[kind] if name in config}
    for key, value in leaves(sections):
        field = schema.get(key)
        is_seed = key == f"{kind}.seed" or (key.endswith(".seed") and not seeds)
        if is_seed or key.startswith(elsewhere) or (field and field.cosmetic):
            continue
        if unread(config, key):
            continue
        yield key, value
    parent = Run(runs.root / str(manifest.get("parent")))
    if not parent.has_begun():
        yield "initial policy", manifest.get("parent_weights") or manifest.get("parent")
    else:
        yield from ((f"initial policy: {key}", value) for key, value in _of_run(parent, runs))


def _differing(a: _Settings, b: _Settings) -> dict[str, tuple[Any, Any]]:
    """Return the settings in which two methods differ.

    Of a section that holds different members (`guide.name`) only that is named. A setting that one
    run lacks is newer than the run, which was trained as its default does.
    """
    schema = settings()
    differing = {
        key: (a.get(key), b.get(key))
        for key in dict.fromkeys((*a, *b))
        if a.get(key) != b.get(key) and ((key in a and key in b) or _key(key) not in schema)
    }
    chosen = {
        key for key in differing for name, tag in UNIONS.items() if _key(key) == f"{name}.{tag}"
    }
    hidden = tuple(key.rpartition(".")[0] + "." for key in chosen)
    return {k: v for k, v in differing.items() if k in chosen or not k.startswith(hidden)}


def _key(key: str) -> str:
    """Return the setting in `initial policy: sft.steps`."""
    return key.rpartition(": ")[2]


def _named(differing: Mapping[str, tuple[Any, Any]]) -> str:
    names = [f"{key} ({a} and {b})" for key, (a, b) in list(differing.items())[:NAMED_AT_MOST]]
    more = len(differing) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
