"""Draw the import graph of the packages of tauleap.

    python diagnostics/import_graph.py [--write]

Prints the direct imports of each package. ``--write`` draws them into docs/figures/import_graph.png. An arrow leads
from a package to one that it imports; imports that follow from others are left out, so that the picture shows the
layers.
"""

from __future__ import annotations

import argparse
import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "tauleap"
FIGURE = ROOT / "docs" / "figures" / "import_graph.png"
Graph = dict[str, set[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="draw docs/figures/import_graph.png")
    arguments = parser.parse_args()
    graph = import_graph()
    for name, used in sorted(graph.items(), key=lambda item: level(graph, item[0])):
        print(f"{level(graph, name)}  {name:<12} {', '.join(sorted(used)) or '-'}")
    if arguments.write:
        draw(graph)
        print(f"written: {FIGURE.relative_to(ROOT)}")


def import_graph() -> Graph:
    """Return the public packages and modules of tauleap, each with those that it imports, also inside functions."""
    entries = [path for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    names = sorted(path.stem for path in entries if not path.stem.startswith("_"))
    return {name: {other for other in _imports(name) if other in names and other != name} for name in names}


def level(graph: Graph, name: str) -> int:
    """Return the longest chain of imports below a package.

    Args:
        graph: as ``import_graph`` returns it.
        name: one of its packages.
    """
    return 1 + max((level(graph, other) for other in graph[name]), default=-1)


def reduced(graph: Graph) -> Graph:
    """Return the graph without imports that other imports imply.

    Args:
        graph: as ``import_graph`` returns it.
    """

    def reached(name: str) -> set[str]:
        return graph[name].union(*(reached(other) for other in graph[name]))

    return {name: used - set().union(*(reached(other) for other in used)) for name, used in graph.items()}


def places(graph: Graph) -> dict[str, tuple[float, int]]:
    """Return the position of each package: as high as its importers allow, and below their centre.

    Args:
        graph: as ``import_graph`` returns it.
    """
    shown = reduced(graph)
    height: dict[str, int] = {}
    for name in sorted(graph, key=lambda name: -level(graph, name)):
        importers = [height[other] for other, used in shown.items() if name in used]
        height[name] = min(importers) - 1 if importers else level(graph, name)
    widest = max(sum(h == row for h in height.values()) for row in height.values())
    place: dict[str, tuple[float, int]] = {}
    for row in sorted(set(height.values()), reverse=True):
        middle = {}
        for name in (name for name, h in height.items() if h == row):
            above = [place[other][0] for other, used in shown.items() if name in used]
            middle[name] = sum(above) / len(above) if above else widest
        for column, name in enumerate(sorted(middle, key=lambda name: (middle[name], name))):
            place[name] = ((column + 0.5) * widest / len(middle), row)
    return place


def draw(graph: Graph) -> None:
    """Draw the packages by level, with an arrow for each import that no other implies.

    Args:
        graph: as ``import_graph`` returns it.
    """
    from matplotlib.figure import Figure

    place = places(graph)
    width, rows = max(x for x, _ in place.values()) + 0.5, max(y for _, y in place.values()) + 1
    figure = Figure(figsize=(1.7 * width, 0.8 * rows), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(-0.5, rows - 0.5)
    box = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": "#6e016b"}
    boxes = {name: axes.text(x, y, name, ha="center", va="center", bbox=box) for name, (x, y) in place.items()}
    for name, used in reduced(graph).items():
        for other in used:
            ends = {"patchA": boxes[name].get_bbox_patch(), "patchB": boxes[other].get_bbox_patch()}
            line = {"arrowstyle": "-|>", "color": "0.5", "shrinkA": 2, "shrinkB": 2, "linewidth": 1} | ends
            axes.annotate("", xy=place[other], xytext=place[name], arrowprops=line)
    figure.draw_without_rendering()  # the boxes get their sizes here, at which the arrows end
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=110)


def _imports(name: str) -> set[str]:
    """Return the first name after ``tauleap.`` of every import in the files of a package."""
    folder = PACKAGE / name
    found: set[str] = set()
    for path in folder.rglob("*.py") if folder.is_dir() else [folder.with_suffix(".py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "tauleap":
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tauleap."):
                found.add(node.module.split(".")[1])
            elif isinstance(node, ast.Import):
                found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("tauleap.")}
    return found


if __name__ == "__main__":
    main()
