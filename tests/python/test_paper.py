"""tutti paper: claims are judged part by part, under every reading, and not believed."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tutti import cli, sim
from tutti.paper import allgather, cdcp, lab, multicast, nbc, pop, rendezvous, via
from tutti.paper.claims import EVALUATIONS, claim_of, claims, evaluate
from tutti.paper.verdict import Part, Reading, Verdict, indistinct, near, near_time
from tutti.sim import barotropic, networks, sums
from tutti.sim.applications import Process

ROOT = Path(__file__).parents[2]


def run(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(arguments)
    captured = capsys.readouterr()
    return exit_.value.code, captured.out, captured.err


def part_of(verdict, word):
    found = [part for part in verdict.parts if word in part.what]
    assert len(found) == 1, (word, [part.what for part in verdict.parts])
    return found[0]


def test_every_claim_is_there_once_and_has_an_evaluation():
    ids = [claim["id"] for claim in claims()]
    assert len(ids) == len(set(ids)) == 38
    assert set(EVALUATIONS) == set(ids)


def test_a_part_holds_where_all_its_readings_do():
    def part(*found):
        return Part("what", "paper", [Reading("r", "simulation", "", holds) for holds in found])

    assert [part(*found).verdict for found in ((True, True), (True, None), (True, False), (False, None), (None,), ())] == [
        "yes", "yes", "depends", "no", "open", "open"]
    assert Verdict({}, [part(True), part(True)]).holds_in == "all"
    assert Verdict({}, [part(True), part(True, False)]).holds_in == "some"
    assert Verdict({}, [part(False), part()]).holds_in == "none"


def test_tolerances():
    assert near(0.349, 0.3) and not near(0.36, 0.3)
    assert near_time(109, 100) and not near_time(89, 100)
    assert "cannot tell" in indistinct(0.16, 0.19, "x") and not indistinct(0.30, 0.19, "x")


def test_claims_are_evaluated_and_not_believed():
    """A claim that is wrong must not hold."""
    claim = claim_of("via.bcast.16.4608B")
    assert evaluate(claim).holds_in == "all"
    for wrong in (0.1, -0.1):
        assert evaluate({**claim, "benefit": claim["benefit"] + wrong}).holds_in == "none"


def test_orders_must_come_out_at_every_point():
    """The best block is beaten just above one block, so the claim must not hold as it is written."""
    verdict = evaluate(claim_of("via.bcast.block"))
    assert verdict.holds_in == "none"
    size = int(re.search(r"at (\d+) B", verdict.parts[0].why)[1])
    times = {block: sim.simulate("bcast", f"binomial:block={block}", "via2003", 16, size=size)["us"] for block in via.BLOCKS}
    assert min(times, key=times.get) != 3072


def test_an_ideal_network_has_two_readings():
    best = part_of(evaluate(claim_of("via.allreduce.512.4B")), "best case")
    assert [reading.holds for reading in best.readings] == [False, True] and best.verdict == "depends"


def test_what_a_tolerance_cannot_tell_from_its_calibration_is_said():
    for name in ("via.bcast.512.4B", "allgather.A.32x2", "allgather.B.32x2"):
        assert "cannot tell the two" in evaluate(claim_of(name)).parts[0].why, name


def test_claims_of_overlap_are_evaluated_and_not_believed():
    claim = claim_of("rndv.sender")
    assert [part.verdict for part in evaluate(claim).parts] == ["depends", "yes", "yes"]  # the lab's socket takes it all
    for protocol, word in (("write", "nearly complete"), ("read", "poor"), ("read_interrupt", "poor")):
        wrong = evaluate({**claim, "sender_overlap": {protocol: word}}).parts[0]
        assert not any(reading.holds for reading in wrong.readings if reading.evidence == "simulation"), protocol


def test_an_interrupt_costs_a_receiver_its_processor_or_nothing():
    own, other = rendezvous.testbeds().values()
    for factor in rendezvous.COMPUTES:
        assert rendezvous.overlap(own, "read_interrupt", 65536, "receiver", factor)[0] < rendezvous.NEARLY_COMPLETE
    assert rendezvous.overlap(other, "read_interrupt", 65536, "receiver", 2)[0] > rendezvous.NEARLY_COMPLETE
    for protocol in ("write", "read"):
        assert rendezvous.overlap(own, protocol, 65536, "receiver")[0] < 0.2


def test_progress_is_judged_at_every_size(monkeypatch):
    claim = claim_of("rndv.progress")
    verdict = evaluate(claim)
    assert [part.verdict for part in verdict.parts] == ["depends", "depends"]
    for part in verdict.parts:
        sizes = [size for size in rendezvous.PROGRESS_SIZES for reading in part.readings if f"{size >> 10} KiB" in reading.under]
        assert len(sizes) == 2 * len(rendezvous.PROGRESS_SIZES)
        assert [reading.holds for reading in part.readings if reading.under == "lab"] == [False]
    monkeypatch.setattr(rendezvous, "PROGRESS_SIZES", (262144, 1048576))
    monkeypatch.setattr(lab, "figures", list)  # the simulation's alone
    assert evaluate(claim).holds_in == "all"
    for wrong in (0.4, 0.6):
        assert evaluate({**claim, "benefit": wrong}).holds_in == "none"


def test_claims_of_the_shared_buffer_are_evaluated_and_not_believed():
    claim = claim_of("allgather.B.32x2")
    assert evaluate(claim).holds_in == "all"
    for wrong in (0.4, -0.3):
        assert evaluate({**claim, "factor_upto": claim["factor_upto"] + wrong}).holds_in == "none"


def test_a_claim_of_the_shared_buffer_must_come_out_of_model_and_simulation(monkeypatch):
    claim = claim_of("allgather.A.32x2")
    assert evaluate(claim).parts[0].verdict == "depends"
    monkeypatch.setattr(allgather, "simulated", lambda net, nodes, size: claim["factor_upto"])
    assert evaluate(claim).holds_in == "all"


def test_names_collide_as_often_as_counting_says():
    assert multicast.collision(2, 4) == pytest.approx(1 / 4)
    assert multicast.collision(3, 4) == pytest.approx(1 - 3 / 4 * 2 / 4)
    assert multicast.collision(5, 4) == 1
    assert multicast.collision(1, 4) == 0
    assert multicast.collision(23, 365) == pytest.approx(0.5073, abs=1e-4)


def test_names_are_counted_as_the_library_draws_them():
    groups = ROOT / "src" / "fabric" / "groups"
    source, header = (groups / "groups.cpp").read_text(), (groups / "groups.hpp").read_text()
    hosts = int(re.search(r"kHosts = (0x[0-9a-f]+)", source)[1], 16)
    ports = int(re.search(r"kPorts = (\d+)", source)[1])
    keys = int(re.search(r"queue_key & (0x[0-9a-f']+)", source)[1].replace("'", ""), 16)
    gid = int(re.search(r"uint8_t gid\[(\d+)\]", header)[1])
    assert multicast.MEDIA == {"InfiniBand": multicast.Names(2 ** (8 * gid), keys + 1),
                               "RoCE": multicast.Names(hosts + 1, keys + 1),
                               "IPv6": multicast.Names(2 ** (8 * gid), ports), "IPv4": multicast.Names(hosts + 1, ports)}


def test_the_claim_of_names_is_judged_on_every_medium():
    claim = claim_of("mcast.collision")
    assert [part.verdict for part in evaluate(claim).parts] == ["yes", "yes", "no", "yes", "no"]
    assert evaluate({**claim, "probability": 1e-3}).holds_in == "all"
    assert evaluate({**claim, "bits": 48}).parts[0].verdict == "no"


# ---- CDCP-2008


def test_every_baseline_is_fitted_and_none_is_chosen():
    found = cdcp.baselines()
    assert {one.algorithm for one in found} == {"sendrecv_binomial", "sendrecv_recursive_doubling"}
    assert all(one.fitted() == pytest.approx(cdcp.FITTED_US, abs=0.01) for one in found)
    assert len(found) == len(cdcp.ALL) - 1 and "cannot be fitted" in cdcp.left_out()
    verdict = evaluate(claim_of("cdcp.latency.512"))
    under = [reading.under for reading in part_of(verdict, "blocking").readings]
    assert all(one.name in under and f"{one.name}, queue" in under for one in found)
    assert part_of(verdict, "blocking").verdict == "depends"


def test_claims_of_dedicated_processors_are_evaluated_and_not_believed():
    claim = claim_of("cdcp.hidden")
    assert part_of(evaluate(claim), "dedicated").verdict == "yes"
    for wrong in (30.0, 70.0):
        assert part_of(evaluate({**claim, "compute_to_hide": {"cdcp": wrong, "nbc": 122.0}}), "dedicated").verdict == "no"
    assert part_of(evaluate({**claim_of("cdcp.latency.512"), "benefit_vs_blocking": 0.8}), "blocking").verdict == "no"


def test_nbc_is_fitted_to_8_processes_and_judged_elsewhere():
    eight = next(one for one in cdcp.baselines() if "binomial" in one.algorithm).nbc(8)
    fits = nbc.fits(eight)
    assert [(fit.every, fit.what) for fit in fits] == [(every, what) for every in nbc.EVERY_US for what in ("look", "packet")]
    many = replace(eight, processes=512)
    for fit in fits:
        assert nbc.overhead(fit.apply(eight)) == pytest.approx(nbc.FITTED_US, abs=0.01)
        job = fit.apply(many)
        hiding = nbc.hiding_us(job)
        bound = 1.05 * nbc.overhead(job)
        assert nbc.overhead(job, hiding) <= bound < nbc.overhead(job, hiding - nbc.STEP_US)
    claim = claim_of("cdcp.overhead")
    parts = {part.what: part for part in evaluate(claim).parts}
    assert parts["NBC, 8 processes"].evidence == "calibrated" and parts["NBC, 512 processes"].evidence == "simulation"
    twice = {**claim, "overhead": {**claim["overhead"], "nbc_512": 29.0}}
    assert {part.what: part for part in evaluate(twice).parts}["NBC, 512 processes"].verdict == "depends"


@pytest.mark.parametrize("how", sums.BLOCKING)
@pytest.mark.parametrize("count", [2, 5, 8])
def test_a_sum_that_is_started_sends_what_a_blocking_one_does(how, count):
    members = list(range(count))
    blocking, started = ([Process() for _ in members] for _ in range(2))
    sums.BLOCKING[how](blocking, members, 8)
    meant = []

    def meanwhile():
        for rank in started:
            meant.append(len(rank.actions))
            rank.exchange(0, 64)  # its requests must not be those of the sum
            rank.compute(100.0)

    sums.nonblocking(started, members, how, 8, meanwhile)
    for rank, before, whole in zip(started, meant, blocking, strict=True):
        posted = {action[3] for action in rank.actions[:before]}
        assert before > 0 and {action[0] for action in rank.actions[:before]} <= {"send", "receive"}
        own, during = rank.actions[:before] + rank.actions[before + 5:], rank.actions[before:before + 5]
        assert own == whole.actions and sorted(rank.free) == sorted(whole.free)
        assert not posted & {action[3] for action in during if action[0] in ("send", "receive")}


def test_a_queue_explains_one_processor_for_all_and_is_called_fitted():
    one = part_of(evaluate(claim_of("cdcp.ratio")), "1 dedicated")
    for reading in one.readings:
        assert reading.holds == ("queue" in reading.under) == (reading.evidence == "calibrated"), reading


def test_grids_of_processes_are_as_square_as_the_grid_lets_them_be():
    assert [barotropic.shape(count) for count in (128, 160, 512, 640)] == [(8, 16), (10, 16), (16, 32), (20, 32)]


def test_dedicated_processors_are_the_last_of_each_run():
    machine = sums.Dedicated(apps=6, dcps=2, cores=4)
    assert machine.processors == [3, 7] and machine.members == [0, 1, 2, 4, 5, 6] and machine.nodes == 2
    assert machine.served == {3: [0, 1, 2], 7: [4, 5, 6]}


@pytest.mark.parametrize("each", [False, True])
def test_a_solver_gains_from_dedicated_processors_where_it_computes_little(each):
    net, members = networks.path_of("opteron2008"), list(range(40))
    machine = sums.Dedicated(apps=32, dcps=8, cores=4)

    def gain(work):
        solver = barotropic.Solver(work, each)
        blocking = barotropic.iteration_us(solver, net, 4, members, barotropic.blocking(members, "recursive doubling"), 40)
        assert blocking > work / 40
        return blocking - barotropic.iteration_us(solver, net, 4, machine.members, barotropic.dedicated(machine), machine.total)

    assert gain(0.0) > gain(20000.0) and gain(20000.0) < 0


def test_the_crossing_is_found(monkeypatch):
    monkeypatch.setattr(pop, "CROSSING", 40)
    case = pop.Case("tree", networks.path_of("opteron2008"), "binomial tree", False)
    pop.work_us.cache_clear()
    work = pop.work_us(case)
    assert work > 0 and pop.with_dedicated(case, 32, 8) == pytest.approx(pop.blocking(case, 40), abs=2 * pop.NEAR_US)
    pop.work_us.cache_clear()


# ---- the lab's figures


def test_claims_that_want_a_lab_show_it():
    for claim in claims():
        if claim.get("lab"):
            assert any(figure["claim"] == claim["id"] for figure in lab.figures()) or lab.readings(claim)[0].ours == "not run"
    assert lab.readings(claim_of("allgather.A.16x2"))[0].holds is None
    ratio = {claim["id"] for claim in claims() if claim["role"] == "ratio"}
    assert all(("holds" not in figure) or figure["claim"] in ratio for figure in lab.figures())


def test_the_labs_figures_are_those_of_the_results():
    with (ROOT / "bench" / "results" / "papers" / "lab.csv").open() as file:
        cells = [(row["no latency: % less"], row["500 us: % less"]) for row in csv.DictReader(file)]
    ours = {figure["claim"]: figure["ours"] for figure in lab.figures()}
    for claim, (none, far) in zip(("via.bcast.16.4B", "via.bcast.16.4608B", "via.allreduce.16.4B", "via.allreduce.16.4KB"), cells,
                                  strict=False):
        assert ours[claim] == f"{none} % less without latency, {far} % with 500 us"
    with (ROOT / "bench" / "results" / "overlap" / "messages.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["MPI"].startswith("tutti")]
    protocols = {"write": "RDMA-Write", "read": "RDMA-Read", "read_interrupt": "RDMA-Read with interrupt"}
    for figure in (one for one in lab.figures() if one["claim"] in ("rndv.sender", "rndv.receiver")):
        side = figure["claim"].split(".")[1]
        found = {int(row[f"{side}, 64 KiB"]) for row in rows if row["protocol"] == protocols[figure["part"]]}
        said = {int(number) for number in re.findall(r"\d+", figure["ours"])}
        assert said == found, figure
        least, most = min(found) / 100, max(found) / 100
        wanted = claim_of(figure["claim"])[f"{side}_overlap"][figure["part"]]
        assert figure["holds"] == (least >= rendezvous.NEARLY_COMPLETE if wanted == "nearly complete" else most <= rendezvous.POOR)


# ---- the command


def test_one_claim_is_shown_whole(capsys):
    code, text, _ = run(["paper", "--claim", "via.allreduce.512.4B"], capsys)
    assert code == 1 and "holds in none of its parts" in text and "benefit_best: 0.4" in text
    assert text.count("ideal network") == 2 and "Tested: " in text
    code, text, _ = run(["paper", "--claim", "via.bcast.16.4B"], capsys)
    assert code == 0 and "shown" in text
    code, _, error = run(["paper", "--claim", "via.nothing"], capsys)
    assert code == 2 and "there is no claim 'via.nothing'" in error and "via.bcast.16.4B" in error


def test_every_claim_is_evaluated(tmp_path, capsys, monkeypatch):
    """The command from start to end: every part has a verdict, and a reason where it does not hold. Of applications and the
    solver one reading each: the others differ in sizes."""
    monkeypatch.setattr(rendezvous, "HPL", dict(list(rendezvous.HPL.items())[1:2]))
    monkeypatch.setattr(cdcp, "solvers", lambda solvers=cdcp.solvers: solvers()[:1])
    monkeypatch.setenv("COLUMNS", "80")
    out = tmp_path / "paper.json"
    code, text, _ = run(["paper", "--json", str(out)], capsys)
    rows = json.loads(out.read_text())
    assert code == 1 and [row["id"] for row in rows] == [claim["id"] for claim in claims()]
    parts = [part for row in rows for part in row["parts"]]
    table = text[:text.rindex("└")]
    assert all(row["id"] in table for row in rows) and "holds" in table, "cut off where a terminal has 80 columns"
    assert all(part["why"] for part in parts if part["verdict"] != "yes")
    assert all(part["readings"] for part in parts if part["verdict"] != "open")
    assert {reading["evidence"] for part in parts for reading in part["readings"]} == {
        "calibrated", "simulation", "model", "arithmetic", "lab"}
    held = [sum(row["holds_in"] == how for row in rows) for how in ("all", "some", "none")]
    assert f"38 claims: {held[0]} hold in all parts" in text and f"{held[1]} in some, {held[2]} in none" in text
