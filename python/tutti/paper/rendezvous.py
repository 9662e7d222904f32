"""The claims of RNDV-2006, in simulation: messages by rendezvous over the protocols of src/p2p, on both testbeds that its
machines can be taken for. Each had two processors: an interrupt takes the one that computes, or the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tutti import native
from tutti.paper import lab
from tutti.paper.verdict import SIMULATION, Part, Reading, benefit, less, near, percent, whole
from tutti.sim import applications, networks

NET = "ib2006"
PROTOCOLS = ("write", "read", "read_interrupt")
NEARLY_COMPLETE, POOR = 0.9, 0.5  # of the shorter of computation and communication; the slides give no figures
WORDS = {"nearly complete": f"nearly complete (at least {whole(NEARLY_COMPLETE)})", "poor": f"poor (at most {whole(POOR)})"}
COMPUTES = (1, 2, 4)  # times as long as the message takes alone


def testbeds() -> dict[str, str]:
    """The profile of each."""
    return {"an interrupt takes the computing processor": networks.path_of(NET),
            "the node's other processor takes it": networks.variant(NET, "host", "handlers_elsewhere", "true")}


def _exchange(net: str, protocol: str, size: int, sender: float = 0.0, receiver: float = 0.0) -> dict[str, Any]:
    return native.core().exchange(protocol, networks.path_of(net), size, sender, receiver)


def _side(times: dict[str, Any], side: str) -> float:
    return times[f"{side}_us"]


def overlap(net: str, protocol: str, size: int, side: str, factor: float = 1.0) -> tuple[float, float]:
    """The share of the shorter of communication and computation that is hidden, where the side computes for `factor`
    times the time that its message takes alone; and the computation over the whole, the slides' W/T."""
    alone = _side(_exchange(net, protocol, size), side)
    work = factor * alone
    together = _side(_exchange(net, protocol, size, **{side: work}), side)
    return native.core().model_overlap(alone, work, together), work / together


def _overlap(claim: dict[str, Any], side: str) -> list[Part]:
    parts = []
    for protocol, word in claim[f"{side}_overlap"].items():
        readings = []
        for testbed, net in testbeds().items():
            for factor in COMPUTES:
                share, of_whole = overlap(net, protocol, claim["bytes"], side, factor)
                holds = share >= NEARLY_COMPLETE if word == "nearly complete" else share <= POOR
                readings.append(Reading(f"{testbed}, W = {factor} T", SIMULATION,
                                        f"{whole(share)} hidden, W/T {of_whole:.2f}", holds))
        parts.append(Part(protocol, WORDS[word], [*readings, *lab.readings(claim, protocol)], _overlap_why(side, protocol)))
    return parts


def _overlap_why(side: str, protocol: str) -> str:
    if side == "sender" and protocol == "write":
        return "in the lab the socket's buffer takes the whole message, so that the sender is through before the data is"
    if side == "receiver" and protocol == "read_interrupt":
        terms = native.core().network_terms(networks.path_of(NET))
        return (f"Ti = {terms['Ti']:g} us is what the slides give an interrupt (twice the round trip). On the processor that "
                "computes it is lost at every W; on the other one it delays the transfer, which shows only where W is no "
                "longer than the message")
    return ""


PROGRESS_SIZES = (65536, 262144, 1048576)  # the slides state none


def progress(net: str, size: int, side: str) -> float:
    """How much less time reading with interrupts takes than writing, with as much computation as writing takes alone."""
    work = _side(_exchange(net, "write", size), side)
    times = {p: _side(_exchange(net, p, size, **{side: work}), side) for p in ("write", "read_interrupt")}
    return benefit(times["read_interrupt"], times["write"])


def _progress(claim: dict[str, Any]) -> list[Part]:
    """Both tests, at every size. W is the time of RDMA Write alone: the slides state neither W nor what the 50 % are of."""
    why = {"sender": "the answer that a write waits for costs what it costs, so that the shorter the message is the less is "
                     "gained; the slides state no size",
           "receiver": "the interrupt itself is in it, which weighs less the longer the message is; the slides state no size"}
    parts = []
    for side in ("sender", "receiver"):
        readings = []
        for testbed, net in testbeds().items():
            for size in PROGRESS_SIZES:
                gain = progress(net, size, side)
                readings.append(Reading(f"{testbed}, {size >> 10} KiB", SIMULATION, less(gain), near(gain, claim["benefit"])))
        parts.append(Part(f"{side} test, start to end of the wait", less(claim["benefit"]),
                          [*readings, *lab.readings(claim, side)], why[side]))
    return parts


