"""What a request says, read strictly: its body and query against the types that declare them, its path, its key.

A value that is not as declared is refused with the name of its field, and so is a field that nobody declared: nothing
is misspelt in silence.
"""

from functools import cache
from typing import Any, TypeVar, cast

from starlette.requests import Request

from app.core.errors import Invalid, NotFound, TooLong
from app.core.ids import is_id
from app.web import forms
from app.web.api.schema import Schema, schema_of

T = TypeVar("T")


async def body(request: Request, shape: type[T]) -> T:
    """The JSON object that the request carries, as the TypedDict `shape`. Where nothing is required, no body is an
    empty one. Raises Invalid, TooLong.
    """
    schema = _schema(shape)
    if "required" not in schema and not await request.body():
        return cast(T, {})
    fields = dict(await forms.json_object(request))
    _check_object(fields, schema)
    return cast(T, fields)


def query(request: Request, shape: type[T]) -> T:
    """What the address asks for beyond its path, as the TypedDict `shape`. An empty parameter is none, and one that
    nobody declared is passed over. Raises Invalid.
    """
    given, found = forms.query(request), dict[str, Any]()
    for name, schema in _schema(shape)["properties"].items():
        if given.get(name, "") == "":
            continue
        if schema["type"] == "boolean":
            found[name] = given.flag(name)
        elif schema["type"] == "integer":
            found[name] = given.whole(name, schema.get("minimum", 0), schema.get("maximum", 2**53))
        else:
            found[name] = given[name]
            _check(found[name], schema, name)
    return cast(T, found)


def path_id(request: Request) -> str:
    """The id in the path. Raises NotFound for what can be none."""
    found: str = request.path_params["id"]
    if not is_id(found):
        raise NotFound
    return found


def key(request: Request) -> str | None:
    """The idempotency key, if there is one; `replies.once` says what it may be."""
    return request.headers.get("idempotency-key")


def required_key(request: Request) -> str:
    """The idempotency key. Raises Invalid."""
    found = key(request)
    if found is None:
        raise Invalid(
            "This needs the header Idempotency-Key, so that sent twice it is done once.",
            field="Idempotency-Key",
        )
    return found


def _schema(shape: Any) -> Schema:
    return _made(shape)


_made = cache(schema_of)


# --- checking ---------------------------------------------------------------------------------------------


def _check_object(value: dict[str, Any], schema: Schema, within: str | None = None) -> None:
    """`within` is the field of the body that this object stands in: what is at fault further down goes by its name."""
    properties = schema["properties"]
    for name in value:
        if name not in properties:
            raise Invalid(f"There is no field '{name[:60]}' here.", field=within or name[:60])
    for name in schema.get("required", ()):
        if name not in value:
            raise Invalid(f"'{name}' is missing.", field=within or name)
    for name, member in value.items():
        _check(member, properties[name], within or name)


def _check(value: Any, schema: Schema, field: str) -> None:
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    kind = next((kind for kind in kinds if _is(value, kind)), None)
    if kind is None:
        raise Invalid(f"'{field}' is {' or '.join(_WORDS[kind] for kind in kinds)}.", field=field)
    if "enum" in schema and value not in schema["enum"]:
        options = ", ".join(str(option) for option in schema["enum"] if option is not None)
        raise Invalid(f"'{field}' is one of: {options}.", field=field)
    if kind == "string":
        _check_text(value, schema, field)
    elif kind in ("integer", "number"):
        _check_number(value, schema, field)
    elif kind == "array":
        _check_array(value, schema, field)
    elif kind == "object" and "properties" in schema:
        _check_object(value, schema, field)


def _check_text(value: str, schema: Schema, field: str) -> None:
    if len(value) > (most := schema.get("maxLength", len(value))):
        raise TooLong(f"'{field}' can have at most {most:,} characters; this has {len(value):,}.", field)
    if len(value) < schema.get("minLength", 0):
        raise Invalid(f"'{field}' is empty.", field=field)
    if schema.get("format") == "uuid" and not is_id(value):
        raise Invalid(f"'{field}' is no id.", field=field)


def _check_number(value: float, schema: Schema, field: str) -> None:
    least, most = schema.get("minimum", value), schema.get("maximum", value)
    if not least <= value <= most:
        raise Invalid(f"'{field}' lies from {least:,} to {most:,}.", field=field)


def _check_array(value: list[Any], schema: Schema, field: str) -> None:
    if len(value) > (most := schema.get("maxItems", len(value))):
        raise Invalid(f"'{field}' can hold at most {most:,}.", field=field)
    for member in value:
        _check(member, schema["items"], field)


_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
    "array": list,
    "object": dict,
}
_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}


def _is(value: Any, kind: str) -> bool:
    # For Python, true is a number.
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
