"""GOAL schedules against LogGP arithmetic written down here: whoever runs them in another simulator gets the times that
the terms L, o, g and G give, message by message."""

import re

import pytest
from tutti.sim import simulate
from tutti.sim.output import goal

L, o, g, G = 4.0, 1.5, 0.7, 0.003
PROFILE = f"""name = "loggp"
source = "terms of a test"
[loggp]
L = {L}
o = {o}
g = {g}
G_per_byte = {G}
Tr = 0.0
[host]
Tc_per_byte = 0.0
To = 0.0
To_per_byte = 0.0
line = 0.0
counter_bytes = 0
copied_bytes = 0
"""


def parse(text):
    """By rank: a list of (kind, bytes, other rank, tag, operations required)."""
    ranks, count = {}, None
    for line in text.splitlines():
        if match := re.fullmatch(r"num_ranks (\d+)", line):
            count = int(match[1])
        elif match := re.fullmatch(r"rank (\d+) \{", line):
            operations = ranks.setdefault(int(match[1]), [])
        elif match := re.fullmatch(r"l(\d+): (send|recv) (\d+)b (?:to|from) (\d+) tag (\d+)", line):
            assert int(match[1]) == len(operations) + 1
            operations.append((match[2], int(match[3]), int(match[4]), int(match[5]), []))
        elif match := re.fullmatch(r"l(\d+) requires l(\d+)", line):
            operations[int(match[1]) - 1][4].append(int(match[2]) - 1)
        else:
            assert line in ("", "}"), line
    assert sorted(ranks) == list(range(count))
    return ranks


def arrivals(ranks, receiver_o=0.0):
    """When each message (by tag) is there, under LogGP with one-sided messages: a send takes its processor o; its
    network interface sends it when it is free, is taken for n G and g more, and that of the receiver likewise. With
    `receiver_o` = o as LogGOPSim has it for messages below S: the receiver's processor takes o for each of them too."""
    done = {rank: [None] * len(operations) for rank, operations in ranks.items()}
    sender_free, receiver_free = dict.fromkeys(ranks, 0.0), dict.fromkeys(ranks, 0.0)
    flying, there = {}, {}
    pending = [(rank, i) for rank, operations in ranks.items() for i in range(len(operations))]
    while pending:
        ready = []
        for rank, i in pending:
            kind, size, other, tag, needed = ranks[rank][i]
            if any(done[rank][n] is None for n in needed):
                continue
            begin = max((done[rank][n] for n in needed), default=0.0)
            if kind == "send":
                ready.append((begin + o, 0, rank, i))
            elif tag in flying:
                ready.append((flying[tag], 1, rank, i))
        time, _, rank, i = min(ready)
        kind, size, other, tag, needed = ranks[rank][i]
        if kind == "send":
            done[rank][i] = time
            leaves = max(time, sender_free[rank])
            sender_free[rank] = leaves + size * G + g
            flying[tag] = leaves + L
        else:
            begin = max(time, receiver_free[rank])
            receiver_free[rank] = begin + size * G + g
            done[rank][i] = there[tag] = begin + size * G + receiver_o
        pending.remove((rank, i))
    return there


@pytest.mark.parametrize("nodes", [2, 3, 7, 16, 33])
@pytest.mark.parametrize(("op", "alg"), [("bcast", "binomial"), ("bcast", "binomial:block=1024"),
                                         ("allreduce", "degree_k:degree=1"), ("allreduce", "degree_k:degree=3"),
                                         ("allgather", "bruck")])
def test_a_schedule_gives_the_times_of_the_simulation(tmp_path, op, alg, nodes):
    profile = tmp_path / "loggp.toml"
    profile.write_text(PROFILE)
    size = 64 if op == "allgather" else 3000
    messages = simulate(op, alg, str(profile), nodes, size=size, trace=True)["messages"]
    assert messages
    there = arrivals(parse(goal(messages, nodes)))
    assert len(there) == len(messages)
    for tag, (_, _, _, _, visible) in enumerate(messages):
        assert there[tag] == pytest.approx(visible, abs=1e-6), f"message {tag} of {op} {alg} on {nodes} nodes"


@pytest.mark.parametrize("nodes", [2, 16, 64])
def test_loggopsim_has_every_hop_longer_by_o(tmp_path, nodes):
    """Published semantics: a receive takes o. Along a binomial tree that is one o more for each hop from the root, and
    nothing else changes."""
    profile = tmp_path / "loggp.toml"
    profile.write_text(PROFILE)
    messages = simulate("bcast", "binomial", str(profile), nodes, size=8, trace=True)["messages"]
    there = arrivals(parse(goal(messages, nodes)), receiver_o=o)
    for tag, (_, target, _, _, visible) in enumerate(messages):
        hops = target.bit_count()
        assert there[tag] == pytest.approx(visible + hops * o, abs=1e-6)
    last = max(visible for *_, visible in messages)
    assert max(there.values()) == pytest.approx(last + (nodes - 1).bit_length() * o, abs=1e-6)
