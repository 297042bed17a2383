from itertools import product

import pytest

from app.accounts.access import ROLES, SCOPES, Area, Needs, Person, Role, Scope, admit
from app.core.errors import NightdeskError, NotAllowed, SignInNeeded
from app.core.ids import UserId, new_id


def somebody(role: Role = "member", scope: Scope = "all") -> Person:
    return Person(UserId(new_id()), "ada", role, "session", scope=scope)


def is_let_in(person: Person | None, needs: Needs, area: Area, method: str) -> bool:
    try:
        admit(person, needs, area, method)
    except NightdeskError:
        return False
    return True


def test_nobody_gets_in_where_somebody_is_needed():
    for needs in ("member", "admin"):
        with pytest.raises(SignInNeeded):
            admit(None, needs, "all", "GET")
    admit(None, "nobody", "all", "POST")


def test_a_member_is_no_administrator():
    with pytest.raises(NotAllowed):
        admit(somebody("member"), "admin", "all", "GET")
    admit(somebody("admin"), "admin", "all", "POST")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_reading_key_changes_nothing(method: str):
    with pytest.raises(NotAllowed):
        admit(somebody("admin", "read"), "member", "chat", method)
    admit(somebody("admin", "read"), "member", "all", "GET")


def test_a_key_for_chats_reaches_nothing_else():
    admit(somebody("admin", "chat"), "member", "chat", "POST")
    with pytest.raises(NotAllowed):
        admit(somebody("admin", "chat"), "member", "all", "GET")


def test_no_scope_opens_what_the_whole_account_may_not_do():
    """The scopes of a key are within those of its owner: no cell of the table is open to a key alone."""
    needed: tuple[Needs, ...] = ("nobody", "member", "admin")
    areas: tuple[Area, ...] = ("chat", "all")
    for needs, area, method in product(needed, areas, ("GET", "POST")):
        for role, scope in product(ROLES, SCOPES):
            if is_let_in(somebody(role, scope), needs, area, method):
                assert is_let_in(somebody(role, "all"), needs, area, method)
            if needs == "admin" and (role, scope) != ("admin", "all"):
                assert not is_let_in(somebody(role, scope), needs, area, method)
