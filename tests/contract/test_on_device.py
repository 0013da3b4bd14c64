"""GoogleTest programs on real queue pairs and real pages."""

import os

import pytest

from harness import arm, google_test, strict

LIMIT_S = 570

# The rules of adapter/strict that they break, to see what comes of it.
BROKEN = {"registration_contract_test": ["remote_region"], "rxe_rdma_test": ["remote_region", "atomic_alignment"]}

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def check(build, tmp_path, record_property):
    """check(program): runs it, of this build or, with "asan" or "tsan", of the one beside it."""
    def check(program, sanitizer="", to_build="cmake --build build"):
        directory = os.path.join(os.path.dirname(build), f"build-{sanitizer}") if sanitizer else build
        tests = google_test.check(os.path.join(directory, "bin", program), tmp_path, LIMIT_S, to_build,
                                  {} if sanitizer else strict.environment(off=BROKEN.get(program, ())))
        record_property("tests", tests)
    return check


@pytest.mark.lab("loopback")
@pytest.mark.parametrize("program", ["rxe_contract_test", "registration_contract_test", "rxe_rdma_test"])
def test_on_device(program, check):
    """The contract on real queue pairs, registration on real pages, RDMA on real queue pairs."""
    check(program)


@pytest.mark.lab("loopback")
def test_what_only_root_can_try(build, tmp_path):
    """On a host these may be skipped: they mount a /proc, and make a time namespace."""
    google_test.check(os.path.join(build, "bin", "unit_flowctl_processes"), tmp_path, LIMIT_S,
                      env={"GTEST_FILTER": "*.LivesWhereProcHidesIt:*.PrivateByTimeNamespace"})


@pytest.mark.lab("Linux 6.12")
@pytest.mark.parametrize("program", ["rxe_contract_test", "rxe_rdma_test"])
def test_on_the_next_kernel(program, check):
    """Whose rxe works in other threads and in another order."""
    check(program)


@pytest.mark.lab("ARM")
@pytest.mark.parametrize("program", arm.CONTRACTS)
def test_on_arm(program, check):
    check(program)


@pytest.mark.long(seconds=30)
@pytest.mark.lab("16 MiB of locked memory")
def test_registration_with_little_locked_memory(check):
    check("registration_contract_test")


@pytest.mark.sanitize
@pytest.mark.lab("loopback")
@pytest.mark.parametrize("sanitizer, options", [
    pytest.param("asan", "address,undefined", marks=pytest.mark.long(seconds=60)), ("tsan", "thread")])
def test_contract_under_sanitizers(sanitizer, options, check):
    """The contract on real queue pairs, address and thread sanitizer."""
    check("rxe_contract_test", sanitizer,
          f"cmake -S . -B build-{sanitizer} -G Ninja -DWEIR_SANITIZE={options} -DCMAKE_BUILD_TYPE=Debug && "
          f"cmake --build build-{sanitizer} --target rxe_contract_test")
