"""`tutti info`."""

import json
import os
from pathlib import Path

import pytest
from tutti.host import machine, topology


def test_json(tutti, tmp_path):
    answer = tutti("info", "--json", env={"TUTTI_SPIN_US": "12"})
    assert answer.status == 0, answer.err
    state = json.loads(answer.out)
    settings = {setting["name"]: setting for setting in state["settings"]}
    assert settings["TUTTI_SPIN_US"]["value"] == "12"
    assert settings["TUTTI_SPIN_US"]["source"] == "environment"
    assert settings["TUTTI_RING"]["source"] == "default"
    assert all(setting["help"] and setting["type"] for setting in settings.values())
    assert all(library["present"] for library in state["libraries"]), state["libraries"]
    assert state["version"] == state["core"]
    assert state["cpus"]["usable"] >= 1
    assert 0 < state["memory"]["per_team"] < 1 << 20
    assert "flat" in state["algorithms"]["bcast"]
    # Each says of itself what it is; verbs is a plugin that a build may lack.
    verbs = Path(state["libraries"][0]["path"]).with_name("libtutti-net-verbs.so").is_file()
    assert [fabric["name"] for fabric in state["fabrics"]] == ["shm", "ofi"] + ["verbs"] * verbs


def test_memory_between_nodes_hardly_grows(tutti):
    rows = {row["nodes"]: row for row in json.loads(tutti("info", "--json").out)["memory_between_nodes"]}
    assert list(rows) == [2**i for i in range(1, 11)]
    for row in rows.values():
        assert row["communicator"] < row["communicator_multicast"]
        assert 0 < row["connections_steps"] <= row["connections_all"] == row["nodes"] - 1
    assert rows[1024]["connections_steps"] == 20
    # Blocks grow with log N; for each member there are a few lines of mail, and not a block as in the paper.
    assert rows[1024]["communicator"] - rows[512]["communicator"] < 512 * 1024
    assert rows[64]["communicator"] < 2 * rows[16]["communicator"]


def test_settings_from_a_file(tutti, tmp_path):
    (tmp_path / "tutti.toml").write_text('wait = "yield"\n')
    answer = tutti("info", "--json", env={"TUTTI_CONFIG": str(tmp_path / "tutti.toml")})
    wait = next(s for s in json.loads(answer.out)["settings"] if s["name"] == "TUTTI_WAIT")
    assert wait["value"] == "yield"
    assert wait["source"].endswith("tutti.toml:1")


def test_text(tutti):
    answer = tutti("info")
    assert answer.status == 0, answer.err
    for word in ("TUTTI_DEADLINE", "cross-memory attach", "per rank and communicator", "fabric shm", "multicast",
                 "Memory between nodes"):
        assert word in answer.out


def test_mpis_in_path(tutti, fake_launcher):
    path = fake_launcher("openmpi")
    state = json.loads(tutti("info", "--json", env={"PATH": f"{path.parent}:/usr/bin:/bin"}).out)
    assert {"name": "openmpi", "product": "Open MPI", "version": "5.0.11", "launcher": str(path),
            "where": "PATH"} in state["mpis"]


def test_version(tutti):
    assert tutti("--version").out.startswith("tutti ")


def test_cross_memory_attach_is_tried_not_guessed():
    permitted, reason = machine.cma_permitted()
    assert permitted == (reason == "")


def test_topology_is_drawn_by_package_domain_and_cache():
    cpus = [topology.Cpu(number, core // 4, core, core // 4, core // 2 * 2)
            for number in range(16) for core in [number % 8]]
    assert topology.draw(cpus) == ["package 0, NUMA domain 0: [0-1,8-9]  [2-3,10-11]",
                                   "package 1, NUMA domain 1: [4-5,12-13]  [6-7,14-15]"]
    assert topology.ranges([]) == "" and topology.ranges([3, 1, 2, 7]) == "1-3,7"


def test_topology_of_this_machine_has_the_processors_that_we_may_use(tutti):
    state = json.loads(tutti("info", "--json").out)
    assert os.sched_getaffinity(0) <= {cpu["number"] for cpu in state["topology"]}
    text = tutti("info").out
    assert all(line.split(":")[0] in text for line in topology.draw([topology.Cpu(**cpu) for cpu in state["topology"]]))


@pytest.mark.parametrize("enabled, groups, weights, expected", [
    ("1", "1:cpu:/\n0::/\n", [], True),
    ("0", "1:cpu:/\n0::/\n", [], False),
    (None, "0::/\n", [], False),  # a kernel without it
    ("1", "4:cpu,cpuacct:/slurm/job_7\n0::/\n", [], False),
    ("1", "0::/user.slice/session-3.scope\n", ["user.slice"], False),
    ("1", "0::/user.slice/session-3.scope\n", ["system.slice"], True),
])
def test_sessions_are_apart_without_control_groups(tmp_path, enabled, groups, weights, expected):
    """sched(7), "The autogroup feature": it has no effect on processes outside of the root group of the cpu controller."""
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/self").mkdir()
    if enabled is not None:
        (tmp_path / "proc/sys/kernel/sched_autogroup_enabled").write_text(enabled + "\n")
    (tmp_path / "proc/self/cgroup").write_text(groups)
    for group in weights:
        (tmp_path / "sys/fs/cgroup" / group).mkdir(parents=True)
        (tmp_path / "sys/fs/cgroup" / group / "cpu.weight").write_text("100\n")
    assert machine.sessions_apart(tmp_path) is expected
