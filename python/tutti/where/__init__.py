"""`tutti where`: what the ranks of running jobs are doing."""
