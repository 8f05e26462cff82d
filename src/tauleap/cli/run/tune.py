"""The work of ``tauleap tune``: measure the error of sampling steps, and store the result with the model."""

from __future__ import annotations

import torch

from tauleap.cli.commands.tune import Tune
from tauleap.cli.model import load_model
from tauleap.cli.output import print_result
from tauleap.cli.tuning import tuning_facts, tuning_line
from tauleap.evaluate import tune
from tauleap.pretrained.runs import check_storable, store_about


def run(options: Tune) -> None:
    """Tune a model, store the tuning, and print predicted errors.

    Args:
        options: The options of the command, which it has checked.
    """
    if options.out is None:
        check_storable(options.run_folder)
    model, form = load_model(options.run_folder, options.device)
    data, report = form.read_with_report(options.data)
    generator = torch.Generator().manual_seed(options.seed)
    tuning = tune(model, data, most_rows=options.rows, seconds=options.seconds, generator=generator)
    if options.out is None:
        store_about(options.run_folder, model.about)
    else:
        model.save(options.out)
    facts = tuning_facts(tuning)
    folder = options.run_folder if options.out is None else options.out
    name = str(folder)
    lines = [*report, f"tuned: {tuning_line(facts)}", f"next: tauleap sample {name} --tol {facts['tolerance']:g}"]
    print_result({"run": name, "tuning": facts, "read": report} if options.json else lines)
