"""`kill -9` at any moment: every acknowledged post is there once, and what was shown is kept."""

import random
import sqlite3
import time
from collections import Counter
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.faults.caller import ENDED, Caller, whole_texts
from tests.support.server import ServerProcess
from tests.support.upstream import UpstreamProcess

pytestmark = pytest.mark.fault

SLOW = "normal?tokens=60&tps=60"


def has_been_asked(upstream: UpstreamProcess, times: int) -> bool:
    return len(upstream.requests()) == times


def check_ledger(caller: Caller, upstream: UpstreamProcess) -> None:
    """Each promise is kept once, each reply has an outcome, and no text has a gap or a repeat."""
    for promise in caller.ledger:
        again = caller.try_post(promise.chat, promise.text, promise.key).json()
        assert again["message"]["id"] == promise.message, "the retry made another message"
        said = [m for m in caller.messages(promise.chat) if m["id"] == promise.message]
        assert len(said) == 1, f"{len(said)} copies of an accepted message"
        found = caller.ended(again["reply"]["id"])
        assert found["state"] in ENDED
        texts = whole_texts(upstream, promise.text)
        assert not found["text"] or any(whole.startswith(found["text"]) for whole in texts), "gap or repeat"
        if found["state"] == "complete":
            assert found["text"] in texts


def check_database(data: Path) -> None:
    with sqlite3.connect(f"file:{data / 'nightdesk.db'}?mode=ro", uri=True) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        twice = database.execute(
            "SELECT key FROM idempotency GROUP BY user, key HAVING count(*) > 1"
        ).fetchall()
        assert twice == []


def kill_at_random(caller: Caller, upstream: UpstreamProcess, rounds: int, seed: int) -> Counter[str]:
    """Kill the server `rounds` times while replies are being written; how the replies ended."""
    chance = random.Random(seed)
    for number in range(rounds):
        moment = time.monotonic() + chance.uniform(0.02, 1.2)
        chats = [caller.new_chat(SLOW) for _ in range(4)]
        for place, chat in enumerate(chats):
            if time.monotonic() > moment:
                break
            try:
                caller.post(chat, f"question {number}-{place}")
            except httpx.TransportError:
                break
        time.sleep(max(0.0, moment - time.monotonic()))
        caller.server.kill()
        caller.server.start()
        caller.reconnect()
    check_ledger(caller, upstream)
    check_database(caller.server.data)
    return Counter(str(caller.reply(promise.reply)["state"]) for promise in caller.ledger)


def test_ten_kills_at_random_moments_lose_nothing(caller: Caller, upstream: UpstreamProcess) -> None:
    ended = kill_at_random(caller, upstream, rounds=10, seed=7)
    assert ended["complete"] + ended["interrupted"] == sum(ended.values()) > 0


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_a_hundred_kills_at_random_moments_lose_nothing(caller: Caller, upstream: UpstreamProcess) -> None:
    ended = kill_at_random(caller, upstream, rounds=100, seed=int(time.time()))
    assert ended["complete"] + ended["interrupted"] == sum(ended.values()) > 0


def test_what_a_follower_saw_a_quarter_second_before_the_kill_is_kept(caller: Caller) -> None:
    reply = caller.post(caller.new_chat("normal?tokens=400&tps=100"), "go").reply
    seen = caller.shown(reply, 200)
    time.sleep(0.4)
    caller.server.kill()
    caller.server.start()
    caller.reconnect()
    found = caller.ended(reply)
    assert found["state"] == "interrupted"
    assert found["text"].startswith(seen)
    assert {"continue", "retry"} <= set(found["error"]["actions"])


def test_a_reply_of_which_nothing_was_shown_is_resumed_by_itself(
    caller: Caller, upstream: UpstreamProcess
) -> None:
    upstream.control(scripts={"hang": ["hang", "normal?tokens=40"]})
    reply = caller.post(caller.new_chat("hang"), "go").reply
    caller.until(lambda: len(upstream.requests()) == 1, "the endpoint is asked")
    caller.server.kill()
    caller.server.start()
    caller.reconnect()
    found = caller.ended(reply)
    assert (found["state"], found["text"]) == ("complete", whole_texts(upstream, "go")[1])


def test_a_reply_that_never_shows_anything_is_resumed_three_times_and_then_given_up(
    caller: Caller, upstream: UpstreamProcess
) -> None:
    reply = caller.post(caller.new_chat("hang"), "go").reply
    for count in range(1, 5):
        asked = partial(has_been_asked, upstream, count)
        caller.until(asked, f"the endpoint is asked {count} times")
        caller.server.kill()
        caller.server.start()
        caller.reconnect()
    assert caller.ended(reply)["state"] == "interrupted"
    assert len(upstream.requests()) == 4


def test_a_follower_from_before_the_kill_is_given_the_whole_state(caller: Caller) -> None:
    reply = caller.post(caller.new_chat("normal?tokens=400&tps=100"), "go").reply
    caller.shown(reply, 100)
    seen = next(id for id, type, _ in caller.events(reply) if type == "text")
    caller.server.kill()
    caller.server.start()
    caller.reconnect()
    caller.ended(reply)
    ahead = seen.split("-")[0] + "-100000"
    (_, first, state), *_ = caller.events(reply, {"Last-Event-ID": ahead})
    assert first == "state"
    assert state["state"] == "interrupted"


def test_continue_goes_on_from_the_text_that_was_kept(caller: Caller, upstream: UpstreamProcess) -> None:
    promise = caller.post(caller.new_chat("normal?tokens=400&tps=100"), "go")
    caller.shown(promise.reply, 100)
    caller.server.kill()
    caller.server.start()
    caller.reconnect()
    kept = caller.ended(promise.reply)["text"]
    answer = caller.request("POST", f"/api/v1/replies/{promise.reply}/continue")
    assert answer.status_code == 202, answer.text
    going_on = caller.ended(answer.json()["id"])
    assert going_on["state"] == "complete"
    assert going_on["text"].startswith(kept)
    assert caller.reply(promise.reply)["state"] == "interrupted"


def test_the_first_start_after_a_kill_needs_no_repair(server: ServerProcess) -> None:
    for _ in range(3):
        server.start()
        server.kill()
    server.start()
    assert httpx.get(server.url + "/readyz").status_code == 200
