"""The choice on line: trials of the MPI against tutti in the program's own calls (TUTTI_CHOICE)."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor

import mpis
import pytest
from test_nodes import on_nodes

SLOW = {"TUTTI_FAULT": "slow:op=put:us=2000:count=0"}  # tutti, between nodes: far behind any MPI
FEW, ALL = "brag", "bragoxtsclne"  # kinds of collectives (programs/trials.c)
MEASURED, TRIED = "MPI (measured)", "MPI (on trial)"


def run(program, name: str, ranks: int, placement: str, settings: dict[str, str], calls: int = 1500,
        communicators: int = 1, kinds: str = FEW, ints: int = 1 << 16, fewer: int = 5) -> mpis.Result:
    mpi = mpis.MPIS[name]
    numbers = [random.randrange(1, 10**6), calls, communicators, kinds, ints, fewer]
    command = [program(mpi, "trials.c"), *map(str, numbers)]
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
    """Who is faster is the machine's affair, but where tutti is slowed down."""
    settings = {"TUTTI_P2P": str(ranks % 2), **(SLOW if ranks == 2 and placement else {})}
    # A trial waits for 2 ms of its calls: on a fast machine all 4000 calls are over before the MPI's turn comes.
    calls = 1500 if placement else 16000 if ranks == 2 else 4000
    result = run(program, mpi, ranks, placement, settings, calls, ranks % 2 + 1, ALL if ranks > 2 else FEW)
    assert ranks > 2 or TRIED in algorithms(result), result.text[-3000:]
    if ranks == 2 and placement:  # more ranks than processors wait for each other in some MPIs longer than that
        assert MEASURED in algorithms(result), result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.parametrize("ranks,placement,settings", [(2, "", {}), (3, "", {}),
                                                      (5, "", {"TUTTI_ALG": "alltoallv=blocks,gatherv=cma"}),
                                                      (2, "apart", SLOW), (4, "pairs", {})],
                         ids=["2", "3", "forced", "apart", "pairs"])
@pytest.mark.parametrize("name", mpis.first("mpich", "openmpi", "impi"))
def test_calls_with_lists(program, libraries, name, ranks, placement, settings):
    """Without a report, in which every call would be planned. A call that only one rank has got wrong counts nowhere: where it
    did, that rank would begin the next trial one call early, and wait for ever."""
    mpi, common = mpis.MPIS[name], {"TUTTI_NET": "on", **settings} if placement else settings
    command = [program(mpi, "listed.c"), str(random.randrange(1, 10**6)), "3000" if placement else "20000"]
    result = mpis.start(mpi, ranks, on_nodes(placement, command) if placement else command, True, common)
    assert result.status == 0 and "listed: passed (0 failures)" in result.text, result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.parametrize("settings", [{"TUTTI_CHOICE": "static"}, {"TUTTI_ALG": "bcast=binomial,allreduce=tree,"
                                                                  "allgather=ring,barrier=dissemination"}],
                         ids=["static", "forced"])
def test_nothing_is_tried_where_it_is_decided(program, libraries, settings):
    result = run(program, "mpich", 2, "apart", {**settings, **SLOW})
    assert not algorithms(result) & {TRIED, MEASURED} and "\ntrials\n" not in result.text, result.text[-3000:]


@pytest.mark.mpi
def test_an_own_algorithm_is_tried_too(program, libraries, tmp_path):
    """On a node that is the one that reads in place, beside blocks."""
    report = tmp_path / "report.json"
    run(program, "mpich", 2, "", {"TUTTI_REPORT_JSON": str(report)}, 1500, kinds="g", fewer=1 << 16)
    rows = json.loads(report.read_text())["rows"]
    assert {"blocks", "cma"} <= {row["algorithm"] for row in rows if row["call"] == "MPI_Allgather"}, rows


@pytest.mark.mpi
def test_nothing_is_tried_where_nothing_would_move_meanwhile(program, libraries):
    """One rank without a progress thread is enough."""
    mpi = mpis.MPIS["mpich"]
    path, common = program(mpi, "trials.c"), {**SLOW, "TUTTI_NET": "on", "TUTTI_REPORT": "1"}
    command = on_nodes("apart", ["sh", "-c", f'[ "$TUTTI_NODE" = n1 ] && export TUTTI_PROGRESS_THREAD=off; exec {path} 1 500 1'])
    result = mpis.start(mpi, 2, command, True, common)
    assert result.status == 0 and "trials: passed (0 failures)" in result.text, result.text[-3000:]
    assert not algorithms(result) & {TRIED, MEASURED} and "\ntrials\n" not in result.text, result.text[-3000:]


