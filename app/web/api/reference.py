"""The document of the API in the words of its page."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from app.web.api.schema import Schema


@dataclass(frozen=True, slots=True)
class Field:
    """One parameter, or one member of a body or an answer."""

    name: str
    kind: str
    required: bool
    about: str


@dataclass(frozen=True, slots=True)
class Action:
    """One operation."""

    method: str
    path: str
    summary: str
    description: str
    admin: bool
    parameters: tuple[Field, ...]
    body: tuple[Field, ...]
    answers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """One type of answers."""

    name: str
    about: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """All of it: operations by resource, then the types that they answer with."""

    version: str
    about: tuple[str, ...]
    groups: tuple[tuple[str, tuple[Action, ...]], ...]
    shapes: tuple[Shape, ...]


def of(document: Schema) -> Reference:
    actions = sorted(_actions(document["paths"]), key=lambda pair: pair[0])
    groups = groupby(actions, key=lambda pair: pair[0])
    named = document["components"]["schemas"]
    return Reference(
        document["info"]["version"],
        tuple(document["info"]["description"].strip().split("\n\n")),
        tuple((tag, tuple(action for _, action in pairs)) for tag, pairs in groups),
        tuple(Shape(name, found.get("description", ""), _members(found)) for name, found in named.items()),
    )


def _actions(paths: Mapping[str, Schema]) -> Iterator[tuple[str, Action]]:
    for path, methods in paths.items():
        for method, found in methods.items():
            yield found["tags"][0], _action(method.upper(), path, found)


def _action(method: str, path: str, found: Schema) -> Action:
    body = [_first_schema(found["requestBody"])] if "requestBody" in found else []
    return Action(
        method,
        path,
        found["summary"],
        found.get("description", ""),
        found.get("x-needs") == "admin",
        tuple(
            Field(each["name"], kind_of(each["schema"]), each.get("required", False), _about(each["schema"]))
            for each in found.get("parameters", ())
            if each["in"] != "path"
        ),
        tuple(member for schema in body for member in _members(schema)),
        tuple((status, _answer(answer)) for status, answer in found["responses"].items()),
    )


def _answer(answer: Schema) -> str:
    """What an answer holds: its type, or what went wrong."""
    schema = _first_schema(answer)
    failed = "application/problem+json" in answer.get("content", {})
    return answer["description"] if failed or not schema else kind_of(schema)


def _first_schema(holder: Schema) -> Schema:
    for content in holder.get("content", {}).values():
        return dict(content.get("schema", {}))
    return {}


def _members(schema: Schema) -> tuple[Field, ...]:
    required = schema.get("required", ())
    return tuple(
        Field(name, kind_of(member), name in required, _about(member))
        for name, member in schema.get("properties", {}).items()
    )


def _about(schema: Schema) -> str:
    """The sentence about a member itself; that of its type stands with the type."""
    return "" if "properties" in schema else str(schema.get("description", ""))


_WORDS = {
    "uuid": "id",
    "date-time": "time",
    "string": "text",
    "integer": "whole number",
    "boolean": "true or false",
}


def kind_of(schema: Schema) -> str:
    """What a value of this schema is, in a few words: `list of Message`, `id or null`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " or ".join("null" if option is None else f'"{option}"' for option in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(map(kind_of, schema["anyOf"]))
    kinds: Any = schema.get("type", "anything")
    if kinds == "array":
        return f"list of {kind_of(schema['items'])}"
    if kinds == "object" and "items" in schema.get("properties", {}):
        return f"a piece of a list of {kind_of(schema['properties']['items']['items'])}"
    listed = kinds if isinstance(kinds, list) else [kinds]
    return " or ".join(_word(kind, schema) for kind in listed)


def _word(kind: str, schema: Schema) -> str:
    written = schema.get("format", kind) if kind == "string" else kind
    return _WORDS.get(written, written)
