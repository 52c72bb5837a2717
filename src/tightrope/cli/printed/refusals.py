"""Refusals in the words of the command line: the option, the value, the remedy."""

import re
from enum import Enum

from tightrope.errors import Words, write_value

# the options that are not called like the argument they set
_OPTIONS = {
    "noise_multiplier": "--noise",
    "truth_probability": "--truth",
    "repeats_allowed": "--repeats",
    "false_positive_rate": "--fpr",
    "by": "--accountant",
    "population": "--records",
    "epsilon_if_shuffled": "tightrope epsilon --sampling shuffle",
}


def words_of(command: str = "") -> Words:
    """How this command writes arguments and settings.

    >>> words = words_of("epsilon")
    >>> words.fill("{noise_multiplier} under {ADD_OR_REMOVE} with {EveryRecord}; ask with {effort=TIGHT}")
    '--noise under add-or-remove with every-record; ask with --effort tight'
    """

    def name(word: str) -> str:
        if _is_setting(word):
            return _kebab(word)
        if command == "curve" and word == "epsilon":
            return "--epsilons"
        return _OPTIONS.get(word, word if word.startswith("-") else f"--{_kebab(word)}")

    def assign(word: str, value: str) -> str:
        if value in ("True", "None"):
            return name(word)  # a flag
        inside = re.fullmatch(r"(\w+)\((.*)\)", value)  # a setting with arguments of its own
        if inside is None:
            return f"{name(word)} {_kebab(value) if _is_setting(value) else value}"
        given = (pair.split("=") for pair in inside[2].split(", ") if pair)
        return " ".join([f"{name(word)} {_kebab(inside[1])}", *(assign(*pair) for pair in given)])

    return Words(name, assign, _write)


def _is_setting(word: str) -> bool:
    """Whether a name is that of a constant (ADD) or a class (EveryRecord), and no argument's."""
    return word[:1].isupper() and word.replace("_", "").isalnum()


def _kebab(word: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", word).replace("_", "-").lower()


def _write(value: object) -> str:
    text = write_value(value)
    return _kebab(text) if isinstance(value, Enum | type) or _is_setting(text) else text


WORDS = words_of()
