"""(x_t, t, ...) -> raw output: plain networks, without noise, loss or sampling.

Each is called as ``network(x, t, observed=...)`` with integer ``x`` of shape (B, *shape) and a floating ``t``, a scalar
or (B,), and returns (B, *shape, S) logits, or for the U-Net (B, *shape, 2), a mean and a log scale. The defaults of
the first three are the sizes of Appendix H of Campbell et al. 2022.

    ResidualMLP           a few dimensions: the toy of Appendix H.1, small tables
    MusicTransformer      Appendix H.3
    UNet                  ordinal images: Appendix H.2
    SequenceTransformer   everything else: sequences and tables of your own
    TableNetwork          tables, whose columns have different numbers of states
    TimeExperts           several of them, each for its own times
"""

from tauleap.network.mlp import ResidualMLP
from tauleap.network.music_transformer import MusicTransformer
from tauleap.network.network import Network
from tauleap.network.sequence_transformer import SequenceTransformer
from tauleap.network.table import TableNetwork
from tauleap.network.time_experts import TimeExperts
from tauleap.network.unet import UNet

__all__ = ["MusicTransformer", "Network", "ResidualMLP", "SequenceTransformer", "TableNetwork", "TimeExperts", "UNet"]
