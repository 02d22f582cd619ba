"""JSON Schemas of all published events, and a check for breaking changes.

A schema describes the data of a CloudEvent: the envelope with the event in it. It allows further
fields. Readers ignore unknown fields, so fields can be added.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from watchkeeper.domain.run.envelope import Envelope
from watchkeeper.domain.run.registry import type_of
from watchkeeper.projections.published.cloud_event import schema_name, type_name

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_NO_NUMBERS = ["NaN", "Infinity", "-Infinity"]
"""The stored form of numbers that JSON cannot write."""

_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_SAME = ("format", "pattern", "propertyNames", "uniqueItems")

Schema = Mapping[str, Any]


def event_schema(topic: str) -> dict[str, Any]:
    """Return the JSON Schema of the data of a topic's events.

    Raises:
        KeyError: This code writes no event of this topic.
    """
    model = type_of[topic]
    # The parameter is known only at run time, so a type checker cannot follow it.
    envelope: Any = Envelope.__class_getitem__(model)
    described: dict[str, Any] = envelope.model_json_schema()
    doc = (model.__doc__ or "").split("\n\n")[0]
    schema: dict[str, Any] = _opened(described)
    return {
        **schema,
        "$schema": DIALECT,
        "$id": schema_name(topic),
        "title": type_name(topic),
        "description": " ".join(doc.split()),
    }


def _opened(node: Any) -> Any:
    """Return a schema without the parts that only our own decoding needs."""
    if isinstance(node, list):
        return [_opened(one) for one in node]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(node, dict):
        return node
    found = cast(dict[str, Any], node)
    if found.get("type") == "number":
        bounds = {name: value for name, value in found.items() if name != "default"}
        kept = {"default": found["default"]} if "default" in found else {}
        return {**kept, "anyOf": [bounds, {"enum": _NO_NUMBERS}]}
    opened: dict[str, Any] = {}
    for name, value in found.items():
        if name == "additionalProperties" and value is False:
            continue
        # The docstrings in it are for readers of the code and for the reference pages.
        if name == "description" and isinstance(value, str):
            continue
        if name == "pattern" and isinstance(value, str):
            # Not every regex dialect knows named character classes.
            value = value.replace(r"\p{Cc}", r"\u0000-\u001f\u007f-\u009f")
        opened[name] = _opened(value)
    return opened


def breaks(old: Schema, new: Schema) -> list[str]:
    """List the changes of a schema that break readers or the decoding of stored events.

    A field must not be removed or become required, and a type or bound must not become narrower.
    Allowed are a new optional field, a new value and a wider bound.

    Returns:
        A sentence for each break, with its place.
    """
    return list(_breaks(old, new, old, new, "data", 0))


def _breaks(
    old: Schema, new: Schema, old_root: Schema, new_root: Schema, at: str, depth: int
) -> Iterator[str]:
    assert depth < 50, "no event is nested so deeply"
    old, new = _resolved(old, old_root), _resolved(new, new_root)
    here = (old_root, new_root)
    if "anyOf" in old or "anyOf" in new:
        choices = list(new.get("anyOf", [new]))
        for place, one in enumerate(old.get("anyOf", [old])):
            found = [list(_breaks(one, two, *here, at, depth + 1)) for two in choices]
            if all(found):
                yield from (
                    min(found, key=len)
                    if len(found) == 1
                    else [f"{at}: what its choice {place + 1} allowed is allowed no more"]
                )
        return
    if "type" in new and old.get("type") != new["type"]:
        wider = (old.get("type"), new["type"]) == ("integer", "number")
        if not wider:
            yield f"{at}: it was {old.get('type', 'anything')}, and is {new['type']}"
            return
    yield from _narrower(old, new, at)
    before, after = old.get("properties", {}), new.get("properties", {})
    for name in before:
        if name not in after:
            yield f"{at}.{name}: the field is gone"
            continue
        yield from _breaks(before[name], after[name], *here, f"{at}.{name}", depth + 1)
    for name in sorted(set(new.get("required", ())) - set(old.get("required", ()))):
        yield f"{at}.{name}: it is required, and was not"
    for key in ("items", "additionalProperties"):
        inner_old, inner_new = old.get(key), new.get(key)
        if isinstance(inner_old, dict) and isinstance(inner_new, dict):
            one, two = cast(Schema, inner_old), cast(Schema, inner_new)
            yield from _breaks(one, two, *here, f"{at}[]", depth + 1)
        elif inner_old != inner_new and inner_new not in (None, True):
            yield f"{at}: its {key} are narrower than they were"
    yield from _tuples(old, new, here, at, depth)


def _tuples(
    old: Schema, new: Schema, roots: tuple[Schema, Schema], at: str, depth: int
) -> Iterator[str]:
    before, after = old.get("prefixItems", []), new.get("prefixItems", [])
    if len(before) != len(after):
        yield f"{at}: it had {len(before)} places, and has {len(after)}"
        return
    for place, (one, two) in enumerate(zip(before, after, strict=True)):
        yield from _breaks(one, two, *roots, f"{at}[{place}]", depth + 1)


def _narrower(old: Schema, new: Schema, at: str) -> Iterator[str]:
    """List the values of one schema that another schema of the same type refuses."""
    allowed = _values(new)
    if allowed is not None:
        before = _values(old)
        gone = [one for one in before or [] if one not in allowed]
        if before is None or gone:
            yield f"{at}: {gone or 'what is not listed'} is allowed no more"
    for name in _UPPER:
        if name in new and (name not in old or new[name] < old[name]):
            yield f"{at}: its {name} is {new[name]}, and was {old.get(name, 'none')}"
    for name in _LOWER:
        if name in new and (name not in old or new[name] > old[name]):
            yield f"{at}: its {name} is {new[name]}, and was {old.get(name, 'none')}"
    for name in _SAME:
        if name in new and new[name] != old.get(name):
            yield f"{at}: its {name} is {new[name]}, and was {old.get(name, 'none')}"


def _values(schema: Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    found: list[Any] | None = schema.get("enum")
    return found


def _resolved(schema: Schema, root: Schema) -> Schema:
    while "$ref" in schema:
        schema = root["$defs"][str(schema["$ref"]).rpartition("/")[2]]
    return schema