@pytest.mark.mpi
def test_nothing_is_tried_where_a_rank_may_have_a_gpu(program, libraries, gpu_library):
    mpi = mpis.MPIS["mpich"]
    driver = f'[ "$TUTTI_NODE" = n1 ] && export LD_PRELOAD="$LD_PRELOAD:{gpu_library("cuda")}"; exec '
    command = on_nodes("apart", ["sh", "-c", f'{driver}{program(mpi, "trials.c")} 1 500 1'])
    result = mpis.start(mpi, 2, command, True, {**SLOW, "TUTTI_NET": "on", "TUTTI_REPORT": "1"})
    assert result.status == 0 and "trials: passed (0 failures)" in result.text, result.text[-3000:]
    assert not algorithms(result) & {TRIED, MEASURED} and "\ntrials\n" not in result.text, result.text[-3000:]


@pytest.mark.mpi
def test_rules_of_a_site_are_not_tried(program, libraries, tmp_path):
    rules = tmp_path / "site.choices"
    rules.write_text("[nodes]\nbarrier: * dissemination\n")
    # On a busy machine tutti's own two take long to tell apart, and the MPI comes after them.
    rows = run(program, "mpich", 2, "apart", {"TUTTI_CHOICES": str(rules), **SLOW}, 4000).rows()
    assert ("MPI_Barrier", "dissemination") in rows
    assert ("MPI_Barrier", TRIED) not in rows and ("MPI_Allgather", TRIED) in rows, rows


@pytest.mark.mpi
def test_a_rule_that_ends_within_what_is_tried_alike(program, libraries, tmp_path):
    """Of 2048 to 4095 bytes, one cell, the rule has the smallest; data has gaps on odd ranks, which tutti packs."""
    rules, report = tmp_path / "site.choices", tmp_path / "report.json"
    rules.write_text("[nodes]\nbcast: 2048..2048 scatter_allgather\n")
    run(program, "mpich", 2, "apart", {"TUTTI_CHOICES": str(rules), "TUTTI_REPORT_JSON": str(report), **SLOW}, 2400, kinds="b",
        ints=512, fewer=600)
    rows = [row for row in json.loads(report.read_text())["rows"] if row["call"] == "MPI_Bcast"]
    bytes_of = {row["algorithm"]: row["bytes"] / row["calls"] for row in rows}
    assert bytes_of.pop("scatter_allgather") == 2048, rows
    assert bytes_of[TRIED] == bytes_of[MEASURED] == 2400, rows


@pytest.mark.mpi
def test_operators_that_do_not_commute_are_not_tried(program, libraries):
    rows = run(program, "mpich", 2, "apart", SLOW, 500, kinds="o").rows()
    assert {algorithm for call, algorithm in rows if call == "MPI_Allreduce"}.isdisjoint({TRIED, MEASURED}), rows


@pytest.mark.mpi
def test_a_deadline_counts_in_every_call(program, libraries):
    """So none is left to the MPI, where it would not."""
    rows = run(program, "mpich", 2, "apart", {**SLOW, "TUTTI_DEADLINE": "100"}, 500).rows()
    assert not {algorithm for _, algorithm in rows} & {TRIED, MEASURED}, rows


@pytest.mark.mpi
def test_a_fixed_order_is_not_left_to_the_mpi(program, libraries):
    rows = run(program, "mpich", 2, "apart", {"TUTTI_FIXED_ORDER": "1", **SLOW}).rows()
    assert ("MPI_Allreduce", TRIED) not in rows and ("MPI_Allreduce", MEASURED) not in rows, rows
    # Others are tried; which of them the MPI then wins, the machine's other work decides.
    assert any(how in (TRIED, MEASURED) for call, how in rows if call in ("MPI_Bcast", "MPI_Allgather")), rows


@pytest.mark.mpi
def test_the_report_says_what_was_tried(program, libraries, tmp_path):
    result = run(program, "mpich", 2, "apart", {"TUTTI_REPORT_JSON": str(tmp_path / "report.json"), **SLOW})
    trials = json.loads((tmp_path / "report.json").read_text())["trials"]
    assert trials and all(one["trials"] >= 1 and one["ranks"] == 2 and not one["one_node"] for one in trials), trials
    taken = {one["collective"] for one in trials if one["taken"] == "mpi"}
    assert taken and all(one["ratio"] >= 1 for one in trials if one["taken"] == "mpi"), trials
    assert {call for call, algorithm in result.rows() if algorithm == MEASURED} <= {f"MPI_{name.capitalize()}" for name in taken}


