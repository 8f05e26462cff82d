"""The work of ``tauleap info``: the description of a model, as text or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tauleap.cli.commands.info import Info
from tauleap.cli.model import load_model, rows_at_once
from tauleap.cli.output import print_result
from tauleap.cli.tuning import tuning_facts, tuning_line
from tauleap.data import Format
from tauleap.model import Model

_OF_ROWS = {"bits_per_symbol": "symbol", "bits_per_row": "row", "bits_per_character": "character"}
"""Measurements of rows of symbols; bits/dim counts the sites behind their ends too."""


def run(options: Info) -> None:
    """Print the description of a model.

    Args:
        options: The options of the command.
    """
    model, form = load_model(options.run_folder, options.device)
    facts = _facts(model, form, options.run_folder)
    print_result(facts if options.json else _lines(facts))


def _facts(model: Model, form: Format, folder: Path) -> dict[str, Any]:
    about = model.about
    sizes = form.sizes
    network = getattr(model.denoiser, "network", model.denoiser)
    return {
        "run": str(folder),
        "kind": form.kind,
        "shape": list(form.shape),
        "num_states": form.num_states,
        "sizes": None if sizes is None else sizes.tolist(),
        "process": type(model.process).__name__,
        "schedule": type(model.process.schedule).__name__,
        "denoiser": type(model.denoiser).__name__,
        "network": _named(network),
        "weights": sum(weight.numel() for weight in model.reverse.parameters()),
        "bytes": sum(tensor.numel() * tensor.element_size() for tensor in model.reverse.state_dict().values()),
        "device": str(model.device),
        "batch_size": rows_at_once(model, None),
        "step": about.get("step"),
        "bits_per_dim": about.get("bits_per_dim"),
        **({name: about.get(name) for name in _OF_ROWS} if form.kind == "sequences" else {}),
        "independent_bits_per_dim": about.get("independent_bits_per_dim"),
        "gain_over_independent": about.get("gain_over_independent"),
        "better_than_independent": about.get("better_than_independent"),
        "tuning": None if model.tuning is None else tuning_facts(model.tuning),
        "data": _as_lines(about.get("data", [])),
        "dependencies": [[each.determinant, each.dependent] for each in model.dependencies],
        "choice": about.get("choice", []),
    }


def _named(network: object) -> str:
    """Return the class of a network, with those of its experts if it has several."""
    parts = getattr(network, "networks", None)
    inside = "" if parts is None else f" of {', '.join(type(part).__name__ for part in parts)}"
    return f"{type(network).__name__}{inside}"


def _as_lines(report: Any) -> list[str]:
    """Return the report on the training data as lines; a user may have stored a single sentence."""
    return list(map(str, report)) if isinstance(report, list) else [str(report)]


def _lines(facts: dict[str, Any]) -> list[str]:
    states = facts["num_states"] if facts["sizes"] is None else f"{min(facts['sizes'])} to {max(facts['sizes'])}"
    shape = " x ".join(map(str, facts["shape"]))
    lines = [
        f"data:     {facts['kind']}, {shape} sites of {states} states",
        *(f"          {line}" for line in facts["data"]),
        f"process:  {facts['process']}, {facts['schedule']}",
        f"network:  {facts['network']} in {facts['denoiser']}, {facts['weights']:,} weights, {facts['bytes']:,} bytes",
    ]
    lines.append(f"device:   {facts['device']}, {facts['batch_size']:,} samples at a time")
    if isinstance(facts["step"], int):
        lines.append(f"trained:  {facts['step']:,} steps")
    for name, unit in _OF_ROWS.items():
        found = facts.get(name)
        if isinstance(found, dict) and isinstance(found.get("value"), float):
            stderr = f" ± {found['stderr']:.4f}" if isinstance(found.get("stderr"), float) else ""
            lines.append(f"bits:     {found['value']:.4f}{stderr} per {unit} on held-out rows")
    for name, key in (("bits/dim", "bits_per_dim"), ("baseline", "independent_bits_per_dim")):
        found = facts[key]
        if isinstance(found, dict) and isinstance(found.get("value"), float):
            stderr = f" ± {found['stderr']:.4f}" if isinstance(found.get("stderr"), float) else ""
            words = "on held-out rows" if name == "bits/dim" else "under independent sites"
            lines.append(f"{name + ':':<9} {found['value']:.4f}{stderr} {words}")
    if facts["tuning"] is not None:
        lines.append(f"tuned:    {tuning_line(facts['tuning'])}")
    gain, better = facts["gain_over_independent"], facts["better_than_independent"]
    if isinstance(gain, dict) and isinstance(gain.get("value"), float) and isinstance(gain.get("stderr"), float):
        what = ""
        if isinstance(better, bool):
            what = ": it has learned dependence between the sites"
        if better is False:
            what = ": it has not learned dependence between the sites yet, or there is none"
        lines.append(f"gain:     {gain['value']:.4f} ± {gain['stderr']:.4f} over independent sites{what}")
    return lines
