"""Links between the pages of the documentation, and to figures and files, lead somewhere; every page is in the menu."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
CODE = re.compile(r"^(?P<fence>```+).*?^(?P=fence)\s*$|`[^`\n]*`", re.M | re.S)
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\((?P<target>[^()\s]+)\)")


def links(text: str) -> list[str]:
    """The targets of a page's links and pictures, without those to other sites."""
    found = [match["target"] for match in LINK.finditer(CODE.sub(_without_brackets, text))]
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def _without_brackets(code: re.Match[str]) -> str:
    return "" if code["fence"] else re.sub(r"[\[\]()]", "", code[0])


def anchors(text: str) -> set[str]:
    """The names of a page's headings, as the site makes them."""
    headings = re.findall(r"^#+ (.+?)\s*$", re.sub(r"^(```+).*?^\1\s*$", "", text, flags=re.M | re.S), re.M)
    plain = (re.sub(r"[^\w\s-]", "", re.sub(r"[`*]", "", heading)).strip().lower() for heading in headings)
    return {re.sub(r"[-\s]+", "-", heading) for heading in plain}


def test_the_reader_of_links() -> None:
    text = "# A, b_c\n[x `a[0](y)`](p.md#q) ![z](f.png) [w](https://w)\n```python\n[n](o)\n# no\n```\n[`r`](s.md)\n"
    assert links(text) == ["p.md#q", "f.png", "s.md"]
    assert anchors(text) == {"a-b_c"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in links(page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_file(), f"{page.name} has a link to {target}, which is not there"
        if DOCS in page.parents:
            assert DOCS in file.parents, f"{page.name} has a link to {target}, which is not part of the site"
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), f"{page.name}: {path} has no heading #{anchor}"


def test_every_page_is_in_the_menu_once() -> None:
    menu = re.findall(r"[\w/]+\.md$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    assert sorted(menu) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