# ---- what is kept from run to run (TUTTI_CHOICE=FILE)


def keep(program, path, calls: int = 400, kinds: str = "g") -> mpis.Result:
    return run(program, "mpich", 2, "apart", {**SLOW, "TUTTI_CHOICE": str(path)}, calls, kinds=kinds)


def lines(result: mpis.Result) -> list[str]:
    return [line for line in result.text.splitlines() if line.startswith("tutti: ") and "TUTTI_CHOICE: " in line]


@pytest.mark.mpi
def test_what_was_learnt_is_kept(program, libraries, tmp_path):
    path = tmp_path / "kept.choices"
    assert not lines(keep(program, path, 1500, FEW))
    text = path.read_text()
    assert text.startswith("# tutti") and "[nodes ranks=2 processors=" in text and "times as long" in text, text
    again = keep(program, path, 150, FEW)
    assert not lines(again)
    kept = {line.split(":")[0] for line in text.splitlines() if line.split("#")[0].endswith(" mpi    ")}
    assert kept, text
    for call in kept:  # at once, before any trial
        assert (f"MPI_{call.capitalize()}", MEASURED) in again.rows(), again.text[-3000:]
    assert path.read_text() == text, "a run too short to learn anything has changed it"


@pytest.mark.mpi
@pytest.mark.parametrize("other,said", [("export TUTTI_PROGRESS_THREAD=off", 0), ("cd /", 1)], ids=["tries nothing", "none"])
def test_one_rank_has_read_no_file(program, libraries, tmp_path, other, said):
    """The second node's folder is not the first one's; but who tries nothing reads nothing, and that is no difference."""
    mpi = mpis.MPIS["mpich"]
    keep(program, tmp_path / "kept.choices")
    rank = f'cd {tmp_path}; if [ "$TUTTI_NODE" = n1 ]; then {other}; fi; exec {program(mpi, "trials.c")} 1 60 1'
    settings = {**SLOW, "TUTTI_NET": "on", "TUTTI_REPORT": "1", "TUTTI_CHOICE": "./kept.choices"}
    result = mpis.start(mpi, 2, on_nodes("apart", ["sh", "-c", rank]), True, settings)
    assert result.status == 0 and "trials: passed (0 failures)" in result.text, result.text[-3000:]
    assert sum("different files" in line for line in lines(result)) == said, result.text[:3000]
    assert MEASURED not in algorithms(result), result.text[-3000:]


@pytest.mark.mpi
@pytest.mark.parametrize("text", ["", "\0\1\2", "# tutti 0.0.1 on another MPI: kept by TUTTI_CHOICE, may be deleted\n[]\nbcast: * mpi\n",
                                  "damaged"])
def test_a_file_that_cannot_be_used(program, libraries, tmp_path, text):
    path = tmp_path / "kept.choices"
    if text == "damaged":
        keep(program, path)
        text = path.read_text().replace(" mpi  ", " mpl  ", 1) + "[nodes ranks=\n"
    path.write_text(text)
    result = keep(program, path, 1500)  # a busy machine learns nothing in fewer
    assert len(lines(result)) == 1 and "this run starts without it" in lines(result)[0], result.text[:3000]
    assert "[nodes ranks=2 processors=" in path.read_text()
    assert not lines(keep(program, path))


@pytest.mark.mpi
def test_a_place_that_cannot_be_written(program, libraries, tmp_path):
    result = keep(program, tmp_path / "missing" / "kept.choices")
    assert len(lines(result)) == 1 and "not kept" in lines(result)[0], result.text[:3000]


@pytest.mark.mpi
@pytest.mark.timeout(300)  # beyond that of the jobs, which says where a rank stands
def test_two_jobs_keep_at_once(program, libraries, tmp_path):
    path = tmp_path / "kept.choices"
    with ThreadPoolExecutor() as pool:
        for result in pool.map(lambda _: keep(program, path), range(2)):
            assert not lines(result), result.text[:3000]
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert not lines(keep(program, path, 60))


@pytest.mark.mpi
def test_a_word_that_is_none(program, libraries):
    mpi = mpis.MPIS["mpich"]
    result = mpis.start(mpi, 2, [program(mpi, "trials.c"), "1", "50"], True, {"TUTTI_CHOICE": "sometimes"})
    assert result.status == 0 and "passed (0 failures)" in result.text
    assert "neither online nor static" in result.text and "own MPI" in result.text, result.text
