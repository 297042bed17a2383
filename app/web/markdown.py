"""Markdown as HTML that is safe to put into a page."""

from collections import OrderedDict

from markupsafe import Markup

from app.web.splitter import Splitter

# Texts that pages show again and again are drawn once. Characters of text and HTML together.
_MOST = 4 * 1024 * 1024

_drawn: OrderedDict[str, str] = OrderedDict()
_size = 0


def render(text: str) -> Markup:
    """`text` as HTML, the same as when it is followed to its end while it is written."""
    html = _drawn.get(text)
    if html is None:
        splitter = Splitter()
        splitter.feed(text)
        splitter.end()
        html = splitter.html()
        remember(text, html)
    else:
        _drawn.move_to_end(text)
    return Markup(html)


def remember(text: str, html: str) -> None:
    """Keep the finished `html` of `text` for the next page that shows it."""
    global _size
    if text in _drawn or len(text) + len(html) > _MOST // 8:
        return
    _drawn[text] = html
    _size += len(text) + len(html)
    while _size > _MOST:
        old, gone = _drawn.popitem(last=False)
        _size -= len(old) + len(gone)
