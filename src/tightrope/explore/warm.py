"""Loaded once, before any question: the library, and what the first question would load besides."""


def warm_up() -> None:
    """Answer one question, so that forks of this process find everything loaded."""
    from tightrope.explore.answers import answer_question  # loaded once, for all forks
    from tightrope.explore.questions import EXAMPLE, read_state

    answer_question(read_state(EXAMPLE))


warm_up()
