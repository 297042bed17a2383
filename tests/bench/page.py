"""What a browser loads for a chat page: bytes as sent, requests, and when it can be used."""

from typing import Any

import httpx

from tests.bench.measures import Figure, many
from tests.bench.world import NAME, World
from tests.support.browser import chromium
from tests.support.server import PASSWORD


def figures(w: World) -> list[Figure]:
    many(w, "fast 2,000", 1)
    chat = httpx.get(w.server.url + "/api/v1/chats", headers=w.auth).json()["items"][0]["id"]
    weights, counts, times = [], [], []
    for _ in range(3):
        size, count, ready = _first_load(w, chat)
        weights.append(size / 1024)
        counts.append(float(count))
        times.append(ready)
    return [
        Figure("first load of a chat page, compressed", min(weights), "KB", 120),
        Figure("first load of a chat page, requests", min(counts), "", 15),
        Figure("first load of a chat page, interactive", min(times), "s", 0.5),
    ]


def _first_load(w: World, chat: str) -> tuple[int, int, float]:
    """Bytes on the wire, requests, and seconds until the composer's script has taken hold; an empty cache."""
    with chromium() as browser:
        context = browser.new_context()
        page = context.new_page()
        page.goto(w.server.url + "/sign-in")
        page.fill("[name=name]", NAME)
        page.fill("[name=password]", PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(lambda url: "sign-in" not in url)
        state = context.storage_state()
        context.close()
        # A context of its own has an empty cache.
        page = browser.new_context(storage_state=state).new_page()
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        seen: dict[str, int] = {}
        session.on("Network.loadingFinished", lambda event: _add(seen, event))
        page.goto(w.server.url + f"/chats/{chat}", wait_until="load")
        ready = page.evaluate("performance.getEntriesByType('navigation')[0].domInteractive / 1000")
        taken = page.evaluate("performance.getEntriesByName('nightdesk-ready')[0]?.startTime / 1000 || 0")
        return sum(seen.values()), len(seen), max(ready, taken)


def _add(seen: dict[str, int], event: dict[str, Any]) -> None:
    seen[event["requestId"]] = int(event["encodedDataLength"])
