"""The JSON schema of a value that `json_text` writes, from its type alone."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import (
    DataclassSchema,
    FloatSchema,
    IsInstanceSchema,
    ModelSchema,
    TypedDictSchema,
)

DIALECT = "https://json-schema.org/draft/2020-12/schema"
NUMBER: JsonSchemaValue = {"anyOf": [{"type": "number"}, {"enum": [None, "inf", "-inf"]}]}
"""JSON has no NaN and no infinity: `json_text` writes null and these texts."""


def json_schema(of: Any) -> dict[str, Any]:
    """The schema of JSON made from a TypedDict, a dataclass, a section or what they hold.

    Every key that the type names is there, unless it is a `NotRequired` one, and no other.
    """
    # the configuration of a tuple reaches the types inside, which may hold arrays
    adapter = TypeAdapter(tuple[of], config=ConfigDict(arbitrary_types_allowed=True))
    found = adapter.json_schema(mode="serialization", schema_generator=_Schema)
    (schema,) = found["prefixItems"]
    return {"$schema": DIALECT, **schema, **({"$defs": found["$defs"]} if "$defs" in found else {})}


class _Schema(GenerateJsonSchema):
    """Pydantic's, for what `json_text` writes."""

    def field_is_required(self, field: Any, total: bool) -> bool:
        """A field with a default is written like any other."""
        return field["type"] != "typed-dict-field" or super().field_is_required(field, total)

    def field_title_should_be_set(self, schema: Any) -> bool:
        """A key says enough."""
        return False

    def float_schema(self, schema: FloatSchema) -> JsonSchemaValue:
        """A number, which may be undefined."""
        return NUMBER

    def is_instance_schema(self, schema: IsInstanceSchema) -> JsonSchemaValue:
        """The one foreign class that answers hold: an array of numpy, of one dimension."""
        return {"type": "array", "items": NUMBER}

    def typed_dict_schema(self, schema: TypedDictSchema) -> JsonSchemaValue:
        """Closed, unless the type says that it is open."""
        return {"additionalProperties": False, **super().typed_dict_schema(schema)}

    def dataclass_schema(self, schema: DataclassSchema) -> JsonSchemaValue:
        """Closed."""
        return {"additionalProperties": False, **super().dataclass_schema(schema)}

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        """A section says by itself whether it is open, and has no default where it is written."""
        return super().model_schema(schema)
