"""Broadcast by multicast between nodes that are hosts of their own, whatever the network does to packets."""

import json
import re
import signal
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tutti import command as command_of_tutti
from tutti.bench import peers, program
from tutti.lab import Lab

PROGRAM = Path(__file__).resolve().parents[2] / "bench" / "bcast_by_rank.c"


def broadcast(lab, mpi, ranks, size, calls=30, roots=4, **settings):
    """Runs the program that compares every byte; gives its row and what was said."""
    binary = program.compile_for(mpi, PROGRAM)
    choice = peers.Settings()
    command = peers.command_line(mpi, ranks, choice, [str(binary), str(size), str(calls), "1000", str(roots)])
    environment = peers.environment(mpi, choice) | {"TUTTI_NET": "on", "TUTTI_DEADLINE": "30"} | settings
    answer = lab.run([*command_of_tutti(), "run", "--report", *command], env=environment, timeout=90)
    said = answer.stdout + answer.stderr
    assert answer.returncode == 0, said[-3000:]
    row = json.loads(next(line for line in answer.stdout.splitlines() if line.startswith("{")))
    assert row["errors"] == 0
    return row, said


def ran(said):
    """The algorithms of MPI_Bcast in the report."""
    return set(re.findall(r"^MPI_Bcast +(\S+) ", said, re.MULTILINE))


def only(name):
    """One MPI, where what is tested does not depend on it."""
    return pytest.mark.parametrize("mpi", [name], indirect=True)


MULTICAST = {"TUTTI_ALG": "bcast=multicast"}


@pytest.mark.timeout(300)
def test_every_byte_arrives(mpi):
    every_byte_arrives(mpi, {"loss": 0.05})


@pytest.mark.timeout(300)
@pytest.mark.parametrize("weather", [{}, {"loss": 0.00287}, {"duplicate": 0.2}, {"reorder": 0.2}],
                         ids=["clear", "paper", "duplicate", "reorder"])
@only("mpich")  # the packets are the same under every MPI
def test_every_byte_arrives_in_any_weather(mpi, weather):
    every_byte_arrives(mpi, weather)


def every_byte_arrives(mpi, weather):
    with Lab(4, latency="1ms", seed=5, **weather) as lab:
        for size in (1, 1000, 5000):
            _, said = broadcast(lab, mpi, 4, size, TUTTI_MULTICAST="on", **MULTICAST)
            assert ran(said) == {"multicast"}, said


