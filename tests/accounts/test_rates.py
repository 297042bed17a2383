import pytest
from hypothesis import given, strategies as st

from app.accounts.access import Person
from app.accounts.rates import Allowance, Buckets, Rates, network
from app.core.errors import NightdeskError, TooManyTries
from app.core.ids import UserId, new_id
from tests.accounts.conftest import Clock, Door, open_door


def person(via: str = "session") -> Person:
    return Person(UserId(new_id()), "ada", "member", via)  # type: ignore[arg-type]


def test_a_burst_is_let_through_and_then_one_at_a_time():
    clock = Clock()
    rates = Rates(clock=clock)
    for _ in range(10):
        rates.sign_in("ada", "192.0.2.1")
    with pytest.raises(TooManyTries) as refused:
        rates.sign_in("ada", "192.0.2.1")
    assert 59 <= refused.value.retry_after <= 60
    clock.now += 60
    rates.sign_in("ada", "192.0.2.1")
    with pytest.raises(TooManyTries):
        rates.sign_in("ada", "192.0.2.1")


def test_an_account_is_counted_from_wherever_it_is_tried():
    rates = Rates(clock=Clock())
    for i in range(10):
        rates.sign_in("ada", f"192.0.2.{i}")
    with pytest.raises(TooManyTries):
        rates.sign_in("ada", "198.51.100.1")
    rates.sign_in("bob", "198.51.100.1")


def test_an_address_is_counted_whomever_it_tries():
    rates = Rates(clock=Clock())
    for i in range(10):
        rates.sign_in(f"user{i}", "192.0.2.1")
    with pytest.raises(TooManyTries):
        rates.sign_in("another", "192.0.2.1")


def test_a_thousand_addresses_of_one_v6_network_are_one():
    rates = Rates(clock=Clock())
    let_in = 0
    for i in range(1000):
        try:
            rates.sign_in(f"user{i}", f"2001:db8:1:2::{i:x}")
            let_in += 1
        except TooManyTries:
            pass
    assert let_in == 10
    rates.sign_in("user", "2001:db8:1:3::1")


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_addresses_are_counted_by_household(address: str, counted: str):
    assert network(address) == counted


def test_a_right_password_costs_no_try():
    rates = Rates(clock=Clock())
    for _ in range(50):
        rates.sign_in("ada", "192.0.2.1")
        rates.signed_in("ada", "192.0.2.1")
    assert rates.sign_ins_left("ada", "192.0.2.1") == 10


def test_posting_is_limited_by_person_and_a_key_is_given_more():
    rates, ada = Rates(30, clock=Clock()), person()
    for _ in range(60):
        rates.post(ada)
    with pytest.raises(TooManyTries):
        rates.post(ada)
    rates.post(person())
    program = person("key")
    for _ in range(1000):
        rates.post(program)


def test_no_messages_a_minute_means_no_limit():
    rates, ada = Rates(0, clock=Clock()), person()
    for _ in range(10_000):
        rates.post(ada)


def test_uploads_are_limited():
    rates, ada = Rates(clock=Clock()), person()
    for _ in range(60):
        rates.upload(ada)
    with pytest.raises(TooManyTries):
        rates.upload(ada)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 100))))
def test_a_bucket_never_holds_more_than_its_burst_nor_less_than_nothing(steps: list[tuple[str, float]]):
    clock = Clock()
    buckets = Buckets(Allowance(5, 10), clock)
    for key, seconds in steps:
        clock.now += seconds
        if buckets.wait(key) == 0:
            buckets.take(key)
        assert 0 <= buckets.left(key) <= 5


def test_buckets_of_many_strangers_do_not_pile_up():
    buckets = Buckets(Allowance(5, 10), Clock())
    for i in range(25_000):
        buckets.take(str(i))
    assert len(buckets._levels) <= 10_000


async def test_a_restart_gives_no_new_tries(door: Door):
    await door.add("ada")
    for _ in range(10):
        with pytest.raises(NightdeskError):
            await door.sign_in("ada", "a wrong password")
    again = open_door(door.db, door.folder, door.tasks)
    await again.rates.restore(door.db)
    with pytest.raises(TooManyTries):
        await again.sign_in("ada")
    again.clock.now += 120
    await again.sign_in("ada")
