"""A torch training loop, watched: every optimizer step against the draw whose gradients it holds."""

from collections.abc import Callable
from types import MethodType
from typing import Any

from tightrope.extras import MissingExtra

try:
    import torch
except ModuleNotFoundError as missing:
    raise MissingExtra("tightrope.integrations.training", "PyTorch", "torch") from missing

from tightrope.audit.finding import Finding
from tightrope.audit.loaders.inspect import inspect_loader
from tightrope.audit.steps.checks import CheckedStep, StepChecks, StepVerdict
from tightrope.audit.steps.draws import HandedBatch
from tightrope.audit.steps.summary import StepsSummary, apply_steps, forget_passes
from tightrope.errors import Described, InvalidSetting
from tightrope.integrations.torch_inputs import HandedTensors, list_tensors
from tightrope.integrations.torch_loaders import listen, why_blind
from tightrope.samplers.sampler import Passes

OnStep = Callable[[CheckedStep], None]
FRESH_BATCH = "be taken on one fresh batch of the loader that is accounted"
SEVERAL_BATCHES = "it adds up the gradients of several batches"
ONE_STEP_EACH = (
    "Iterate over that loader, the one that make_private returned if there is an engine, and take one step "
    "for each of its batches."
)


class TrainingWatch:
    """Sees the batches that a loader hands out, the inputs of a model and the steps of an optimizer.

    If it `refuses`, a step that is not taken on a fresh batch raises before it is taken. `on_step` is called
    with the verdict on each step that is. What was seen of all steps is the `summary`.
    """

    def __init__(self, *, refuses: bool = False, on_step: OnStep | None = None) -> None:
        self.checks = StepChecks()
        self.openings: set[int] = set()  # of passes over all loaders whose steps are accounted together
        self.refuses, self.on_step = refuses, on_step
        self._tensors = HandedTensors()
        self._whole: HandedBatch | None = None  # the batch of the only forward pass since the last gradients
        self._finding: Finding | None = None
        self._loader: Any = None
        self._drawn_before = 0
        self._handles: list[Any] = []
        self._depth = 0  # of calls of the model that have not returned

    # what is watched

    def watch_loader(self, loader: Any) -> None:
        """See every batch that this very loader hands to the training loop, in its own process."""
        self._finding = inspect_loader(loader)
        self._drawn_before = _count_drawn(loader)
        self._loader = loader
        self.listen_to(loader)

    def listen_to(self, loader: Any) -> None:
        """The same without a look at how the loader draws."""
        self.checks.blind = why_blind(loader)
        if not self.checks.blind:
            listen(loader, self)

    def watch_model(self, model: Any, *, wrapper: Any = None) -> None:
        """See the inputs of each forward pass in training mode, and parts that are called by themselves.

        Trainers call a model's parts, `self.network(points)`, where a plain loop calls the model. A `wrapper`
        that does nothing but call the model is watched in its place, for a fifth of what hooks cost.
        """
        if wrapper is not None:
            self._handles.append(WatchedForward(wrapper, model, self))
        children = [child for child in model.children() if next(child.parameters(), None) is not None]
        nested = [child for child in children if next(child.children(), None) is not None]
        entries = dict.fromkeys(nested if wrapper is not None else [model, *nested])
        self._handles += [
            *(entry.register_forward_pre_hook(self._enter, with_kwargs=True) for entry in entries),
            *(entry.register_forward_hook(self._leave, always_call=True) for entry in entries),
            *(
                part.register_forward_hook(self._see_part, with_kwargs=True)
                for part in model.modules()
                if part not in entries and next(part.parameters(recurse=False), None) is not None
            ),
        ]

    def watch_optimizer(self, optimizer: Any) -> None:
        """Check each step of an optimizer of torch. How many gradients it holds is taken from the inputs."""
        self._handles.append(optimizer.register_step_pre_hook(self._take_plain_step))

    def close(self) -> None:
        """See and check nothing from now on."""
        while self._handles:
            self._handles.pop().remove()
        self.checks.blind = "it was no longer watched"

    # what is told, by hooks or by hand

    def hand_over(self, batch: HandedBatch, data: Any) -> None:
        """The training loop gets `data`, which is `batch`."""
        self.checks.at_hand.append(batch)
        self._tensors.remember(batch, data)

    def end_pass(self) -> None:
        """The training loop asked for a batch after the last one."""
        self.checks.end_pass()

    def doubt(self, why: str) -> None:
        """The loader no longer draws as it did when it was looked at: no step matches from now on."""
        self.checks.fault = self.checks.fault or why
        self.checks.usual = None

    def see_inputs(self, *inputs: Any) -> None:
        """A forward pass on these inputs, for training."""
        self._look_again()
        batch, records = self._tensors.find(inputs)
        self.checks.see_inputs(batch, records=records)

    def lose_sight(self) -> None:
        """A forward pass for training of which nobody can tell what it is on."""
        self._look_again()
        self.checks.see_inputs(None)

    def judge_step(self) -> None:
        """A step is about to be taken with the gradients held now: refuse it, or tell of it."""
        step = self.checks.judge()
        if self.refuses and step.verdict is StepVerdict.UNMATCHED:
            raise InvalidSetting("step", Described(f"another: {step.why}"), FRESH_BATCH, ONE_STEP_EACH)
        if self.on_step is not None:
            self.on_step(step)

    # hooks

    def _enter(self, entry: Any, args: Any, kwargs: Any) -> None:
        self._depth += 1
        if self._depth == 1 and entry.training and _is_grad_enabled():
            self._see_call(args, kwargs)

    def _leave(self, *_: Any) -> None:
        self._depth -= 1

    def _see_part(self, part: Any, args: Any, kwargs: Any, _: Any) -> None:
        if not self._depth and part.training and _is_grad_enabled():
            self._see_call(args, kwargs)

    def _see_call(self, args: Any, kwargs: Any) -> None:
        """The model, or a part of it, is called by itself.

        What other parts have computed of their inputs says nothing new: those were seen.
        """
        latest = self._tensors.latest
        if latest is not None and not kwargs and len(args) == 1 and not (self._whole or self.checks.inputs):
            # the usual forward pass is the only one, on the first tensor of the batch handed over last
            batch, tensors, versions = latest
            if tensors and args[0] is tensors[0] and args[0]._version == versions[0]:
                self._whole = batch
                return
        tensors = list_tensors([args, kwargs])
        given = [one for one in tensors if one.grad_fn is None]
        if (given or not tensors) and not _is_in_backward():
            self.see_inputs(given)

    def _look_again(self) -> None:
        """The step to come is not the usual one: tell the checks of the forward pass there was."""
        whole, self._whole = self._whole, None
        if self._has_stale_inputs():
            self.checks.forget_inputs()
        elif whole is not None:
            self.checks.see_inputs(whole)

    def _has_stale_inputs(self) -> bool:
        """Whether the forward passes so far are known to have led to no gradients that are still there."""
        return False

    def _take_plain_step(self, *_: Any) -> None:
        self._look_again()
        self.checks.hold_gradients()
        if len(self.checks.judge().draws) > 1:
            self.checks.fail(SEVERAL_BATCHES)
        self.judge_step()
        self.checks.take_step()

    # what is known

    @property
    def summary(self) -> StepsSummary:
        """What was seen of the steps taken so far."""
        return self.checks.summary()

    @property
    def finding(self) -> Finding:
        """How the batches that were trained on were drawn: known only if every step was seen."""
        if self._finding is None:
            raise InvalidSetting("loader", None, "be watched", "Call watch_loader(loader) before training.")
        found, steps = apply_steps(self._finding, self.summary), self.summary.steps
        drawn = _count_drawn(self._loader) - self._drawn_before
        if drawn == steps and not self._drawn_before:
            return found
        all_drawn = f"{drawn:,} batches were drawn, and {self._drawn_before:,} before, for {steps:,} steps"
        return forget_passes(found, f"But {all_drawn}: all of them must be accounted.")

    def __reduce__(self) -> tuple[Any, ...]:
        return _watch_nothing, ()  # copies of a model copy its hooks, and what is done with them is not seen


