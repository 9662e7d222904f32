"""What `tutti where` finds out by itself: where a call in another process comes from, and whose child a process is."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from tutti.where import processes
from tutti.where.sites import Sites

SOURCE = """#include <stdio.h>
__attribute__((noinline)) static void* here(void) { return __builtin_return_address(0); }
int main(void) {
  printf("%lu\\n",
         (unsigned long)here()); /* line 5 */
  fflush(stdout);
  getchar();
  return 0;
}
"""


@pytest.mark.parametrize("options,line", [(["-g", "-pie"], True), (["-g", "-no-pie"], True), ([], False)])
def test_sites_of_another_process(tmp_path, options, line):
    if shutil.which("addr2line") is None and line:
        pytest.skip("addr2line is not installed")
    (tmp_path / "site.c").write_text(SOURCE)
    subprocess.run(["cc", "-O0", *options, "-o", "site", "site.c"], cwd=tmp_path, check=True)
    with subprocess.Popen([tmp_path / "site"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        address = int(process.stdout.readline())
        text, plain = (Sites(source=source).text(process.pid, "S", address) for source in (True, False))
        gone = Sites().text(process.pid, "X", address)
        process.communicate("\n")
    assert plain.startswith("site+0x")
    assert text == (f"site.c:5 ({plain})" if line else plain)
    assert gone == "" and Sites().text(process.pid, "S", address) == ""


def test_an_address_outside_of_all_modules_has_no_site():
    assert Sites().text(os.getpid(), "R", 1) == ""
    assert Sites().text(os.getpid(), "R", 0) == ""


def test_ancestors_are_the_processes_that_one_comes_from():
    with subprocess.Popen(["sleep", "60"]) as child:
        line = processes.ancestors(child.pid)
        child.kill()
    assert {child.pid, os.getpid(), os.getppid()} <= line


def test_segments_of_processes_that_are_none_of_tuttis_are_left_alone():
    descriptor = os.memfd_create("tutti-not")
    other = os.memfd_create("other")
    try:
        own = {f"/proc/{os.getpid()}/fd/{number}" for number in (descriptor, other)}
        assert not own & set(processes.segments().paths)
    finally:
        os.close(descriptor)
        os.close(other)


def test_a_segment_that_is_none_is_no_job():
    from tutti import native

    descriptor = os.memfd_create("tutti")
    try:
        os.write(descriptor, b"tutti" * 10000)
        path = f"/proc/{os.getpid()}/fd/{descriptor}"
        assert path in processes.segments().paths
        assert native.core().copy_records([path, "/nowhere"], lambda *_: 0) == []
    finally:
        os.close(descriptor)
