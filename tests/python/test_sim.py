"""tutti sim, model and paper: the commands, and what they say to bad input."""

import json
import re
from pathlib import Path

import pytest
from tutti import cli, sim
from tutti.errors import UserError
from tutti.paper import allgather, cdcp, model, multicast, rendezvous, via
from tutti.paper.claims import EVALUATIONS, claims, evaluate
from tutti.sim import networks


def run(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(arguments)
    captured = capsys.readouterr()
    return exit_.value.code, captured.out, captured.err


def test_broadcast_takes_the_published_time():
    # 4 stages of 1.3 + 0.6 + 2 (2 + 1.52) + 5 x 0.01 us, and two copies of 4 bytes.
    assert sim.simulate("bcast", "binomial", "via2003", 16)["us"] == pytest.approx(4 * 8.99 + 8 * 0.0027, abs=1e-6)
    assert model.broadcast("via2003", 16, 4, 3072) == pytest.approx(4 * 8.99 + 8 * 0.0027, abs=1e-6)


def test_per_rank_times_grow_with_depth():
    result = sim.simulate("bcast", "binomial", "via2003", 8, per_rank=True)
    assert len(result["per_rank_us"]) == 8
    assert max(result["per_rank_us"]) == pytest.approx(result["us"])
    assert result["per_rank_us"][7] > result["per_rank_us"][1]


def test_sim_writes_rows(tmp_path, capsys):
    out = tmp_path / "rows.json"
    code, text, _ = run(["sim", "allreduce", "--alg", "degree_k:degree=3", "--nodes", "4,16", "--bytes", "4,1K",
                         "--json", str(out)], capsys)
    assert code == 0 and "degree_k" in text
    rows = json.loads(out.read_text())
    assert [(row["nodes"], row["bytes"]) for row in rows] == [(4, 4), (4, 1024), (16, 4), (16, 1024)]
    assert all(row["us"] > 0 and row["events"] > 0 and row["bench"] == "sim" for row in rows)


@pytest.mark.parametrize(("arguments", "said"), [
    (["--alg", "nope", "--nodes", "4"], "bcast has no algorithm 'nope'"),
    (["--alg", "flat", "--nodes", "4"], "cannot run here: members do not share memory"),
    (["--alg", "binomial", "--nodes", "0"], "nodes and ranks per node must be from 1"),
    (["--alg", "binomial", "--nodes", "x"], "--nodes takes whole numbers"),
    (["--alg", "binomial", "--nodes", "4", "--root", "4"], "the root must be a rank"),
    (["--alg", "binomial", "--nodes", "4", "--net", "nope"], "there is no network profile 'nope'; there are"),
    (["--alg", "binomial", "--nodes", "500000000"], "ranks need about"),
    (["--alg", "binomial", "--nodes", "4", "--bytes", "1M"], "larger than the inbox blocks"),
])
def test_bad_input_is_one_line(arguments, said, capsys):
    code, _, err = run(["sim", "bcast", *arguments], capsys)
    assert code == 2
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_a_profile_with_a_missing_or_negative_term_is_one_line(tmp_path, capsys):
    text = open(networks.path_of("via2003")).read()  # noqa: PTH123, SIM115
    for change, said in ((lambda t: t.replace("Ts = 2.0", "#"), "'Ts' is missing"),
                         (lambda t: t.replace("Ts = 2.0", "Ts = -2.0"), "Ts in [via] is negative")):
        profile = tmp_path / "bad.toml"
        profile.write_text(change(text))
        code, _, err = run(["sim", "bcast", "--alg", "binomial", "--nodes", "4", "--net", str(profile)], capsys)
        assert code == 2 and said in err and len(err.strip().splitlines()) == 1


def test_model_of_an_operation_without_one():
    with pytest.raises(UserError, match="not of 'gather'"):
        model.command("gather", "4")


def test_every_claim_is_there_once_and_every_evaluation_belongs_to_one():
    ids = [claim["id"] for claim in claims()]
    assert len(ids) == len(set(ids)) == 38
    assert set(EVALUATIONS) <= set(ids)


def test_claims_are_evaluated_and_not_believed():
    """A claim that is wrong must not hold."""
    claim = next(c for c in claims() if c["id"] == "via.bcast.16.4608B")
    assert evaluate(claim)["holds"]
    assert not evaluate({**claim, "benefit": claim["benefit"] + 0.1})["holds"]
    assert not evaluate({**claim, "benefit": claim["benefit"] - 0.1})["holds"]


def claim_of(name):
    return next(claim for claim in claims() if claim["id"] == name)


def test_claims_of_overlap_are_evaluated_and_not_believed():
    claim = claim_of("rndv.sender")
    assert evaluate(claim)["holds"]
    for protocol, word in (("write", "nearly complete"), ("read", "poor"), ("read_interrupt", "poor")):
        wrong = {**claim, "sender_overlap": {**claim["sender_overlap"], protocol: word}}
        assert not evaluate(wrong)["holds"], protocol


def test_without_interrupts_a_receiver_overlaps_little_and_with_them_much():
    found = rendezvous.overlaps("ib2006", 65536, "receiver")
    assert max(found["write"], found["read"]) < 0.2 and found["read_interrupt"] > 0.7


def test_progress_is_judged_at_every_size(monkeypatch):
    claim = claim_of("rndv.progress")
    row = evaluate(claim)
    assert all(f"{size >> 10} KiB: " in row["ours"] for size in rendezvous.PROGRESS_SIZES)
    assert not row["holds"] and "at 256 KiB, 1024 KiB;" in row["why"]
    monkeypatch.setattr(rendezvous, "PROGRESS_SIZES", (262144, 1048576))
    assert evaluate(claim)["holds"]
    for wrong in (0.4, 0.6):
        assert not evaluate({**claim, "benefit": wrong})["holds"]


def test_claims_of_the_shared_buffer_are_evaluated_and_not_believed():
    claim = claim_of("allgather.B.32x2")
    assert evaluate(claim)["holds"]
    for wrong in (0.4, -0.3):
        assert not evaluate({**claim, "factor": claim["factor"] + wrong})["holds"]
    calibration = evaluate(claim_of("allgather.B.16x2"))
    assert calibration["holds"] and "calibrates Tc" in calibration["why"]


def test_names_collide_as_often_as_counting_says():
    assert multicast.collision(2, 4) == pytest.approx(1 / 4)
    assert multicast.collision(3, 4) == pytest.approx(1 - 3 / 4 * 2 / 4)
    assert multicast.collision(5, 4) == 1
    assert multicast.collision(1, 4) == 0
    assert multicast.collision(23, 365) == pytest.approx(0.5073, abs=1e-4)


def test_names_are_counted_as_the_library_draws_them():
    groups = Path(__file__).parents[2] / "src" / "fabric" / "groups"
    source, header = (groups / "groups.cpp").read_text(), (groups / "groups.hpp").read_text()
    hosts = int(re.search(r"kHosts = (0x[0-9a-f]+)", source)[1], 16)
    ports = int(re.search(r"kPorts = (\d+)", source)[1])
    keys = int(re.search(r"queue_key & (0x[0-9a-f']+)", source)[1].replace("'", ""), 16)
    gid = int(re.search(r"uint8_t gid\[(\d+)\]", header)[1])
    assert multicast.MEDIA == {"InfiniBand": multicast.Names(2 ** (8 * gid), keys + 1),
                               "RoCE": multicast.Names(hosts + 1, keys + 1), "IP": multicast.Names(hosts + 1, ports)}


def test_the_claim_of_names_is_judged_on_every_medium():
    claim = claim_of("mcast.collision")
    row = evaluate(claim)
    assert not row["holds"] and "more often than 1e-18: RoCE, IP;" in row["why"]
    assert evaluate({**claim, "probability": 1e-3})["holds"]
    assert "paper, RoCE, IP" in evaluate({**claim, "bits": 48})["why"]


def test_a_claim_of_the_shared_buffer_must_come_out_of_model_and_simulation(monkeypatch):
    claim = claim_of("allgather.A.32x2")
    row = evaluate(claim)
    assert not row["holds"] and "not by simulation" in row["why"]
    monkeypatch.setattr(allgather, "simulated", lambda net, nodes, size: claim["factor"])
    assert evaluate(claim)["holds"]
    assert "not by model, not by simulation" in evaluate({**claim, "factor": 3.0})["why"]


@pytest.mark.parametrize(("op", "more", "algorithms"), [
    ("allgather", ["--nodes", "4", "--ppn", "2"], ["sendrecv_recursive_doubling", "shared_buffer", "shared_buffer:overlap=0"]),
    ("send", ["--nodes", "2"], ["read", "read_interrupt", "write"])])
def test_models_of_the_other_papers(op, more, algorithms, tmp_path, capsys):
    file = tmp_path / "rows.json"
    code, _, _ = run(["model", op, *more, "--bytes", "4096", "--net", "ib2006", "--json", str(file)], capsys)
    rows = json.loads(file.read_text())
    assert code == 0 and sorted(row["alg"] for row in rows) == algorithms and all(row["us"] > 0 for row in rows)


@pytest.mark.parametrize(("arguments", "said"), [
    (["model", "bcast", "--nodes", "4", "--ppn", "2"], "one process on each node"),
    (["model", "allgather", "--nodes", "3"], "of powers of two"),
    (["model", "send", "--nodes", "3"], "between 2 nodes"),
])
def test_models_say_what_they_are_not_of(arguments, said, capsys):
    code, _, error = run(arguments, capsys)
    assert code == 2 and said in error and len(error.strip().splitlines()) == 1


def test_what_is_not_built_does_not_hold():
    row = evaluate({"id": "a.claim.of.tomorrow", "paper": "30 %", "role": "application"})
    assert row["why"] == "not built yet" and not row["holds"]


def test_every_claim_is_built():
    built = {**EVALUATIONS, **cdcp.EVALUATIONS}
    assert [claim["id"] for claim in claims() if claim["id"] not in built] == []


def test_every_claim_is_evaluated(tmp_path, capsys):
    """The command from start to end: a row for each claim, and a reason for each that does not hold."""
    out = tmp_path / "paper.json"
    code, text, _ = run(["paper", "--json", str(out)], capsys)
    rows = json.loads(out.read_text())
    assert [row["id"] for row in rows] == [claim["id"] for claim in claims()]
    assert all(row["ours"] for row in rows) and all(row["why"] for row in rows if not row["holds"])
    holding = sum(row["holds"] for row in rows)
    assert code == (0 if holding == len(rows) else 1)
    assert f"{holding} of {len(rows)} claims hold; 0 not built yet" in text


def test_orders_must_come_out_at_every_point():
    """The best block is beaten just above one block, so the claim must not hold as it is written."""
    row = evaluate(next(c for c in claims() if c["id"] == "via.bcast.block"))
    assert not row["holds"] and "beaten from" in row["why"]
    size = int(row["ours"].split(" at ")[-1].split()[0])
    times = {block: sim.simulate("bcast", f"binomial:block={block}", "via2003", 16, size=size)["us"] for block in via.BLOCKS}
    assert min(times, key=times.get) != 3072
