"""Samplers that carry their accounting: what is drawn is what is accounted."""

from tightrope.samplers.allocations import BallsInBinsSampler, RandomAllocationSampler
from tightrope.samplers.entropy import fresh_seed
from tightrope.samplers.pieces import PaddedBatch, Piece
from tightrope.samplers.plan import sampler_of
from tightrope.samplers.sampler import Passes, Sampler, Share
from tightrope.samplers.schemes import PoissonSampler, TruncatedPoissonSampler, WithoutReplacementSampler

__all__ = [
    "BallsInBinsSampler",
    "PaddedBatch",
    "Passes",
    "Piece",
    "PoissonSampler",
    "RandomAllocationSampler",
    "Sampler",
    "Share",
    "TruncatedPoissonSampler",
    "WithoutReplacementSampler",
    "fresh_seed",
    "sampler_of",
]
