"""Health: asked by anybody, answered while the server can do its work."""

from tests.web.api.world import World, check, problem


async def test_a_server_that_runs_is_up_and_ready(here: World):
    nobody = here.desk.client(event_hooks={"response": [check]})
    for path in ("/healthz", "/readyz"):
        answer = await nobody.get(path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    await nobody.aclose()


async def test_a_server_that_closes_is_up_but_not_ready(here: World):
    await here.desk.house.registry.close(0.0)
    nobody = here.desk.client(event_hooks={"response": [check]})
    assert (await nobody.get("/healthz")).status_code == 200
    assert problem(await nobody.get("/readyz"))[:2] == (503, "closing")
    refused = await here.ada.post("/api/v1/chats", json={})
    assert refused.status_code == 201  # nothing runs for it
    assert problem(await here.post(refused.json()["id"]))[:2] == (503, "closing")
    await nobody.aclose()


async def test_a_server_whose_store_is_gone_is_not_ready(here: World):
    await here.desk.house.db.close()
    nobody = here.desk.client(event_hooks={"response": [check]})
    assert (await nobody.get("/readyz")).status_code == 503
    await nobody.aclose()
