"""Which noise, network, objective and numbers suit data, unless the user names them; with reasons for people."""

from tauleap.choose.choice import Choice, choose
from tauleap.choose.marginals import column_marginals
from tauleap.choose.networks import NETWORKS
from tauleap.choose.objectives import OBJECTIVES
from tauleap.choose.processes import PROCESSES

__all__ = ["NETWORKS", "OBJECTIVES", "PROCESSES", "Choice", "choose", "column_marginals"]
