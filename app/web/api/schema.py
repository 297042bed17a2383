"""Types as JSON Schema 2020-12: what the served document says, and what the bodies of requests are checked against.

Understood are `str`, `int`, `float`, `bool`, `None`, `Any`, `Literal`, `list`, `dict`, unions, `TypedDict`,
`Page[...]`, and the ids of `core.ids`. `Annotated[..., such(...)]` adds what a type alone does not say.
"""

from dataclasses import dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NewType,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

Schema = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rule:
    """Keywords of JSON Schema beside a type."""

    keywords: tuple[tuple[str, Any], ...]


def such(**keywords: Any) -> Rule:
    """For `Annotated`: `such(maxLength=200)`, `such(minimum=1, description="...")`."""
    return Rule(tuple(keywords.items()))


class Page(TypedDict, Generic[T]):
    """A piece of a list. `next` is the cursor of the piece after it, null at the end."""

    items: list[T]
    next: str | None


_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    Any: {},
}


def schema_of(hint: Any, named: dict[str, Schema] | None = None) -> Schema:
    """The schema of values of the type `hint`.

    With `named`, each TypedDict goes in there under its name and is referred to; without, all stands in one piece
    and objects hold nothing but what their type names.
    """
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    if isinstance(hint, NewType):
        return {"type": "string", "format": "uuid"}
    if is_typeddict(hint):
        return _refer(hint, named)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return schema_of(args[0], named) | {name: value for rule in args[1:] for name, value in rule.keywords}
    if origin in (Required, NotRequired):
        return schema_of(args[0], named)
    if origin is Literal:
        return {"type": "string", "enum": list(args)}
    if origin in (Union, UnionType):
        return _any_of([schema_of(arg, named) for arg in args])
    if origin is list:
        return {"type": "array", "items": schema_of(args[0], named)}
    if origin is dict:
        return {"type": "object"}
    if origin is Page:
        return _page(schema_of(args[0], named))
    raise TypeError(f"{hint!r} has no JSON Schema here")


def _any_of(schemas: list[Schema]) -> Schema:
    """One of them; a plain type that may be null is written as a list of types."""
    others = [schema for schema in schemas if schema != {"type": "null"}]
    if len(schemas) - len(others) == 1 and len(others) == 1 and isinstance(others[0].get("type"), str):
        schema = others[0] | {"type": [others[0]["type"], "null"]}
        return schema | ({"enum": [*schema["enum"], None]} if "enum" in schema else {})
    return {"anyOf": schemas}


def _page(items: Schema) -> Schema:
    properties = {"items": {"type": "array", "items": items}, "next": {"type": ["string", "null"]}}
    return {"type": "object", "required": list(properties), "properties": properties}


def _refer(hint: Any, named: dict[str, Schema] | None) -> Schema:
    if named is None:
        return _object(hint, None) | {"additionalProperties": False}
    name = hint.__name__
    if name not in named:
        named[name] = {}  # it may refer to itself
        named[name] = _object(hint, named)
    return {"$ref": f"#/components/schemas/{name}"}


def _object(hint: Any, named: dict[str, Schema] | None) -> Schema:
    hints = get_type_hints(hint, include_extras=True)
    schema: Schema = {"type": "object"}
    if hint.__doc__:
        schema["description"] = " ".join(hint.__doc__.split())
    if hint.__required_keys__:
        schema["required"] = [name for name in hints if name in hint.__required_keys__]
    return schema | {"properties": {name: schema_of(kind, named) for name, kind in hints.items()}}
