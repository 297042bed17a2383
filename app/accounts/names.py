"""Names that people give: of themselves, of a key."""

import re
import unicodedata

from app.core.errors import Invalid

LONGEST = 60
_SPACE = re.compile(r"\s+")


def folded(name: str) -> str:
    """What two names share that are to be taken for one: case, width and composition do not count."""
    # Folding case can undo the normal form, so it is made again.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", _flat(name)).casefold())


def checked_name(name: str, field: str = "name") -> str:
    """`name` in one line. Raises Invalid for one that is empty, too long or cannot be seen."""
    flat = _flat(name)
    if not flat:
        raise Invalid("A name is needed.", field=field)
    if len(flat) > LONGEST:
        raise Invalid(f"A name can have at most {LONGEST} characters.", field=field)
    # Control characters forge lines of a log, and marks of direction make one name look like another.
    if any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for c in flat):
        raise Invalid("A name can’t hold characters that can’t be seen.", field=field)
    return flat


def _flat(name: str) -> str:
    return _SPACE.sub(" ", unicodedata.normalize("NFC", name)).strip()
