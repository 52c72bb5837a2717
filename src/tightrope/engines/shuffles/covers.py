"""A small linear program: the least numbers that cover every row."""

import numpy as np

from tightrope.numerics.floats import Floats

MOST_PIVOTS = 1000
PAYS = 1e-9  # of a unit: a row that is covered up to so much is


def least_cover(rows: Floats) -> Floats | None:
    """x >= 0 of least sum with rows @ x >= 1, about, for many rows of few numbers, none of them negative.

    By its dual: the largest sum of y >= 0 with y @ rows <= 1, whose bases have as many rows as x has numbers,
    and in which one may begin with y = 0. Nobody relies on it: None where it does not come to an end.
    """
    number = rows.shape[1]
    columns = np.concatenate([rows, np.eye(number)])  # a multiple of a unit vector is what is not used up
    gains = np.concatenate([np.ones(len(rows)), np.zeros(number)])
    basis = np.arange(len(rows), len(rows) + number)
    try:
        for _ in range(MOST_PIVOTS):
            inverse = np.linalg.inv(columns[basis].T)
            prices = gains[basis] @ inverse
            pays = gains - columns @ prices
            entering = int(pays.argmax())
            if pays[entering] <= PAYS:
                return np.asarray(np.maximum(prices, 0.0))
            used, held = inverse @ columns[entering], inverse.sum(axis=1)
            ratios = np.full(number, np.inf)
            np.divide(np.maximum(held, 0.0), used, out=ratios, where=used > PAYS * np.abs(used).max())
            leaving = int(ratios.argmin())
            if not np.isfinite(ratios[leaving]):
                return None
            basis[leaving] = entering
    except np.linalg.LinAlgError:
        pass
    return None
