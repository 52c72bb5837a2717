"""What a test types and sees."""

from collections.abc import Callable

Shell = Callable[[str], tuple[int, str, str]]
