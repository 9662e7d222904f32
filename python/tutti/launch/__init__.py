"""`tutti run`: from a launcher's command line to the same command line with tutti in it."""
