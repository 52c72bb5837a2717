"""What a test types and sees."""

from collections.abc import Callable

Shell = Callable[[str], tuple[int, str, str]]


def absent(*libraries: str) -> str:
    """Python that makes libraries look as if they were not installed."""
    return (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {libraries!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Absent)"
    )