FAULTS = {"a third lost": "drop:op=receive:at=2:every=3:count=0", "all lost": "drop:op=receive:count=0",
          "a third damaged": "corrupt:op=receive:every=3:count=0", "half doubled": "duplicate:op=cast:every=2:count=0"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", FAULTS)
@only("mpich")
def test_every_byte_arrives_whatever_becomes_of_the_multicast(mpi, fault):
    """More than the lab's links may lose, which would stop TCP too: datagrams alone, in each rank."""
    with Lab(4, latency="1ms") as lab:
        for size in (1, 5000):
            _, said = broadcast(lab, mpi, 4, size, TUTTI_MULTICAST="on", TUTTI_FAULT=FAULTS[fault], **MULTICAST)
            assert ran(said) == {"multicast"}, said


@pytest.mark.timeout(300)
@only("mpich")
def test_a_job_says_where_multicast_does_not_get_to(mpi):
    with Lab(3, latency="1ms") as lab:
        lab.change(groups=False)
        _, said = broadcast(lab, mpi, 3, 200, TUTTI_LOG="info")
    assert re.search(r"datagrams from node \S+ do not get through to node \S+ on eth0", said), said[-3000:]
    assert not any(way.startswith("multicast") for way in ran(said)), said[-3000:]


@pytest.mark.timeout(300)
def test_several_ranks_of_a_node_share_one_receiver(mpi):
    with Lab(3, latency="1ms") as lab:
        broadcast(lab, mpi, 6, 200, **MULTICAST)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("loss", [0.0, 0.02], ids=["clear", "lossy"])
def test_large_messages_in_windows(mpi, loss):
    with Lab(4, latency="1ms", loss=loss, seed=3) as lab:
        _, said = broadcast(lab, mpi, 4, 1_000_000, calls=6, TUTTI_ALG="bcast=multicast_window")
        assert "multicast_window" in ran(said), said


@pytest.mark.timeout(300)
@only("mpich")
def test_a_large_message_passes_each_cable_once(mpi):
    size, most = 1_000_000, {}
    for alg in ("multicast_window", "scatter_allgather", "direct"):
        with Lab(5, latency="1ms") as lab:
            bytes_of = []
            for calls in (2, 10):
                lab.reset_counters()
                broadcast(lab, mpi, 5, size, calls=calls, roots=1, TUTTI_ALG=f"bcast={alg}")
                bytes_of.append({port["node"]: port for port in lab.switch_counters()["ports"]})
            most[alg] = {node: {way: (bytes_of[1][node][way] - bytes_of[0][node][way]) / 8 / size
                                for way in ("sent", "received")} for node in bytes_of[0]}
    others = ["n1", "n2", "n3", "n4"]
    cast, parts, tree = most["multicast_window"], most["scatter_allgather"], most["direct"]
    assert cast["n0"]["sent"] < 1.2, most
    assert all(cast[node]["sent"] < 0.2 and cast[node]["received"] < 1.2 for node in others), most
    assert all(parts[node]["sent"] > 0.7 for node in others), most  # what they were sent of it goes on to three
    assert tree["n0"]["sent"] > 2.9, most  # children of the root


@pytest.mark.timeout(300)
@only("mpich")
def test_dedicated_processors_cast_results(mpi):
    """What a helper of one node has for those of eight others leaves it once."""
    nodes, size, calls, copied = 9, 1000, 30, {}
    for multicast in ("off", "on"):
        with Lab(nodes, latency="1ms") as lab:
            lab.reset_counters()
            _, said = broadcast(lab, mpi, nodes, size, calls=calls, TUTTI_MULTICAST=multicast, TUTTI_DCP="1",
                                TUTTI_ALG="bcast=dcp")
            assert ran(said) == {"dcp"}, said
            ports = lab.switch_counters()["ports"]
            copied[multicast] = sum(port["received"] - port["sent"] for port in ports)
    # By the switch, of a datagram with eight receivers.
    assert copied["off"] < size < 6 * calls * size < copied["on"], copied


@pytest.mark.timeout(300)
@only("mpich")
def test_blocks_of_an_allgather_pass_each_cable_once(mpi):
    """Every node sends its own block once, and gets the others'; by a tree or a ring it sends all but one of them."""
    nodes, size = 5, 200_000
    binary = program.compile_for(mpi, Path(__file__).with_name("programs") / "allgathers.c")
    choice, most = peers.Settings(), {}
    for alg in ("multicast", "direct", "exchange"):
        with Lab(nodes, latency="1ms") as lab:
            counted = []
            for calls in (2, 10):
                lab.reset_counters()
                command = peers.command_line(mpi, nodes, choice, [str(binary), str(size), str(calls)])
                environment = peers.environment(mpi, choice) | {"TUTTI_NET": "on", "TUTTI_MULTICAST": "on",
                                                                "TUTTI_ALG": f"allgather={alg}"}
                answer = lab.run([*command_of_tutti(), "run", *command], env=environment, timeout=90)
                assert answer.returncode == 0 and "0 wrong" in answer.stdout, answer.stdout + answer.stderr
                counted.append({port["node"]: port for port in lab.switch_counters()["ports"]})
            most[alg] = {way: max((counted[1][node][way] - counted[0][node][way]) / 8 / size for node in lab.nodes)
                         for way in ("sent", "received")}
    print(most)
    assert most["multicast"]["sent"] < 1.4, most  # its own block
    assert most["multicast"]["received"] < 1.2 * (nodes - 1), most
    assert most["direct"]["sent"] > nodes - 1 and most["exchange"]["sent"] > nodes - 1, most


@pytest.mark.timeout(300)
@only("mpich")
def test_two_jobs_cast_on_one_network(mpi):
    """At the same time and on the same nodes: each has a group of its own, and delivers nothing of the other's."""
    with Lab(3, latency="1ms") as lab, ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(broadcast, lab, mpi, 3, size, 400, **MULTICAST) for size in (3000, 5)]
        for job in jobs:
            _, said = job.result()  # every byte was compared
            assert ran(said) == {"multicast"}, said


