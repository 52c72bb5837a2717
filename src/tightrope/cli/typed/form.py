"""In which form an answer is printed: words and tables, with reasons, a bare number, or JSON."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from tightrope.cli.typed import options as opt
from tightrope.cli.typed.misused import Misused


@Parameter(name="*", group=opt.ANSWER)
@dataclass(frozen=True, kw_only=True)
class Form:
    """The options that choose the form; those that contradict each other are refused before any work."""

    why: Annotated[
        bool, opt.flag("Also print all digits, the theorems with what they state, and datasets.")
    ] = False
    brief: Annotated[
        bool, opt.flag("Print nothing but what is safe to use: one number a line, or the verdict.")
    ] = False
    json: opt.Json = False

    def __post_init__(self) -> None:
        chosen = [f"--{name}" for name in ("why", "brief", "json") if getattr(self, name)]
        if self.brief and len(chosen) > 1:
            other = next(name for name in chosen if name != "--brief")
            raise Misused(f"--brief contradicts {other}, which prints more: leave one of them out")


IN_WORDS = Form()
