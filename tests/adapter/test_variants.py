"""The contract test, and an MPI program, on Soft-RoCE that behaves as other adapters may (README.md).

Each case ends in time: with the right data, or with an error that names host, rank, device and what is
wrong. A warning that the job goes on without something counts as right.
"""

import json
import os
import re

import pytest

from harness import strict
from harness.programs import judge, sh

pytestmark = pytest.mark.long

LIMIT_S = 60
AT_ONCE_S = 20  # for what ends with an error: sooner than any timeout of weir's

SOAK = "random_soak --messages 600"
READS = "large_traffic --rounds 1 --bytes 2M --ring-bytes 2M"
OSC_OVER_WEIR = "--mca osc rdma,sm --mca osc_rdma_btls weir"
SLOW = "-*MemoryOfABurst*:*TheWindowGrows*"  # they wait for limit events that come in time


def case(variant, what, name="", says=(), never=()):
    return pytest.param(variant, what, says, never, id=re.sub(r":\d+", "", variant) + (f": {name}" if name else ""))


def watched(library, variant):
    """The environment that preloads the variant, and before it the rules of all adapters."""
    # Where no post succeeds, weir cannot know which completions may still come.
    off = ["polled_after_destroy"] if variant == "device-fatal" else []
    return [f"{name}='{value}'" for name, value in strict.environment(library, off=off).items()]


def contract(variant, tests, library):
    """The command of the contract's test with the variant."""
    return f"ADAPTER={variant} {' '.join(watched(library, variant))} rxe_contract_test --gtest_filter='{tests}'"


def job(variant, program, library, rank, np=2):
    """The command of a job whose rank has the variant; None: all have it."""
    return (f"mpirun -np {np} --oversubscribe --mca pml ob1 --mca btl weir,self -x {' -x '.join(watched(library, variant))} "
            f"{f'-x ADAPTER={variant}' if variant else ''} {'' if rank is None else f'-x ADAPTER_RANK={rank}'} "
            f"{program}")


@pytest.fixture
def library(build):
    return os.path.join(build, "mpi", "adapter.so")


@pytest.fixture
def run(build, tmp_path):
    """run(command, limit_s=LIMIT_S) in a shell."""
    return lambda command, limit_s=LIMIT_S: sh(command, build, tmp_path, limit_s)


@pytest.mark.lab("loopback")
@pytest.mark.parametrize("variant, tests, says, never", [
    case("limit-at-once", "*"),
    case("limit-lost", SLOW),
    case("last-wqe-lost", "*"),
    case("completions-late:20", SLOW),
    case("completions-in-bursts:200", SLOW),
    case("completions-mixed", "*"),
    case("destroy-cleans", "*"),
    case("destroy-cleans,completions-late:20", SLOW),
    case("destroy-cleans", "*AnUnreadPeer*", "unread messages"),
    case("destroy-cleans,flushes-late", "*"),
    case("destroy-cleans,flushes-late", "*AnUnreadPeer*", "unread messages"),
    case("no-inline", "*"),
    case("one-read", "-*StartNoMoreReads*"),
    case("no-atomics", "*"),
    case("fork-unprotected", "*AForkHarmsNoTraffic", says=["a fork, and registered pages stayed"]),
])
def test_the_contract_holds(variant, tests, says, never, library, run):
    """In the test of the contract."""
    done = run(contract(variant, tests, library))
    # A filter that matches nothing is no success.
    judge(done, True, [r"(?m)^\[  PASSED  \] [1-9]\d* tests?\.$", *says], never)


@pytest.mark.lab("loopback")
@pytest.mark.parametrize("variant, tests, says, never", [
    case("post-srq-recv-fails", "*OneDirectionAlone*", says=["rxe0:1 failed: it refuses receive buffers"]),
    case("cq-error:10", "*OneDirectionAlone*", says=["rxe0:1 failed: CQ error"]),
])
def test_the_engine_ends_and_says_why(variant, tests, says, never, library, run):
    """In the test of the contract, which fails then."""
    judge(run(contract(variant, tests, library), AT_ONCE_S), False, says, never)


@pytest.mark.lab("loopback")
@pytest.mark.parametrize("variant, program, says, never", [
    pytest.param("", SOAK, (), (), id="nothing: the library itself"),
    case("limit-lost", SOAK),
    case("completions-late", SOAK),
    case("completions-in-bursts", SOAK),
    case("completions-mixed", SOAK),
    case("flushes-late:30000", SOAK, "later than we wait"),
    case("no-inline", SOAK),
    case("one-read", READS),
    case("one-read", "rma_atomics", "atomics"),
    case("arm-fails", SOAK, "says so once",
         says=[r"weir: rank 0 on host \w+: rxe0:1 has no limit event .*Invalid argument"],
         never=[r"(?s)has no limit event.*has no limit event"]),
    case("port-error", SOAK, "says so", says=["rxe0:1 went down", "rxe0:1 is active again"]),
    case("relaxed-refused", READS, "registers without", says=["relaxed ordering is refused"]),
    case("path-forgets", f"-x OMPI_MCA_btl_weir_service_level=3 -x OMPI_MCA_btl_weir_traffic_class=104 {READS}",
         "what is set", says=["a path with service level 3, traffic class 104"],
         never=["a path with service level 0", "traffic class 0"]),
    case("registration-fails:14", READS, "copies instead",
         says=[r"rank 0 on host \w+: cannot register memory of the application \(Cannot allocate "
               r"memory\): such messages are copied"]),
    case("post-send-fails", SOAK, "survived",
         says=[r"weir: rank \d on host \w+: rxe0:1 refuses work requests of a queue pair "
               r"\(Cannot allocate memory\)", r"were made again, the last to rank \d, after \d+ ms"]),
    case("pair-fatal", SOAK, "survived",
         says=[r"weir: rank \d on host \w+: a connection of rxe0:1 broke", r"were made again, the last to rank \d"]),
])
def test_a_job_goes_on(variant, program, says, never, library, run):
    """Rank 0 has the variant, for that rank tells."""
    judge(run(job(variant, program, library, 0)), True, [r"(?m)^\w+: ok\b", *says], never)


