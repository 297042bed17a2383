"""Bodies of requests, read strictly: what a handler gets is storable text, whole numbers, flags and ids.

JSON that Python takes and others do not is refused: NaN, numbers past 64 bits, text that cannot be stored,
nesting without end. Whatever is at fault is named by its field. Sizes are the gate's concern (`middleware`).
"""

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from app.core.errors import Invalid, TooLong
from app.core.ids import is_id
from app.core.text import is_storable

MOST_FIELDS, MOST_FILES = 1000, 20
DEEPEST = 64
_WIDEST = 2**63

# Longest text of a field unless its reader says otherwise, in characters.
_USUAL = 10_000


class Fields(Mapping[str, Any]):
    """The fields of a body. Every reader raises Invalid (or TooLong) with the name of the field at fault."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def only(self, *names: str) -> "Fields":
        """These, if there are no others: nobody sets what is not theirs to set, or misspells in silence."""
        for name in self._values:
            if name not in names:
                raise Invalid(f"There is no field '{name}' here.", field=name)
        return self

    def text(self, name: str, most: int = _USUAL) -> str:
        """The text of `name`, which must be there and may be empty; at most `most` characters."""
        value = self._values.get(name)
        if not isinstance(value, str):
            raise Invalid(f"'{name}' is missing or is no text.", field=name)
        if len(value) > most:
            raise TooLong(
                f"'{name}' can have at most {most:,} characters; this has {len(value):,}.", field=name
            )
        return value

    def optional_text(self, name: str, most: int = _USUAL) -> str | None:
        """As `text`; None where it is left out or null."""
        return None if self._values.get(name) is None else self.text(name, most)

    def choice(self, name: str, options: tuple[str, ...], default: str | None = None) -> str:
        """One of `options`; `default`, if there is one, where it is left out."""
        value = self._values.get(name, default)
        if value not in options:
            raise Invalid(f"'{name}' is one of {', '.join(options)}.", field=name)
        return str(value)

    def id(self, name: str) -> str:
        """A UUIDv7 in its canonical form."""
        value = self.text(name, most=100)
        if not is_id(value):
            raise Invalid(f"'{name}' is no id.", field=name)
        return value

    def optional_id(self, name: str) -> str | None:
        """As `id`; None where it is left out, null or empty (a form's way to say none)."""
        return None if self._values.get(name) in (None, "") else self.id(name)

    def whole(self, name: str, least: int = 0, most: int = _WIDEST) -> int:
        """A whole number from `least` to `most`; a form's digits count as one."""
        value = self._values.get(name)
        if isinstance(value, str) and len(value) < 20:
            value = int(value) if value.isascii() and value.removeprefix("-").isdigit() else value
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise Invalid(f"'{name}' is a whole number from {least:,} to {most:,}.", field=name)
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false; a form's ticked box is true."""
        value = self._values.get(name, default)
        if isinstance(value, bool):
            return value
        if value in ("1", "on", "true", "0", "", "false"):
            return value in ("1", "on", "true")
        raise Invalid(f"'{name}' is true or false.", field=name)


def is_form(request: Request) -> bool:
    """Whether the body says that it is a form."""
    kind = request.headers.get("content-type", "")
    return kind.lower().startswith(("application/x-www-form-urlencoded", "multipart/form-data"))


async def json_object(request: Request) -> Fields:
    """The JSON object that the request carries. Raises Invalid."""
    if is_form(request):  # whose body may have been read already, for its token
        raise Invalid("The body of this request is a form, not JSON.")
    body = await request.body()
    try:
        value = json.loads(
            body.decode("utf-8"), parse_constant=_refuse_constant, parse_int=_whole, object_pairs_hook=_object
        )
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise Invalid("The body of this request is not JSON.", detail=type(error).__name__) from error
    if not isinstance(value, dict):
        raise Invalid("The body of this request is not a JSON object.")
    for name, member in value.items():
        _check_text(name, name)
        _check(member, name, 1)
    return Fields(value)


class UnreadableForm(Invalid):
    """A form that is no form, or has too many fields. Its body is used up: it can't be read again."""


async def form(request: Request) -> Fields:
    """The fields of a form, without `csrf` and without files. Raises Invalid, UnreadableForm."""
    try:
        found = await request.form(max_files=MOST_FILES, max_fields=MOST_FIELDS)
    except HTTPException as error:
        raise UnreadableForm("This form could not be read.", detail=str(error.detail)) from error
    values: dict[str, str] = {}
    for name, value in found.multi_items():
        if isinstance(value, UploadFile):
            continue
        _check_text(name, "form")
        _check_text(value, name)
        # Browsers send line ends in forms as CR LF; everywhere else they are LF.
        values.setdefault(name, value.replace("\r\n", "\n"))
    values.pop("csrf", None)
    return Fields(values)


def query(request: Request) -> Fields:
    """The parameters of the address, under the same rules."""
    values: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        _check_text(name, "query")
        _check_text(value, name)
        values.setdefault(name, value)
    return Fields(values)


def _refuse_constant(text: str) -> NoReturn:
    raise Invalid(f"JSON has no {text}.")


def _whole(digits: str) -> int:
    # Checked by length first: turning a million digits into a number takes seconds.
    if len(digits) > 20 or not -_WIDEST <= int(digits) <= _WIDEST:
        raise Invalid("A number in this request is too large.")
    return int(digits)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise Invalid("A field of this request stands there twice.")
    return made


def _check(value: Any, field: str, depth: int) -> None:
    """`field` is the member of the body that `value` lies in, however deep."""
    if isinstance(value, str):
        _check_text(value, field)
    elif isinstance(value, float):
        if value - value != 0:  # 1e999 is read as infinity
            raise Invalid("A number in this request is too large.", field=field)
    elif isinstance(value, dict | list):
        if depth >= DEEPEST:
            raise Invalid(f"'{_shown(field)}' is nested too deeply.", field=_shown(field))
        members = value if isinstance(value, list) else [*value.keys(), *value.values()]
        for member in members:
            _check(member, field, depth + 1)


def _check_text(text: str, field: str) -> None:
    if not is_storable(text):
        name = _shown(field)
        raise Invalid(f"'{name}' holds characters that can't be stored (NUL, or half of a pair).", field=name)


def _shown(field: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in field[:60])
