"""Help: every option has a group, an effect and no internal default; every example can be typed."""

import dataclasses
import re
import shlex
import typing
from collections.abc import Iterator

import pytest

from tauleap import cli
from tauleap.cli.help import examples, parser_class
from tauleap.cli.parsing import parse


def help_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as exit_info:
        cli.main([command, "--help"])
    assert exit_info.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("columns", ["80", "120"])
@pytest.mark.parametrize("command", list(cli.COMMANDS))
def test_help_names_no_internal_default(
    command: str, columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    shown = help_of(command, capsys)
    assert "{None}" not in shown
    assert "default: None" not in shown


@pytest.mark.parametrize("command", list(cli.COMMANDS))
def test_every_option_has_a_sentence(command: str) -> None:
    texts = dict(option_texts(parser_class(cli.COMMANDS[command], is_selected=True)))
    fields = dataclasses.fields(cli.COMMANDS[command])  # pyright: ignore[reportArgumentType]
    assert texts.keys() == {field.name for field in fields}
    assert [name for name, text in texts.items() if not re.fullmatch(r"[A-Z].{8,}\.{1,3}", text)] == []


def option_texts(parser: type) -> Iterator[tuple[str, str]]:
    """Yield the options of a parser with their help texts, without their defaults."""
    for name, annotation in typing.get_type_hints(parser, include_extras=True).items():
        kind, *extras = typing.get_args(annotation)
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            yield from option_texts(kind)
        else:
            yield from ((name, extra.help) for extra in extras if getattr(extra, "help", None) is not None)


@pytest.mark.parametrize("command", list(cli.COMMANDS))
def test_groups_have_each_option_once(command: str) -> None:
    kind = cli.COMMANDS[command]
    grouped = [name for names in kind.GROUPS.values() for name in names]  # pyright: ignore[reportAttributeAccessIssue]
    fields = dataclasses.fields(kind)  # pyright: ignore[reportArgumentType]
    options = {field.name for field in fields if field.default is not dataclasses.MISSING}
    assert len(grouped) == len(set(grouped))
    assert options - set(grouped) <= {"device"}  # of `info`, beside --help
    assert set(grouped) <= options


@pytest.mark.parametrize("command", list(cli.COMMANDS))
def test_help_ends_with_examples_that_can_be_typed(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = examples(cli.COMMANDS[command])
    assert help_of(command, capsys).rstrip().endswith(text)
    lines = [line.strip() for line in text.splitlines()[1:]]
    assert lines
    for line in lines:
        program, *words = shlex.split(line, comments=True)
        assert program == "tauleap"
        parse(words)
