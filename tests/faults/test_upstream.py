"""An endpoint that hangs, resets, lies or refuses: the text is kept and a sentence helps."""

from typing import Any

import pytest

from tests.faults.caller import Caller, whole_texts
from tests.support.upstream import UpstreamProcess

pytestmark = pytest.mark.fault


@pytest.mark.parametrize(
    "model", ["reset?bytes=2000", "truncate", "truncate?in=character&cut=1", "error-inside"]
)
def test_a_stream_that_breaks_keeps_its_text_and_offers_to_continue(
    caller: Caller, upstream: UpstreamProcess, model: str
) -> None:
    found = caller.ended(caller.post(caller.new_chat(model), "go").reply)
    assert found["state"] == "failed"
    assert found["text"]
    assert whole_texts(upstream, "go")[0].startswith(found["text"])
    assert "continue" in found["error"]["actions"]


@pytest.mark.parametrize(
    ("model", "words"),
    [("html", "up"), ("json-error", "up"), ("status?code=401", "'up' asks for a key")],
)
def test_an_endpoint_that_cannot_answer_is_named_in_a_calm_sentence(
    caller: Caller, model: str, words: str
) -> None:
    found = caller.ended(caller.post(caller.new_chat(model), "go").reply)
    assert found["state"] == "failed"
    assert words in found["error"]["text"]
    assert "Traceback" not in found["error"]["text"]


def test_an_endpoint_that_resets_before_it_answers_is_asked_again(
    caller: Caller, upstream: UpstreamProcess
) -> None:
    upstream.control(scripts={"reset?at=start": ["reset?at=start", "normal?tokens=40"]})
    found = caller.ended(caller.post(caller.new_chat("reset?at=start"), "go").reply)
    assert found["state"] == "complete"
    assert found["text"] in whole_texts(upstream, "go")


def test_a_rate_limit_is_waited_for_and_can_be_stopped(caller: Caller, upstream: UpstreamProcess) -> None:
    model = "status?code=429&retry_after=1"
    upstream.control(scripts={model: ["status?code=429&retry_after=1", "normal?tokens=40"]})
    found = caller.ended(caller.post(caller.new_chat(model), "go").reply)
    assert found["state"] == "complete"
    upstream.control(scripts={model: ["status?code=429&retry_after=50"]}, forget=True)
    reply = caller.post(caller.new_chat(model), "again").reply
    caller.until(lambda: len(upstream.requests()) == 1, "the endpoint is asked")
    assert caller.request("POST", f"/api/v1/replies/{reply}/stop").status_code == 202
    assert caller.reply(reply)["state"] == "stopped"


@pytest.mark.parametrize("model", ["hang", "hang?after=10", "endless"])
def test_stop_ends_a_reply_and_closes_the_connection_to_the_endpoint(
    caller: Caller, upstream: UpstreamProcess, model: str
) -> None:
    reply = caller.post(caller.new_chat(model), "go").reply
    caller.until(lambda: len(upstream.requests()) == 1, "the endpoint is asked")
    if model != "hang":
        caller.shown(reply)
    assert caller.request("POST", f"/api/v1/replies/{reply}/stop").status_code == 202
    stopped: dict[str, Any] = caller.reply(reply)
    assert stopped["state"] == "stopped"
    caller.until(lambda: upstream.requests()[0]["client_closed"], "the connection is closed")
    again = caller.request("POST", f"/api/v1/replies/{reply}/stop")
    assert (again.status_code, again.json()["state"]) == (202, "stopped")


def test_an_endpoint_that_hangs_ends_at_its_idle_time_out(caller: Caller, upstream: UpstreamProcess) -> None:
    endpoint = caller.get("/api/v1/endpoints")["items"][0]["id"]
    assert (
        caller.request("PATCH", f"/api/v1/endpoints/{endpoint}", json={"idle_timeout": 1}).status_code == 200
    )
    found = caller.ended(caller.post(caller.new_chat("hang?after=10"), "go").reply)
    assert (found["state"], found["error"]["code"]) == ("failed", "idle-timeout")
    assert whole_texts(upstream, "go")[0].startswith(found["text"])
    assert found["text"]
