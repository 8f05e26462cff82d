"""Choose noise, network, objective and settings for data, with reasons; the user can override each of them."""

from tauleap.choose.choice import Choice, choose
from tauleap.choose.marginals import column_marginals
from tauleap.choose.networks import NETWORKS
from tauleap.choose.objectives import OBJECTIVES
from tauleap.choose.processes import PROCESSES

__all__ = ["NETWORKS", "OBJECTIVES", "PROCESSES", "Choice", "choose", "column_marginals"]
