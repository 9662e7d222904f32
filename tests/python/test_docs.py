"""Every command line of README, start, the tutorials and the guides is run; what is not says why, and who runs it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "support"))
import pages  # noqa: E402

LIMIT_S = 100  # for a page, on a machine that is busy with other tests
CHECKED = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
# What pages say that a reader will see.
PROMISED = {
    "README.md": ["tutti: took over the collectives", "MPI_Allreduce"],
    "docs/start.md": ["tutti: took over the collectives"],
    "docs/tutorials/library.md": ["pi is about 3.141592653590"],
    "docs/tutorials/research.md": ["binomial"],
}


@pytest.fixture(scope="module")
def mpi():
    folder = ROOT / ".envs" / "mpich"
    if not (folder / "bin" / "mpicc").exists():
        pytest.skip("mpich is not installed in .envs (make test installs it)")
    return folder


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """An installed tree, for the pages that have one."""
    build = ROOT / "build" / "release"
    if not (build / "cmake_install.cmake").exists():
        pytest.skip("there is no build in build/release (make test makes it)")
    folder = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", str(build), "--prefix", str(folder)], check=True, capture_output=True)
    return folder


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.parametrize("page", pages.PAGES)
def test_commands(page, mpi, prefix, tmp_path):
    commands = [block for block in pages.blocks(page) if block.language == "sh" and not block.reason]
    if page == "docs/lab.md":
        assert not commands, "a lab needs root: mark its commands"
        return
    output = pages.run(commands, pages.workspace(tmp_path, mpi), mpi, LIMIT_S, PREFIX=str(prefix))
    for promise in PROMISED.get(page, []):
        assert promise in output, output[-4000:]


def test_a_command_that_fails_ends_its_page(tmp_path):
    commands = [pages.Block("x.md", line, "sh", text, "") for line, text in ((3, "true"), (7, "false"), (9, "true"))]
    with pytest.raises(AssertionError, match=r"(?s)exit status 1 after\n# x.md:3\n# x.md:7\n$"):
        pages.run(commands, tmp_path, tmp_path, LIMIT_S)


def test_who_runs_the_others():
    """A reason that names a test names one that there is; what needs root is run by the lab's tests."""
    marked = [block for page in pages.PAGES for block in pages.blocks(page) if block.reason]
    assert marked
    for block in marked:
        for path in re.findall(r"(?:tests|tools)/[\w/.-]+\w", block.reason):
            assert (ROOT / path).exists(), f"{block.page}:{block.line}: there is no {path}"
        assert ("tutti lab" in block.text) == (block.reason == "needs root; run by tests/lab/test_lab_docs.py"), block


def test_no_command_hides_between_other_fences():
    """A command line that a reader may type stands in an `sh` block, where it is run."""
    for page in pages.PAGES:
        for block in pages.blocks(page):
            if block.language != "sh":
                assert not re.search(r"^(sudo )?(tutti|mpiexec|make|TUTTI_\w+=\S+ tutti) ", block.text, re.MULTILINE), (
                    f"{page}:{block.line}")
        assert not re.search(r"^    (sudo )?(tutti|make|mpiexec) ", (ROOT / page).read_text(), re.MULTILINE), page


def test_c_of_the_tutorials_compiles(tmp_path):
    found = [block for page in pages.PAGES for block in pages.blocks(page) if block.language == "c"]
    assert len(found) >= 2
    for number, block in enumerate(found):
        source = tmp_path / f"block{number}.c"
        source.write_text(block.text)
        answer = subprocess.run(["cc", "-std=c11", *CHECKED, f"-I{ROOT / 'include'}", str(source)], capture_output=True,
                                text=True, check=False)
        assert answer.returncode == 0, f"{block.page}:{block.line}\n{answer.stderr}"


def test_the_algorithm_of_the_tutorial_compiles():
    source = ROOT / "examples" / "algorithm" / "chain.cpp"
    shown = [block.text for block in pages.blocks("docs/tutorials/research.md") if block.language == "cpp"]
    assert shown == [source.read_text().rstrip("\n")], "the page must show examples/algorithm/chain.cpp"
    (commands,) = [block.text for block in pages.blocks("docs/tutorials/research.md") if "algorithms.inc" in block.text]
    listed = re.search(r"sed -i '(.+)' (\S+)", commands)
    edited = subprocess.run(["sed", listed[1], str(ROOT / listed[2])], capture_output=True, text=True, check=True).stdout
    assert "\nTUTTI_ALGORITHM(bcast_chain)\n" in edited
    answer = subprocess.run(["c++", "-std=c++20", *CHECKED, f"-I{ROOT / 'src'}", str(source)], capture_output=True, text=True,
                            check=False)
    assert answer.returncode == 0, answer.stderr


def anchors(text):
    """The anchors of a page's headings, as repository browsers and the site make them."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", title) for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "bench/README.md"])
def test_links_of_the_pages_outside_of_the_site(page):
    """Those of docs/ are checked by `make docs`."""
    targets = re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text())
    assert targets
    for target in targets:
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        assert file.exists(), f"{page}: {target}"
        assert not anchor or anchor in anchors(file.read_text()), f"{page}: {target}"


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    """Links and anchors inside the site among them."""
    python = ROOT / ".envs" / "docs" / "bin" / "python"
    if not python.exists():
        pytest.skip("there is no .envs/docs (tools/setup docs makes it)")
    answer = subprocess.run([str(python), "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)], cwd=ROOT,
                            capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "one-sided" in (tmp_path / "index.html").read_text().lower()
    assert (tmp_path / "source" / "include" / "tutti" / "tutti.h.txt").exists()


def test_the_screenshots_are_small():
    found = list((ROOT / "docs" / "pictures").glob("*.png"))
    assert len(found) == 3
    assert all(Path(path).stat().st_size < 200_000 for path in found)
