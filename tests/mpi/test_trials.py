"""The choice on line: trials of the MPI against tutti in the program's own calls (TUTTI_CHOICE)."""

from __future__ import annotations

import json
import random

import mpis
import pytest
from test_nodes import on_nodes

SLOW = {"TUTTI_FAULT": "delay:op=put:us=1000:count=0"}  # tutti, between nodes
MEASURED, TRIED = "MPI (measured)", "MPI (on trial)"


def run(program, name: str, ranks: int, placement: str, settings: dict[str, str], calls: int = 1500) -> mpis.Result:
    mpi = mpis.MPIS[name]
    command = [program(mpi, "trials.c"), str(random.randrange(1, 10**6)), str(calls)]
    if placement:
        command, settings = on_nodes(placement, command), {**settings, "TUTTI_NET": "on"}
    result = mpis.start(mpi, ranks, command, True, {"TUTTI_REPORT": "1", **settings})
    assert result.status == 0, f"status {result.status} (None: no end in sight)\n{result.text[-3000:]}"
    assert "trials: passed (0 failures)" in result.text, result.text[-3000:]
    return result


def algorithms(result: mpis.Result) -> set[str]:
    return {algorithm for call, algorithm in result.rows() if "Wait" not in call and not call.startswith("MPI_Comm")}


@pytest.mark.mpi
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ranks,placement", [(2, "apart"), (3, "apart"), (4, "pairs"), (2, ""), (4, "")])
@pytest.mark.parametrize("mpi", mpis.first("mpich", "openmpi", "impi"))
def test_results_are_right_while_trials_come_and_go(program, libraries, mpi, ranks, placement):
    """Who is faster is the machine's affair, but for `nodes` whose puts are delayed."""
    settings = {"TUTTI_P2P": str(ranks % 2), **(SLOW if placement else {})}
    result = run(program, mpi, ranks, placement, settings, 1500 if placement else 4000)
    assert ranks > 2 or TRIED in algorithms(result), result.text[-3000:]
    if ranks == 2 and placement:  # more ranks than processors wait for each other in some MPIs longer than that
        assert MEASURED in algorithms(result), result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.parametrize("settings", [{"TUTTI_CHOICE": "static"}, {"TUTTI_ALG": "bcast=binomial,allreduce=tree,"
                                                                  "allgather=ring,barrier=dissemination"}],
                         ids=["static", "forced"])
def test_nothing_is_tried_where_it_is_decided(program, libraries, settings):
    result = run(program, "mpich", 2, "apart", {**settings, **SLOW}, 500)
    assert not algorithms(result) & {TRIED, MEASURED}, result.text[-3000:]


@pytest.mark.mpi
def test_rules_of_a_site_are_not_tried(program, libraries, tmp_path):
    rules = tmp_path / "site.choices"
    rules.write_text("[nodes]\nbarrier: * dissemination\n")
    rows = run(program, "mpich", 2, "apart", {"TUTTI_CHOICES": str(rules), **SLOW}).rows()
    assert ("MPI_Barrier", "dissemination") in rows
    assert ("MPI_Barrier", TRIED) not in rows and ("MPI_Allgather", TRIED) in rows, rows


@pytest.mark.mpi
def test_a_fixed_order_is_not_left_to_the_mpi(program, libraries):
    rows = run(program, "mpich", 2, "apart", {"TUTTI_FIXED_ORDER": "1", **SLOW}).rows()
    assert ("MPI_Allreduce", TRIED) not in rows and ("MPI_Bcast", MEASURED) in rows, rows


@pytest.mark.mpi
def test_the_report_says_what_was_tried(program, libraries, tmp_path):
    result = run(program, "mpich", 2, "apart", {"TUTTI_REPORT_JSON": str(tmp_path / "report.json"), **SLOW})
    trials = json.loads((tmp_path / "report.json").read_text())["trials"]
    assert trials and all(one["trials"] >= 1 and one["ranks"] == 2 and not one["one_node"] for one in trials), trials
    taken = {one["collective"] for one in trials if one["mpi"]}
    assert taken and all(one["ratio"] >= 1 for one in trials if one["mpi"]), trials
    assert {call for call, algorithm in result.rows() if algorithm == MEASURED} <= {f"MPI_{name.capitalize()}" for name in taken}
