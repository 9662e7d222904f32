"""Dedicated processors in simulation: `tutti sim OP --alg dcp:ratio=8`, and what `tutti paper` needs of them."""

from __future__ import annotations

from typing import Any

from tutti import native
from tutti.errors import UserError
from tutti.sim import networks

REPEAT = 10
DOUBLE = 8  # bytes
EXPECTED = "expected dcp, dcp:ratio=APPS (to each dedicated processor) or dcp:count=DCPS"


def is_dedicated(alg: str) -> bool:
    return alg.partition(":")[0] == "dcp"


def processors(alg: str, apps: int) -> int:
    """How many of them an algorithm's text asks for. Raises UserError."""
    name, _, rest = alg.partition(":")
    key, _, value = rest.partition("=")
    if name != "dcp" or (rest and (key not in ("ratio", "count") or not value.isdigit() or int(value) < 1)):
        raise UserError(f"--alg {alg}: {EXPECTED}")
    if not rest:
        return max(1, apps // 8)
    count = -(-apps // int(value)) if key == "ratio" else int(value)
    if count > apps:
        raise UserError(f"--alg {alg}: that is more dedicated processors than the {apps} of the program")
    return count


def simulate(op: str, alg: str, net: str, nodes: int, ppn: int, size: int, repeat: int = REPEAT,
             compute: float = 0.0, noise: tuple[float, float] = (0.0, 0.0), skew: float = 0.0,
             seed: int = 1) -> dict[str, Any]:
    """nodes * ppn processes of the program, and the dedicated ones beside them on nodes of as many cores. `us`: to
    start and to wait, the median over iterations of the mean over the processes; `iteration_us` with the computation
    in between. What is combined are doubles: other sizes are rounded up to whole ones."""
    apps = nodes * ppn
    count = processors(alg, apps)
    try:
        result = native.core().simulate_dedicated(op, networks.path_of(net), apps, count, ppn,
                                                  -(-size // DOUBLE) * DOUBLE, compute,
                                                  max(4, repeat), noise[0], noise[1], skew, seed)
    except (ValueError, TypeError) as error:
        raise UserError(str(error).split("\n")[0]) from None
    return {**result, "dcps": count, "interrupts": 0}
