"""The closing line that `run.py test` makes out of several runs of pytest."""

import pytest

from tests.check import closing_line, counts


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ("....\n4 passed in 0.72s\n", {"passed": 4}),
        (
            "=== 2 failed, 70 passed, 1 skipped in 76.10s (0:01:16) ===",
            {"failed": 2, "passed": 70, "skipped": 1},
        ),
        ("3 passed, 9 deselected, 1 warning in 1.00s\n", {"passed": 3}),
        ("1 passed in 0.10s\na test printed this\n5 passed, 1 error in 2.00s\n", {"passed": 5, "error": 1}),
        ("72 deselected in 0.09s\n", {}),
        ("Success: no issues found in 64 source files\n", {}),
    ],
)
def test_only_the_last_closing_line_of_pytest_counts(output: str, found: dict[str, int]):
    assert counts(output) == found


def test_passes_are_summed_into_a_closing_line_of_their_own():
    totals = counts("70 passed, 1 skipped in 5.00s") + counts("1 failed, 8 passed in 60.00s")
    assert closing_line(totals, 66.5).strip("= ") == "1 failed, 78 passed, 1 skipped in 66.50s"
