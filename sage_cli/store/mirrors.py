"""Mirrors of a run's files in W&B, TensorBoard and trackio, which can fail or be rebuilt."""

from __future__ import annotations

import logging
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from textwrap import indent
from typing import Any, Literal

from sage_cli.config.consent import without_services
from sage_cli.errors import ConfigurationError
from sage_cli.settings.tracking import TrackingSection
from sage_cli.store.evaluations import evaluation_figures
from sage_cli.store.run import Run

log = logging.getLogger(__name__)
_Record = Mapping[str, Any]
_COLUMNS = ("prompt", "completion", "gold", "grade", "reward")


class Follower:
    """Keeps a mirror up to date with a run; one that fails is given up with one warning.

    Opening replays the run's files, so that a resumed run's mirror has every step.
    """

    def __init__(self, mirror: Mirror, run: Run) -> None:
        self._mirror, self._run = mirror, run
        self._opened = self._failed = False

    def log(self, record: _Record) -> None:
        """Mirror a step that is in the run's files."""
        if self._opened:
            self._attempt(lambda: self._mirror.log(record, self._run.rollouts.last(record["step"])))
        else:
            self._attempt(lambda: self._replay(record["step"]))

    def show_evaluations(self) -> None:
        """Mirror the evaluations; a mirror that is not open is rebuilt from the run's files."""
        if self._opened:
            self._attempt(self._summarise)
        else:
            self._attempt(lambda: self._replay(None))
            self.close()

    def close(self) -> None:
        """Finish the mirror, if it was ever begun."""
        if self._opened:
            self._attempt(self._mirror.close)

    def _replay(self, trained_from: int | None) -> None:
        self._mirror.open(trained_from)
        self._opened = True
        rollouts: defaultdict[int, list[_Record]] = defaultdict(list)
        for row in self._run.rollouts.read():
            rollouts[row["step"]].append(row)
        for record in self._run.metrics.read():
            self._mirror.log(record, rollouts[record["step"]])
        self._summarise()

    def _summarise(self) -> None:
        if figures := evaluation_figures(self._run):
            self._mirror.summarise(figures)

    def _attempt(self, action: Callable[[], None]) -> None:
        if self._failed:
            return
        try:
            action()
        except Exception as error:  # a mirror's failure must not end the training
            self._failed = True
            name, run = self._mirror.name, self._run.id
            log.warning("%s stopped mirroring %s: %s; metrics.jsonl is complete", name, run, error)


def mirrors_of(tracking: TrackingSection, run: Run) -> list[Follower]:
    """Return the mirrors in `tracking`, not yet opened."""
    mirrors: list[Mirror] = []
    if tracking.wandb != "off":
        mirrors.append(WandbMirror(run, tracking.wandb))
    if tracking.tensorboard:
        mirrors.append(TensorboardMirror(run.folder / "tensorboard"))
    if tracking.trackio:
        mirrors.append(TrackioMirror(run))
    return [Follower(mirror, run) for mirror in mirrors]


def require_mirrors(tracking: TrackingSection) -> None:
    """Raise ConfigurationError if a mirror's package is not installed."""
    asked = {"tensorboard": tracking.tensorboard, "trackio": tracking.trackio}
    for package in (name for name, is_asked in asked.items() if is_asked):
        if find_spec(package) is None:
            raise ConfigurationError(
                f"tracking.{package} is true, and the package {package} is not installed",
                f"pip install {package}, or use --set tracking.{package}=false",
            )


class WandbMirror:
    """One W&B run per run, under its id, with its configuration, group and kind.

    `offline`: one directory below `runs/<id>/wandb/` has everything, and `wandb sync` uploads it. A
    finished one cannot be reopened, so opening replaces it. `online`: W&B's run is resumed without
    sending its steps again.
    """

    name = "W&B"

    def __init__(self, run: Run, mode: str) -> None:
        self._run, self._mode = run, mode
        self._wandb: Any = None

    def open(self, trained_from: int | None) -> None:
        """Start W&B's run, whose steps from `trained_from` on are void if any are trained now.

        Online without a key becomes offline.
        """
        mode = available_mode(self._mode, self._run.id)
        if mode == "offline":
            shutil.rmtree(self._run.folder / "wandb", ignore_errors=True)
            self._wandb = self._started("offline", resume=None)
            return
        self._wandb = self._started("online", resume="allow")
        if trained_from is not None and (last := self._wandb.starting_step - 1) >= trained_from:
            log.warning(
                "W&B keeps its values of steps %d to %d of %s, which are trained again; "
                "metrics.jsonl has the new ones",
                trained_from,
                last,
                self._run.id,
            )

    def _started(self, mode: Literal["online", "offline"], **arguments: Any) -> Any:
        """Start W&B's run; `arguments` are further ones of `wandb.init`."""
        import wandb

        run, config = self._run, self._run.read_config()
        return wandb.init(
            dir=str(run.folder),
            id=run.id,
            name=run.id,
            config=dict(without_services(config)),
            project=config["tracking"]["project"],
            group=config["tracking"]["group"],
            job_type=run.read_manifest()["kind"],
            mode=mode,
            **arguments,
            reinit="finish_previous",  # else a run that was given up is reused
            settings=wandb.Settings(console="off", silent=True, x_disable_stats=True),
        )

    def log(self, record: Mapping[str, Any], rollouts: Sequence[Mapping[str, Any]]) -> None:
        """Metrics, and the completions as a table, at W&B's step of the same number."""
        import wandb

        step = int(record["step"])
        if step < self._wandb.starting_step:
            return
        values = {key: value for key, value in record.items() if key != "step"}
        if rollouts:
            columns = ["step", *_COLUMNS]
            rows = [[row[column] for column in columns] for row in rollouts]
            values["rollouts"] = wandb.Table(columns=columns, data=rows)
        with staging_in(self._run.folder / "wandb"):
            self._wandb.log(values, step=step)

    def summarise(self, figures: Mapping[str, Any]) -> None:
        """The figures in the run's summary."""
        self._wandb.summary.update(dict(figures))

    def close(self) -> None:
        """Finish W&B's run."""
        self._wandb.finish()


