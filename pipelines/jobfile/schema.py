"""JSON Schemas of job files, for editors and for the reference page.

What pydantic makes of the models, with the short forms that the models take before they validate (a path in
place of a source, one number in place of a pair) and the format options, which a library class checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from patchbeam.options import SPELLINGS
from pipelines.jobfile import JOBS, import_models, models, table_models

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string", "minLength": 1}
_TEXTS: Schema = {"type": "array", "items": _TEXT, "minItems": 1}
_PIXELS: Schema = {"type": "integer", "minimum": 1}
_PAIR: Schema = {
    "anyOf": [_PIXELS, {"type": "array", "items": _PIXELS, "minItems": 2, "maxItems": 2}],
}

FORMAT_OPTIONS: dict[str, Schema] = {
    "patchDimensions": {
        **_PAIR,
        "default": [256, 256],
        "description": "[width, height] of a patch in pixels; one number makes a square",
    },
    "kernelSize": {
        **_PAIR,
        "default": [1, 1],
        "description": "[x, y]; half of it, rounded down, is added on every side of a patch",
    },
    "compressed": {"type": "boolean", "default": True, "description": "shards are gzip files"},
    "maxFileSize": {
        "type": "integer",
        "minimum": 1,
        "default": 1 << 30,
        "description": "most bytes of a shard before compression, framing included",
    },
    "defaultValue": {
        "anyOf": [{"type": "number"}, {"enum": ["nan", "NaN", ".nan"]}],
        "default": 0,
        "description": "written where a pixel is masked, and as padding of arrays",
    },
    "tensorDepths": {
        "type": "object",
        "additionalProperties": {"type": "integer", "minimum": 1},
        "description": "array band → numbers stored for a pixel; needed for every array band of an Example",
    },
    "sequenceData": {
        "type": "boolean",
        "default": False,
        "description": "one SequenceExample a pixel in place of one Example a patch",
    },
    "collapseBands": {
        "type": "boolean",
        "default": False,
        "description": "all bands in one feature, named as the first band",
    },
    "maskedThreshold": {
        "type": "number",
        "minimum": 0,
        "maximum": 1,
        "default": 1,
        "description": "a patch of which a greater share is masked is dropped; 1 keeps all",
    },
}
"""Schemas of the format options, by their client spelling."""

SPLIT: Schema = {
    "type": "object",
    "properties": {
        "block": {
            **_PAIR,
            "default": [8, 8],
            "description": "[columns, rows] of patches that stay together",
        },
        "seed": {
            "type": "integer",
            "minimum": 0,
            "default": 0,
            "description": "decides which block goes where",
        },
    },
    "additionalProperties": {
        "type": "number",
        "minimum": 0,
        "maximum": 1,
        "description": "name of a split → its share of the blocks; shares sum to 1",
    },
}


def _sources(inner: Schema) -> Schema:
    # a name of a source → its path or paths, or the source in full
    full = {**inner, "additionalProperties": {"anyOf": [_TEXT, _TEXTS, inner["additionalProperties"]]}}
    return {"anyOf": [_TEXT, _TEXTS, full]}


def _bands(inner: Schema) -> Schema:
    return {**inner, "items": {"anyOf": [_TEXT, inner["items"]]}}


def _classes(inner: Schema) -> Schema:
    named = {"type": "object", "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "object"}]}}
    return {"anyOf": [{**inner, "items": {"anyOf": [{"type": "string"}, inner["items"]]}}, named]}


def _or(short: Schema) -> Callable[[Schema], Schema]:
    return lambda inner: {"anyOf": [short, inner]}


SHORT_FORMS: dict[Callable[..., Any], Callable[[Schema], Schema]] = {
    models._one_or_many: _or(_TEXT),
    models._pair: _or({"type": "integer"}),
    models._sources: _sources,
    models._bands: _bands,
    table_models._listed: _or({"type": "string"}),
    import_models._color: _or({"type": "string", "pattern": "^#?([0-9a-fA-F]{6}|[0-9a-fA-F]{8})$"}),
    import_models._classes: _classes,
}
"""Validators that run before those of pydantic, and what they add to the schema."""


class _Generator(GenerateJsonSchema):
    def function_before_schema(self, schema: Any) -> Schema:
        inner = super().function_before_schema(schema)
        add = SHORT_FORMS.get(schema["function"]["function"])
        return inner if add is None else add(inner)

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False  # they only repeat the key


def job_schema(kind: str) -> Schema:
    """Returns the JSON Schema (2020-12) of a job file.

    Args:
        kind: a key of ``JOBS``.
    """
    made = JOBS[kind].model_json_schema(by_alias=True, schema_generator=_Generator)
    properties = made["properties"]
    if "formatOptions" in properties:
        properties["formatOptions"] = _format_options(properties["formatOptions"])
    if kind == "export-image" and "split" in properties:
        said = properties["split"].get("description", "")
        properties["split"] = {"anyOf": [SPLIT, {"type": "null"}], "default": None, "description": said}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Patchbeam job {kind}",
        **{key: value for key, value in made.items() if key != "title"},
    }


def _format_options(given: Schema) -> Schema:
    properties = dict(FORMAT_OPTIONS)
    for client, rest in SPELLINGS.items():
        if rest != client:
            both = {**FORMAT_OPTIONS[client], "description": f"the other spelling of {client}"}
            properties[rest] = both
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "not": {"anyOf": [{"required": [a, b]} for a, b in SPELLINGS.items() if a != b]},
        "description": given.get("description", ""),
    }
