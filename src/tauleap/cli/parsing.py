"""Parse a command line; a mistake is one line on stderr."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from tauleap.cli.commands import COMMANDS, Command
from tauleap.cli.help import examples, from_parsed, parser_class

_DESCRIPTION = (
    "Continuous-time diffusion for discrete data. "
    "`tauleap COMMAND --help` lists the options of a command with examples. "
    "`tauleap --version` prints the version. "
    "Set the environment variable TAULEAP_TRACEBACK=1 to see the traceback of an error."
)
_SEVERAL = ("--label", "--type", "--drop", "--missing", "--given")
"""Options that take several words, up to the next option."""
_FLAGS = ("--header", "--lines")
"""Flags of ``train`` whose default is detected."""
_NARROWEST = 40
"""Columns; for help in fewer than about 20, tyro needs unbounded memory."""
_UNWRAPPED = 10_000
"""Columns in which tyro prints each sentence of an error on one line."""


def is_version_request(words: Sequence[str]) -> bool:
    """Return whether the words are ``--version``, or a command with ``--version``.

    Args:
        words: The arguments of the command line.
    """
    return list(words) == ["--version"] or (words[:1] != [] and words[0] in COMMANDS and "--version" in words[1:])


def parse(words: Sequence[str]) -> Command:
    """Return the command with its options; for invalid arguments, print one line and exit with code 2.

    Args:
        words: The arguments of the command line, without the name of the program.

    Raises:
        SystemExit: After ``--help``, or for invalid arguments.
    """
    words = _expand(list(words))
    empty = _empty_path(words)
    if empty is not None:
        _exit_with(f"{empty} is an empty name: write the name of a file or folder", words)

    import tyro

    printed = io.StringIO()
    shows_help = any(word in ("-h", "--help") for word in words)
    width = max(_NARROWEST, shutil.get_terminal_size().columns) if shows_help else _UNWRAPPED
    try:
        with _columns(width), contextlib.redirect_stderr(printed):
            parsers = {name: parser_class(kind, is_selected=name in words[:1]) for name, kind in COMMANDS.items()}
            parsed = tyro.extras.subcommand_cli_from_dict(
                parsers,
                prog="tauleap",
                description=_DESCRIPTION,
                args=words,
                config=(tyro.conf.PositionalRequiredArgs, tyro.conf.FlagCreatePairsOff),
            )
    except SystemExit as leaving:
        if leaving.code in (0, None):
            if words and words[0] in COMMANDS and (shown := examples(COMMANDS[words[0]])):
                print(shown)
            raise
        _exit_with(_sentence(printed.getvalue()), words)
    command = next(COMMANDS[name] for name, parser in parsers.items() if type(parsed) is parser)
    return from_parsed(command, parsed)


def _expand(words: list[str]) -> list[str]:
    """Replace spellings that tyro does not support: -n, --no-header, --no-lines and ``demo music``."""
    if words[:2] == ["demo", "music"]:
        return ["demo-music", *words[2:]]
    if words[:1] == ["train"]:
        return _merge_repeated(_expand_flags(words))
    if words[:1] != ["sample"]:
        return words
    expanded = []
    for word in words:
        value = re.fullmatch(r"-n(?:=(.*)|([+-]?\d.*))", word, re.DOTALL)
        if value is not None:
            expanded += ["--n", value[1] if value[2] is None else value[2]]
        else:
            expanded.append("--n" if word == "-n" else word)
    return _merge_repeated(expanded)


def _expand_flags(words: list[str]) -> list[str]:
    """Replace flags such as ``--no-header`` by an option with a value: tyro has no flag whose default is neither."""
    expanded = []
    for word, following in itertools.zip_longest(words, words[1:], fillvalue=""):
        if word.startswith("--no-") and f"--{word[5:]}" in _FLAGS:
            expanded += [f"--{word[5:]}", "False"]
        elif word in _FLAGS and following not in ("True", "False", "None"):
            expanded += [word, "True"]
        else:
            expanded.append(word)
    return expanded


def _merge_repeated(words: list[str]) -> list[str]:
    """Join the words of a repeated option: of ``--type a=x --type b=y`` tyro takes the last alone."""
    names = [word.partition("=")[0] for word in words]
    repeated = {name for name in _SEVERAL if names.count(name) > 1}
    if not repeated:
        return words
    before: list[str] = []
    values: dict[str, list[str]] = {}
    after: list[str] = []
    current = before
    for word in words:
        name, equals, value = word.partition("=")
        if name in repeated:
            current = values.setdefault(name, [name])
            if equals:
                current.append(value)
                current = before  # such an option has one word: the next may be the file
        elif word.startswith("--") and len(word) > 2:
            current = after
            current.append(word)
        else:
            current.append(word)
    return [*before, *(word for group in values.values() for word in group), *after]


def _empty_path(words: list[str]) -> str | None:
    """Return the first empty path among the words, or None: Path("") would be the current folder."""
    for before, word in itertools.pairwise(words):
        if word in ("--out=", "--data="):
            return word
        is_value = before.startswith("--") and before not in ("--out", "--data")
        if not is_value and not word.strip() and not (word and Path(word).exists()):
            return f"{before} {word!r}"
    return None


def _exit_with(message: str, words: list[str]) -> NoReturn:
    command = f" {words[0]}" if words and words[0] in COMMANDS else ""
    print(f"tauleap: error: {message} (see tauleap{command} --help)", file=sys.stderr)
    raise SystemExit(2)


def _sentence(box: str) -> str:
    """Return the sentences of a tyro error in one line, without its frame and the help of every option."""
    box = re.sub(r"\x1b\[[0-9;]*m", "", box)
    frame = set(" │|╭╮╰╯─-")
    lines = ["" if set(line) <= frame else line.strip(" │|") for line in box.splitlines()]
    # The first line is a title, which the text repeats; empty lines were rules.
    sections: list[list[str]] = [[]]
    for line in lines[1:]:
        if line:
            sections[-1].append(line)
        elif sections[-1]:
            sections.append([])
    texts = [" ".join(section) for section in sections if section]
    sentence = texts[0] if texts else "the arguments are invalid"
    sentence = re.sub(r"^Expected one of", "a command is missing: write one of", sentence)
    sentence = re.sub(r"^Missing from (tauleap \S+): (\S+) ", r"\2 is missing after `\1`: ", sentence)
    sentence = re.sub(r"^Missing value for argument '(\S+)'.*", r"\1 needs a value", sentence)
    sentence = re.sub(r"^Error parsing (\S+):", r"\1", sentence).removesuffix(" (required)")
    sentence = re.sub(r"^invalid choice ('.*') for argument '(\S+)'\. Expected one of \((.*)\)\.", _choices, sentence)
    # An option that may be left out has the type "None or a number": only the number can be meant.
    sentence = re.sub(
        r"no type matching \{None\}\|(INT|FLOAT) could be instantiated from \[('.*')\].*",
        lambda found: f"must be a {'whole ' if found[1] == 'INT' else ''}number, got {found[2]}",
        sentence,
    )
    for text in texts[1:]:
        if text.startswith("Available subcommands"):
            sentence += f"; {text}"
        if text.startswith("Perhaps you meant"):
            names = dict.fromkeys(re.findall(r"(?<!\S)--(?!help )[a-z][a-z-]*(?=\s+[A-Z{])", text))
            sentence += f"; perhaps you meant {' or '.join(names)}" if names else ""
    sentence = re.sub(r"invalid literal for int\(\) with base 10: ('.*')", r"must be a whole number, got \1", sentence)
    return re.sub(r"could not convert string to float: ('.*')", r"must be a number, got \1", sentence)


def _choices(found: re.Match[str]) -> str:
    """Return a sentence about a word that is not among the choices of an option, which are then listed in order."""
    choices = sorted(choice for choice in re.findall(r"'([^']*)'", found[3]) if choice != "None")
    return f"{found[2]} must be one of {', '.join(choices)}, got {found[1]}"


@contextlib.contextmanager
def _columns(number: int) -> Iterator[None]:
    """Set the width of the terminal for tyro."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(number)
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