# The slides say of the applications how many processes there were and nothing else. The first choice of each was made
# before anything was run: two processes a node, as the machines have; HPL with blocks of 64 on 4 x 8 processes; class B of
# SP (102 points, 447.1 thousand million operations in 400 iterations) on 6 x 6; what a 2.6 GHz Xeon gives.
PPN = 2


def _linpack(n: int = 8192, nb: int = 64, p: int = 4, q: int = 8) -> list[applications.Process]:
    return applications.Linpack(n=n, nb=nb, p=p, q=q, update_gflops=4.0, panel_gflops=1.0).processes()


def _sweeps(points: int = 102, mflops: float = 300.0) -> list[applications.Process]:
    """With class B's operations a point."""
    return applications.Pentadiagonal(points=points, side=6, flops=447.1e9 / 400 / 102 ** 3, mflops=mflops,
                                      iterations=3).processes()


Choice = tuple[Callable[[], list[applications.Process]], int]  # the program, and the processes of a node
HPL: dict[str, Choice] = {
    "8,192 rows, blocks of 64, 4 x 8": (_linpack, PPN),
    "4,096 rows": (lambda: _linpack(n=4096), PPN),
    "16,384 rows": (lambda: _linpack(n=16384), PPN),
    "blocks of 128": (lambda: _linpack(nb=128), PPN),
    "2 x 16": (lambda: _linpack(p=2, q=16), PPN),
    "each process alone on its node": (_linpack, 1),
}
SP: dict[str, Choice] = {
    "class B, 300 Mflop/s": (_sweeps, PPN),
    "class A": (lambda: _sweeps(points=64), PPN),
    "class C": (lambda: _sweeps(points=162), PPN),
    "150 Mflop/s": (lambda: _sweeps(mflops=150.0), PPN),
    "600 Mflop/s": (lambda: _sweeps(mflops=600.0), PPN),
    "each process alone on its node": (_sweeps, 1),
}
_HPL_WHY = ("reading gains nothing by overlap here but a message's third way while all ranks wait, and interrupts have nothing "
            "to interrupt: what it gains depends on the sizes, of which the slides say nothing")
_SP_WHY = {
    "read": "reading saves the answer, which is little beside a transfer that both protocols begin when the computation is "
            "over. Tested: no class and no speed of processor moves it by more than 4 points; the slides have both protocols "
            "alike, as if every request had been seen by a call that came in time",
    "read_interrupt": "the sweeps' forward transfers are hidden. Tested: no class and no speed of processor moves it by more "
                      "than 4 points",
}


def waits(processes: list[applications.Process], net: str, ppn: int = PPN) -> dict[str, float]:
    """The mean microseconds of a process in MPI_Wait, by protocol."""
    found = {}
    for protocol in PROTOCOLS:
        times = applications.run(processes, protocol, net, ppn)["waited_us"]
        found[protocol] = sum(times) / len(times)
    return found


def _application(claim: dict[str, Any], choices: Mapping[str, Choice], why: Mapping[str, str]) -> list[Part]:
    found = {what: waits(make(), NET, ppn) for what, (make, ppn) in choices.items()}
    parts = []
    for protocol in ("read", "read_interrupt"):
        gains = {what: benefit(times[protocol], times["write"]) for what, times in found.items()}
        readings = [Reading(what, SIMULATION, less(gain), near(gain, claim["benefit"])) for what, gain in gains.items()]
        shared = [gain for what, gain in gains.items() if choices[what][1] == PPN]
        span = f"{percent(min(shared))} to {percent(max(shared))} less with two processes a node"
        parts.append(Part(f"time in MPI_Wait, {protocol} against write", less(claim["benefit"]),
                          [*readings, *lab.readings(claim, protocol)], f"{span}; {why[protocol]}"))
    return parts


EVALUATIONS: dict[str, Callable[[dict[str, Any]], list[Part]]] = {
    "rndv.sender": lambda claim: _overlap(claim, "sender"), "rndv.receiver": lambda claim: _overlap(claim, "receiver"),
    "rndv.progress": _progress, "rndv.hpl": lambda claim: _application(claim, HPL, dict.fromkeys(PROTOCOLS, _HPL_WHY)),
    "rndv.sp": lambda claim: _application(claim, SP, _SP_WHY),
}
