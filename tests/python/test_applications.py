"""Programs of messages in virtual time: what RNDV-2006 measured on two applications."""

import pytest
from tutti import native
from tutti.paper import rendezvous
from tutti.sim import applications


def mean_wait(processes, protocol, ppn=2):
    times = applications.run(processes, protocol, "ib2006", ppn)
    return sum(times["waited_us"]) / len(processes), times


def test_sweeps_wait_less_where_requests_interrupt():
    sweep = applications.Pentadiagonal(points=102, side=4, flops=1000.0, mflops=300.0, iterations=1)
    processes = sweep.processes()
    assert len(processes) == 16 and all(process.actions for process in processes)
    waits = {protocol: mean_wait(processes, protocol) for protocol in rendezvous.PROTOCOLS}
    assert waits["read_interrupt"][0] < waits["read"][0] and waits["read_interrupt"][0] < waits["write"][0]
    assert waits["write"][1]["interrupts"] == 0 < waits["read_interrupt"][1]["interrupts"]
    # Six faces, and in each of three directions 3 stages forward and 3 back.
    assert waits["write"][1]["rendezvous"] == 16 * (6 + 3 * 6)
    computed = 1000.0 * 102 ** 3 / 16 / 300
    assert min(waits["write"][1]["finished_us"]) > computed


def test_linpack_ends_on_every_grid_and_waits_in_exchanges():
    for p, q in ((1, 2), (2, 2), (4, 2)):
        linpack = applications.Linpack(n=512, nb=64, p=p, q=q, update_gflops=4.0, panel_gflops=1.0)
        wait, times = mean_wait(linpack.processes(), "read")
        assert (wait > 0) == (p > 1) and min(times["finished_us"]) > 0, (p, q)


def test_a_program_that_waits_for_ever_says_who_waits():
    first, second = applications.Process(), applications.Process()
    first.recv(1, 8)
    second.recv(0, 8)
    with pytest.raises(ValueError, match="2 of 2 ranks wait for ever: rank 0, rank 1"):
        applications.run([first, second], "read", "ib2006", 1)


def test_actions_that_are_none_are_refused():
    from tutti.sim import networks

    with pytest.raises(ValueError, match="actions are compute, send, receive, wait, block and mark, not 'jump'"):
        native.core().run_program("read", networks.path_of("ib2006"), 2, 1, [[("jump", 0, 0, 0, 0.0)], []])
    with pytest.raises(ValueError, match="from 0 to 1e12 bytes"):
        native.core().run_program("read", networks.path_of("ib2006"), 2, 1, [[("send", 1, 0, 0, -1.0)], []])
