"""What the accountants for Opacus say about loaders and steps that are not what is accounted."""

from tightrope.audit.finding import Finding, How, Scheme
from tightrope.audit.steps.checks import CheckedStep
from tightrope.setting.sampling import Poisson, Sampling, WithoutReplacement

REMEDIES: dict[type[Sampling], str] = {
    Poisson: (
        "leave out poisson_sampling=False and rand_on_empty=True, so that Opacus draws plain Poisson "
        "batches, or use TightropeEngine with a PoissonSampler."
    ),
    WithoutReplacement: (
        "use TightropeEngine with a WithoutReplacementSampler, or pass poisson_sampling=False with a loader "
        "that draws every batch afresh."
    ),
}
UNTIL_THEN = "Until then get_epsilon returns only what is proved for this loader, which may be infinite."
ONE_STEP_EACH = (
    "iterate over the loader that make_private returned, not over the one it was made from, and take one "
    "step for each of its batches. From this step on nothing is proved, and get_epsilon is infinite."
)
TAKE_THE_ENGINE = "use tightrope.integrations.opacus.TightropeEngine, which takes both from the sampler."
KIND_IN_WORDS: dict[type[Sampling], str] = {
    Poisson: Scheme.POISSON.value,
    WithoutReplacement: Scheme.WITHOUT_REPLACEMENT.value,
}
ADAPTIVE_CLIPPING = Finding(
    scheme=Scheme.UNKNOWN,
    how=How.INSPECTED,
    sentence=(
        "Adaptive clipping moves the clipping norm by the share of gradients that were not clipped, and "
        "divides by the size of the batch that was drawn, which is released without noise."
    ),
)
BATCHES_OF_PASSES = (
    "This accountant counts steps, where the batches of each pass must be counted: TightropeEngine takes the "
    "sampler and does."
)
NOT_WATCHED = "the optimizer was not made private by an engine with this accountant"
BY_HAND = "they were recorded by hand"

_OFF_THE_LOADER = "A step was not taken on one fresh batch of the loader that is accounted: "


def say_other_rate(opacus_rate: float, rate: float) -> str:
    """What it means that Opacus takes another rate than the one that was found."""
    return (
        f"Opacus takes {opacus_rate:.6g}, one by the length of the loader, for the sampling rate; that of "
        f"this loader is {rate:.6g}. Epsilon is accounted at the latter. The expected batch size, and the "
        "noise if make_private_with_epsilon chose it, are made for the former."
    )


def find_step(step: CheckedStep) -> Finding:
    """What is known of the batches from a step on that no draw matches: nothing."""
    return Finding(scheme=Scheme.UNKNOWN, how=How.DECLARED, sentence=f"{_OFF_THE_LOADER}{step.why}.")


def is_off_the_loader(finding: Finding | None) -> bool:
    """Whether a finding is about a step, not about a loader."""
    return finding is not None and finding.sentence.startswith(_OFF_THE_LOADER)
