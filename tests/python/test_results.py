"""`tutti bench report`: the pages of results are those of the data in bench/results, and say what the data say."""

import math
import shutil
import sys

import pytest
from conftest import ROOT

pytest.importorskip("tomllib", reason="the data are TOML files, which Python reads from 3.11 on")

from tutti.bench import report, summaries  # noqa: E402
from tutti.errors import UserError  # noqa: E402

DATA = ROOT / "bench" / "results"
PAGES = ROOT / "docs" / "results"


@pytest.fixture
def data(tmp_path):
    """A copy of the measurements, to be changed."""
    return shutil.copytree(DATA, tmp_path / "results")


def test_the_committed_pages_are_those_of_the_data():
    made = report.pages(DATA)
    assert sorted(made) == sorted(path.name for path in PAGES.glob("*.md"))
    stale = [name for name, text in made.items() if (PAGES / name).read_text() != text]
    assert not stale, "run tools/docs/generate.py"


def test_every_table_of_the_data_is_on_a_page():
    named = {f"{subject}/{table['name']}.csv" for subject in report.subjects(DATA)
             for table in report.read(DATA / f"{subject}.toml").get("table", []) if "name" in table}
    assert named == {str(path.relative_to(DATA)) for path in DATA.glob("*/*.csv")}
    assert {path.stem for path in DATA.glob("*.toml")} == {*report.subjects(DATA), "goals"}


def test_every_figure_has_a_command_and_a_date():
    for subject in report.subjects(DATA):
        for table in report.read(DATA / f"{subject}.toml").get("table", []):
            assert table["command"] and table["date"], (subject, table["title"])


def test_a_changed_cell_changes_its_page_and_the_check_says_so(data, tutti):
    shutil.copytree(PAGES, data.parent / "pages")
    assert tutti("bench", "report", "--data", str(data), "--out", str(data.parent / "pages"), "--check").status == 0
    cells = data / "start" / "init.csv"
    cells.write_text(cells.read_text().replace("2,Open MPI,1056,1067,10.8", "2,Open MPI,1056,1067,99.5"))
    answer = tutti("bench", "report", "--data", str(data), "--out", str(data.parent / "pages"), "--check")
    assert answer.status == 2
    assert "README.md, start.md" in answer.err
    answer = tutti("bench", "report", "--data", str(data), "--out", str(data.parent / "pages"))
    assert answer.status == 0
    assert "2 of them new or changed" in answer.out
    assert "| 99.5 |" in (data.parent / "pages" / "start.md").read_text()


def test_a_goal_is_met_or_not_by_its_cells(data):
    goal = "The demo, times as fast as alone, worst of six, idle machine"

    def met():
        return next(entry["met"] for entry in report.scores(data) if entry["goal"] == goal)

    assert met()
    cells = data / "programs" / "demo.csv"
    cells.write_text(cells.read_text().replace("idle,1.03", "idle,0.93"))
    assert not met()


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_means_beside_the_peers(ranks):
    """Computed again, the long way."""
    best = []
    for row in summaries.rows_of(DATA / "coll.csv"):
        if row["ranks"] == str(ranks):
            peers = [float(row[mpi]) for mpi in ("mpich", "openmpi", "impi")]
            ours = [float(row[f"tutti_{mpi}"]) for mpi in ("mpich", "openmpi", "impi")]
            best.append(min(peers) / min(ours))
    product = math.prod(best)
    row = next(row for row in summaries.collectives(DATA).rows if row[0] == str(ranks))
    assert row[1:3] == [f"{product ** (1 / len(best)):.2f}", f"{min(best):.2f}"]
    assert len(best) == 34


def test_each_mpi_against_itself():
    lost = sum(any(float(row["alone" + which]) < 0.97 * float(row["tutti" + which]) for which in ("", "_fastest"))
               for row in summaries.rows_of(DATA / "own.csv"))
    every = summaries.own(DATA).rows[-1]
    assert every[6:8] == [str(len(summaries.rows_of(DATA / "own.csv"))), str(lost)]
    assert sum(int(row[7]) for row in summaries.own(DATA).rows[:-1]) == lost


def test_numbers_have_commas_and_repeated_cells_are_left_out():
    table = summaries.Table(["a", "b"], [["x", "1234"], ["x", "12345.5"], ["y", "c5074f6"]])
    assert report.markdown(table, group=1).splitlines()[2:] == ["| x | 1,234 |", "|  | 12,345.5 |", "| y | c5074f6 |"]


def test_what_is_wrong_in_the_data_is_said(data, tutti, tmp_path):
    answer = tutti("bench", "report", "--data", str(tmp_path))
    assert answer.status == 2
    assert "has no goals.toml" in answer.err
    with (data / "goals.toml").open("a") as file:
        file.write('[[goal]]\ngoal = "x"\nat_most = 1\n'
                   'value = {table = "start/init", where = {ranks = "7"}, columns = ["more"]}\n')
    with pytest.raises(UserError, match="no cell of start/init.csv fits"):
        report.scores(data)
    (data / "start.toml").write_text("title = ")
    with pytest.raises(UserError, match="start.toml"):
        report.page(data, "start")


def test_generated_pages_and_pictures_are_up_to_date(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "docs"))
    import generate

    stale = [str(path) for path, text in generate.pages().items() if path.read_text() != text]
    for name in ("generate", "decisions", "pictures", "svg"):
        sys.modules.pop(name, None)
    assert not stale, "run tools/docs/generate.py"
