"""The code and commands of the README and the pages of docs/ work.

Python blocks run in order in one namespace, in an empty folder; of the README also the commands of bash and console
blocks.
Not run, because they need a network or would start this test again: ``git clone``, ``cd``, ``pip install``, ``make``.
The extras and the targets that these name must exist; nothing more is claimed for them here.
"""

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w+)[^\n]*\n(?P<body>.*?)^(?P=indent)```\s*$", re.M | re.S)


class Block(NamedTuple):
    language: str
    line: int
    body: str


def blocks(text: str, *languages: str) -> list[Block]:
    found = [Block(m["language"], text.count("\n", 0, m.start("body")) + 1, m["body"]) for m in FENCE.finditer(text)]
    return [block for block in found if block.language in languages]


def commands(text: str) -> list[str]:
    """One entry a command: continued lines are joined, comments and the output in console blocks are left out."""
    found = []
    for block in blocks(text, "bash", "sh", "shell", "console"):
        lines = block.body.replace("\\\n", " ").splitlines()
        if block.language == "console":
            lines = [line.strip().removeprefix("$ ") for line in lines if line.strip().startswith("$ ")]
        found += [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
    return found


def is_run(command: str) -> bool:
    return not re.match(r"(git clone|cd|(python3? -m )?pip3? install|make)\b", command)


def readme() -> str:
    return README.read_text(encoding="utf-8")


def test_the_reader_of_blocks() -> None:
    text = (
        "a\n```python\nx = 1\n```\n```console\n$ make test\nok\n$ tauleap \\\n  demo\n```\n```bash\n# why\ncd a\n```\n"
    )
    assert blocks(text, "python") == [Block("python", 3, "x = 1\n")]
    assert [command.split() for command in commands(text)] == [["make", "test"], ["tauleap", "demo"], ["cd", "a"]]
    assert [is_run(command) for command in commands(text)] == [False, True, False]


def run(block: Block, page: str, namespace: dict[str, Any]) -> None:
    # Empty lines before the block make a traceback name the line of the page.
    exec(compile("\n" * (block.line - 1) + block.body, page, "exec"), namespace)


PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted(DOCS.glob("*.md")))]


def test_python_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert blocks(readme(), "python"), "the README shows no Python"
    run_page("README.md", tmp_path, monkeypatch)


@pytest.mark.parametrize("page", PAGES[1:])
def test_python_blocks_of_the_documentation_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(page, tmp_path, monkeypatch)


@pytest.mark.usefixtures("sim")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks((ROOT / page).read_text("utf-8"), "python")])
def test_python_blocks_run_on_an_accelerator(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same blocks where "auto" is a simulated accelerator; minutes and many steps become a few steps."""
    run_page(page, tmp_path, monkeypatch, lambda body: re.sub(r"minutes=[\d.]+|\bsteps=\d{2,}", "steps=3", body))


def run_page(
    page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[str], str] = lambda body: body
) -> None:
    monkeypatch.chdir(folder)
    namespace = {"__name__": "page"}
    for block in blocks((ROOT / page).read_text(encoding="utf-8"), "python"):
        run(block._replace(body=change(block.body)), page, namespace)


def test_commands_run(tmp_path: Path) -> None:
    environment = os.environ | {"PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])}
    shutil.copytree(ROOT / "examples", tmp_path / "examples")  # a checkout has it
    for command in filter(is_run, commands(readme())):
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"


def test_commands_that_are_not_run_name_what_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    extras = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    )
    for command in commands(readme()):
        words = shlex.split(command, comments=True)
        if words[0] == "make":
            expected = {word for word in words[1:] if not word.startswith("-") and "=" not in word}
            assert expected <= targets, f"{command}: no such target"
        elif not is_run(command):
            for named in re.findall(r"(?:tauleap|\.)\[([\w,-]+)\]", command):
                assert set(named.split(",")) <= extras, f"{command}: no such extra"
