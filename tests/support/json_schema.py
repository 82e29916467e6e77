"""The JSON schema of what `json_text` writes of TypedDicts, dataclasses and sections."""

from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema


def json_schema(*kinds):
    """The schema of JSON made from one of these: TypedDicts, dataclasses, sections.

    Every key that a type names is there, unless it is a `NotRequired` one, and no other.
    """
    # the configuration of a tuple reaches the types inside, which may hold arrays
    whole = tuple.__class_getitem__(kinds)
    adapter = TypeAdapter(whole, config=ConfigDict(arbitrary_types_allowed=True))
    found = adapter.json_schema(mode="serialization", schema_generator=_Schema)
    schemas, parts = found["prefixItems"], found.get("$defs", {})
    one = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {**one, **({"$defs": parts} if parts else {})}


class _Schema(GenerateJsonSchema):
    """Pydantic's, for what `json_text` writes."""

    def field_is_required(self, field, total):
        """A field with a default is written like any other."""
        return field["type"] != "typed-dict-field" or super().field_is_required(field, total)

    def field_title_should_be_set(self, _schema):
        """A key says enough."""
        return False

    def float_schema(self, _schema):
        """JSON has no NaN and no infinity: `json_text` writes null and these texts."""
        return {"anyOf": [{"type": "number"}, {"enum": [None, "inf", "-inf"]}]}

    def is_instance_schema(self, _schema):
        """The one foreign class that answers hold: an array of numpy, of one dimension."""
        return {"type": "array", "items": self.float_schema({"type": "float"})}

    def default_schema(self, schema):
        """Leave out defaults: answers have every key."""
        return self.generate_inner(schema["schema"])

    def typed_dict_schema(self, schema):
        """Closed, unless the type says that it is open."""
        return {"additionalProperties": False, **super().typed_dict_schema(schema)}

    def dataclass_schema(self, schema):
        """Closed."""
        return {"additionalProperties": False, **super().dataclass_schema(schema)}