class WatchedForward:
    """In the place of the `forward` of a `wrapper`: it tells `watch` of each call of the model inside."""

    def __init__(self, wrapper: Any, model: Any, watch: TrainingWatch) -> None:
        self._wrapper, self._model, self._forward = wrapper, model, wrapper.forward
        self._watch: TrainingWatch | None = watch
        wrapper.forward = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The forward pass."""
        watch = self._watch
        if watch is None:
            return self._forward(*args, **kwargs)
        watch._depth += 1
        try:
            if self._model.training and _is_grad_enabled():
                if watch._depth == 1:
                    watch._see_call(args, kwargs)
                else:  # inside itself, or in another thread at the same time
                    watch.lose_sight()
            return self._forward(*args, **kwargs)
        finally:
            watch._depth -= 1

    def remove(self) -> None:
        """Tell nobody from now on; another one may have been put on top of it."""
        self._watch = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _plain_forward, (self._wrapper,)  # a copy of the wrapper calls the copy of the model


def _count_drawn(loader: Any) -> int:
    """How many batches the sampler of ours inside a loader has handed out; 0 where there is none."""
    inside = getattr(loader, "batch_sampler", None)
    while inside is not None and not isinstance(inside, Passes):
        inside = getattr(inside, "sampler", None)
    return 0 if inside is None else inside.drawn


def _plain_forward(wrapper: Any) -> Any:
    return MethodType(type(wrapper).forward, wrapper)


def _watch_nothing() -> TrainingWatch:
    watch = TrainingWatch()
    watch._depth = 1  # as if each call were inside another one, which was seen
    return watch


_is_grad_enabled = torch.is_grad_enabled


def _is_in_backward() -> bool:
    """Whether a forward pass is done once more for the sake of a backward pass, to save memory."""
    return bool(torch._C._current_graph_task_id() != -1)


def watch_training(
    *, loader: Any, model: Any, optimizer: Any, refuses: bool = True, on_step: OnStep | None = None
) -> TrainingWatch:
    """Watch a plain torch loop. By default a step on anything but a fresh batch of `loader` is refused.

    >>> from torch import nn, optim, zeros
    >>> from torch.utils.data import TensorDataset
    >>> from tightrope.samplers import PoissonSampler
    >>> from tightrope.samplers.torch import data_loader
    >>> loader = data_loader(TensorDataset(zeros(100, 2)), PoissonSampler(records=100, rate=0.1, steps=5))
    >>> model = nn.Linear(2, 1)
    >>> optimizer = optim.SGD(model.parameters(), lr=0.1)
    >>> watch = watch_training(loader=loader, model=model, optimizer=optimizer)
    >>> for (points,) in loader:
    ...     optimizer.zero_grad()
    ...     model(points).sum().backward()  # in earnest: clip each gradient, add noise to the sum
    ...     optimizer.step()
    >>> print(watch.summary.sentence)
    Each of the 5 steps was seen to use the records of one fresh batch of the loader.
    """
    watch = TrainingWatch(refuses=refuses, on_step=on_step)
    watch.watch_loader(loader)
    watch.watch_model(model)
    watch.watch_optimizer(optimizer)
    return watch