# Of rdma-core's providers those that can carry weir, as variants.c plays them. All ranks have one.
NAMES = ["mlx5", "mlx4", "bnxt_re", "irdma", "hns", "qedr", "pvrdma"]
PROFILES = pytest.mark.parametrize("profile", NAMES)
NOTHING_BREAKS = [r"weir: rank .* broke", "refuses"]


@pytest.mark.lab("loopback")
@pytest.mark.long(seconds=15)
@PROFILES
def test_the_contract_holds_with_a_provider(profile, library, run):
    asked_for_paths = ":*AllTakeTheTrafficClass*"  # of queue pairs, and mlx5 forgets
    done = run(contract(profile, SLOW + asked_for_paths, library), 2 * LIMIT_S)
    judge(done, True, [r"(?m)^\[  PASSED  \] [1-9]\d* tests?\.$"])


@pytest.mark.lab("loopback")
@pytest.mark.parametrize("program, profile", [
    pytest.param(program, name, id=f"{program.removeprefix(OSC_OVER_WEIR).split()[0]}-{name}")
    for program in (SOAK, f"{OSC_OVER_WEIR} rma_atomics --count 8 --long 5000") for name in NAMES])
def test_a_provider_carries(program, profile, library, run):
    judge(run(job(profile, program, library, None)), True, [r"(?m)^\w+: ok\b"], NOTHING_BREAKS)


@pytest.mark.lab("loopback")
@pytest.mark.long(seconds=40)
@pytest.mark.parametrize("profile", ["bnxt_re", "mlx5", "pvrdma"])
def test_twenty_ranks_meet_on_a_provider(profile, library, run):
    """More than a completion queue is made for, and most of these cannot resize it."""
    judge(run(job(profile, "alltoall_mem --rounds 2", library, None, np=20), 3 * LIMIT_S), True,
          ["alltoall_mem: ok"], NOTHING_BREAKS)


@pytest.mark.lab("wire")
@pytest.mark.long(seconds=12)
@PROFILES
def test_an_outage_on_a_provider(profile, library, run):
    """Of 3 s, beside computation. Soft-RoCE sends frames twice then, which weir expects of its vendor alone."""
    ranks = " : ".join(job(f"{profile},vendor:0xffffff", f"-x OMPI_MCA_btl_weir_device=rxe0{end} {SOAK}", library,
                           None, np=1).removeprefix("mpirun ") for end in "ab")
    done = run("(sleep 1; lab-wire blackout; sleep 3; lab-wire restore) & mpirun " + ranks)
    judge(done, True, [r"(?m)^random_soak: ok\b"])


@pytest.mark.lab("loopback")
def test_a_job_goes_on_without_atomics(library, run):
    """no-atomics, for both ranks: they have to agree."""
    judge(run(job("no-atomics", READS, library, None)), True, ["large_traffic: ok"])


def failed(what):
    """The user reads that of the adapter, and what to do; rank 1 has it."""
    return [rf"weir: rank 1 on host \w+: rxe0:1 failed: {what}.*dmesg"]


NO_BUFFERS = r"it refuses receive buffers \(Cannot allocate memory\)"


@pytest.mark.lab("loopback")
@pytest.mark.parametrize("variant, program, says, never", [
    case("few-queue-pairs", READS,
         says=[r"rank 1 on host \w+: cannot make a second queue pair .* has 1 of 2 queue pairs \(max_qp\)",
               r"lost rank [01] on host \w+ \(device rxe0:1\)"]),
    case("queue-pairs-gone", SOAK,
         says=[r"rank 1 on host \w+: cannot create a queue pair on rxe0:1: Cannot allocate memory; the "
               r"device allows \d+ for all processes \(max_qp\), and this one has 0"]),
    case("small-cq", SOAK,
         says=[r"rank 1 on host \w+: a completion queue of rxe0:1 needs \d+ entries; the device allows 300 "
               r"\(max_cqe\)\. Lower"]),
    case("registration-fails:4", SOAK, "at the start",
         says=[r"cannot start: cannot register \d+ KiB of memory with rxe0:1: Cannot allocate memory"]),
    case("post-srq-recv-fails", SOAK, says=failed(NO_BUFFERS)),
    case("post-srq-recv-fails:1", SOAK, "the first", says=failed(NO_BUFFERS)),
    case("cq-error", SOAK, says=failed("CQ error")),
    case("srq-error:10", SOAK, says=failed("SRQ catastrophic error")),
    case("device-fatal", SOAK,
         says=[r"rank 1 on host \w+: rxe0:1 (failed: local catastrophic error|refuses work requests)"]),
    case("device-gone", SOAK, says=failed("it was removed")),
    case("poll-fails", SOAK, says=failed("its completion queue cannot be read")),
])
def test_a_job_ends_and_says_why(variant, program, says, never, library, run):
    """Rank 1 has the variant."""
    judge(run(job(variant, program, library, 1), AT_ONCE_S), False, says, never)


