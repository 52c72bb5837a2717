"""How many draws of a loader share the noise of one step."""

from typing import Any

from tightrope.audit.steps.checks import CheckedStep, StepVerdict


def count_draws(optimizer: Any, step: CheckedStep) -> int:
    """How many draws share the noise of a step; 1 where the step is none on draws of the loader."""
    if step.verdict is StepVerdict.RECORDS_MATCH:
        return len(step.draws)
    if step.verdict is StepVerdict.UNMATCHED:
        return 1
    accumulated: int = optimizer.accumulated_iterations
    return max(accumulated, len(step.draws))
