# Spack's recipe: copy it to weir/package.py of a repository of yours ('spack repo create'), and say where the
# tarball of packaging/make-tarball is, or build a checkout: spack dev-build weir@main.
from spack.package import *


class Weir(CMakePackage):
    """RDMA transport for Open MPI that never floods the receiver: a BTL over RC verbs."""

    maintainers = []
    license("BSD-3-Clause")

    version("main")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("help2man", type="build")
    depends_on("openmpi@4.0:6")  # configured --with-devel-headers
    depends_on("rdma-core")
    depends_on("ucx")
    depends_on("hwloc")
    depends_on("yaml-cpp")
    depends_on("fmt")
    depends_on("cli11")
    depends_on("nlohmann-json")
    depends_on("python@3:", type=("build", "run"))

    conflicts("%gcc@:10", msg="weir is written in C++20")

    generator("ninja")

    def cmake_args(self):
        return [
            self.define("WEIR_TESTS", False),
            self.define("WITH_OPENMPI", self.spec["openmpi"].prefix),
            # In this package's own prefix: Open MPI's is another package's.
            self.define("WEIR_PLUGIN_DIR", "lib/openmpi"),
        ]

    def setup_run_environment(self, env):
        plugins = join_path(self.prefix.lib, "openmpi")
        env.set("OMPI_MCA_mca_base_component_path", f"SYS_DEFAULT:{plugins}:USER_DEFAULT")
