"""Which algorithm runs: what selection says of it, and the rules that a site gives it."""
