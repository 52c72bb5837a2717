"""What people ask: epsilon, delta, the whole curve, and what another sampling or relation would have said."""