@pytest.mark.timeout(300)
@only("mpich")
def test_the_root_sends_each_byte_about_twice(mpi):
    """Once to the group and once to the node behind it, where a tree of six nodes has it send three times. (The switch
    counts what it delivers, so a datagram to the group is five there.)"""
    puts = {}
    for alg in ("multicast", "binomial"):
        with Lab(6, latency="1ms") as lab:
            broadcast(lab, mpi, 6, 4000, calls=10, roots=1, TUTTI_ALG=f"bcast={alg}")
            lab.reset_counters()
            broadcast(lab, mpi, 6, 4000, calls=210, roots=1, TUTTI_ALG=f"bcast={alg}")
            links = [link for link in lab.switch_counters()["links"] if link["from"] == "n0" and link["to"] != "head"]
            puts[alg] = sorted(link["bytes"] for link in links)
    # By the tree three of five links carry the messages; by multicast all five, and one of them twice.
    assert puts["multicast"][0] > 200 * 4000 > puts["binomial"][0]
    assert puts["multicast"][-2] < 1.5 * 210 * 4000 < puts["multicast"][-1] < 3 * 210 * 4000


@pytest.mark.timeout(300)
def test_forged_packets_are_never_delivered(mpi, python):
    """A stranger on one of the nodes sends what is not of the job to the job's own group, while it broadcasts."""
    with Lab(3, latency="1ms") as lab, tempfile.NamedTemporaryFile() as out:
        forger = lab.start(python("udp_forger.py", 100), node="n2", stdout=out, stderr=out)
        _, said = broadcast(lab, mpi, 3, 3000, calls=1500, **MULTICAST)
        assert ran(said) == {"multicast"}, said
        assert re.search(r"dropped \d+ packets of others to a multicast group of this job", said), said
        forger.send_signal(signal.SIGTERM)
        assert forger.wait(30) == 0
        assert int(Path(out.name).read_text()) > 100, "nothing was forged while the job ran"


@pytest.mark.timeout(300)
def test_where_multicast_is_off_the_tree_is_used_and_that_is_said(mpi):
    with Lab(3, latency="1ms") as lab:
        _, said = broadcast(lab, mpi, 3, 100, TUTTI_MULTICAST="off", TUTTI_LOG="info")
        assert "no multicast between the nodes, broadcasts use trees: TUTTI_MULTICAST is off" in said
        assert ran(said) == {"letters"}, said


def switch_ipv6_on(lab, node):
    """Where the kernel has it, at once: without asking the neighbours first whether an address is taken."""
    conf = "/proc/sys/net/ipv6/conf/eth0"
    commands = [f"echo {value} > {conf}/{name}" for name, value in
                (("accept_dad", 0), ("dad_transmits", 0), ("disable_ipv6", 1), ("disable_ipv6", 0))]
    answer = lab.run(["sh", "-c", f"test -d {conf} || exit 9; {'; '.join(commands)}"], node=node)
    if answer.returncode == 9:
        pytest.skip("the kernel has no IPv6")
    assert answer.returncode == 0, answer.stderr


@pytest.mark.timeout(300)
@pytest.mark.parametrize("lacking", [None, "n2"], ids=["everywhere", "not everywhere"])
@only("mpich")
def test_groups_are_those_of_ipv6_where_every_node_has_it(mpi, lacking):
    """Their names have 112 bits. Either version passes the switch and carries every byte."""
    with Lab(3, latency="1ms", loss=0.02, seed=7) as lab:
        for node in set(lab.nodes) - {lacking}:
            switch_ipv6_on(lab, node)
        _, said = broadcast(lab, mpi, 3, 3000, TUTTI_LOG="info", **MULTICAST)
        assert f"multicast between the nodes: {'IPv4' if lacking else 'IPv6'} on eth0, datagrams of" in said, said
        assert ran(said) == {"multicast"}, said


@pytest.mark.timeout(300)
def test_where_one_node_has_none_all_use_the_tree_and_that_is_said(mpi):
    with Lab(3, latency="1ms") as lab:
        assert lab.run(["ip", "link", "set", "eth0", "multicast", "off"], node="n1").returncode == 0
        _, said = broadcast(lab, mpi, 3, 100, TUTTI_LOG="info")
        assert "broadcasts use trees: rank 1: no network interface is up that has an IPv4 address and multicast" in said
        assert ran(said) == {"letters"}, said
