"""Simulation: algorithms and programs, unchanged, in virtual time. In Python and in notebooks the package can be called:
`tutti.sim("allreduce", "degree_k:degree=3", nodes=[4, 16], bytes=[4, 1024])` returns NumPy arrays."""

import sys
import types
from typing import Any

from tutti.sim.run import PROGRESS, QUIET, Surroundings, arrays, parse_noise, simulate

__all__ = ["PROGRESS", "QUIET", "Surroundings", "arrays", "parse_noise", "simulate"]


class _CallablePackage(types.ModuleType):
    def __call__(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        return arrays(*arguments, **named)


sys.modules[__name__].__class__ = _CallablePackage
