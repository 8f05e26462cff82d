"""A hook of mkdocs: TeX becomes MathML while the site is built, which browsers draw by themselves.

So the pages need no script and no other machine to be read. A formula that cannot be converted stops the build.
"""

import html
import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

# What pymdownx.arithmatex makes of $...$ and $$...$$.
_FORMULA = re.compile(r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL)


def on_page_content(content: str, *, page: Any, **_: Any) -> str:
    def drawn(found: re.Match[str]) -> str:
        tex = html.unescape(found["tex"])
        try:
            return convert(tex, display="block" if found["tag"] == "div" else "inline")
        except Exception as error:
            raise PluginError(f"{page.file.src_path}: the formula {tex!r} cannot be converted: {error!r}") from error

    return _FORMULA.sub(drawn, content)
