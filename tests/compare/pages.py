"""What a test reads off an HTML page."""

from html.parser import HTMLParser
from typing import Any


class Page(HTMLParser):
    """Collects what a page loads, and its texts."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.sources += [value for name, value in attrs if name in ("src", "href", "data", "srcset")]
        assert tag not in ("script", "link", "iframe")

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())
