"""The steps of Opacus' optimizers, each with the number of its per-sample gradients."""

import functools
from collections.abc import Callable
from typing import Any

from opacus.grad_sample import AbstractGradSampleModule
from torch import Tensor
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from tightrope.audit.steps.checks import CheckedStep
from tightrope.errors import Described, InvalidSetting
from tightrope.integrations.training import OnStep, TrainingWatch

WATCH = "tightrope_watch"  # the attribute of an optimizer that is watched, and of its parameters
NOTICED_BY = "tightrope_noticed_by"
BYPASS = "the optimizer inside the private one was stepped by itself, without clipping and noise"
OTHER = "another optimizer, which adds no noise, took a step over the same parameters"
SCALED = "a GradScaler decides by the gradients themselves, without noise, whether steps are taken"


class PrivateWatch(TrainingWatch):
    """A training by Opacus, watched: per-sample gradients are counted, and skipped steps are added up."""

    def __init__(self, *, refuses: bool = False, on_step: OnStep | None = None) -> None:
        super().__init__(refuses=refuses, on_step=on_step)
        self._parameters: list[Any] = []  # those that the optimizer trains
        self._marked: list[Any] = []  # all of the model, which no other optimizer may train
        self._optimizer: Any = None
        self._sums: Any = None  # where FSDP keeps the clipped gradients of skipped steps
        self.is_prepared = False  # whether the step to come has been clipped and made noisy
        self._counts_passes = False

    def watch_private(self, *, module: Any, optimizer: Any, loader: Any) -> None:
        """Watch what `make_private` returned."""
        self.listen_to(loader)
        is_wrapper = isinstance(module, AbstractGradSampleModule)
        model = getattr(module, "_module", module)
        self.watch_model(model, wrapper=module if is_wrapper else None)
        self.watch_optimizer(optimizer)
        self._marked = list(model.parameters())
        for parameter in self._marked:
            setattr(parameter, WATCH, self)
        # Modules with hooks count, for each parameter, the forward passes that have no backward pass yet.
        self._counts_passes = hasattr(module, "capture_backprops_hook")

    def watch_optimizer(self, optimizer: Any) -> None:
        """Count the gradients of each step, also of those that only accumulate, and judge it in time."""
        inside, prepare = optimizer.original_optimizer, optimizer.pre_step
        earlier = getattr(inside, WATCH, None)
        if earlier is not None:
            earlier.close()  # it was made private before, and is made so anew
        self._parameters = list(optimizer.params)
        self._sums = getattr(optimizer, "grad_state", None)
        first, checks = self._parameters[0], self.checks

        def prepare_any(closure: Any = None) -> Any:
            return self._prepare_step(optimizer, prepare, closure)

        def prepare_usual(closure: Any = None) -> Any:
            # Is it the usual step, with one gradient for each record of the only batch that the model saw?
            batch, gradients = self._whole, first.grad_sample
            if batch is None or type(gradients) is not Tensor or first.summed_grad is not None:
                return prepare_any(closure)
            if optimizer._step_skip_queue or not checks.match_usual(batch, gradients.shape[0]):
                return prepare_any(closure)
            self._whole = None
            if self.on_step is not None:
                self.judge_step()
            is_taken = self.is_prepared = prepare(closure)
            if is_taken:
                checks.take_usual_step()
            return is_taken

        optimizer.pre_step = prepare_any if clips_adaptively(optimizer) else prepare_usual
        optimizer._step_supports_amp_scaling = ScalerTrap(self)
        optimizer.__reduce_ex__ = refuse_copy
        self._optimizer = optimizer
        notice_all_steps()
        for watched in (optimizer, inside):
            setattr(watched, WATCH, self)

    def close(self) -> None:
        """See and check nothing from now on."""
        super().close()
        inside = [] if self._optimizer is None else [self._optimizer.original_optimizer]
        for watched in (*inside, *self._marked):
            if vars(watched).get(WATCH) is self:
                delattr(watched, WATCH)

    def notice_other(self, other: Any) -> None:
        """An optimizer that is not watched is about to step over the same parameters."""
        optimizer = self._optimizer
        if any(part is optimizer or part is optimizer.original_optimizer for part in vars(other).values()):
            return  # it stands around ours, which takes the step
        if self.refuses:
            got = Described(f"another {type(other).__name__} over the same parameters")
            remedy = (
                "It adds no noise. Let the private optimizer take all steps; to train on public records "
                "afterwards, copy the model."
            )
            raise InvalidSetting("optimizer", got, "be the one that was made private", remedy)
        self.take_bypassing_step(OTHER)

    def _prepare_step(self, optimizer: Any, prepare: Callable[[Any], Any], closure: Any) -> Any:
        self._hold_gradients()
        if optimizer._check_skip_next_step(pop_next=False):
            return prepare(closure)
        self._judge_or_give_back(optimizer)
        self.is_prepared = prepare(closure)
        if self.is_prepared:
            self.checks.take_step()
        return self.is_prepared

    def _has_stale_inputs(self) -> bool:
        # zero_grad clears gradients, and so what came of the forward passes before
        return self._counts_passes and not any(map(_has_gradients, self._parameters))

    def take_bypassing_step(self, why: str) -> None:
        """A step without clipping and noise is about to be taken: refuse it, or record that."""
        optimizer = self._optimizer
        self.checks.fail(why)
        self.judge_step()
        if optimizer.step_hook is not None:
            optimizer.step_hook(optimizer)
        self.checks.take_step()

    def _hold_gradients(self) -> None:
        first = self._parameters[0]
        summed = first.summed_grad if self._sums is None else self._sums[first]["summed_grad"]
        if summed is None:
            self.checks.forget_gradients()  # of skipped steps: cleared by zero_grad, or never there
        whole, self._whole = self._whole, None
        if whole is not None:
            self.checks.see_inputs(whole)
        self.checks.hold_gradients(*_count_gradients(first))

    def _judge_or_give_back(self, optimizer: Any) -> None:
        try:
            self.judge_step()
        except BaseException:
            # the step counts as tried, and zero_grad must clear all of its gradients
            optimizer._check_skip_next_step()
            optimizer._is_last_step_skipped = False
            raise


