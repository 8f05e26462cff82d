"""A hook of mkdocs: a click on a picture shows it in its own size."""

import re
from typing import Any

_PICTURE = re.compile(r'<img [^>]*src="(?P<file>[^"]+)"[^>]*/?>')


def on_page_content(content: str, **_: Any) -> str:
    return _PICTURE.sub(lambda found: f'<a href="{found["file"]}">{found[0]}</a>', content)
