"""The paper, reproduced: one module per figure, table, counterexample and conjecture."""
