"""Samplers that carry their accounting: what is drawn is what is accounted."""

from tightrope.samplers.entropy import fresh_seed
from tightrope.samplers.plan import sampler_of
from tightrope.samplers.sampler import Passes, Piece, Sampler, Share
from tightrope.samplers.schemes import PoissonSampler, WithoutReplacementSampler

__all__ = [
    "Passes",
    "Piece",
    "PoissonSampler",
    "Sampler",
    "Share",
    "WithoutReplacementSampler",
    "fresh_seed",
    "sampler_of",
]
