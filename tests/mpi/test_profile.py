"""The report's profile: where a program's time goes by call site, who is late, and what is waiting for late ranks, as text,
JSON and a page for browsers."""

from __future__ import annotations

import html.parser
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import mpis
import pytest

RANKS, ROUNDS = 4, 20
LATE_S = 0.02
TWO = ["mpich", "openmpi"]
KINDS = pytest.mark.parametrize("mpi", [*TWO, pytest.param("impi", marks=pytest.mark.long)])


def run(program, mpi_name: str, settings: dict[str, str], *arguments: int, ranks: int = RANKS) -> mpis.Result:
    mpi = mpis.MPIS[mpi_name]
    result = mpis.start(mpi, ranks, [program(mpi, "late.c"), *map(str, arguments or (ROUNDS,))], True, settings)
    assert result.status == 0 and "ended" in result.text, result.text[-3000:]
    return result


def profile(program, mpi_name: str, folder: Path, *arguments: int, ranks: int = RANKS,
            settings: dict[str, str] | None = None) -> dict:
    path = folder / "report.json"
    run(program, mpi_name, {"TUTTI_REPORT": str(path), **(settings or {})}, *arguments, ranks=ranks)
    return json.loads(path.read_text())["profile"]


def site(found: dict, function: str) -> dict:
    """The only row of a place in the program; its functions are not exported, so rows are told apart by what they are."""
    call, members, least = {"small_sum": ("MPI_Allreduce", RANKS, 8), "large_sum": ("MPI_Allreduce", RANKS, 65536),
                            "gather": ("MPI_Gather", RANKS, 4), "meet": ("MPI_Barrier", RANKS // 2, None),
                            "pass_on": ("MPI_Sendrecv", RANKS, None)}[function]
    rows = [row for row in found["sites"]
            if (row["call"], row["members"], row["least_bytes"]) == (call, members, least)]
    assert len(rows) == 1, (function, found["sites"])
    return rows[0]


def check_late(found: dict) -> None:
    """Rank 2, for which three wait in the allreduce and one in the gather. The system may stop another rank once for longer
    than all of that, so what is asked is which rank is late each time, not which has cost most."""
    small, late = site(found, "small_sum"), found["ranks"][2]
    assert small["waiting"] >= 3 * ROUNDS * LATE_S * 0.9, small
    assert late["rank"] == 2 and late["caused"] >= 4 * ROUNDS * LATE_S * 0.9, found["ranks"]
    assert late["last"] >= 2 * ROUNDS * 0.9, found["ranks"]


@pytest.mark.mpi
@KINDS
def test_the_late_rank_is_named_and_the_others_wait(program, libraries, tmp_path, mpi):
    found = profile(program, mpi, tmp_path)
    assert found["exact"] and found["missed_calls"] == 0 and found["recorded_ranks"] == RANKS
    check_late(found)
    late = found["ranks"][2]
    assert late["compared"] == 5 * ROUNDS
    assert late["behind"] >= LATE_S * 2 / 5
    small, gather = site(found, "small_sum"), site(found, "gather")
    assert gather["waiting"] >= ROUNDS * LATE_S * 0.9
    for row in (small, gather):
        assert row["waiting"] > 0.8 * row["seconds_all"], row
        assert abs(row["waiting"] + row["transfer"] - row["seconds_all"]) < 1e-6
    assert gather["slowest_rank"] == 0 and gather["imbalance"] > 2
    assert late["waiting"] < min(rank["waiting"] for rank in found["ranks"] if rank["rank"] != 2)


@pytest.mark.mpi
@KINDS
def test_call_sites_communicators_and_sizes(program, libraries, tmp_path, mpi):
    found = profile(program, mpi, tmp_path)
    small, large, meeting = site(found, "small_sum"), site(found, "large_sum"), site(found, "meet")
    assert small["site"] != large["site"] and re.search(r"late-c\+0x[0-9a-f]+", small["site"])
    assert (small["calls"], small["bytes"], small["communicator"]) == (RANKS * ROUNDS, RANKS * ROUNDS * 8, "MPI_COMM_WORLD")
    assert (large["calls"], large["bytes"], large["most_bytes"]) == (2 * RANKS * ROUNDS, 2 * RANKS * ROUNDS * 65536, 65536)
    assert (meeting["calls"], meeting["communicator"]) == (RANKS * ROUNDS, "parity")  # both of that name
    message = site(found, "pass_on")
    assert message["calls"] == RANKS * ROUNDS and message["waiting"] is None and message["transfer"] is None
    communicators = {(row["name"], row["members"]): row for row in found["communicators"]}
    assert communicators["MPI_COMM_WORLD", RANKS]["collectives"] == 4 * ROUNDS
    assert communicators["parity", RANKS // 2]["collectives"] == 2 * ROUNDS
    for row in found["sites"]:
        assert row["seconds"] <= row["seconds_all"] + 1e-9 and row["imbalance"] >= 1 - 1e-9
        assert row["longest_call"] <= row["seconds"] + 1e-9 and 0 <= row["share"] <= 1
    names = ("waiting", "transfer", "other")
    parts = sum(found[part] for part in names)
    assert parts == pytest.approx(sum(row["seconds_all"] for row in found["sites"]), rel=1e-6)
    assert parts == pytest.approx(sum(rank[part] for rank in found["ranks"] for part in names), rel=1e-6)
    # Where a collective's waiting has gone is said in full.
    assert sum(rank["caused"] for rank in found["ranks"]) == pytest.approx(found["waiting"], rel=1e-6)


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", TWO)
def test_many_calls_are_counted_all_and_compared_in_part(program, libraries, tmp_path, mpi):
    calls = 100_000
    found = profile(program, mpi, tmp_path, 3, calls, ranks=2)
    assert not found["exact"] and found["missed_calls"] == 0
    many = next(row for row in found["sites"] if row["calls"] == 2 * calls)
    assert (many["call"], many["bytes"]) == ("MPI_Allreduce", 2 * calls * 4)
    assert many["waiting"] is not None and 0 < many["waiting"] < many["seconds_all"]
    world = next(row for row in found["communicators"] if row["name"] == "MPI_COMM_WORLD")
    assert 10_000 < world["compared"] < world["collectives"] == calls + 12
    # What is rare is compared nevertheless.
    assert all(row["waiting"] is not None for row in found["sites"] if row["call"] == "MPI_Gather")


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", TWO)
def test_what_was_saved_is_measured(program, libraries, tmp_path, mpi):
    path = tmp_path / "report.json"
    run(program, mpi, {"TUTTI_REPORT": str(path)}, 0, 200_000, ranks=2)
    whole = json.loads(path.read_text())
    row = whole["profile"]["sites"][0]
    against = [trial for trial in whole["trials"] if trial["against"] == "mpi" and trial["least_bytes"] == 4]
    by_mpi = [trial for trial in whole["trials"] if trial["taken"] == "mpi" and trial["least_bytes"] == 4]
    assert against or by_mpi, whole["trials"]
    if len(against) + len(by_mpi) > 1:
        assert row["saved"] is None  # they do not agree
    else:
        ratio = against[0]["ratio"] if against else 1
        assert row["saved"] == pytest.approx(row["transfer"] * (ratio - 1), rel=1e-3)
        assert whole["profile"]["saved"] == pytest.approx(row["saved"])


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", TWO)
def test_nothing_is_saved_without_trials(program, libraries, tmp_path, mpi):
    found = profile(program, mpi, tmp_path, settings={"TUTTI_CHOICE": "static"})
    assert all(row["saved"] is None for row in found["sites"]) and found["saved"] == 0


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", TWO)
def test_collectives_that_the_mpi_runs_are_compared_too(program, libraries, tmp_path, mpi):
    check_late(profile(program, mpi, tmp_path, settings={"TUTTI_ALG": "allreduce=mpi,gather=mpi", "TUTTI_P2P": "1"}))


# Of the ranks of a job: each pair on a node of its own, whose clocks are a thousand seconds ahead and a few behind.
APART = """rank=${PMI_RANK:-$OMPI_COMM_WORLD_RANK}
export TUTTI_NODE=n$((rank / 2))
[ $rank = 2 ] && exec unshare -T --monotonic 1000 "$@"
[ $rank = 3 ] && exec unshare -T --monotonic -20 "$@"
exec "$@"
"""


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", TWO)
def test_nodes_whose_clocks_differ(program, libraries, tmp_path, mpi):
    if subprocess.run(["unshare", "-T", "--monotonic", "9", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no time namespace can be made here")
    path, description = tmp_path / "report.json", mpis.MPIS[mpi]
    command = ["sh", "-c", APART, "sh", program(description, "late.c"), str(ROUNDS)]
    result = mpis.start(description, RANKS, command, True, {"TUTTI_REPORT": str(path), "TUTTI_NET": "on"})
    assert result.status == 0, result.text
    found = json.loads(path.read_text())["profile"]
    check_late(found)
    assert found["time_line"]["seconds"] < 60
    assert found["ranks"][2]["behind"] < 10 * LATE_S  # by its own clock it is far ahead


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", TWO)
def test_the_text_has_the_same(program, libraries, mpi):
    text = run(program, mpi, {"TUTTI_REPORT": "1"}).text
    share = re.search(r"^time in MPI by call site, of 4 x [\d.]+ s: ([\d.]+) % waiting for late ranks", text, re.MULTILINE)
    assert share and float(share[1]) > 30, text
    table = text[text.index("\nlate ranks, by all collectives"):].splitlines()
    assert re.match(r" +2 +\d+ \([\d.]+ %\) ", table[3]), text  # behind the title and its columns
    row = r"^ +[\d.]+ +[\d.]+ +[\d.]+ .* +80 +8 +MPI_Allreduce +MPI_COMM_WORLD +\S*late-c\+0x"
    assert re.search(row, text, re.MULTILINE), text


@pytest.mark.mpi
def test_without_a_recorder_it_says_so(program, libraries, tmp_path):
    path = tmp_path / "report.json"
    result = run(program, "mpich", {"TUTTI_REPORT": "1", "TUTTI_REPORT_JSON": str(path), "TUTTI_RECORDER": "off"})
    assert json.loads(path.read_text())["profile"] is None
    assert "time in MPI by call site" not in result.text


@pytest.mark.mpi
def test_a_file_that_cannot_be_written_is_said(program, libraries, tmp_path):
    result = run(program, "mpich", {"TUTTI_REPORT": str(tmp_path / "missing" / "report.html")}, 1)
    assert "cannot write the report to" in result.text and "No such file or directory" in result.text, result.text


# ---- the page


class Page(html.parser.HTMLParser):
    """What a page refers to, and whether its elements are closed."""

    VOID = {"meta", "link", "img", "br", "input", "hr"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        self.references += [value or "" for name, value in attributes if name in ("src", "href", "action", "data", "srcset")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)


def check_page(text: str) -> dict:
    """Stands by itself; gives the report in it."""
    page = Page(text)
    assert page.open == [] and page.references == []
    assert not re.search(r"(url|import)\s*\(|@import|fetch\(|XMLHttpRequest|https?://", text)
    script = "".join(page.scripts)
    start = script.index("const report = ") + len("const report = ")
    return json.JSONDecoder().raw_decode(script[start:])[0]


def browser() -> str | None:
    return next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)


def drawn(path: Path) -> str:
    """The page as a browser has it when its script has run, without that script."""
    command = [browser() or "", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", "--dump-dom",
               path.resolve().as_uri()]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert answer.returncode == 0, answer.stderr
    return re.sub(r"<script>.*?</script>", "", answer.stdout, flags=re.DOTALL)


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", TWO)
def test_the_page_stands_by_itself(program, libraries, tmp_path, mpi):
    path = tmp_path / "report.html"
    run(program, mpi, {"TUTTI_REPORT": str(path)})
    report = check_page(path.read_text())
    assert max(report["profile"]["ranks"], key=lambda rank: rank["caused"])["rank"] == 2
    if browser() is None:
        pytest.skip("no browser is installed (chromium), which would draw it")
    text = drawn(path)
    assert "<b>Rank 2</b> came last" in text
    assert text.count("<svg") == 4 and "Where each rank's time went" in text
    assert not re.search("NaN|undefined|Infinity", text)
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", text)]
    shown = [[row[0], *row[2:5]] for row in rows if len(row) > 4]  # without where it was called
    assert ["MPI_Allreduce", "MPI_COMM_WORLD", "8 B", str(RANKS * ROUNDS)] in shown


@pytest.mark.mpi
def test_a_page_of_a_report_in_json(program, libraries, tmp_path):
    path = tmp_path / "report.json"
    run(program, "mpich", {"TUTTI_REPORT": str(path)}, 2)
    answer = command("report", str(path))
    assert answer.returncode == 0 and answer.stdout.strip() == str(tmp_path / "report.html"), answer.stderr
    assert check_page((tmp_path / "report.html").read_text()) == json.loads(path.read_text())
    assert command("report", str(path), "--html", str(tmp_path / "other.html")).returncode == 0
    assert (tmp_path / "other.html").read_text() == (tmp_path / "report.html").read_text()


def command(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "tutti", *arguments], capture_output=True, text=True, timeout=90, check=False)


def test_what_is_no_report_is_said(tmp_path):
    old = {"tutti": "0.0.9", "rows": [], "waits": [], "trials": []}
    for name, content, message in [("text.json", "text", "is no JSON"), ("other.json", "[1]", "is no report of tutti's"),
                                   ("old.json", json.dumps(old), "written by tutti 0.0.9"), ("none.json", None, "No such file")]:
        if content is not None:
            (tmp_path / name).write_text(content)
        answer = command("report", str(tmp_path / name))
        assert answer.returncode == 2 and message in answer.stderr, (name, answer.stderr)
        assert answer.stderr.count("\n") == 1 and not list(tmp_path.glob("*.html"))
