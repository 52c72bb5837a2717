"""M(z) = E_P[e^{z loss}] of one step, for each kind of pair; every engine that tilts starts from it."""
