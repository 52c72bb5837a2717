"""Tightrope inside Opacus: accountants by name, a look at every loader, an engine that takes our samplers.

Importing this module registers the accountants, so that `PrivacyEngine(accountant="tightrope")` works:

* "tightrope": Poisson sampling, ADD_OR_REMOVE;
* "tightrope-substitute": Poisson sampling, SUBSTITUTE;
* "tightrope-wor": batches of fixed size without replacement, ADD_OR_REMOVE;
* "tightrope-wor-substitute": the same under SUBSTITUTE.

From then on an engine with one of these looks at the loader that it trains with. A loader that does not draw
what is accounted is named at once, and epsilon is what is proved for that loader. Every step is checked
against the batches of that loader. Engines with other accountants are left as they are.
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tightrope.extras import MissingExtra

try:
    from opacus import PrivacyEngine
    from opacus.accountants import create_accountant, register_accountant
    from opacus.utils import batch_memory_manager
except ModuleNotFoundError as missing:
    raise MissingExtra("tightrope.integrations.opacus", "Opacus 1.6 or newer", "opacus") from missing

from tightrope.audit.finding import Finding, Scheme
from tightrope.audit.loaders.inspect import inspect_loader
from tightrope.errors import InvalidSetting
from tightrope.integrations.opacus.accountants import (
    OpacusAccountant,
    PoissonAccountant,
    PoissonSubstituteAccountant,
    WithoutReplacementAccountant,
    WithoutReplacementSubstituteAccountant,
)
from tightrope.integrations.opacus.engine import TightropeEngine
from tightrope.integrations.opacus.mismatch import PlanExceeded, SamplerMismatch
from tightrope.integrations.opacus.statement import audit_training
from tightrope.integrations.opacus.steps import PrivateWatch
from tightrope.integrations.ranks import compare_ranks
from tightrope.integrations.torch_loaders import listen_to_parts
from tightrope.samplers.sampler import Passes

__all__ = [
    "OpacusAccountant",
    "PlanExceeded",
    "PoissonAccountant",
    "PoissonSubstituteAccountant",
    "SamplerMismatch",
    "TightropeEngine",
    "WithoutReplacementAccountant",
    "WithoutReplacementSubstituteAccountant",
    "audit_training",
]

_WRAPPED = "wrapped_by_tightrope"
_MADE_UP_RECORD = (
    "With rand_on_empty=True an empty batch becomes a made-up record, which is not there if a record is "
    "drawn: the sum moves by more than the clipping norm."
)


def _register(accountant: type[OpacusAccountant]) -> None:
    name = accountant.mechanism()
    try:
        register_accountant(name, accountant)
    except ValueError:
        there = type(create_accountant(name))
        if (there.__module__, there.__qualname__) != (accountant.__module__, accountant.__qualname__):
            taken = f"{there.__module__}.{there.__qualname__}"
            remedy = "Import tightrope.integrations.opacus first, or register that one under another name."
            raise InvalidSetting(name, taken, "name our accountant in Opacus", remedy) from None
        register_accountant(name, accountant, force=True)  # our own, of an earlier import of this module


def _wrap(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    """Have `wrapper` called in the place of a function of Opacus, with that function before its arguments.

    An accountant of Opacus is told noise and rate, never the loader, and an engine makes it by name: there is
    no public place to stand between the two.
    """
    inner = original = getattr(owner, name)
    while inner is not None:
        if getattr(inner, _WRAPPED, False):
            return  # also after a reload: wrappers look names up in this module, which are the new ones then
        inner = getattr(inner, "__wrapped__", None)

    @functools.wraps(original)
    def wrapped(*given: Any, **options: Any) -> Any:
        return wrapper(original, *given, **options)

    setattr(wrapped, _WRAPPED, True)
    setattr(owner, name, wrapped)


def _prepare_and_look(prepare: Any, engine: Any, *given: Any, **options: Any) -> Any:
    """Show the loader to an accountant of ours."""
    loader = prepare(engine, *given, **options)
    # not isinstance: after a reload, accountants that were made before are of another class
    see_loader = getattr(engine.accountant, "see_loader", None)
    if see_loader is not None:
        finding = inspect_loader(loader)
        if options.get("rand_on_empty", False) and options.get("poisson_sampling", False):
            finding = _make_up_record(finding)
        see_loader(finding, opacus_rate=1 / len(loader))
    return loader


def _make_private_and_watch(make_private: Any, engine: Any, *given: Any, **options: Any) -> Any:
    """Watch the training for an accountant of ours."""
    made = make_private(engine, *given, **options)
    if hasattr(engine.accountant, "see_loader"):
        module, optimizer, *_, loader = made
        watch = PrivateWatch()
        watch.checks.tally = engine.accountant.tally_steps()
        watch.openings = engine.accountant.used_seeds.openings
        drawn_by = getattr(getattr(loader, "batch_sampler", None), "sampler", None)
        if isinstance(drawn_by, Passes):
            engine.accountant.used_seeds.claim(drawn_by)
            watch.checks.caveat = compare_ranks(drawn_by)
        watch.watch_private(module=module, optimizer=optimizer, loader=loader)
    return made


def _wrap_and_listen(wrap_data_loader: Any, **options: Any) -> Any:
    """Watch the parts that a `BatchMemoryManager` makes of the batches of a loader that is watched."""
    parts = wrap_data_loader(**options)
    listen_to_parts(parts, options["data_loader"])
    return parts


def _make_up_record(finding: Finding) -> Finding:
    """What is found where a record pushes out a made-up one, so that the sum moves by 2C."""
    nothing = Finding(scheme=Scheme.UNKNOWN, how=finding.how, sentence=_MADE_UP_RECORD)
    return replace(nothing, records=finding.records, notes=finding.notes)


for _accountant in (
    PoissonAccountant,
    PoissonSubstituteAccountant,
    WithoutReplacementAccountant,
    WithoutReplacementSubstituteAccountant,
):
    _register(_accountant)
_wrap(PrivacyEngine, "_prepare_data_loader", lambda *given, **options: _prepare_and_look(*given, **options))
_wrap(PrivacyEngine, "make_private", lambda *given, **options: _make_private_and_watch(*given, **options))
_wrap(batch_memory_manager, "wrap_data_loader", lambda *given, **options: _wrap_and_listen(*given, **options))
