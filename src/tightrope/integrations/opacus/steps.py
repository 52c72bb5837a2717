"""The steps of Opacus' optimizers, each with the number of its per-sample gradients."""

from collections.abc import Callable
from typing import Any

from tightrope.audit.steps.checks import CheckedStep
from tightrope.integrations.training import TrainingWatch

WATCH = "tightrope_watch"  # the attribute of an optimizer that is watched


class PrivateWatch(TrainingWatch):
    """A training by Opacus, watched: per-sample gradients are counted, and skipped steps are added up."""

    def __init__(self, *, before_step: Callable[[CheckedStep], None] | None = None) -> None:
        super().__init__(before_step=before_step)
        self._first_parameter: Any = None
        self._drops_inputs = False

    def watch_private(self, *, module: Any, optimizer: Any, loader: Any) -> None:
        """Watch what `make_private` returned."""
        self.listen_to(loader)
        # The module that was wrapped: it is called whether or not the user calls the wrapper.
        self.watch_model(getattr(module, "_module", module))
        self.watch_optimizer(optimizer)
        # Modules with hooks count, for each parameter, the forward passes that have no backward pass yet.
        self._drops_inputs = hasattr(module, "capture_backprops_hook")

    def watch_optimizer(self, optimizer: Any) -> None:
        """Count the gradients of each step, also of those that only accumulate, and judge it in time."""
        prepare = optimizer.pre_step
        self._first_parameter = next(iter(optimizer.params), None)

        def count_and_prepare(closure: Any = None) -> Any:
            self._hold_gradients(optimizer)
            if optimizer._check_skip_next_step(pop_next=False):
                return prepare(closure)
            self._judge_or_give_back(optimizer)
            is_taken = prepare(closure)
            if is_taken:
                self.checks.take_step()
            return is_taken

        optimizer.pre_step = count_and_prepare
        setattr(optimizer, WATCH, self)

    def see_inputs(self, model: Any, *inputs: Any) -> None:
        """A forward pass on these inputs."""
        first = self._first_parameter
        if self._drops_inputs and _has_no_gradients(first):
            self.checks.forget_inputs()  # what was computed before was cleared by zero_grad
        super().see_inputs(model, *inputs)

    def _hold_gradients(self, optimizer: Any) -> None:
        first = self._first_parameter
        if _summed_gradient(optimizer, first) is None:
            self.checks.forget_gradients()  # of skipped steps: cleared by zero_grad, or never there
        self.checks.hold_gradients(*_count_gradients(first))

    def _judge_or_give_back(self, optimizer: Any) -> None:
        try:
            self.judge_step()
        except BaseException:
            # the step counts as tried, and zero_grad must clear all of its gradients
            optimizer._check_skip_next_step()
            optimizer._is_last_step_skipped = False
            raise


def watch_of(optimizer: Any) -> PrivateWatch | None:
    """Who watches this optimizer."""
    found = getattr(optimizer, WATCH, None)
    return found if isinstance(found, PrivateWatch) else None


def _has_no_gradients(parameter: Any) -> bool:
    computing = getattr(parameter, "_forward_counter", 0)
    return not computing and getattr(parameter, "grad_sample", None) is None


def _summed_gradient(optimizer: Any, parameter: Any) -> Any:
    """The clipped gradients that skipped steps left for this one."""
    states = getattr(optimizer, "grad_state", None)
    return states[parameter]["summed_grad"] if states else getattr(parameter, "summed_grad", None)


def _count_gradients(parameter: Any) -> list[int]:
    """The numbers of per-sample gradients, one for each backward pass; none where they cannot be seen."""
    gradients = getattr(parameter, "grad_sample", None)
    if gradients is None:
        gradients = getattr(parameter, "_norm_sample", None)  # ghost clipping keeps their norms only
    if gradients is None:
        return []
    return [len(one) for one in gradients] if isinstance(gradients, list) else [len(gradients)]
