"""`tutti tune`: this machine measured, its network, and its dedicated processors."""
