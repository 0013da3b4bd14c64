"""MPI programs over the plugin that is built with the address sanitizer. The programs and Open MPI are not, so
libasan is preloaded; what of weir's is left behind is said by check_leaks."""

import os
import re
import shlex
import subprocess

import pytest

from harness.mpirun import LEAK, mpirun
from harness.programs import judge, sh
from mpi.cases import OSC_OVER_WEIR
from mpi.jobs import write_plan

LIMIT_S = 270

pytestmark = [pytest.mark.sanitize, pytest.mark.lab("loopback")]

MESSAGES = ["pt2pt_modes --largest 70000", "bigmix --rounds 1 --largest 2M", "unexpected_flood --count 300",
            "random_soak --messages 200", "wildcards --messages 20"]
ONE_SIDED = ["rma_sync --rounds 1", "rma_data", "rma_atomics --count 20 --long 2000",
             "large_memory --rounds 1"]


def job(name, np, programs, *mca, multiple=False, long=False):
    return pytest.param(np, programs, mca, multiple, id=name, marks=[pytest.mark.long(seconds=25)] if long else [])


@pytest.fixture
def sanitized(build):
    """Where the plugin with the address sanitizer is."""
    directory = os.path.join(os.path.dirname(build), "build-asan")
    if not os.path.exists(os.path.join(directory, "lib", "openmpi", "mca_btl_weir.so")):
        pytest.fail(f"{directory} lacks the plugin: cmake -S . -B build-asan -G Ninja "
                    "-DWEIR_SANITIZE=address,undefined -DCMAKE_BUILD_TYPE=Debug && "
                    "cmake --build build-asan --target mca_btl_weir", pytrace=False)
    return directory


@pytest.mark.parametrize("np, programs, mca, multiple", [
    job("messages", 3, MESSAGES),
    job("one-sided", 2, ONE_SIDED, *OSC_OVER_WEIR, long=True),
    job("threads beside the overlap thread", 2, ["threads --threads 2 --rounds 5", "bigmix --rounds 1 --largest 2M"],
        ("btl_weir_overlap", "all"), multiple=True, long=True),
    job("servers and few tokens", 4, ["unexpected_flood --count 200", "collectives --largest 4000", *MESSAGES[1:2]],
        ("btl_weir_admission", "always"), ("btl_weir_tokens", "3"), ("btl_weir_proxy_servers", "1"),
        ("mpi_yield_when_idle", "1"), long=True),
    job("in trains", 3, ["pt2pt_modes --largest 70000", "unexpected_flood --bytes 20000 --count 100"],
        ("btl_weir_eager_max", "64KiB"), long=True),
    job("few connections", 4, ["alltoall_mem --rounds 2"], ("btl_weir_connections_max", "2"), long=True),
])
def test_plugin_under_asan(np, programs, mca, multiple, sanitized, build, root, tmp_path):
    """Every path of a message, its memory watched."""
    plugin = os.path.join(sanitized, "lib", "openmpi", "mca_btl_weir.so")
    linked = subprocess.run(["ldd", plugin], capture_output=True, text=True, check=True).stdout
    libasan = re.search(r"=> (\S*libasan\S*)", linked)
    assert libasan, f"{plugin} is not built with the address sanitizer"
    plan = write_plan(tmp_path, [(np, program) for program in programs])
    options = "detect_leaks=0:abort_on_error=1:detect_stack_use_after_return=0"
    command = [*mpirun(mca, watched=False), "-x", f"LD_PRELOAD={libasan[1]}", "-x", f"ASAN_OPTIONS={options}",
               "-x", "UBSAN_OPTIONS=print_stacktrace=1", "-n", str(np),
               "mpi_tests", "--plan", plan, *(["--multiple"] if multiple else [])]
    environment = shlex.join([os.path.join(root, "tools", "env"), "--build", sanitized])
    done = sh(f'eval "$({environment})" && {shlex.join(command)}', build, tmp_path, LIMIT_S)
    judge(done, True, [rf"^{program.split()[0]}: ok" for program in programs],
          [r"AddressSanitizer", r"runtime error", LEAK.pattern])
