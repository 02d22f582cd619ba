"""The JSON Schema of contract files, for completion and help in editors."""

import re
from inspect import cleandoc
from typing import Any, cast

from pydantic import BaseModel

from watchkeeper.adapters.contracts.guide import CONTRACT
from watchkeeper.domain.values.contract.contract import UNUSED_KEYS, Contract

DURATION_PATTERN = r"^([0-9]+(\.[0-9]+)?[dhms])+$"
"""How a contract writes a duration, such as `570s` or `1h30m`."""


def contract_schema() -> dict[str, Any]:
    """Return the schema, with descriptions from the docstrings and an example for each key."""
    schema = Contract.model_json_schema()
    _describe(Contract, schema, schema.get("$defs", {}), "")
    # People may write a command as one line of shell words.
    listed = schema["properties"]["command"]
    words = {name: listed[name] for name in ("type", "items")}
    schema["properties"]["command"] = {
        "description": listed.get("description", ""),
        "anyOf": [words, {"type": "string"}],
    }
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "watchkeeper contract"
    return schema


def _describe(
    model: type[BaseModel], schema: dict[str, Any], parts: dict[str, Any], prefix: str
) -> None:
    descriptions = meanings(model)
    schema["description"] = cleandoc(model.__doc__ or "").partition("\n")[0]
    for name, field in model.model_fields.items():
        key = f"{prefix}{name}"
        if key in UNUSED_KEYS:
            del schema["properties"][name]
            continue
        property_ = cast("dict[str, Any]", schema["properties"][name])
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            _describe(inner, parts[inner.__name__], parts, f"{key}.")
        guide = CONTRACT.get(key)
        said = descriptions.get(name, "")
        if guide is not None:
            said = f"{said} Expected: {guide.what}, for example {guide.example}.".strip()
        if said:
            property_["description"] = said
        _as_written(property_)


def _as_written(property_: dict[str, Any]) -> None:
    """Describe the form of a duration, and drop its ISO 8601 default, which we could not read."""
    choices = [property_, *property_.get("anyOf", [])]
    for choice in choices:
        if choice.get("format") == "duration":
            del choice["format"]
            choice["pattern"] = DURATION_PATTERN
            property_.pop("default", None)


def meanings(model: type[BaseModel]) -> dict[str, str]:
    """Return the description of each field from a model's docstring."""
    text = cleandoc(model.__doc__ or "")
    _, _, attributes = text.partition("Attributes:\n")
    found: dict[str, str] = {}
    name = ""
    for line in attributes.splitlines():
        match = re.match(r"^ {4}(\w+): (.*)$", line)
        if match is not None:
            name = match[1]
            found[name] = match[2]
        elif name and line.startswith("        "):
            found[name] += f" {line.strip()}"
    return found
