"""The words people type: other names for ours are understood, words that mean something else are explained.

Nothing is guessed. A name is read as ours if it means the same, and said aloud where some mean another
quantity by it. A word close to one of ours is suggested only as the correction of a slip, never where obeying
would change the question.
"""

from collections.abc import Collection, Iterator, Mapping
from difflib import SequenceMatcher

from tightrope.cli.typed.misused import Misused
from tightrope.cli.typed.samplings import SHUFFLES
from tightrope.errors import InvalidSetting
from tightrope.setting.relation import as_relation

_SLIP = 0.8  # how alike a slip and what was meant are: "--reltaion" is, "--epochs" and "--steps" are not

_COMMANDS = {
    "eps": "epsilon",
    "sigma": "noise",
    "noise-multiplier": "noise",
    "batch": "rate",
    "theorem": "theorems",
    "ledger": "spent",
}
_OPTIONS = {
    "--noise-multiplier": "--noise",
    "--sigma": "--noise",
    "--noise-scale": "--noise",
    "--q": "--rate",
    "--sample-rate": "--rate",
    "--sampling-rate": "--rate",
    "--sampling-probability": "--rate",
    "--n": "--records",
    "--population": "--records",
    "--dataset-size": "--records",
    "--num-examples": "--records",
    "--num-records": "--records",
    "--batch-size": "--batch",
    "--expected-batch-size": "--batch",
    "--bins": "--batches",
    "--num-bins": "--batches",
    "--num-selected": "--chosen",
    "--truncated-batch-size": "--at-most",
    "--max-batch-size": "--at-most",
    "--cap": "--at-most",
    "--num-epochs": "--epochs",
    "--epoch": "--epochs",
    "--num-steps": "--steps",
    "--iterations": "--steps",
    "--step": "--steps",
    "--eps": "--epsilon",
    "--target-epsilon": "--epsilon",
    "--target-delta": "--delta",
    "--adjacency": "--relation",
    "--neighbours": "--relation",
    "--neighbors": "--relation",
    "--neighbouring-relation": "--relation",
    "--neighboring-relation": "--relation",
    "--sampler": "--sampling",
}
# Read as ours, and said aloud, because some mean another quantity by them.
_SAID = {
    "--sigma": "the noise multiplier: the standard deviation of the noise divided by the clipping norm",
    "--noise-scale": "the noise multiplier: the scale of the noise divided by the clipping norm",
    "--q": "the sampling rate: the probability that a record joins a batch",
    "--n": "the number of records in the dataset",
    "--max-batch-size": "the records that a batch keeps at most, chosen at random among those that joined",
}
_EXPLAINED_OPTIONS = {
    "--clip": "noise is stated relative to the clipping norm, so the norm itself plays no part: leave it out",
    "--microbatches": "clip each record by itself: a clipped microbatch protects none of its records singly",
    "--orders": "--accountant renyi chooses its orders by itself: leave it out",
    "--lr": "the learning rate does not change epsilon: leave it out",
}
_EXPLAINED_OPTIONS |= dict.fromkeys(
    ("--max-grad-norm", "--clipping-norm", "--l2-norm-clip", "--sensitivity"), _EXPLAINED_OPTIONS["--clip"]
)
_EXPLAINED_OPTIONS |= {
    "--num-microbatches": _EXPLAINED_OPTIONS["--microbatches"],
    "--alphas": _EXPLAINED_OPTIONS["--orders"],
    "--learning-rate": _EXPLAINED_OPTIONS["--lr"],
    "--lrate": _EXPLAINED_OPTIONS["--lr"],
    "--num-batches": "say how long the training is by --steps or --epochs; the batches among which records "
    "choose in each pass are --batches",
}

