"""Samplers that carry their accounting: what is drawn is what is accounted."""

from tightrope.samplers.entropy import fresh_seed
from tightrope.samplers.passes import Passes, Piece
from tightrope.samplers.poisson import PoissonSampler
from tightrope.samplers.sampler import Sampler, Share
from tightrope.samplers.without_replacement import WithoutReplacementSampler

__all__ = ["Passes", "Piece", "PoissonSampler", "Sampler", "Share", "WithoutReplacementSampler", "fresh_seed"]
