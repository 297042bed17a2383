"""What holds for every template: nothing inline, every button named, every address below the root path."""

import re
from pathlib import Path

import pytest

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
EVERY = sorted(TEMPLATES.rglob("*.html"))


def tags(path: Path, name: str) -> list[str]:
    return re.findall(rf"<{name}\b(?:[^>\"]|\"[^\"]*\")*>(?:(?!</{name}>).)*", path.read_text(), re.DOTALL)


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.relative_to(TEMPLATES).as_posix())
def test_nothing_is_inline(path):
    """The page's policy runs no inline script and applies no inline style."""
    text = path.read_text()
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=|javascript:", text)
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.relative_to(TEMPLATES).as_posix())
def test_addresses_are_made_below_the_root_path(path):
    assert not re.search(r"(?:href|src|action|formaction|hx-get|hx-post)=\"/", path.read_text())


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.relative_to(TEMPLATES).as_posix())
def test_every_button_has_a_name(path):
    for button in tags(path, "button"):
        words = re.sub(r"<[^>]*>|\{\{.*?\}\}|\{%.*?%\}", "", button.partition(">")[2]).strip()
        assert words or "aria-label=" in button or "{{" in button.partition(">")[2], button


# Nobody has a token before they are signed in; the script that fills in a template sends it in a header.
WITHOUT_TOKEN = ("sign_in/",)


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.relative_to(TEMPLATES).as_posix())
def test_every_form_that_changes_something_carries_the_token(path):
    if path.relative_to(TEMPLATES).as_posix().startswith(WITHOUT_TOKEN):
        return
    text = re.sub(r"<template\b.*?</template>", "", path.read_text(), flags=re.DOTALL)
    for form in re.findall(r"<form\b.*?</form>", text, re.DOTALL):
        assert "csrf_field()" in form or 'method="post"' not in form, form
