# Copyright (c) 2026, the tutti authors
#
# SPDX-License-Identifier: BSD-3-Clause

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Tutti(CMakePackage):
    """One-sided communication for the MPI you already have: an interposer that runs an MPI program's collectives by
    remote memory access, without compiling the program or replacing its MPI."""

    license("BSD-3-Clause")

    # There is no archive to download yet: `spack develop --path CHECKOUT tutti@0.1.0` gives it the sources.
    version("0.1.0")

    variant("python", default=True, description="The command tutti; without it a job script preloads the library itself")
    variant("verbs", default=True, description="The network over RDMA devices")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")

    # Headers only; libfabric is opened at run time, the MPI's own first.
    depends_on("highway@1:", type="build")
    depends_on("tomlplusplus@3:", type="build")
    depends_on("libfabric@1.17:")
    depends_on("libsodium@1.0.18:")
    depends_on("zlib@1.2:")
    depends_on("rdma-core", when="+verbs")

    with when("+python"):
        depends_on("python@3.10:", type=("build", "run"))
        depends_on("py-nanobind@2.4:", type="build")
        depends_on("py-typer@0.12:", type=("build", "run"))
        depends_on("py-rich@13:", type=("build", "run"))

    # Coroutines.
    conflicts("%gcc@:10", msg="tutti needs gcc 11 or newer")
    conflicts("%clang@:13", msg="tutti needs clang 14 or newer")

    generator("ninja")

    def cmake_args(self):
        return [
            self.define_from_variant("TUTTI_PYTHON", "python"),
            self.define_from_variant("TUTTI_VERBS", "verbs"),
            self.define("TUTTI_TESTS", False),
        ]

    def setup_run_environment(self, env):
        if self.spec.satisfies("+python"):
            env.set("TUTTI_ROOT", self.prefix)

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        if self.spec.satisfies("+python"):
            Executable(self.prefix.bin.tutti)("info")
