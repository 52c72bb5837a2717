"""Oracle cases that miss what they must reach, with the reason. Meant to stay empty.

A key is (check, case id): check is one of CHECKS in test_honesty.py, for example "width 1e-5". A gap that no longer fails
makes the suite fail, so that none can go stale.
"""

KNOWN_GAPS: dict[tuple[str, str], str] = {}