_SAMPLINGS = {
    "poisson-sampling": "poisson",
    "wor": "without-replacement",
    "balls-and-bins": "balls-in-bins",
    "bins": "balls-in-bins",
    "1-of-t": "balls-in-bins",
    "one-of-t": "balls-in-bins",
    "allocation": "random-allocation",
    "k-of-t": "random-allocation",
    "truncated": "truncated-poisson",
    "poisson-truncated": "truncated-poisson",
    "capped-poisson": "truncated-poisson",
    "shuffling": "shuffle",
    "full": "every-record",
    "full-batch": "every-record",
    "none": "every-record",
}
_ACCOUNTANTS = {
    "rdp": "renyi",
    "rényi": "renyi",
    "moments": "renyi",
    "gdp": "gaussian-limit",
    "clt": "gaussian-limit",
    "mc": "monte-carlo",
    "prv": "certified",
    "pld": "certified",
}
_MECHANISMS = {"normal": "gaussian", "laplacian": "laplace", "rr": "randomized-response"}
_VALUES: dict[str, dict[str, str]] = {
    "--sampling": _SAMPLINGS,
    "--claimed-sampling": _SAMPLINGS,
    "--accountant": _ACCOUNTANTS,
    "--mechanism": _MECHANISMS,
}
_SAID_VALUES = {
    "prv": "certified, which composes privacy losses too, and bounds epsilon from both sides",
    "pld": "certified, which composes privacy losses too, and bounds epsilon from both sides",
    "moments": "renyi, whose bound the moments accountant computes",
    "swap": "substitute: one record is exchanged for another",
    "none": "every-record: all records take part in every step",
    "bounded": "substitute: one record is exchanged for another",
    "unbounded": "add-or-remove: one record is added or removed",
}
_FIXED = (
    "batches of one size come about in two ways that differ much in epsilon: drawn afresh at each step "
    "(without-replacement), or as slices of a shuffled dataset (shuffle), as most loaders do: pass one"
)
_EXPLAINED_VALUES = {
    "--sampling": {
        **dict.fromkeys(("fixed", "fixed-size", "fixed-batch", "uniform", "random"), _FIXED),
        "with-replacement": "batches with replacement have no certified sampling; record what your loader "
        "draws and ask tightrope audit, or draw by poisson or without-replacement",
    },
}


def understand(words: list[str]) -> tuple[list[str], list[str]]:
    """The words with our names in place of others, and what is to be said about how they were read.

    >>> understand(["eps", "--sigma=0.8", "--sampling", "Poisson"])[0]
    ['epsilon', '--noise=0.8', '--sampling', 'poisson']
    """
    read: list[str] = []
    notes: list[str] = []
    asks = ""
    for place, word in enumerate(words):
        if place == 0 and not word.startswith("-"):
            read.append(_COMMANDS.get(_kebab(word), word))
        elif word.startswith("--"):
            typed, equals, value = word.partition("=")
            asks = _read_option(typed, notes)
            read.append(asks + equals + (_read_value(asks, value, notes) if equals else ""))
            asks = "" if equals else asks
        else:
            read.append(_read_value(asks, word, notes))
            asks = ""
    if "laplace" in read and any(word.partition("=")[0].lower() == "--sigma" for word in words):
        raise Misused(
            "--sigma is a standard deviation, and Laplace noise is stated by its scale: use --noise"
        )
    return read, notes


def _read_option(typed: str, notes: list[str]) -> str:
    name = "--" + _kebab(typed[2:])
    if name in _EXPLAINED_OPTIONS:
        raise Misused(f"{typed}: {_EXPLAINED_OPTIONS[name]}")
    if name in _SAID:
        notes.append(f"{typed} is read as {_OPTIONS[name]}, {_SAID[name]}.")
    return _OPTIONS.get(name, name)


def _read_value(option: str, typed: str, notes: list[str]) -> str:
    name, meant = _kebab(typed), typed
    if option.endswith("-relation"):
        meant = _read_relation(option, typed)
    elif option in _VALUES:
        explained = _EXPLAINED_VALUES.get(option.replace("claimed-", ""), {})
        if name in explained:
            raise Misused(f"{option} {typed}: {explained[name]}")
        meant = _VALUES[option].get(name, name)
    else:
        return typed
    if name in _SAID_VALUES and meant != name:
        notes.append(f"{option} {typed} is read as {_SAID_VALUES[name]}.")
    return meant


def _read_relation(option: str, typed: str) -> str:
    """The printed name of a relation; the library knows what else people call it."""
    try:
        relation = as_relation(typed)
        if relation.group > 1:
            raise Misused(f"{option} names a relation: write {relation.single} --group {relation.group}")
        return str(relation)
    except InvalidSetting as refusal:
        raise InvalidSetting(option, typed, refusal.must, refusal.remedy) from None


def _kebab(word: str) -> str:
    return word.lower().replace("_", "-")


def find_slip(typed: str, known: Iterator[str] | list[str]) -> str | None:
    """The name of ours that `typed` is a slip of: nearly all its letters, in nearly their order.

    >>> find_slip("--reltaion", ["--relation", "--steps"]), find_slip("--epochs", ["--steps", "--epsilon"])
    ('--relation', None)
    """
    found = [(SequenceMatcher(None, typed.strip("-"), name.strip("-")).ratio(), name) for name in known]
    ratio, name = max(found, default=(0.0, ""))
    return name if ratio >= _SLIP else None


# What a command cannot do without

