"""This machine: what it has and permits, the MPIs on it, and `tutti info`."""
