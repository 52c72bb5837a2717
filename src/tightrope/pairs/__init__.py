"""The worst case as mathematics: pairs of distributions, their losses and which pair is played how often."""
