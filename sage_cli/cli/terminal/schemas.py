"""The JSON schema of each command's answer, from the types of `answers.py` and of the rooms.

It imports every room, so only `sage schema`, the documentation's build and tests read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import new_class
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import (
    DataclassSchema,
    FloatSchema,
    IsInstanceSchema,
    TypedDictSchema,
    WithDefaultSchema,
)
from typing_extensions import TypedDict

from sage_cli.analysis.registry import ANALYSES
from sage_cli.cli.terminal import answers, run_answers
from sage_cli.cli.trials import sweep_answers
from sage_cli.commands.data import Overlap
from sage_cli.commands.measure.plot import PlotData
from sage_cli.commands.stored.export import Exported
from sage_cli.commands.trials.suite import SuitePlan
from sage_cli.config.schema import SageConfig
from sage_cli.reports.comparison import ComparisonData
from sage_cli.reports.document import ReportJson
from sage_cli.reports.evaluation import EvaluationData
from sage_cli.reports.power import PowerData
from sage_cli.reports.sweeps.data import SweepResult
from sage_cli.reports.token_report import TokenReport

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(*kinds: Any) -> dict[str, Any]:
    """The schema of JSON made from one of these: TypedDicts, dataclasses, sections.

    Every key that a type names is there, unless it is a `NotRequired` one, and no other.
    """
    # the configuration of a tuple reaches the types inside, which may hold arrays
    whole: Any = tuple.__class_getitem__(kinds)
    adapter: TypeAdapter[Any] = TypeAdapter(whole, config=ConfigDict(arbitrary_types_allowed=True))
    found = adapter.json_schema(mode="serialization", schema_generator=_Schema)
    schemas, parts = found["prefixItems"], found.get("$defs", {})
    one = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {**one, **({"$defs": parts} if parts else {})}


class _Schema(GenerateJsonSchema):
    """Pydantic's, for what `json_text` writes."""

    def field_is_required(self, field: Any, total: bool) -> bool:
        """A field with a default is written like any other."""
        return field["type"] != "typed-dict-field" or super().field_is_required(field, total)

    def field_title_should_be_set(self, _schema: Any) -> bool:
        """A key says enough."""
        return False

    def float_schema(self, _schema: FloatSchema) -> JsonSchemaValue:
        """JSON has no NaN and no infinity: `json_text` writes null and these texts."""
        return {"anyOf": [{"type": "number"}, {"enum": [None, "inf", "-inf"]}]}

    def is_instance_schema(self, _schema: IsInstanceSchema) -> JsonSchemaValue:
        """The one foreign class that answers hold: an array of numpy, of one dimension."""
        return {"type": "array", "items": self.float_schema({"type": "float"})}

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        """Leave out defaults: answers have every key."""
        return self.generate_inner(schema["schema"])

    def typed_dict_schema(self, schema: TypedDictSchema) -> JsonSchemaValue:
        """Closed, unless the type says that it is open."""
        return {"additionalProperties": False, **super().typed_dict_schema(schema)}

    def dataclass_schema(self, schema: DataclassSchema) -> JsonSchemaValue:
        """Closed."""
        return {"additionalProperties": False, **super().dataclass_schema(schema)}


VERSION = 1
"""Raised when a key goes away, or gets another name, type or meaning; not when one is added."""
ERROR = "error"


def _report(name: str, data: type) -> type:
    """Return the type of a report with these data: TypedDicts can't be joined at run time."""
    names: Any = {"__module__": data.__module__, "__doc__": data.__doc__, "__annotations__": {}}
    return new_class(name, (ReportJson, data), exec_body=lambda space: space.update(names))


def _flat(name: str, of: type, said: str, /, **more: Any) -> Any:
    """Return a TypedDict with the fields of a dataclass and `more` keys."""
    make: Any = TypedDict
    made = make(name, {**more, **get_type_hints(of, include_extras=True)})
    made.__doc__ = said
    return made


_PLAN = answers.PlanAnswer

ANSWERS: Mapping[str, tuple[Any, ...]] = {
    "sft": (answers.Trained, _PLAN),
    "rl": (answers.Trained, _PLAN),
    "eval": (_report("EvaluationReport", EvaluationData), _PLAN),
    "passk": (answers.PasskReport, _PLAN),
    "compare": (_report("ComparisonReport", ComparisonData),),
    "power": (_report("PowerReport", PowerData),),
    "analyze": (
        *(_report(f"{name.title()}Report", one.data) for name, one in ANALYSES.items()),
        answers.AnalysesAnswer,
        _PLAN,
    ),
    "sweep": (
        _flat("SweepReport", SweepResult, SweepResult.__doc__ or "", **get_type_hints(ReportJson)),
        _PLAN,
    ),
    "sweep list": (sweep_answers.SweepsAnswer,),
    "sweep show": (sweep_answers.SweepAnswer,),
    "sweep best": (sweep_answers.BestAnswer,),
    "sweep pictures": (sweep_answers.PicturesAnswer,),
    "sweep cancel": (sweep_answers.CancelAnswer,),
    "sweep remove": (sweep_answers.RemovedSweepAnswer,),
    "sweep dashboard": (sweep_answers.CommandAnswer,),
    "suite list": (answers.SuitesAnswer,),
    "suite plan": (SuitePlan,),
    "suite run": (answers.SuiteAnswer, SuitePlan),
    "suite report": (answers.SuiteAnswer,),
    "grade": (answers.GradeAnswer,),
    "export": (
        _flat(
            "ExportAnswer",
            Exported,
            "What was exported, and where to.",
            folder=str,
            address=str | None,
        ),
    ),
    "config algos": (dict[str, answers.AlgorithmJson],),
    "demo": (answers.DemoAnswer, _PLAN),
    "data list": (answers.SourcesAnswer,),
    "data show": (answers.SourceAnswer,),
    "data overlap": (
        _flat("OverlapAnswer", Overlap, "What two sources share.", train=str, bench=str),
    ),
    "samples tokens": (TokenReport,),
    "runs list": (run_answers.RunsAnswer, run_answers.RunColumnsAnswer),
    "runs show": (run_answers.RunAnswer,),
    "runs diff": (run_answers.DifferencesAnswer,),
    "runs path": (run_answers.FolderAnswer,),
    "runs prune": (run_answers.PrunedAnswer,),
    "runs remove": (run_answers.RemovedAnswer,),
    "reports list": (answers.ReportsAnswer,),
    "view": (answers.ViewAnswer, answers.ExportedAnswer),
    "runs plot": (_report("PlotReport", PlotData),),
    "samples import": (answers.ImportedAnswer,),
    "samples show": (answers.SamplesAnswer, answers.TrainingCompletionsAnswer),
    "config show": (SageConfig, answers.OriginsAnswer),
    "config explain": (answers.SettingsAnswer,),
    "config presets": (answers.PresetsAnswer,),
    "config check": (answers.CheckedAnswer,),
    "doctor": (answers.DoctorAnswer,),
    "init": (answers.WrittenAnswer,),
    ERROR: (answers.ErrorAnswer,),
}
"""Command without `sage` -> types of its output; `error` is that of a failed command."""


def schema(command: str) -> dict[str, Any]:
    """Return the schema (JSON Schema 2020-12) of what a command that succeeds prints."""
    found = json_schema(*ANSWERS[command])
    return {
        "$schema": DIALECT,
        "$id": f"urn:sage-rlvr:json:{VERSION}:{command.replace(' ', '-')}",
        "title": "any command that fails" if command == ERROR else f"sage {command} --json",
        **found,
    }