def notice_step(optimizer: Any, *_: Any) -> None:
    """An optimizer of torch is about to step; it may be the one inside a private one."""
    try:
        watch = optimizer.tightrope_watch
    except AttributeError:
        notice_unwatched_step(optimizer)
        return
    if not watch.is_prepared:
        watch.take_bypassing_step(BYPASS)
    watch.is_prepared = False


def notice_unwatched_step(optimizer: Any) -> None:
    """Tell whoever watches one of its parameters."""
    parameters = (one for group in optimizer.param_groups for one in group["params"])
    watch = next((found for one in parameters if (found := vars(one).get(WATCH)) is not None), None)
    if watch is not None:
        watch.notice_other(optimizer)


@functools.cache
def notice_all_steps() -> Any:
    """From the first private optimizer on, notice the steps of all optimizers, once."""
    earlier = getattr(Optimizer, NOTICED_BY, None)
    if earlier is not None:  # from before this was loaded anew: two would each take a step for a second one
        earlier.remove()
    handle = register_optimizer_step_pre_hook(notice_step)
    setattr(Optimizer, NOTICED_BY, handle)
    return handle


def refuse_copy(_: Any) -> Any:
    """Refuse to copy or to pickle an optimizer, the steps of whose copy nobody would see.

    Opacus cannot do it either: its copies have no optimizer inside, and torch wraps the step of the class
    when it makes them, so that no other private optimizer can take a step from then on.
    """
    remedy = "Keep optimizer.state_dict(), make a new optimizer private, and load it there."
    raise InvalidSetting("optimizer", Described("a private one"), "not be copied or pickled", remedy)


class ScalerTrap:
    """Where a `GradScaler` of torch looks before each step whether the optimizer scales for itself.

    A scaler skips the step if the sum of the gradients, before noise, is not finite. One record can decide
    that, and whoever sees the weights sees it.
    """

    def __init__(self, watch: PrivateWatch) -> None:
        self._watch = watch

    def __bool__(self) -> bool:
        """Refuse or doubt; then no: the optimizer does not."""
        if self._watch.refuses:
            got = Described("an enabled GradScaler")
            remedy = "It skips steps by a look at gradients without noise. Train in full precision."
            raise InvalidSetting("scaler", got, "be left out or be disabled", remedy)
        self._watch.doubt(SCALED)
        return False


def check_step(optimizer: Any) -> CheckedStep | None:
    """The verdict on the step that an optimizer is about to take; None if nobody watches it."""
    watch = getattr(optimizer, WATCH, None)
    return watch.checks.judge() if isinstance(watch, PrivateWatch) else None


def clips_adaptively(optimizer: Any) -> bool:
    """Whether Opacus adapts the clipping norm, with per-sample gradients or in ghost mode."""
    known = vars(optimizer)
    return "unclipped_num_std" in known or "_adjusted_noise_multiplier" in known


def _has_gradients(parameter: Any) -> bool:
    """Whether a parameter has per-sample gradients, or a forward pass that may still lead to some."""
    return parameter.grad_sample is not None or parameter._forward_counter > 0


def _count_gradients(parameter: Any) -> list[int]:
    """The numbers of per-sample gradients, one for each backward pass; none where they cannot be seen."""
    gradients = getattr(parameter, "grad_sample", None)
    if gradients is None:
        gradients = getattr(parameter, "_norm_sample", None)  # ghost clipping keeps their norms only
        if gradients is None:
            return []
    return [one.shape[0] for one in gradients] if isinstance(gradients, list) else [gradients.shape[0]]
