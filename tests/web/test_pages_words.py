"""What the page says of numbers, dates and choices."""

from dataclasses import asdict
from datetime import date

import pytest

from app.core.clock import now_ms
from app.core.errors import Invalid
from app.store.chats import ChatRow
from app.web import sidebar, wording
from app.web.preferences import Preferences

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (None, ""),
        (0, "0.0 s"),
        (430, "0.4 s"),
        (8_000, "8 s"),
        (125_000, "2 min 5 s"),
        (120_000, "2 min"),
        (3_840_000, "1 h 4 min"),
    ],
)
def test_how_long_something_took(ms, said):
    assert wording.duration(ms) == said


@pytest.mark.parametrize(
    ("ms", "said"), [(-5, "0:00"), (14_900, "0:14"), (725_000, "12:05"), (3_723_000, "1:02:03")]
)
def test_the_clock_of_the_status_line(ms, said):
    assert wording.clock(ms) == said


@pytest.mark.parametrize(
    ("tokens", "said"),
    [(0, "unknown"), (512, "512"), (8192, "8 k"), (40_960, "40 k"), (128_000, "128 k"), (1_000_000, "1 M")],
)
def test_how_large_a_context_is(tokens, said):
    assert wording.size(tokens) == said


@pytest.mark.parametrize(
    ("cost", "said"),
    [(None, "unknown"), (0, "no cost"), (0.00001, "under $0.0001"), (0.0042, "$0.0042"), (1.2, "$1.20")],
)
def test_what_something_cost(cost, said):
    assert wording.money(cost) == said


@pytest.mark.parametrize(
    ("number", "said"), [(812, "812 bytes"), (4_123_456, "4.12 MB"), (5_000_000_000_000, "5e+03 GB")]
)
def test_how_much_room_something_takes(number, said):
    assert wording.weight(number) == said


def test_choices_that_this_version_does_not_know_are_left_aside():
    stored = {"theme": "dark", "enter": 3, "gone": True, "time_zone": "Mars/Olympus"}
    assert Preferences.of(stored) == Preferences(theme="dark")


def test_a_choice_that_cannot_be_is_refused_and_named():
    with pytest.raises(Invalid) as refused:
        Preferences().changed({"theme": "purple"})
    assert refused.value.field == "theme"
    assert Preferences().changed({"theme": "dark"}) == asdict(Preferences(theme="dark"))


def row(title: str, days_ago: float = 0, **more) -> ChatRow:
    values = {
        "id": title,
        "title": title,
        "kind": "chat",
        "folder": None,
        "pinned": False,
        "archived": False,
        "unread": False,
        "active": now_ms() - int(days_ago * DAY_MS),
        "running_reply": None,
        "waiting": False,
    }
    return ChatRow(**(values | more))


def test_the_list_is_grouped_by_pin_folder_and_day():
    today = date.today()
    rows = [
        row("pinned", 3, pinned=True, folder="House"),
        row("now"),
        row("heat pump", folder="House"),
        row("long ago", 400),
        row("packing", 401, folder="House"),
    ]
    groups = sidebar.grouped(rows, Preferences(), today)
    assert [(group.name, group.folder) for group in groups[:3]] == [
        ("Pinned", False),
        ("Today", False),
        ("House", True),
    ]
    assert [found.title for found in groups[2].rows] == ["heat pump", "packing"]


def test_a_heading_is_not_said_again_on_the_next_page():
    groups = sidebar.grouped([row("a", 400)], Preferences(), date.today(), after="")
    again = sidebar.grouped([row("b", 400)], Preferences(), date.today(), after=groups[0].name)
    assert (groups[0].goes_on, again[0].goes_on) == (False, True)


@pytest.mark.parametrize(
    ("day", "said"),
    [
        (date(2026, 3, 20), "Today"),
        (date(2026, 3, 19), "Yesterday"),
        (date(2026, 3, 14), "Last 7 days"),
        (date(2026, 2, 20), "Last 30 days"),
        (date(2025, 12, 1), "December 2025"),
    ],
)
def test_the_heading_of_a_day(day, said):
    assert sidebar.heading(day, date(2026, 3, 20)) == said
