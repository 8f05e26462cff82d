import subprocess
import sys

SCRIPT = """
import torch
from tauleap.network import MusicTransformer, ResidualMLP, SequenceTransformer, UNet

small = dict(width=16, depth=2, heads=2)
for network, shape in (
    (ResidualMLP(), (2,)),
    (MusicTransformer(hidden=16, **small), (6,)),
    (SequenceTransformer(32, (2, 3), num_classes=3, **small), (2, 3)),
    (SequenceTransformer(32, (2, 3), num_classes=3, plain=True, **small), (2, 3)),
    (UNet(width=8, multipliers=(1, 2)), (3, 4, 4)),
):
    network.eval()
    compiled = torch.compile(network, backend="eager", fullgraph=True)
    x = torch.randint(32, (3, *shape))
    t = torch.rand(3)
    torch.testing.assert_close(compiled(x, t), network(x, t))
"""


def test_each_network_is_one_graph() -> None:
    """In a process of its own, since the type checks of the test run cannot be traced."""
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
