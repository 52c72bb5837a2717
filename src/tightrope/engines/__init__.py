"""How a number is made: one room per engine, from a schedule of pairs to certified bounds on its curve."""
