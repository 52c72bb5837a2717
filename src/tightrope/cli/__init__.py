"""The command line. Imports point one way: typed < printed < process < commands < app < session < entry."""