@pytest.mark.lab("loopback")
@pytest.mark.parametrize("profile, why", [("mana", r"no shared receive queues \(max_srq is 0\)"), ("erdma", "iWARP")])
def test_a_provider_is_declined(profile, why, library, run):
    judge(run(job(profile, "ring", library, None), AT_ONCE_S), False,
          [rf"weir: not available on host \w+: no usable RDMA port .*rxe0:1 \({why}"])


@pytest.mark.lab("loopback")
def test_the_adapter_report_tells_of_habits(library, run):
    """What weir's authors read to know of an adapter that they do not have."""
    def habits(profile):
        done = run(f"{f'ADAPTER={profile} LD_PRELOAD={library} ' if profile else ''}weir doctor --adapter-report 2>&1 "
                   "| sed '/^adapter: /d'")
        judge(done, True, [])
        return json.loads(done.stdout)["habits"]

    ours, bnxt, qedr = habits(""), habits("bnxt_re"), habits("qedr")
    assert ours["completion_queue"]["resize"] == "0"
    assert bnxt["completion_queue"]["resize"].startswith("95: ")
    assert ours["inline_data"]["256"]["has"] == 256 and bnxt["inline_data"]["256"] == "no errno"
    assert ours["srq_limit"]["when_empty"] == [] and "SRQ catastrophic error" in qedr["srq_limit"]["when_empty"]
    for one in ours, bnxt, qedr:
        queue = one["send_queue"]
        assert queue["posted"] >= queue["asked"] and queue["flushed"] == queue["posted"]


@pytest.mark.lab("loopback")
def test_a_rank_that_cannot_have_queues_is_left_to_tcp(library, run):
    """no-receive-queue. Its peers would wait for it, and end the job, if it had published an address."""
    command = job("no-receive-queue", "ring", library, 1).replace("weir,self", "weir,tcp,self")
    judge(run(command, AT_ONCE_S), True,
          [r"weir: rank 1 on host \w+: cannot start: cannot create a shared receive queue", "ring: ok"])


@pytest.mark.lab("rails")
def test_a_second_rail_that_cannot_have_queues_is_left_out(library, run):
    says = [r"weir: has 1 of 2 rails: rxe1:1 cannot be used: cannot create a shared receive queue", "large_traffic: ok"]
    judge(run(job("no-receive-queue:2", f"--mca btl_weir_device rxe0,rxe1 {READS}", library, None)), True, says)


@pytest.mark.lab("loopback")
def test_info_shows_the_inline_data_that_the_plugin_gets(library, run):
    judge(run(f"ADAPTER=bnxt_re LD_PRELOAD={library} weir info"), True, [r"max_inline +96 "])


# The traffic class of the node's administrator, and those of the user, are on the second lane, too.

@pytest.fixture
def traffic_class_96_of_the_node(run):
    """As the administrator sets it for all that asks the connection manager."""
    device = "/sys/kernel/config/rdma_cm/rxe0"
    judge(run(f"mount -t configfs none /sys/kernel/config && mkdir {device} && "
              f"echo 96 >{device}/ports/1/default_roce_tos"), True, [])
    yield
    judge(run(f"echo 0 >{device}/ports/1/default_roce_tos; rmdir {device}; umount /sys/kernel/config"), True, [])


@pytest.mark.lab("loopback")
def test_both_lanes_take_the_traffic_class_of_the_node(traffic_class_96_of_the_node, library, run):
    """path-forgets: the default of the node."""
    judge(run(job("path-forgets", READS, library, 0)), True,
          ["large_traffic: ok", "(?s)a path with .*traffic class 96.*a path with .*traffic class 96"],
          ["a path with .*traffic class 0"])


@pytest.mark.lab("wire")
def test_a_traffic_class_is_in_every_packet(root, run):
    """A traffic class is in every packet; each rank has an end of the wire."""
    start = "mpirun --mca pml ob1 --mca btl weir,self --mca btl_weir_traffic_class 104"
    ranks = " : ".join(f"-np 1 -x OMPI_MCA_btl_weir_device=rxe0{end} {READS}" for end in "ab")
    done = run(f"{root}/tests/adapter/tos w0a {start} {ranks}")
    judge(done, True, ["large_traffic: ok", r"(?m)^TOS 104: [1-9]\d{2,} packets$"])
