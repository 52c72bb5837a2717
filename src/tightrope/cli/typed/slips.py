"""What is said about words that the command line cannot read."""

from cyclopts import CycloptsError, MissingArgumentError
from cyclopts.exceptions import UnknownCommandError, UnknownOptionError, UnusedCliTokensError

from tightrope.cli.typed.misused import MIXED
from tightrope.cli.typed.vocabulary import find_slip, split_slips, tell_missing


def in_one_line(wrong: CycloptsError, commands: list[str]) -> str:
    """Say what is wrong with the words themselves."""
    wrong.verbose = False
    command = " ".join(["tightrope", *(wrong.command_chain or ())])
    match wrong:
        case UnknownCommandError():
            return _tell_command((wrong.unused_tokens or [""])[0], commands)
        case UnknownOptionError():
            return _tell_option(wrong, command)
        case UnusedCliTokensError():
            typed = " ".join(map(repr, wrong.unused_tokens or ()))
            advice = f"write the option before its value; {command} --help lists its options"
            return f"{typed} belongs to no option of {command}: {advice}."
        case MissingArgumentError(argument=argument) if argument is not None:
            return _tell_absent(wrong, argument.name)
    said = " ".join(str(wrong).split())
    if wrong.argument is not None and wrong.argument.name not in said:
        return f"Invalid value for {wrong.argument.name}: {said}"
    return said


def tell_unstated(words: list[str], missing: list[str], options: set[str]) -> str:
    """What is missing; an option that was mistyped is the slip that it is."""
    slips, others = split_slips(words, missing, options)
    said = [
        f"{typed} is not an option of tightrope {words[0]}: did you mean {meant}?"
        for typed, meant in slips.items()
    ]
    return " ".join([*said, *([tell_missing(others)] if others else [])])


def _tell_option(wrong: UnknownOptionError, command: str) -> str:
    typed = (wrong.token.keyword or wrong.token.value).partition("=")[0]
    meant = find_slip(typed, [name for argument in wrong.argument_collection for name in argument.names])
    advice = f": did you mean {meant}?" if meant else f"; {command} --help lists its options."
    return f"{typed} is not an option of {command}{advice}"


def _tell_absent(wrong: MissingArgumentError, name: str) -> str:
    given = {word.partition("=")[0] for word in wrong.root_input_tokens or ()}
    if "--runs" in given and name not in given:
        return MIXED
    return f"{tell_missing([name], 'has no value' if name in given else 'is missing')}."


_ELSEWHERE = {
    "rdp": "tightrope epsilon --accountant renyi ... is the Rényi accountant",
    "renyi": "tightrope epsilon --accountant renyi ... is the Rényi accountant",
    "prv": "tightrope epsilon ... composes privacy losses and bounds epsilon from both sides",
    "pld": "tightrope epsilon ... composes privacy losses and bounds epsilon from both sides",
    "shuffle": "tightrope epsilon --sampling shuffle ... tells what is proved for shuffled batches",
    "epochs": "tightrope steps --records ... --batch ... tells how many epochs fit a budget",
    "calibrate": "tightrope noise, steps and rate find the value that meets a target",
    "compute": "tightrope epsilon tells what a run spends",
    "plot": "tightrope curve, contrast, compare, risk and noise draw their answer with --plot picture.png",
    "privacy": "tightrope epsilon tells what a run spends",
    "dp-sgd": "tightrope epsilon tells what a run spends, tightrope noise what noise it needs",
}


def _tell_command(typed: str, commands: list[str]) -> str:
    name = typed.lower().replace("_", "-")
    if name in _ELSEWHERE:
        return f"{typed} is not a command: {_ELSEWHERE[name]}."
    meant = find_slip(name, commands)
    if meant:
        return f"{typed} is not a command: did you mean tightrope {meant}?"
    return f"{typed} is not a command; tightrope --help lists them."
