"""tutti sim and model: the commands, and what they say to bad input."""

import json

import pytest
from tutti import cli, sim
from tutti.errors import UserError
from tutti.paper import model
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


def test_a_program_that_looks_in_between():
    """The more a look takes the more the program loses; whoever never looks moves nothing before the wait."""
    from tutti.sim.run import Surroundings, parse_poll, simulate

    def took(poll: str) -> float:
        every, cost = parse_poll(poll)
        around = Surroundings(compute=1000.0, progress="polled", poll_every=every, poll=cost)
        return simulate("allreduce", "sendrecv_binomial", "opteron2008", 2, 4, size=8, around=around)["us"]

    host = simulate("allreduce", "sendrecv_binomial", "opteron2008", 2, 4, size=8,
                    around=Surroundings(compute=1000.0, progress="host"))["us"]
    assert took("5:0") < took("5:0.5") < took("5:2") < host
    assert took("1000:0") == pytest.approx(host)
    for wrong in ("5", "0:1", "5:-1", "a:b"):
        with pytest.raises(UserError, match="--poll"):
            parse_poll(wrong)
