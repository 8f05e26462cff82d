"""An extension of griffe: what docstrings hold that Markdown does not know.

Doctests stand between their paragraphs, and objects are named as Sphinx names them.
"""

import re
from typing import Any

from griffe import Extension, Object

# From a prompt to the next empty line.
_DOCTEST = re.compile(r"(?:^(?P<indent>[ ]*)>>> .*(?:\n(?![ ]*$).*)*)", re.M)
_ROLE = re.compile(r":(?:class|func|meth|data|mod):`[~.]*(?P<name>[^`]+)`")


class ForMarkdown(Extension):
    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            text = _ROLE.sub(r"`\g<name>`", obj.docstring.value)
            obj.docstring.value = _DOCTEST.sub(_fenced, text)


def _fenced(found: re.Match[str]) -> str:
    indent = found["indent"]
    return f"{indent}```pycon\n{found[0]}\n{indent}```"
