"""Network output -> p(x0 | x_t)."""

from tauleap.denoise.adapters import LeaveOneOut, MaskedLogits, ScoreRatios
from tauleap.denoise.denoiser import Denoiser, NetworkDenoiser
from tauleap.denoise.exact import ExactDenoiser
from tauleap.denoise.guided import Guided
from tauleap.denoise.posterior import Posterior
from tauleap.denoise.ragged import RaggedDenoiser
from tauleap.denoise.sequence import SequenceDenoiser
from tauleap.denoise.tempered import Tempered
from tauleap.denoise.truncated_logistic import TruncatedLogistic

__all__ = [
    "Denoiser",
    "ExactDenoiser",
    "Guided",
    "LeaveOneOut",
    "MaskedLogits",
    "NetworkDenoiser",
    "Posterior",
    "RaggedDenoiser",
    "ScoreRatios",
    "SequenceDenoiser",
    "Tempered",
    "TruncatedLogistic",
]
