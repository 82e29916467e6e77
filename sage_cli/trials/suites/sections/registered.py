"""What was registered beforehand, and each departure from it by name."""

from __future__ import annotations

from sage_cli.reports.document import Document
from sage_cli.reports.tables.table import Row, Table, columns
from sage_cli.trials.suites.registered.standing import Standing


def registered(standing: Standing) -> Document:
    """Return the section of a suite's registration."""
    held, marks = standing.registration, standing.marks
    rows = tuple(Row((one["kind"], one["name"], one["registered"], one["now"])) for one in marks)
    heads = columns("kind, departure, registered, now")
    count = f"{len(marks)} departure{'' if len(marks) == 1 else 's'}" if marks else "No departures"
    table = Table(f"{count} from the registration", heads, rows)
    return Document(
        name="registered",
        title="Registered beforehand",
        data={
            "file": standing.file,
            "hash": held["hash"],
            "registered": held["registered"],
            "commit": held["commit"],
            "late": held["late"],
            "departures": marks,
            "decides": standing.decides,
        },
        tables=(table,),
        sheets={"departures": table},
        notes=(
            f"{standing.file}, {held['registered']}, commit {held['commit'] or 'unknown'}, hash "
            f"{held['hash']}",
            *_power(standing),
            "departure: something that decides the results and is not as registered; decided "
            "later: it is not in the registration",
        ),
    )


def registered_fact(standing: Standing) -> str:
    """Return when the suite was registered, with the number of departures."""
    marks = len(standing.marks)
    return f"{standing.registration['registered']}, hash {standing.hash}; " + (
        f"{marks} departure{'' if marks == 1 else 's'}" if marks else "nothing departs from it"
    )


def _power(standing: Standing) -> list[str]:
    power = standing.registration["power"]
    notes = []
    if power["detectable"] is not None:
        notes.append(
            f"planned power: {power['initial_policies']} initial policies whose differences "
            f"deviate by {power['deviation']:g} detect {power['detectable']:.4f} in four of five "
            "cases"
        )
    if power["note"]:
        notes.append(f"planned power: {power['note']}")
    return notes