_ASKS_RELATION = ("epsilon", "delta", "curve", "risk", "compare", "audit", "noise", "steps", "rate")
_ASKS_DELTA = ("epsilon", "contrast", "compare", "audit", "noise", "steps", "rate", "spent")
_ASKS_EPSILON = ("delta", "noise", "steps", "rate")
_ASKS_RUN = (*_ASKS_RELATION, "contrast")
_WHY = {
    "--sampling": "the guarantee depends on how batches are drawn: "
    "pass poisson, without-replacement, balls-in-bins, every-record or shuffle",
    "--relation": "the guarantee depends on who counts as a neighbour: "
    "pass add-or-remove or substitute (add and remove are one direction each)",
    "--noise": "pass the noise multiplier, noise scale / clipping norm, for example --noise 0.8",
    "--truth": "--mechanism randomized-response needs it, for example --truth 0.75",
    "--steps": "pass how many times the mechanism is run, for example --steps 10000, "
    "or --records, --batch and --epochs",
    "--rate": "pass the probability that a record joins a batch, for example --rate 0.001, "
    "or --records 60000 --batch 256",
    "--batch": "pass the number of records in a batch, for example --batch 256",
    "--records": "pass the size of the dataset, for example --records 60000",
    "--batches": "pass how many batches a pass has, for example --batches 1000, "
    "or --records 60000 --batch 256",
    "--chosen": "pass how many batches of a pass a record takes, for example --chosen 5",
    "--at-most": "pass how many records a batch keeps, for example --at-most 300",
    "--delta": "pass the failure probability you accept, for example --delta 1e-6",
    "--epsilon": "pass the privacy loss you accept, for example --epsilon 1",
    "--effort": "pass quick or tight",
}


def find_missing(words: list[str]) -> list[str]:
    """The options that the command cannot do without, all at once, in the order a person would state them."""
    command, given = (words or [""])[0], dict(_pair(words))
    if {"--help", "-h", "--version", "--runs"} & set(given):
        return []
    needed: list[str] = []
    if command in _ASKS_RUN:
        needed += [*_find_missing_noise(command, given), *_find_missing_sampling(command, given)]
    for option, commands in (
        ("--relation", _ASKS_RELATION),
        ("--epsilon", _ASKS_EPSILON),
        ("--delta", _ASKS_DELTA),
    ):
        if command in commands:
            needed.append(option)
    return [option for option in needed if option not in given]


def split_slips(
    words: list[str], missing: list[str], known: Collection[str]
) -> tuple[dict[str, str], list[str]]:
    """What was typed for a missing option by a slip, and what is missing all the same.

    >>> split_slips(["epsilon", "--dleta", "1e-6"], ["--relation", "--delta"], ["--delta", "--relation"])
    ({'--dleta': '--delta'}, ['--relation'])
    """
    typed = [name for name, _ in _pair(words) if name.startswith("--") and name not in known]
    slips = {name: meant for name in typed if (meant := find_slip(name, missing)) is not None}
    return slips, [option for option in missing if option not in slips.values()]


def _pair(words: list[str]) -> Iterator[tuple[str, str]]:
    """Every option with the word after it."""
    for place, word in enumerate(words):
        following = "".join(words[place + 1 : place + 2])
        if word.startswith("-"):
            name, equals, value = word.partition("=")
            yield name, value if equals else following


def _find_missing_noise(command: str, given: Mapping[str, str]) -> list[str]:
    if command == "noise":
        return []
    return ["--truth" if given.get("--mechanism") == "randomized-response" else "--noise"]


def _find_missing_sampling(command: str, given: Mapping[str, str]) -> list[str]:
    sampling = given.get("--sampling", "")
    needed = ["--sampling"]
    if command == "rate":
        in_records = sampling == "without-replacement" or "--epochs" in given
        needed += ["--records"] * (in_records and sampling != "balls-in-bins")
    else:
        needed += _find_missing_numbers(sampling, given)
    if command != "steps" and "--epochs" not in given:
        needed.append("--steps")
    return needed


def _find_missing_numbers(sampling: str, given: Mapping[str, str]) -> list[str]:
    """What a sampling is stated by: the rate or the batches, or records and the batch that make them."""
    in_batches = "--batch" in given
    if sampling in SHUFFLES:
        return ["--records", "--batch"][: 2 * ("--batches" not in given)]
    match sampling:
        case "without-replacement":
            return ["--records", "--batch"]
        case "poisson":
            in_records = (in_batches or "--records" in given) and "--rate" not in given
            return ["--records", "--batch"] if in_records else ["--rate"]
        case "truncated-poisson":
            return ["--records", *(["--batch"] if in_batches else ["--rate"]), "--at-most"]
        case "balls-in-bins":
            in_records = in_batches and "--batches" not in given
            return ["--records", "--batch"] if in_records else ["--batches"]
    return ["--batches", "--chosen"] if sampling == "random-allocation" else []


def tell_missing(options: list[str], lacking: str = "is missing") -> str:
    """Say what the command cannot do without, and what to pass."""
    if len(options) == 1:
        return f"{options[0]} {lacking}; {_WHY.get(options[0], 'see --help for an example')}"
    listed = "\n".join(f"  {option}: {_WHY[option]}." for option in options)
    return f"{len(options)} options are missing:\n{listed}"
