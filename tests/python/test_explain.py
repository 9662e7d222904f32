"""tutti explain, tune and bench jitter, and what tutti sim writes besides its table."""

import json
import xml.etree.ElementTree

import pytest
import tutti
from tutti import cli, native, sim
from tutti.choice import choices, explain, host
from tutti.errors import Failure, UserError
from tutti.host import machine, mpis
from tutti.sim import extrapolate, jitter, output
from tutti.tune import network


def run(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(arguments)
    captured = capsys.readouterr()
    return exit_.value.code, captured.out, captured.err


def test_explain_names_one_choice_and_gives_a_reason_for_what_cannot_run(tmp_path, capsys):
    out = tmp_path / "rows.json"
    code, text, _ = run(["explain", "allreduce", "--bytes", "8", "--nodes", "64", "--ppn", "2", "--json", str(out)], capsys)
    rows = json.loads(out.read_text())
    [chosen] = [row for row in rows if row["chosen"]]
    assert code == 0 and chosen["alg"].startswith("hierarchical") and f"{chosen['alg']} runs" in text
    assert all((row["us"] is None) == bool(row["why"]) for row in rows)
    flat = next(row for row in rows if row["alg"] == "flat")
    assert flat["why"] == "members do not share memory"
    cheapest = next(row for row in rows if row["cheapest"])
    assert cheapest["us"] == min(row["us"] for row in rows if row["us"] is not None)


def test_explain_leaves_out_what_a_job_with_several_ranks_on_nodes_cannot_run():
    """The simulation can run a flat algorithm there, a job runs it between the leaders only."""
    rows = {row["alg"]: row for row in explain.candidates("allreduce", 1 << 20, 4, 4, "infiniband", progress=False)}
    assert sim.simulate("allreduce", "ring", "infiniband", 4, 4, size=1 << 20)["us"] > 0
    assert rows["ring"]["us"] is None and "between their leaders" in rows["ring"]["why"]
    assert rows["lanes"]["chosen"] and rows["lanes"]["us"] > 0 and rows["hierarchical"]["us"] > 0
    alone = {row["alg"]: row for row in explain.candidates("allreduce", 1 << 20, 4, 1, "infiniband", progress=False)}
    assert alone["ring"]["us"] > 0 and "no node has several members" in alone["hierarchical"]["why"]


def test_what_explain_says_is_cheaper_is_cheaper():
    rows = explain.candidates("allreduce", 8, 1, 4, "via2003")
    chosen, cheapest = (next(row for row in rows if row[key]) for key in ("chosen", "cheapest"))
    for row in (chosen, cheapest):
        alone = sim.simulate("allreduce", row["alg"], "via2003", 1, 4, size=8, repeat=explain.IN_A_ROW)
        assert row["us"] == alone["us"]
    assert (f"{cheapest['alg']} would take" in explain.verdict(rows)) == (cheapest["us"] < chosen["us"])


@pytest.mark.parametrize("node", ["epyc9654", "epyc7r13", "xeon8375c"])
def test_explain_compares_algorithms_on_a_node(capsys, tmp_path, node):
    out = tmp_path / "rows.json"
    code, text, _ = run(["explain", "allreduce", "--bytes", "8", "--ppn", "64", "--node", node, "--scattered", "--json",
                         str(out)], capsys)
    rows = {row["alg"]: row for row in json.loads(out.read_text())}
    assert code == 0 and rows["tree:degree=3"]["chosen"] and rows["tree:degree=3"]["net"] == node
    assert rows["flat"]["us"] > 2 * rows["tree:degree=3"]["us"] and "The ranks run in 2 packages" in text
    code, _, error = run(["explain", "allreduce", "--ppn", "2", "--nodes", "2", "--node", node], capsys)
    assert code == 2 and "--node is about one node" in error


def test_explain_does_not_simulate_more_datagrams_than_anybody_waits_for(monkeypatch):
    def row():
        rows = explain.candidates("bcast", 65536, 16, 1, "infiniband", progress=False)
        return next(row for row in rows if row["alg"] == "multicast_window")

    assert row()["us"] > 0
    monkeypatch.setattr(explain, "MOST_DATAGRAMS", 500)
    assert row()["us"] is None
    assert row()["why"] == "not simulated: about 512 datagrams"


@pytest.mark.parametrize("op", ["bcast", "allreduce", "allgather"])
def test_large_messages_are_extrapolated_from_smaller_ones(op):
    """What is said of a size that would take long is what its simulation says: compared where that is bearable."""
    size = (8 << 20) if op != "allgather" else 1 << 20
    rows = explain.candidates(op, size, 4, 1, "infiniband", multicast=False, progress=False)
    extrapolated = [row for row in rows if row["extrapolated"]]
    assert extrapolated and all("extrapolated from" in row["extrapolated"] for row in extrapolated)
    for row in extrapolated[:4]:
        whole = sim.simulate(op, row["alg"], "infiniband", 4, size=size)["us"]
        assert row["us"] == pytest.approx(whole, rel=0.01), row["alg"]


def test_explain_does_not_simulate_a_gigabyte():
    """Every candidate has a figure or a reason, and what is extrapolated says so."""
    rows = explain.candidates("bcast", 1 << 30, 16, 1, "infiniband", progress=False)
    assert all((row["us"] is None) == bool(row["why"]) for row in rows)
    assert all(bool(row["extrapolated"]) == (row["us"] is not None) for row in rows)
    [chosen] = [row for row in rows if row["chosen"]]
    assert chosen["us"] > (1 << 30) * 0.00004  # the network's 25 GB/s


def test_no_time_is_extrapolated_that_is_not_in_proportion():
    curved = extrapolate.predict(lambda size: (float(size) ** 2, size), "bcast", "direct:block=1024", 1 << 30, 2, 1)
    assert curved.us is None and "not in proportion" in curved.how
    bent = extrapolate.predict(lambda size: (float(max(size, 3 << 20)), 10), "bcast", "direct:block=1024", 1 << 26, 2, 1)
    assert bent.us == 1 << 26 and min(bent.sizes) >= 3 << 20
    small = extrapolate.predict(lambda size: (1.0, 10), "bcast", "direct:block=1024", 4096, 2, 1)
    assert small == extrapolate.Prediction(1.0)


def test_layers_take_what_they_are_told(capsys):
    """The defect that was found so: ranks waited for ever, with this between the leaders."""
    us = [sim.simulate("allgatherv", "hierarchical", "infiniband", 2, 2, 4096, in_layers=layers)["us"]
          for layers in ("", "allgatherv=exchange")]
    assert us[0] > 0 and us[1] > 0
    with pytest.raises(UserError, match="no algorithm 'nonsense'"):
        sim.simulate("bcast", "hierarchical", "infiniband", 2, 2, in_layers="bcast=nonsense")
    code, _, error = run(["sim", "bcast", "--alg", "binomial", "--nodes", "2", "--layer-alg", "bcast=flat"], capsys)
    assert code == 2 and "--ppn 2 or more" in error


def test_explain_says_that_multicast_must_get_through():
    """About two sends instead of log2 N: chosen for many nodes, unless it does not get through."""
    for nodes, multicast, wanted in ((64, True, "multicast"), (64, False, "binomial"), (4, True, "binomial")):
        rows = explain.candidates("bcast", 8, nodes, 1, "infiniband", multicast)
        [chosen] = [row for row in rows if row["chosen"]]
        assert chosen["alg"].startswith(wanted)
        assert ("provided that multicast gets through" in explain.verdict(rows)) == (wanted == "multicast")


def test_explain_does_not_compare_what_was_not_simulated():
    rows = [{"op": "alltoall", "alg": "direct", "us": None, "why": "too large", "chosen": True, "reason": "by order",
             "cheapest": False, "nodes": 4},
            {"op": "alltoall", "alg": "other", "us": 1.0, "why": "", "chosen": False, "reason": "", "cheapest": True,
             "nodes": 4}]
    assert "not simulated (too large)" in explain.verdict(rows)


@pytest.mark.parametrize("op", ["allreduce", "alltoall", "bcast"])
def test_algorithms_that_send_keys_are_simulated_with_their_data(op):
    """What is chosen between nodes is among what is simulated."""
    rows = explain.candidates(op, 100000, 4, 1, "infiniband")
    [chosen] = [row for row in rows if row["chosen"]]
    assert chosen["us"] is not None and chosen["us"] > 0 and chosen["reason"]


def test_the_choice_of_a_site_is_explained(tmp_path, capsys):
    file = tmp_path / "choices"
    file.write_text("[nodes ranks=2..64]\nallreduce: * degree_k(degree=7)  # predicted: 5 us\n")
    code, text, _ = run(["explain", "allreduce", "--nodes", "16", "--choices", str(file)], capsys)
    assert code == 0
    assert "degree_k:degree=7 runs: chosen by line 2 of" in text.replace("\n", "") and "predicted: 5 us" in text
    file.write_text("[nowhere]\nallreduce: * degree_k\n")
    code, _, error = run(["explain", "allreduce", "--choices", str(file)], capsys)
    assert code != 0 and "there are node, nodes, layers" in error and len(error.strip().splitlines()) == 1


def test_what_is_left_to_the_mpi_is_explained(tmp_path, capsys):
    file = tmp_path / "choices"
    file.write_text("[]\nallreduce: ..1K mpi  # measured: it is faster\n")
    code, text, _ = run(["explain", "allreduce", "--nodes", "2", "--ppn", "2", "--choices", str(file)], capsys)
    said = text.replace("\n", "")
    assert code == 0 and "left to the MPI: chosen by line 2 of" in said and "measured: it is faster" in said
    rows = {row["alg"]: row for row in explain.candidates("allreduce", 2048, 2, 2, "infiniband", choices=str(file))}
    assert not rows["mpi"]["chosen"] and rows["mpi"]["us"] is None and "the MPI's own" in rows["mpi"]["why"]
    code, _, error = run(["sim", "allreduce", "--alg", "mpi", "--nodes", "2"], capsys)
    assert code == 2 and "allreduce mpi cannot run here: an MPI runs whole calls of MPI programs only" in error
    with pytest.raises(UserError, match="nothing within a layer"):
        sim.simulate("allreduce", "hierarchical", "infiniband", 2, 2, in_layers="reduce=mpi")


def test_rules_cover_all_sizes_and_numbers_of_ranks():
    point = choices.Point
    points = [point("bcast", "node", ranks, size, alg, "x") for ranks in (2, 4)
              for size, alg in ((8, "flat"), (64, "flat"), (512, "blocks:block=4096"))]
    assert [line.split("#")[0].strip() for line in choices.rules(points)] == [
        "[node ranks=2]", "bcast: ..181 flat", "bcast: * blocks(block=4096)", "",
        "[node ranks=3..4]", "bcast: ..181 flat", "bcast: * blocks(block=4096)", ""]


def test_the_built_in_choice_stays_unless_another_is_clearly_faster():
    costs = [choices.Cost("flat", 1.0, True), choices.Cost("blocks", 0.95, False), choices.Cost("cma", None, False)]
    assert choices.decide("bcast", "node", 2, 8, costs, 0.9, "measured").alg == "flat"
    assert choices.decide("bcast", "node", 2, 8, costs, 0.97, "measured").alg == "blocks"
    assert choices.decide("bcast", "node", 2, 8, costs[2:], 0.9, "measured") is None


def test_only_what_is_clearly_faster_is_left_to_the_mpi():
    points = [choices.Point("bcast", "node", 2, size, "flat", "built-in") for size in (8, 64)]
    points.append(choices.Point("barrier", "node", 2, 8, "flat", "built-in"))
    theirs = {("bcast", 8): 0.8, ("bcast", 64): 0.95, ("barrier", 0): 0.1}
    decided = host.compare(points, theirs, {cell: 1.0 for cell in theirs}, "MPICH")
    assert [point.alg for point in decided] == ["mpi", "flat", "mpi"]
    assert decided[0].why == "measured: MPICH alone 0.8 us, flat 1"
    assert choices.rules(decided)[1].startswith("bcast: ..22 mpi ")


def costs_of(**times):
    """Of two sizes; the first algorithm is the built-in choice."""
    return {size: [choices.Cost(alg, us[i], alg == next(iter(times))) for alg, us in times.items()]
            for i, size in enumerate((64, 8192))}


@pytest.mark.parametrize(("times", "chosen"), [
    ({"blocks": (2.0, 20.0), "cma": (1.0, 20.0)}, "cma"),
    ({"blocks": (2.0, 20.0), "cma": (1.0, 23.0)}, "blocks"),  # clearly behind with one size
    ({"blocks": (2.0, 20.0), "cma": (1.9, 19.0)}, "blocks"),  # not clearly better
    ({"blocks": (2.0, 20.0), "cma": (0.5, None)}, "blocks"),  # it cannot run with all
    ({"blocks": (2.0, None), "cma": (3.0, 30.0)}, "cma"),
])
def test_one_algorithm_has_all_sizes_of_a_collective_with_lists(times, chosen):
    point = choices.decide_for_all("alltoallv", "node", 2, costs_of(**times), 0.9, "measured")
    assert point.alg == chosen
    [_, line, _] = choices.rules([point])
    assert line.split("#")[0].strip() == f"alltoallv: * {chosen}"


def test_a_collective_with_lists_is_left_to_the_mpi_as_a_whole(monkeypatch):
    monkeypatch.setattr(host, "LIST_SIZES", (64, 8192))
    point = choices.Point("gatherv", "node", 2, choices.ALL, "cma", "built-in")

    def decide(small, large):
        theirs = {("gatherv", 64): small, ("gatherv", 8192): large}
        [point_then] = host.compare([point], theirs, {cell: 1.0 for cell in theirs}, "MPICH")
        return point_then.alg

    assert decide(0.5, 1.0) == "mpi"
    assert decide(0.5, 1.2) == "cma"
    assert decide(0.95, 0.95) == "cma"


def test_tune_chooses_for_every_collective():
    ops = {*choices.OPS, *choices.LISTS, "allgatherv"}  # which coll.c does not measure
    with pytest.raises(UserError) as error:
        explain.candidates("nope", 8, 1, 2, "via2003")
    for op in str(error.value).split("there are ")[1].replace(" and ", ", ").split(", "):
        assert op.strip() in ops, op


def test_tune_leaves_to_the_mpi_what_it_does_faster(tmp_path, monkeypatch, capsys):
    """As measured: it is launched, and whatever it says is written in the language of the rules and read back."""
    try:
        mpis.find("mpich")
    except UserError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(choices, "OPS", ("barrier", "bcast"))
    monkeypatch.setattr(choices, "LISTS", ("alltoallv", "neighbor_alltoallw"))
    monkeypatch.setattr(choices, "SIZES", (8, 8192))
    for module in (choices, host):
        monkeypatch.setattr(module, "LIST_SIZES", (8, 8192))
    monkeypatch.setattr(choices, "ROUNDS", 1)
    monkeypatch.setattr(host, "ROUNDS", 1)
    monkeypatch.setattr(host, "CLEARLY", 1e9)
    monkeypatch.setattr(host, "NOWHERE", 1e9)
    file = tmp_path / "machine.choices"
    code, text, _ = run(["tune", str(tmp_path / "machine.toml"), "--choices", str(file), "--np", "2", "--mpi", "mpich"],
                        capsys)
    assert code == 0 and "4 of them other than built in" in text, text
    assert "# Where it says mpi: MPICH" in file.read_text()
    for op in ("barrier", "bcast", "alltoallv", "neighbor_alltoallw"):
        [chosen] = [row for row in explain.candidates(op, 64, 1, 2, "via2003", choices=str(file)) if row["chosen"]]
        assert chosen["alg"] == "mpi" and "MPICH alone" in chosen["reason"]


def test_tune_writes_choices_that_are_read_back(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(choices, "OPS", ("bcast", "allreduce"))
    monkeypatch.setattr(choices, "LISTS", ("gatherv", "neighbor_alltoallv"))
    monkeypatch.setattr(choices, "SIZES", (8, 8192))
    monkeypatch.setattr(choices, "LIST_SIZES", (8, 8192))
    monkeypatch.setattr(choices, "SIMULATED_SIZES", (8, 65536))
    monkeypatch.setattr(choices, "ROUNDS", 1)
    file = tmp_path / "machine.choices"
    code, text, _ = run(["tune", str(tmp_path / "machine.toml"), "--choices", str(file), "--np", "2", "--nodes", "4,16",
                         "--net", "infiniband"], capsys)
    assert code == 0 and "rules written to" in text
    for nodes, ppn in ((1, 2), (4, 1), (16, 1)):
        for op in choices.LISTS:
            [chosen] = [row for row in explain.candidates(op, 8, nodes, ppn, "infiniband", choices=str(file)) if row["chosen"]]
            assert "by line" in chosen["reason"] and str(file) in chosen["reason"]
        for size in (8, 65536):
            rows = explain.candidates("allreduce", size, nodes, ppn, "infiniband", choices=str(file))
            [chosen] = [row for row in rows if row["chosen"]]
            assert "by line" in chosen["reason"]
            if nodes > 1:  # decided by the same model
                assert chosen["us"] <= min(row["us"] for row in rows if row["us"] is not None) / choices.PREDICTED


@pytest.mark.parametrize(("arguments", "said"), [
    (["explain", "nope"], "no collective 'nope'; there are barrier"),
    (["explain", "bcast", "--bytes", "x"], "--bytes takes a size"),
    (["explain", "bcast", "--nodes", "0"], "--nodes and --ppn are whole numbers from 1"),
    (["explain", "bcast", "--net", "nope"], "there is no network profile 'nope'"),
    (["tune", "x.txt"], "must end in .toml"),
    (["tune", "x.toml", "--np", "2"], "--np, --nodes and --net go with --choices"),
    (["tune", "x.toml", "--choices", "c", "--nodes", "4"], "--nodes and --net go together"),
    (["tune", "x.toml", "--latency", "500us"], "those of a lab: say --lab"),
    (["tune", "x.toml", "--lab", "3"], "say --lab 2"),
    (["tune", "x.toml", "--lab", "2", "--dcp"], "with FILE, --mpi and --rounds only"),
    (["tune", "x.txt", "--lab", "2"], "must end in .toml"),
    (["explain", "bcast", "--choices", "/nonexistent"], "/nonexistent: cannot be read"),
    (["bench", "jitter", "--noise", "5"], "--noise takes PERIOD:DURATION"),
    (["bench", "jitter", "--noise", "5:6"], "the duration must be above 0 and below the period"),
    (["sim", "bcast", "--alg", "binomial", "--nodes", "4", "--progress", "x"], "progress is blocking, host, polled or interrupt"),
    (["sim", "bcast", "--alg", "binomial", "--nodes", "4,8", "--goal", "x"], "show one run"),
    (["sim", "bcast", "--alg", "binomial", "--nodes", "4", "--plot", "x.txt"], "expected a name that ends in"),
])
def test_bad_input_is_one_line(arguments, said, capsys):
    code, _, err = run(arguments, capsys)
    assert code == 2
    assert said in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.skipif(machine.cpus().usable < 2, reason="two processors are needed to measure a cache line between them")
def test_a_measured_profile_is_one_that_sim_takes_for_one_node(tmp_path, capsys):
    profile = tmp_path / "here.toml"
    code, text, _ = run(["tune", str(profile)], capsys)
    assert code == 0 and "Tc_per_byte" in text
    result = sim.simulate("allreduce", "flat", str(profile), 1, ppn=2)
    line = float(next(part.split("=")[1].split()[0] for part in profile.read_text().splitlines() if part.startswith("line")))
    assert result["us"] >= line > 0
    with pytest.raises(UserError, match="describes one node"):
        sim.simulate("bcast", "binomial", str(profile), 2)


def test_the_terms_of_a_network_come_out_of_its_own_times(tmp_path):
    """What simulation says of a network, taken as measurements, gives that network again."""
    terms = {"L": 500.0, "o": 20.0, "g": 20.0, "G_per_byte": 0.008, "Tr": 20.0}
    host = dict(native.core().measure_host()) if machine.cpus().usable > 1 else {
        "Tc_per_byte": 2e-5, "To": 0.01, "To_per_byte": 2e-5, "line": 0.05, "call": 0.3}
    path = tmp_path / "net.toml"
    path.write_text(network.profile(terms, host, "net", "a test"))
    cells = {(op, size): sim.simulate(op, alg, str(path), 2, size=max(size, 4), repeat=8)["us"]
             for op, alg in network.FORCED.items() for size in (network.LOW, network.HIGH)}
    cells |= {(op, network.SMALL): 20.0 + 1000.0 / window for op, window in network.WINDOWS.items()}
    found = network.fit(cells, host)
    assert found == pytest.approx(terms, rel=0.02)
    with pytest.raises(Failure, match="describe no network"):
        network.fit({**cells, **{("barrier", size): 1.0 for size in (network.LOW, network.HIGH)}}, host)


def test_dedicated_processors_are_explained_for_every_size():
    """Their simulation combines doubles; other sizes are as the next whole ones."""
    rows = {size: next(row for row in explain.candidates("allreduce", size, 2, 1, "infiniband") if row["alg"] == "dcp")
            for size in (4, 8)}
    assert rows[4]["us"] == rows[8]["us"] > 0


def test_the_module_can_be_called_and_gives_arrays():
    pytest.importorskip("numpy")
    result = tutti.sim("allreduce", "degree_k:degree=3", nodes=[4, 16], bytes=[4, 64, 1024])
    assert result["us"].shape == (2, 3)
    assert result["us"][1, 0] == sim.simulate("allreduce", "degree_k:degree=3", "via2003", 16)["us"]
    assert [len(times) for times in result["per_rank_us"]] == [4, 4, 4, 16, 16, 16]


def test_pictures_are_written(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    plot, timeline = tmp_path / "plot.svg", tmp_path / "timeline.svg"
    code, _, _ = run(["sim", "bcast", "--alg", "binomial,sendrecv_binomial", "--nodes", "4,8,16", "--plot", str(plot)], capsys)
    assert code == 0
    code, _, _ = run(["sim", "bcast", "--alg", "binomial", "--nodes", "8", "--timeline", str(timeline)], capsys)
    assert code == 0
    for path in (plot, timeline):
        assert xml.etree.ElementTree.parse(path).getroot().tag.endswith("svg")


def test_goal_has_every_message_twice_and_requires_what_came_before():
    messages = sim.simulate("bcast", "binomial", "via2003", 8, trace=True)["messages"]
    assert len(messages) == 7 and all(posted < visible for *_, posted, visible in messages)
    text = output.goal(messages, 8)
    assert text.startswith("num_ranks 8\n") and text.count("send 4b") == text.count("recv 4b") == 7
    rank1 = text.split("rank 1 {")[1].split("}")[0].split("\n")
    assert rank1[1].startswith("l1: recv 4b from 0") and "l2 requires l1" in rank1


def test_jitter_costs_something_and_is_the_same_again():
    rows = jitter.measure("via2003", "degree_k:degree=3", 16, 8, 200.0, (2000.0, 50.0), 0.0, 2)
    by = {row["progress"]: row for row in rows}
    assert by["blocking"]["cost"] > 0 and by["host"]["us"] > by["host"]["quiet_us"]
    assert by["dedicated"]["us"] >= by["dedicated"]["quiet_us"] > 200.0
    assert jitter.measure("via2003", "degree_k:degree=3", 16, 8, 200.0, (2000.0, 50.0), 0.0, 2) == rows