def available_mode(mode: str, id_: str) -> Literal["online", "offline"]:
    """Return `mode`; online without a key becomes offline, since W&B would prompt for one."""
    import wandb

    if mode == "online" and wandb.login(prompt=False, verify=False):
        return "online"
    if mode == "online":
        log.warning("W&B has no key: %s is mirrored offline (`wandb login`)", id_)
    return "offline"


@contextmanager
def staging_in(folder: Path) -> Iterator[None]:
    """Let W&B stage its tables in `folder`, not at home, unless the user chose a folder."""
    name = "WANDB_DATA_DIR"
    if name in os.environ:
        yield
        return
    os.environ[name] = str(folder)
    try:
        yield
    finally:
        del os.environ[name]


class TensorboardMirror:
    """Event files in a folder of their own: `tensorboard --logdir runs` shows all runs.

    Figures of evaluations are scalars at the last step.
    """

    name = "TensorBoard"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: Any = None
        self._step = 0

    def open(self, trained_from: int | None) -> None:  # noqa: ARG002
        """Start with an empty folder."""
        from torch.utils.tensorboard import SummaryWriter

        shutil.rmtree(self._folder, ignore_errors=True)
        self._writer = SummaryWriter(str(self._folder))

    def log(self, record: Mapping[str, Any], rollouts: Sequence[Mapping[str, Any]]) -> None:
        """Metrics as scalars, the completions as text."""
        self._step = int(record["step"])
        self._scalars({key: value for key, value in record.items() if key != "step"})
        if rollouts:
            self._writer.add_text("rollouts", "\n\n".join(map(_markdown, rollouts)), self._step)

    def summarise(self, figures: Mapping[str, Any]) -> None:
        """The figures that are numbers."""
        self._scalars(figures)

    def close(self) -> None:
        """Flush and close the file."""
        self._writer.close()

    def _scalars(self, values: Mapping[str, Any]) -> None:
        for name, value in _numbers(values).items():
            self._writer.add_scalar(name, value, self._step)


def _markdown(row: Mapping[str, Any]) -> str:
    """Return grade, reward and gold above the prompt and its completion, as Markdown."""
    text = indent(f"{row['prompt']}{row['completion']}", "    ")
    return f"**{row['grade']}**, reward {row['reward']:g}, gold {row['gold']}\n\n{text}"


class TrackioMirror:
    """A run of the same name in trackio's project, which `trackio show` displays on this machine.

    It goes where trackio's own variables say (TRACKIO_DIR, TRACKIO_SPACE_ID), by default into a
    database on this machine. Figures of evaluations are values at the last step.
    """

    name = "trackio"

    def __init__(self, run: Run) -> None:
        self._run = run
        self._trackio: Any = None
        self._step = 0

    def open(self, trained_from: int | None) -> None:  # noqa: ARG002
        """Begin the run anew: what trackio has of an earlier session is replaced."""
        import trackio

        run, config = self._run, self._run.read_config()
        project = config["tracking"]["project"]
        with suppress(ValueError):  # there is no such project yet
            for earlier in trackio.Api().runs(project):
                if earlier.name == run.id:
                    earlier.delete()
        # trackio prints where it logs to, and with --json the output is one object
        with redirect_stdout(StringIO()):
            self._trackio = trackio.init(
                project=project,
                name=run.id,
                group=config["tracking"]["group"],
                config={**without_services(config), "kind": run.read_manifest()["kind"]},
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )

    def log(self, record: Mapping[str, Any], rollouts: Sequence[Mapping[str, Any]]) -> None:
        """Metrics by number, the completions as Markdown."""
        import trackio

        self._step = int(record["step"])
        values = _numbers({key: value for key, value in record.items() if key != "step"})
        if rollouts:
            values["rollouts"] = trackio.Markdown("\n\n".join(map(_markdown, rollouts)))
        self._trackio.log(values, step=self._step)

    def summarise(self, figures: Mapping[str, Any]) -> None:
        """The figures that are numbers."""
        self._trackio.log(_numbers(figures), step=self._step)

    def close(self) -> None:
        """Wait until everything is stored."""
        import trackio

        # the module's own, without which it would finish the run, and print, once more at exit
        with redirect_stdout(StringIO()):
            trackio.finish()


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


Mirror = WandbMirror | TensorboardMirror | TrackioMirror
