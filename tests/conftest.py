"""What all tests share: reproducible hypothesis runs without a deadline on shared machines, and a command line to type into."""

import shlex

import pytest
from hypothesis import settings

from shell import Shell
from tightrope.cli.entry import main

settings.register_profile("tightrope", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("tightrope")


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    """Run a command line in this process: exit code, standard output, standard error."""

    def run(words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(words))
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        assert "\x1b" not in out + err
        code = ended.value.code
        assert isinstance(code, int)
        return code, out, err

    return run
