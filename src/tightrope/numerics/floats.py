"""The one unit roundoff."""

UNIT_ROUNDOFF = 2.0**-53  # of double precision: a rounded result is off by at most this, relative to itself
