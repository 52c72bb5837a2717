"""Batches of a fixed size, drawn without replacement: a record that joins pushes another out."""

from tightrope.pairs.pair import Pair
from tightrope.setting.mechanism import Finite, Gaussian, Laplace, RandomizedResponse
from tightrope.setting.relation import ADD, REMOVE, SUBSTITUTE
from tightrope.setting.run import Step
from tightrope.setting.sampling import WithoutReplacement
from tightrope.theorems.table import refute, theorem
from tightrope.theorems.worst_pairs import needs_mirror, step_laws

ANY = (Gaussian, Laplace, RandomizedResponse, Finite)
REFERENCE = "Zhu, Dong, Wang 2022, Thm 11(2); Lebeda, Regehr, Kamath, Steinke 2024, Prop. 9(2)"
PROOF = "proofs/full_batches_push_out.md"
PAPER = "Lebeda, Regehr, Kamath, Steinke 2024"


def _needs_spare_record_and_mirror(step: Step) -> str | None:
    sampling = step.sampling
    if isinstance(sampling, WithoutReplacement) and sampling.batch == sampling.population:
        return (
            f"{{batch={sampling.batch}}} must be below {{population={sampling.population}}}, because the "
            f"smaller neighbour has only {sampling.population - 1} records and must fill the batch too "
            "(use {EveryRecord} if all records are used)"
        )
    return needs_mirror(step.mechanism)


@theorem(
    mechanisms=ANY,
    sampling=WithoutReplacement,
    relation=REMOVE,
    reference=REFERENCE,
    proof=PROOF,
    attained_by="D = (-1, ..., -1, 1) and D' = (-1, ..., -1)",
    needs=_needs_spare_record_and_mirror,
)
def without_replacement_remove(step: Step) -> Pair:
    """Removing a record pulls another into the batch, so the sum moves by 2C: ((1-g)N(0)+gN(2), N(0))."""
    return step_laws(step.mechanism, step.sampling, REMOVE).remove()


@theorem(
    mechanisms=ANY,
    sampling=WithoutReplacement,
    relation=ADD,
    reference=REFERENCE,
    proof=PROOF,
    attained_by="D = (-1, ..., -1) and D' = (-1, ..., -1, 1)",
    needs=_needs_spare_record_and_mirror,
)
def without_replacement_add(step: Step) -> Pair:
    """Adding a record pushes another out of the batch, so the sum moves by 2C: (N(0), (1-g)N(0)+gN(2))."""
    return step_laws(step.mechanism, step.sampling, ADD).add()


@theorem(
    mechanisms=ANY,
    sampling=WithoutReplacement,
    relation=SUBSTITUTE,
    reference=f"Zhu, Dong, Wang 2022, Prop. 30, as corrected; {PAPER}, section 8",
    proof="proofs/substitution_envelope.md",
    attained_by="D = (-1, ..., -1, 1) and D' = (-1, ..., -1, -1), in one step",
    needs=lambda step: needs_mirror(step.mechanism),
)
def substitution_envelope(step: Step) -> Pair:
    """In one step the {REMOVE} pair dominates an exchange where epsilon >= 0, the {ADD} pair elsewhere."""
    return step_laws(step.mechanism, step.sampling, SUBSTITUTE).remove().envelope


refute(
    name="one_step_worst_direction_stays_worst",
    belief="The direction that is worst for one step stays the worst under composition.",
    counterexample="randomized response with truth probability 3/4 at rate 1/2, two steps: at e^epsilon = "
    "4/3 add loses 11/48 and remove 1/6, at e^epsilon = 2 add loses 1/16 and remove 1/8; likewise Laplace "
    "noise.",
    reference=f"{PAPER}, Prop. 11 and Fig. 1",
    proof="proofs/refuted_beliefs.md",
)
refute(
    name="without_replacement_is_like_poisson",
    belief="Under {SUBSTITUTE}, sampling without replacement has the curve of Poisson sampling.",
    counterexample="Gaussian noise 0.8, rate 0.001, 10,000 steps, delta 1e-6: epsilon 1.33 for Poisson and "
    "at least 15.25 without replacement.",
    reference=f"{PAPER}, section 7, on a claim of Koskela et al. 2020",
    proof="proofs/refuted_beliefs.md",
)
refute(
    name="laplace_substitution_is_the_larger_pure_direction",
    belief="Without replacement under {SUBSTITUTE}, the larger of the two pure directions is the curve of "
    "Laplace noise.",
    counterexample="scale 2, rate 1/2, two steps: playing one step of each direction loses more on an "
    "interval of epsilon.",
    reference=f"{PAPER}, Fig. 3",
    proof="proofs/refuted_beliefs.md",
)
refute(
    name="gaussian_substitution_is_remove",
    belief="Without replacement under {SUBSTITUTE}, the Gaussian curve is the {REMOVE} curve for "
    "epsilon >= 0.",
    counterexample="5 records, batch 4, noise 3, two steps, datasets (0,0,0,0,1) and (0,0,0,0,-1): at "
    "epsilon 0 they lose 0.29172 and the {REMOVE} pair 0.29118.",
    reference=f"the closing conjecture of {PAPER}; counterexample in the proof note",
    proof="proofs/refuted_beliefs.md",
)
