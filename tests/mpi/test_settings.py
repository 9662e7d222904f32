"""Settings that differ between the ranks of a job: each row of the table of settings is agreed on, or harmless."""

from __future__ import annotations

import mpis
import pytest
from tutti import native

RULE = {row.name: row.ranks for row in native.settings()}
# A value that is not the default, for each row; a new setting without one here fails the test.
OTHER = {
    "TUTTI_DISABLE": "1", "TUTTI_ALG": "allreduce=recursive_doubling", "TUTTI_CHOICES": "{folder}/choices",
    "TUTTI_CHOICE": "static", "TUTTI_REPORT": "{folder}/report",
    "TUTTI_REPORT_JSON": "{folder}/report.json", "TUTTI_LOG": "error", "TUTTI_WAIT": "sleep", "TUTTI_SPIN_US": "3",
    "TUTTI_DEADLINE": "100", "TUTTI_CMA": "off", "TUTTI_SEGMENT": "posix", "TUTTI_ARENA": "256M", "TUTTI_RING": "2M",
    "TUTTI_BLOCK": "32K", "TUTTI_FIXED_ORDER": "exact", "TUTTI_PROGRESS_THREAD": "off", "TUTTI_PROGRESS_CPU": "0",
    "TUTTI_RENDEZVOUS": "write", "TUTTI_EAGER": "16K", "TUTTI_UNEXPECTED": "2M", "TUTTI_P2P": "1", "TUTTI_NET": "off",
    "TUTTI_NET_PROVIDER": "tcp", "TUTTI_NET_INTERFACE": "lo", "TUTTI_NET_TIMEOUT": "20", "TUTTI_MULTICAST": "off",
    "TUTTI_MULTICAST_RECEIVES": "50", "TUTTI_DCP": "1", "TUTTI_DCP_FROM_JOB": "1", "TUTTI_DCP_CPUS": "0",
    "TUTTI_LIBFABRIC": "{folder}/libfabric.so.1", "TUTTI_NODE": "elsewhere",
    "TUTTI_TOPOLOGY": "package:2 core:1", "TUTTI_FAULT": "delay:op=put:us=1",
    "TUTTI_STALL": "30", "TUTTI_RECORDER": "off", "TUTTI_RECORDER_DIR": "{folder}/recorder",
    "TUTTI_TRACE": "{folder}/trace", "TUTTI_CHECK": "1"}
# What tutti says of a value that only one rank has, where that is more than the name of the setting.
SAID = {"TUTTI_DISABLE": "run without tutti", "TUTTI_CHOICES": "TUTTI_CHOICES: the ranks have read different rules"}


def start(mpi: mpis.Mpi, path: str, first: dict[str, str]) -> mpis.Result:
    """Two ranks, with settings that only rank 0 has."""

    def rank(settings: dict[str, str]) -> list[str]:
        variables = {**mpi.environment, **settings, "LD_PRELOAD": mpis.preloaded(mpi, {})}
        return ["-n", "1", "env", *[f"{name}={value}" for name, value in variables.items()], path]

    return mpis.run([*mpi.launcher, *rank(first), ":", *rank({})], mpi.environment, 120)


def test_every_setting_is_tried():
    assert set(OTHER) == set(RULE)


@pytest.mark.mpi
@pytest.mark.parametrize("name", sorted(OTHER))
@pytest.mark.parametrize("mpi,nodes", [("mpich", False), *(pytest.param(mpi, nodes, marks=pytest.mark.long) for mpi, nodes in
                                                (("mpich", True), ("openmpi", False), ("impi", False)))],
                         ids=["mpich", "mpich-nodes", "openmpi", "impi"])
def test_one_rank_differs(program, libraries, tmp_path, mpi, name, nodes):
    """Never a hang, an abort or a wrong result; and of what must be equal one line that names it."""
    description = mpis.MPIS[mpi]
    (tmp_path / "choices").write_text("[ranks=2]\nallreduce: * recursive_doubling\n")
    value = OTHER[name].format(folder=tmp_path)
    first = {name: value, **({"TUTTI_NODE": "apart"} if nodes and name != "TUTTI_NODE" else {})}
    result = start(description, program(description, "short.c"), first)
    assert result.status == 0, result.text
    assert "short: passed (0 failures)" in result.text
    lines = [line for line in result.text.splitlines() if line.startswith("tutti:")]
    if RULE[name] != "any" or name == "TUTTI_CHOICES":
        expected = SAID.get(name, f"the ranks have different settings: {name} must be equal on all ranks")
        assert sum(expected in line for line in lines) == 1, result.text
        assert any("own MPI" in line for line in lines), result.text
    else:
        assert not any("own MPI" in line for line in lines), result.text


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
@pytest.mark.parametrize("first", [{"TUTTI_DCP": "many"}, {"TUTTI_WAIT": "often"}, {"TUTTI_ALG": "allreduce=magic"},
                                   {"TUTTI_CONFIG": "/nowhere"}, {"TUTTI_FAULT": "what"}, {"TUTTI_TOPOLOGY": "core:none"},
                                   {"TUTTI_CHOICES": "/nowhere"}],
                         ids=lambda first: next(iter(first)))
def test_one_rank_has_a_bad_value(program, libraries, mpi, first):
    description = mpis.MPIS[mpi]
    result = start(description, program(description, "short.c"), first)
    assert result.status == 0, result.text
    assert "short: passed (0 failures)" in result.text
    assert sum("own MPI" in line for line in result.text.splitlines()) == 1, result.text


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_one_rank_is_switched_off_by_a_file(program, libraries, mpi, tmp_path):
    description = mpis.MPIS[mpi]
    (tmp_path / "off.toml").write_text("disable = true\n")
    result = start(description, program(description, "short.c"), {"TUTTI_CONFIG": str(tmp_path / "off.toml")})
    assert result.status == 0, result.text
    assert "short: passed (0 failures)" in result.text
    assert result.text.count("some ranks have TUTTI_DISABLE") == 1, result.text


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["mpich", "openmpi", "impi"])
def test_variables_of_modules_do_no_harm(program, libraries, mpi):
    description = mpis.MPIS[mpi]
    modules = {name: "/opt/tutti" for name in ("TUTTI_ROOT", "TUTTI_DIR", "TUTTI_HOME", "TUTTI_VERSION")}
    result = mpis.start(description, 2, [program(description, "short.c")], True, {**modules, "TUTTI_REPORT": "1"})
    assert result.status == 0, result.text
    assert any(call == "MPI_Allreduce" and not how.startswith("MPI (") for call, how in result.rows()), result.text
