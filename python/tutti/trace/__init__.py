"""`tutti trace`: the last calls of every rank as one time line."""
