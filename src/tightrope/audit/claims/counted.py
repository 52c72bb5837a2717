"""The steps that were accounted against batches: recorded ones, those of one pass, those handed out."""

from tightrope.audit.finding import Finding, How, Scheme
from tightrope.audit.loaders.strategies import RNG_UNSEEN
from tightrope.audit.loaders.words import count
from tightrope.setting.run import MOST_STEPS, Run, Step

HANDED_OUT = "The sampler has handed out"
WHOLE_PASSES = "every pass over the loader is run to its end"
SOURCES = {
    How.INSPECTED: "One pass is",
    How.WATCHED: "The recording holds",
    How.DECLARED: "It is declared that there are",
}
ALL_USED = "every batch that was handed out was trained on"
NEW_RNG = "each batch_iterator is given a new rng"
LIKE_WATCHED = "all batches are drawn like those that were watched"


def count_missing(run: Run, finding: Finding) -> int:
    """How many batches were handed out, or are known to come, for which no step was accounted."""
    return max(count_batches(finding) - run.steps, 0)


def count_batches(finding: Finding) -> int:
    """How many batches there are at least: those of one pass, or all that were handed out."""
    return max(finding.batch_count or 0, finding.handed_out or 0)


def count_unseen(run: Run, finding: Finding) -> int:
    """How many accounted steps a recording does not show; of a loader every pass is like the first."""
    if finding.how is not How.WATCHED or finding.batch_count is None:
        return 0
    return max(run.steps - finding.batch_count, 0)


def is_all_so_far(run: Run, finding: Finding) -> bool:
    """Whether a step was accounted for each batch that was handed out, though a pass would have more."""
    return run.steps == finding.handed_out and count_missing(run, finding) > 0


def run_every_batch(run: Run, finding: Finding) -> Run | None:
    """The run with a step for each batch; None where the mechanism of the missing steps is not known."""
    missing = count_missing(run, finding)
    if not missing:
        return run
    mechanisms = {step.mechanism for step, _ in run}
    if len(mechanisms) > 1 or run.steps + missing > MOST_STEPS:
        return None
    ((first, _), *_) = run
    return run + Step(mechanisms.pop(), first.sampling) * missing


def tell_condition(run: Run, finding: Finding) -> str:
    """What must hold, besides what was seen, for the steps to be as many as the batches; empty if nothing."""
    if finding.scheme is Scheme.UNKNOWN:
        return ""
    if count_unseen(run, finding):
        return LIKE_WATCHED
    if finding.how is not How.INSPECTED:
        return ""
    if _uses_more_iterators(run, finding):
        return NEW_RNG
    if not count_missing(run, finding) or is_all_so_far(run, finding):
        return ""
    return ALL_USED if _has_handed_out_more(finding) else WHOLE_PASSES


def _uses_more_iterators(run: Run, finding: Finding) -> bool:
    """Whether steps go on with another iterator, whose rng may be the one that drew the batches before."""
    return RNG_UNSEEN in finding.notes and run.steps > count_batches(finding)


def _has_handed_out_more(finding: Finding) -> bool:
    return (finding.handed_out or 0) > (finding.batch_count or 0)


def tell_counts(run: Run, finding: Finding) -> str:
    """That batches and accounted steps differ in number, in a sentence; empty where they agree."""
    if finding.batch_count is None or finding.scheme is Scheme.UNKNOWN:
        return ""
    steps, batches = count(run.steps, "step"), count(count_batches(finding), "batch")
    are = "was" if run.steps == 1 else "were"
    if is_all_so_far(run, finding):
        return f"As many steps were accounted as batches were handed out, {run.steps:,}."
    if count_missing(run, finding):
        return f"{_tell_source(finding)} {batches}, but only {steps} {are} accounted."
    if count_unseen(run, finding):
        part = f"The recording shows part of the run only, {batches} of the {steps} that {are} accounted"
        return f"{part}: the others are taken to be drawn alike."
    return ""


def _tell_source(finding: Finding) -> str:
    if _has_handed_out_more(finding):
        return HANDED_OUT
    if finding.begun:
        drawn = "the one that was" if finding.begun == 1 else f"the {finding.begun:,} that were"
        return f"With {drawn} drawn of the pass before, another pass makes"
    return SOURCES[finding.how]
