"""Uniform random bytes: from the operating system, or a pure function of a seed and a batch number."""

import hashlib
import os
import secrets
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import Described, InvalidSetting
from tightrope.numerics import check

SEED_BITS = 128  # the key of Philox: every bit of the seed counts, and a longer one would not fit

Bytes = NDArray[np.uint8]
ByteSource = Callable[[int], Bytes]


def fresh_seed() -> int:
    """128 secret bits from the operating system, for samplers that must agree: send it to every rank.

    >>> fresh_seed() == fresh_seed()
    False
    """
    return secrets.randbits(SEED_BITS)


def check_seed(seed: object) -> int | None:
    """The seed as an int of at most 128 bits, or None. A refusal does not repeat what may be a secret."""
    if seed is None:
        return None
    remedy = "Use fresh_seed(), or leave it out for the operating system's entropy."
    value = check.whole(remedy=remedy, seed=seed)
    if value.bit_length() > SEED_BITS:
        length = Described(f"a number of {value.bit_length()} bits")
        raise InvalidSetting("seed", length, f"be below 2^{SEED_BITS}", "Use fresh_seed(), which fits.")
    return value


def digest_seed(seed: int | None) -> str:
    """A short digest by which two seeds can be told apart; empty without a seed.

    A `fresh_seed()` cannot be found from it. A small number that someone made up can be, by trying.
    """
    if seed is None:
        return ""
    return hashlib.blake2b(
        seed.to_bytes(SEED_BITS // 8, "little"), digest_size=16, person=b"tightrope"
    ).hexdigest()


def system_bytes(count: int) -> Bytes:
    """`count` bytes of the operating system's entropy: nothing to remember, to leak or to replay."""
    return np.frombuffer(os.urandom(count), dtype=np.uint8)


def seeded_bytes(*, seed: int, number: int) -> ByteSource:
    """The byte stream of batch `number` under `seed`.

    The seed is the key of a counter-based generator and the batch number the upper half of its 256-bit
    counter, so two different pairs never share a block: under one key each batch owns 2^128 blocks of 32
    bytes.
    """
    generator = np.random.Philox(key=seed, counter=number << 128)

    def draw(count: int) -> Bytes:
        words = generator.random_raw(-(-count // 8))
        little_endian = words.astype("<u8", copy=False)  # so that every machine draws the same batch
        return little_endian.view(np.uint8)[:count]

    return draw
