"""A private training under Accelerate, whose `prepare` makes a loader of its own out of the private one."""

from typing import Any

from tightrope.extras import MissingExtra

try:
    from accelerate.data_loader import DataLoaderShard
except ModuleNotFoundError as missing:
    raise MissingExtra(
        "tightrope.integrations.accelerate", "Accelerate and Opacus", "accelerate"
    ) from missing

from tightrope.audit.loaders.words import name_class
from tightrope.errors import Described, InvalidSetting
from tightrope.integrations.opacus.steps import WATCH, PrivateWatch


def prepare_private(accelerator: Any, *, module: Any, optimizer: Any, loader: Any) -> tuple[Any, Any, Any]:
    """`accelerator.prepare` for what `TightropeEngine.make_private` returned, with its steps still checked.

    In one process `prepare` draws the same batches through a loader of its own, which is watched from then
    on. With more processes it would deal whole batches out to them, which is another sampling: refused.
    """
    watch = getattr(optimizer, WATCH, None)
    if not isinstance(watch, PrivateWatch):
        remedy = "Pass what TightropeEngine.make_private returned."
        raise InvalidSetting("optimizer", Described(name_class(optimizer)), "be a private one", remedy)
    check_accelerator(accelerator)
    prepared, private, prepared_loader = accelerator.prepare(module, optimizer, loader)
    watch.listen_to(find_inner_loader(prepared_loader, loader.batch_sampler))
    return prepared, private, prepared_loader


def check_accelerator(accelerator: Any) -> None:
    """Refuse settings with which something else is run than what is accounted."""
    if accelerator.num_processes != 1:
        remedy = (
            "It deals batches out to them. Let the sampler do so: pass sampler.share(rank=..., ranks=...) to "
            "TightropeEngine on each rank, wrap the model for Opacus, and do not prepare the loader."
        )
        raise InvalidSetting("num_processes", accelerator.num_processes, "be 1", remedy)
    if accelerator.gradient_accumulation_steps != 1:
        remedy = "Each batch of the sampler is one step: draw larger ones."
        steps = accelerator.gradient_accumulation_steps
        raise InvalidSetting("gradient_accumulation_steps", steps, "be 1", remedy)
    if accelerator.mixed_precision != "no":
        remedy = "Scaled or rounded gradients are clipped elsewhere than accounted."
        raise InvalidSetting("mixed_precision", accelerator.mixed_precision, "be 'no'", remedy)


def find_inner_loader(prepared: Any, batch_sampler: Any) -> Any:
    """The loader inside a prepared one that hands out the batches of this very batch sampler."""
    inner = getattr(prepared, "base_dataloader", None)
    is_plain = type(prepared) is DataLoaderShard and not prepared.skip_batches
    if not is_plain or inner is None or inner.batch_sampler is not batch_sampler:
        got = Described(f"{type(prepared).__name__}, which hands out other batches")
        remedy = "Leave dispatch_batches, split_batches and skip_first_batches as they are by default."
        raise InvalidSetting("loader", got, "hand out the batches of the sampler", remedy)
    return inner
