"""A cluster in a box: nodes as namespaces of this machine, a network in between that is played by a program.

`Lab` is for programs and tests; `tutti lab` is the same on the command line."""

from tutti.lab import values
from tutti.lab.lab import Command, Lab, why_not

__all__ = ["Command", "Lab", "values", "why_not"]
