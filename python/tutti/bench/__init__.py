"""`tutti bench`: tutti and its peers, measured side by side."""
