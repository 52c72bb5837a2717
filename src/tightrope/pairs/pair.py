"""The face of every pair: an ordered pair of output distributions that answers for itself."""

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar


class Pair(ABC):
    """P = observed, Q = alternative, and the privacy loss ln dP/dQ of an output drawn from P.

    Engines ask a pair these questions instead of looking at its kind. The answers given here are those of a
    continuum of outputs, all of which both P and Q can produce.
    """

    is_pass: ClassVar[bool] = False

    @property
    @abstractmethod
    def sort_key(self) -> tuple[object, ...]:
        """Orders pairs of all kinds."""

    @property
    @abstractmethod
    def reverse(self) -> "Pair":
        """(Q, P)."""

    @property
    @abstractmethod
    def is_trivial(self) -> bool:
        """Whether P = Q, so that nothing is lost."""

    @property
    def one_step(self) -> "Pair":
        """The pair whose curve at epsilon >= 0 is the curve of one step of this pair."""
        return self

    # Losses

    @property
    @abstractmethod
    def loss_range(self) -> tuple[float, float]:
        """Infimum and supremum of the loss."""

    @property
    def largest_finite_loss(self) -> float:
        """The supremum of the finite losses."""
        return self.loss_range[1]

    @property
    def loss_ceiling(self) -> tuple[float, float]:
        """Certain bounds on the supremum of the finite losses."""
        return self.largest_finite_loss, self.largest_finite_loss

    @property
    @abstractmethod
    def total_variation(self) -> float:
        """An upper bound on delta(0), a little above it."""

    @property
    @abstractmethod
    def is_bounded(self) -> bool:
        """Whether the loss has a finite largest value that P takes with positive probability."""

    @property
    def nears_its_ceiling(self) -> bool:
        """Whether the plain normal noise, against some of it that is moved, nears a largest loss for ever."""
        return False

    @abstractmethod
    def log_masses_at_top(self, gap: float) -> tuple[float, float]:
        """ln P(loss = largest), rounded down, and ln P(loss > largest - gap), rounded up; if bounded."""

    def loss_quantile(self, log_mass: float) -> float:
        """A finite loss above which P has at most e^log_mass on finite losses."""
        return self.largest_finite_loss

    @property
    def has_atom_at_zero(self) -> bool:
        """Whether a continuum of losses has an atom at loss 0, which a discretisation should keep there."""
        return False

    # Losses that no finite epsilon covers

    @property
    def infinite_mass(self) -> Fraction:
        """P-probability of outputs that Q cannot produce, exactly."""
        return Fraction(0)

    # Finitely many outputs

    @property
    def is_finite(self) -> bool:
        """Whether P and Q live on finitely many outputs; then `levels` and `losses` list them."""
        return False

    @property
    def levels(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """(P, Q) masses of finitely many outputs with a finite loss, in increasing order of the loss."""
        return ()

    @property
    def losses(self) -> tuple[float, ...]:
        """The loss of each level, to relative accuracy."""
        return ()

    @property
    def log_masses(self) -> tuple[float, ...]:
        """ln P of each level, to relative accuracy."""
        return ()

    # Normal noise

    @property
    def has_normal_noise(self) -> bool:
        """Whether the outputs are normal noise around two or three centres."""
        return False

    @property
    def gaussian_separation(self) -> float | None:
        """How far apart P and Q are, in noise scales, if both are a single normal; else None."""
        return None

    @property
    def exact_gaussian_separation(self) -> Fraction | None:
        """The same, exactly."""
        return None

    @property
    def unsampled_separation(self) -> float:
        """How far apart the normals of the same step without sampling would be; 0 without normal noise."""
        return 0.0


class PassPair(Pair):
    """Several steps at once, whose curve is known only between others: nobody asks for its own losses."""

    is_pass: ClassVar[bool] = True

    @property
    def loss_range(self) -> tuple[float, float]:
        """All numbers: it bounds nothing."""
        return -math.inf, math.inf

    @property
    def is_bounded(self) -> bool:
        """No: a largest loss is not known."""
        return False

    def log_masses_at_top(self, gap: float) -> tuple[float, float]:
        """Only pairs of bounded loss are asked."""
        raise NotImplementedError
