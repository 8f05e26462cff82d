"""Print every sentence that tauleap shows to a user, for a review by readers who do not know the project.

    python diagnostics/messages.py [FILTER ...] [--width 100]

For each file of src/tauleap: error messages, problems of tables with their remedies, warnings and printed lines with
their line number, and the first sentence of every public docstring. The help of every command follows. A filter such as
``training`` or ``cli/labels`` selects files whose path contains it; ``help`` selects the help. In a message, ``{...}``
stands for a value that is inserted.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "tauleap"
CALLS = {"warn": "warning", "_exit_with": "error", "_fail": "error", "say": "output", "print": "output"}
"""Functions whose first argument is shown to the user, and the kind of the text."""
PROBLEMS = {"Problem", "report"}
"""Functions whose first two arguments are a problem of a table and its remedy."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("filters", nargs="*", help="print only files whose path contains one of these texts")
    parser.add_argument("--width", type=int, default=100, help="columns of the help of commands")
    arguments = parser.parse_args()
    counts = {"docstring": 0, "error": 0, "problem": 0, "warning": 0, "output": 0}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if arguments.filters and not any(text in name for text in arguments.filters):
            continue
        sentences = list(sentences_of(path.read_text(encoding="utf-8")))
        if sentences:
            print(f"== {name}")
        for line, kind, text in sentences:
            counts[kind] += 1
            print(f"  {line:>4} {kind:<9} {text}")
    if not arguments.filters or "help" in arguments.filters:
        print_help(arguments.width)
    print(", ".join(f"{kind}: {count}" for kind, count in counts.items()))


def sentences_of(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, kind (docstring, error, problem, warning or output) and text of a file's sentences, in their order.

    Args:
        source: the code of the file.
    """
    tree = ast.parse(source)
    found: list[tuple[int, str, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            texts = [text for argument in node.exc.args if (text := message(argument, tree)) is not None]
            # An error about a file has the file, the problem and the remedy as arguments.
            start = "{path} " if texts and len(texts) < len(node.exc.args) else ""
            found += [(node.lineno, "error", start + ": ".join(texts))] if texts else []
        if isinstance(node, ast.Call) and _called(node) in CALLS and node.args:
            text = message(node.args[0], tree)
            found += [] if text is None else [(node.lineno, CALLS[_called(node)], text)]
    found += public_docstrings(tree)
    found += table_problems(tree)
    yield from sorted(set(found))


def table_problems(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield line, kind and text of the problems of tables, each with its remedy.

    Args:
        tree: the module.
    """
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _called(node) in PROBLEMS and len(node.args) > 1:
                # A name is looked up in its own function, as many functions have one that is called ``message``.
                texts = [message(argument, function) for argument in node.args[:2]]
                if texts != [None, None]:
                    shown = [
                        text or f"{{{ast.unparse(argument)}}}"
                        for text, argument in zip(texts, node.args[:2], strict=True)
                    ]
                    yield node.lineno, "problem", "; ".join(shown)


def public_docstrings(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield line, kind and first line of the docstrings of a module, its public functions and classes, and methods.

    Args:
        tree: the module.
    """
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        is_module, is_class = isinstance(node, ast.Module), isinstance(node, ast.ClassDef)
        is_public = is_module or (
            isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_"
        )
        if not is_public:
            continue
        text = ast.get_docstring(node)  # pyright: ignore[reportArgumentType]
        if text:
            name = "" if is_module else f"{node.name}: "  # pyright: ignore[reportAttributeAccessIssue]
            yield getattr(node, "lineno", 1), "docstring", name + text.split("\n\n")[0].replace("\n", " ")
        if is_module or is_class:
            waiting += node.body  # pyright: ignore[reportAttributeAccessIssue]


def message(node: ast.expr, tree: ast.Module | ast.FunctionDef) -> str | None:
    """Return a text with ``{...}`` for inserted values; None for what is not a text in the code.

    Args:
        node: an expression.
        tree: the module or function, in which a name may be assigned a text.
    """
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(
            "{" + ast.unparse(part.value) + "}" if isinstance(part, ast.FormattedValue) else ast.literal_eval(part)
            for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [message(side, tree) for side in (node.left, node.right)]
        return None if parts == [None, None] else "".join(part or "{...}" for part in parts)
    if isinstance(node, ast.IfExp):
        parts = [message(side, tree) for side in (node.body, node.orelse)]
        return None if parts == [None, None] else " / ".join(part or "{...}" for part in parts)
    if isinstance(node, ast.Name):
        assignments = [each for each in ast.walk(tree) if isinstance(each, ast.Assign)]
        assigned = [
            value
            for each in sorted(assignments, key=lambda each: each.lineno)
            for target, value in _pairs(each)
            if target == node.id and each.lineno < node.lineno
        ]
        texts = [assigned[-1]] if assigned and not isinstance(assigned[-1], ast.Name) else []
        return message(texts[0], tree) if texts else None
    return None


def print_help(width: int) -> None:
    """Print the help of the program and of every command.

    Args:
        width: the number of columns.
    """
    from tauleap import cli

    os.environ["COLUMNS"] = str(width)
    for words in ([], *([name] for name in cli.COMMANDS)):
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
            cli.main([*words, "--help"])
        print(f"== {' '.join(['tauleap', *words, '--help'])}\n{text.getvalue()}")


def _pairs(node: ast.Assign) -> list[tuple[str, ast.expr]]:
    """Return the names and values of an assignment, which may be of several names."""
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return [(ast.unparse(name), each) for name, each in zip(target.elts, value.elts, strict=False)]
    return [(ast.unparse(target), value)]


def _called(node: ast.Call) -> str:
    """Return the last part of the name of a function that is called."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


if __name__ == "__main__":
    main()
