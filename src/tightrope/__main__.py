"""python -m tightrope: the same as the command tightrope."""

from tightrope.cli.entry import main

if __name__ == "__main__":
    main()
