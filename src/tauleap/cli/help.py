"""The options of a command as the parser shows them: in groups, each with its effect, its range and its default.

A command is a flat dataclass. Its ``GROUPS`` name the options of each group; an option's help text is the string below
its field. A last sentence "Default: ..." replaces the default that the parser would print, which is often None and
explains nothing. ``EXAMPLES`` are command lines that end the help.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import re
import textwrap
import typing
from typing import Annotated, Any

from typing_extensions import Doc


class Metavar(str):
    """Set how the help writes the value of an option, as part of the annotation of a field."""


def parser_class(command: type, *, is_selected: bool) -> type:
    """Return a dataclass from which tyro makes the parser of a command; its fields are the groups of options.

    Args:
        command: The class of the command.
        is_selected: Whether help is for this command; else its description is only the first line.
    """
    import tyro

    hints, texts = typing.get_type_hints(command, include_extras=True), _field_texts(command)
    options = {
        field.name: _parser_field(field, hints[field.name], texts.get(field.name, ""))
        for field in dataclasses.fields(command)
    }
    groups: dict[str, tuple[str, ...]] = getattr(command, "GROUPS", {})
    grouped = {name for names in groups.values() for name in names}
    members: list[Any] = [option for name, option in options.items() if name not in grouped]
    for title, names in groups.items():
        group = dataclasses.make_dataclass(title, [options[name] for name in names])
        annotation = Annotated[group, tyro.conf.OmitArgPrefixes, tyro.conf.arg(help="")]
        members.append((title, annotation, dataclasses.field(default_factory=group)))
    parser = dataclasses.make_dataclass(command.__name__, members)
    text = inspect.getdoc(command) or ""
    parser.__doc__ = text if is_selected else text.partition("\n\n")[0]
    return parser


def from_parsed(command: type, parsed: Any) -> Any:
    """Return a command with the options that were parsed.

    Args:
        command: The class of the command.
        parsed: An instance of its :func:`parser_class`.
    """
    options: dict[str, Any] = {}
    for field in dataclasses.fields(parsed):
        value = getattr(parsed, field.name)
        options |= vars(value) if dataclasses.is_dataclass(value) else {field.name: value}
    return command(**options)


def examples(command: type) -> str:
    """Return the examples that end the help of a command, or an empty text.

    Args:
        command: The class of the command; ``EXAMPLES`` has one command line per example, with a comment.
    """
    lines = getattr(command, "EXAMPLES", ())
    return "\n".join(["examples:", *(f"  {line}" for line in lines)]) if lines else ""


def _parser_field(field: dataclasses.Field[Any], annotation: Any, text: str) -> Any:
    """Return name, annotation and default of an option, as ``make_dataclass`` takes them."""
    import tyro

    metavar = None
    if typing.get_origin(annotation) is Annotated:
        annotation, *more = typing.get_args(annotation)
        text = next((extra.documentation for extra in more if isinstance(extra, Doc)), text)
        metavar = next((str(extra) for extra in more if isinstance(extra, Metavar)), None)
    text = " ".join(text.split())
    stated = re.fullmatch(r"(.*?)\s*Default: (.*)\.", text)
    is_required = field.default is dataclasses.MISSING
    settings: dict[str, Any] = {"help": text if stated is None else stated[1]}
    if stated is not None:
        settings["help_behavior_hint"] = f"(default: {stated[2]})"
    elif is_required or any(field.default is empty for empty in (None, (), False)):
        settings["help_behavior_hint"] = ""
    metavar = metavar or _metavar(annotation)
    if metavar is not None:
        settings["metavar"] = metavar
    annotated = Annotated[annotation, tyro.conf.arg(**settings)]
    return (field.name, annotated) if is_required else (field.name, annotated, dataclasses.field(default=field.default))


def _metavar(annotation: Any) -> str | None:
    """Return how a value is written that may also be None: ``INT``, not ``{None}|INT``; None for the parser's own."""
    if annotation is str:
        return "TEXT"
    kinds = [kind for kind in typing.get_args(annotation) if kind is not type(None)]
    if type(None) not in typing.get_args(annotation) or len(kinds) != 1:
        return None
    if typing.get_origin(kinds[0]) is typing.Literal:
        return "{" + ",".join(typing.get_args(kinds[0])) + "}"
    return {int: "INT", float: "FLOAT", str: "TEXT", bool: "{True,False}"}.get(kinds[0], "PATH")


def _field_texts(owner: type) -> dict[str, str]:
    """Return the strings below the fields of a class."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    statements = typing.cast(ast.ClassDef, body).body
    return {
        field.target.id: text.value.value
        for field, text in itertools.pairwise(statements)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }
