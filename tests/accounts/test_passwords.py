import asyncio
import threading
import time

import pytest
from argon2 import extract_parameters

from app.accounts import passwords
from app.accounts.passwords import Passwords, checked
from app.core.errors import Invalid, TooManyTries
from tests.accounts.conftest import PASSWORD, Door


@pytest.mark.parametrize(
    "poor",
    [
        "",
        " " * 20,
        "\t\n" * 8,
        "short",
        "a" * 12,
        "abababababab",
        "password1234",
        "PassWord1234",
        "\x00" + PASSWORD,
        "\ud800" + PASSWORD,
        "x" * 500 + "yz!" * 200,
        "ada lovelace",
    ],
)
def test_a_poor_password_is_refused_and_its_field_named(poor: str):
    with pytest.raises(Invalid) as refused:
        checked(poor, name="Ada Lovelace")
    assert refused.value.field == "password"


@pytest.mark.parametrize(
    "good", [PASSWORD, "zwölf Zeichen", "пароль из слов", "correct horse battery", "🦊🐻🐼🐨🐯🦁🐮🐷🐸🐵🐔🐧"]
)
def test_length_is_all_that_is_asked_of_an_unusual_password(good: str):
    assert checked(good) == good


async def test_an_accent_may_be_typed_composed_or_apart():
    kept = Passwords()
    stored = await kept.hash(checked("caf\u00e9 au lait noir"))
    assert await kept.verify(stored, "cafe\u0301 au lait noir")


async def test_only_the_right_password_is_verified():
    kept = Passwords()
    stored = await kept.hash(PASSWORD)
    assert stored.startswith("$argon2id$")
    assert await kept.verify(stored, PASSWORD)
    assert not await kept.verify(stored, PASSWORD + " ")
    assert not await kept.verify(stored, stored)
    assert not await kept.verify("no hash", PASSWORD)


async def test_nobody_has_a_password_that_fits():
    kept = Passwords()
    assert not await kept.verify(None, "")
    assert not await kept.verify(None, PASSWORD)


def test_what_is_verified_for_an_unknown_name_costs_what_a_hash_costs_today():
    assert not Passwords().is_outdated(passwords._NOBODY)


async def test_at_most_two_hashes_are_made_at_once_and_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch):
    at_once, most, lock = 0, 0, threading.Lock()

    def slow() -> None:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.02)
        with lock:
            at_once -= 1

    kept = Passwords()
    await asyncio.gather(*(kept._in_turn(slow) for _ in range(8)))
    assert most == 2


async def test_a_crowd_at_the_door_is_told_to_come_back():
    kept, held = Passwords(), threading.Event()
    waiting = [asyncio.ensure_future(kept._in_turn(held.wait)) for _ in range(30)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyTries):
        await kept.verify(None, PASSWORD)
    held.set()
    await asyncio.gather(*waiting)


async def test_a_hash_of_other_costs_is_made_anew_when_its_owner_signs_in(door: Door):
    from argon2 import PasswordHasher

    from app.core.ids import UserId
    from app.store import people

    user = await door.add("ada")
    cheap = PasswordHasher(time_cost=1, memory_cost=1024, parallelism=1).hash(PASSWORD)
    await door.db.write(lambda s: people.set_password(s, UserId(user.id), cheap))
    await door.sign_in("ada")
    async with door.db.read() as s:
        now = await people.user(s, UserId(user.id))
    assert now is not None
    assert now.password not in (cheap, None)
    await door.sign_in("ada")


async def test_an_unknown_name_costs_what_a_wrong_password_costs(door: Door):
    """Otherwise the time tells who has an account: the hash that stands in for nobody's has the same parameters."""
    stored = await Passwords().hash("four quiet lamps at dusk")
    assert extract_parameters(passwords._NOBODY) == extract_parameters(stored)
    assert not await Passwords().verify(None, "four quiet lamps at dusk")
