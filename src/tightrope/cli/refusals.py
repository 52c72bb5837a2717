"""Refusals in the words of the command line: the option, the value, the remedy."""

import re

from cyclopts import CycloptsError, MissingArgumentError

from tightrope.report.words import spelled
from tightrope.setting.relation import RELATIONS

_OPTIONS = {
    "noise_multiplier": "--noise",
    "truth_probability": "--truth",
    "rate": "--rate",
    "batch": "--batch",
    "population": "--population",
    "steps": "--steps",
    "accuracy": "--accuracy",
    "delta": "--delta",
    "epsilon": "--epsilon",
    "draws": "--draws",
    "confidence": "--confidence",
    "seed": "--seed",
    "workers": "--workers",
    "records": "--records",
}
_REMEDIES = {
    "--sampling": "the guarantee depends on how batches are drawn: pass poisson, without-replacement or every-record",
    "--relation": "the guarantee depends on who counts as a neighbour: pass add, remove, add-or-remove or substitute",
    "--steps": "pass how many times the mechanism is run, for example --steps 10000",
    "--delta": "pass the failure probability you accept, for example --delta 1e-6",
    "--epsilon": "pass the privacy loss you accept, for example --epsilon 1",
    "--effort": "pass quick or tight",
}
MIXED = "--runs states every run in its file: leave out the options that state one run."


def missing(option: str, lacking: str = "is missing") -> str:
    """Say which option a command cannot do without, and what to pass."""
    return f"{option} {lacking}; {_REMEDIES.get(option, 'see --help for an example')}."


def of_usage(wrong: CycloptsError) -> str:
    """Say what is wrong with the words themselves, in one line."""
    wrong.verbose = False
    if isinstance(wrong, MissingArgumentError) and wrong.argument is not None:
        name = wrong.argument.name
        given = {word.partition("=")[0] for word in wrong.root_input_tokens or ()}
        if "--runs" in given and name not in given:
            return MIXED
        return missing(name, "has no value" if name in given else "is missing")
    said = " ".join(str(wrong).split())
    if wrong.argument is not None and wrong.argument.name not in said:
        return f"Invalid value for {wrong.argument.name}: {said}"
    return said


def of_target(refusal: str) -> str:
    """Replace every argument that stands before its value, and the relation, by what is typed.

    >>> of_target("epsilon 1 at delta 1e-06 under ADD_OR_REMOVE is out of reach: even noise_multiplier 1e+09 misses it.")
    '--epsilon 1 at --delta 1e-06 under add-or-remove is out of reach: even --noise 1e+09 misses it.'
    """
    for relation in RELATIONS.values():
        refusal = re.sub(rf"under {relation.name}\b", f"under {spelled(relation)}", refusal)
    return re.sub(r"\b(\w+)(?= \d)", lambda found: _OPTIONS.get(found[1], found[1]), refusal)


def in_options(refusal: str, command: str = "") -> str:
    """Replace the argument that opens a refusal by its option.

    >>> in_options("noise_multiplier must be above 0, got -1.0.")
    '--noise must be above 0, got -1.0.'
    """
    refusal = refusal.replace("EveryRecord()", "--sampling every-record").replace(
        "effort=QUICK", "--effort quick"
    )
    refusal = refusal.replace(", or None for all cores", "").replace("repeats_allowed=True", "--repeats")
    refusal = re.sub(r"simulation=Simulation\(draws=(\d+), workers=None\)", r"--draws \1", refusal)
    asked = re.match(r"(\w+)(?= must )", refusal)
    if asked is None or asked[1] not in _OPTIONS:
        return refusal
    option = _OPTIONS[asked[1]]
    if option == "--epsilon" and command == "curve":
        option = "--epsilons"
    return option + refusal[asked.end() :]
