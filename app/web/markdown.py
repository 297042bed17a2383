"""Markdown as HTML that is safe to put into a page."""

from markupsafe import Markup

from app.web.splitter import Splitter


def render(text: str) -> Markup:
    """`text` as HTML, as it stands when it was followed to its end."""
    splitter = Splitter()
    splitter.feed(text)
    splitter.end()
    return Markup(splitter.html())
