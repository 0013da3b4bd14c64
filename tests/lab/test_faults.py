"""MPI jobs where something is missing or wrong: the user is told what it is, with whom, and what to do."""

import pytest

from harness.programs import judge, sh

pytestmark = pytest.mark.long

LIMIT_S = 150

WEIR = "mpirun -np 2 --mca pml ob1 --mca btl weir,self"
MIXED = "mpirun -np 2 --mca pml ob1 --mca btl weir,tcp,self"
# Half of the ranks on each fabric.
HALVES = ("--mca pml ob1 --mca btl weir,tcp,self sh -c "
          "'export OMPI_MCA_btl_weir_device=rxe$((OMPI_COMM_WORLD_RANK / 2)); exec \"$0\" \"$@\"' "
          "ring --counters")


def works(name, lab, command, *says, never=(), succeeds=True, only_here=False):
    """A case of what is told: it says all of these texts, and never any of those."""
    return pytest.param(command, succeeds, says, never, id=name,
                        marks=[pytest.mark.lab(lab), *([pytest.mark.only_here] if only_here else [])])


def fails(*args, **options):
    return works(*args, **options, succeeds=False)


@pytest.mark.parametrize("command, succeeds, says, never", [
    fails("no device, weir alone: says so and ends", "no device", f"{WEIR} ring",
          r"weir", r"no RDMA device", r"rdma_rxe"),
    works("no device, tcp beside: says so and works", "no device", f"{MIXED} ring",
          r"no RDMA device", r"ring: ok"),
    works("no device, nobody asked: silent and works", "no device", "mpirun -np 2 ring",
          r"ring: ok", never=[r"weir", r"RDMA"]),
    fails("a device that is not there: named, with those that are", "loopback",
          f"{WEIR} --mca btl_weir_device mlx5_9 ring", r"mlx5_9", r"rxe0:1"),
    fails("too little locked memory: the limit and the remedy", "64 KiB of locked memory", f"{WEIR} ring",
          r"locked-memory limit is 64 KiB", r"ulimit -l"),
    works("too little locked memory, tcp beside: works", "64 KiB of locked memory", f"{MIXED} ring",
          r"ulimit -l", r"ring: ok"),
    # Buffers that fit give each other up; for those that do not each rank says once that it copies.
    works("large messages with too little locked memory: copies, one warning a rank", "3 MiB of locked memory",
          f"{WEIR} --mca btl_weir_flags send,put,get large_memory --rounds 2 --counters",
          r"cannot register memory of the application .*ulimit -l.*messages are copied",
          r"registration_evictions min [1-9]", r"registration_failures min [1-9]",
          r"btl_weir_gets min [1-9]", r"large_memory: ok",
          never=[r"(?s)(cannot register memory of the application.*){3}"]),
    # Both ranks give up, and mpirun garbles one text or the other when they come at the same time.
    fails("a peer without weir: unreachable, in time", "loopback",
          "mpirun -np 2 sh -c 'if [ $OMPI_COMM_WORLD_RANK = 1 ]; then export OMPI_MCA_btl=tcp,self; "
          "else export OMPI_MCA_btl=weir,self; fi; exec \"$0\"' ring",
          r"MPI process is unreachable|An error occurred in MPI_Init", never=[r"ring: ok"]),
    works("a peer on another fabric: said once, and left to tcp at once", "rails", f"mpirun -np 4 {HALVES}",
          r"weir: rank [23] cannot be reached from rxe0:1: there is no route from 10\.77\.0\.1 "
          r"to its address 10\.77\.1\.1\. It is left to other transports", r"ring: ok",
          r"messages_sent min 0 max [1-9]", never=[r"(?s)cannot be reached.*cannot be reached"]),
    works("a peer on another fabric, all peers added at once: nobody else loses weir", "rails",
          f"mpirun -np 4 --mca mpi_add_procs_cutoff 64 {HALVES}", r"ring: ok", r"messages_sent min 0 max [1-9]"),
    works("two rails: info and doctor name them; a third that is not there is said once", "rails",
          f"export WEIR_RAILS=2; weir info && weir doctor && WEIR_RAILS=3 {WEIR} ring",
          r"messages up to 32 KiB are sent without asking: auto, with several rails",
          r"rail 0: rxe\d:1, for everything", r"rail 1: rxe\d:1, for parts of large messages",
          r"ok +rails +rails for large messages: rxe\d:1, rxe\d:1",
          r"weir: has 2 of 3 rails \(btl_weir_rails\)", r"ring: ok", never=[r"(?s)of 3 rails.*of 3 rails"]),
    fails("a second rail that is not there: named, with those that are", "rails",
          f"{WEIR} --mca btl_weir_device rxe0,mlx5_9 ring", r"mlx5_9", r"rxe0:1", never=[r"ring: ok"]),
    fails("messages that nothing takes: named, and the job ends", "loopback", f"{WEIR} no_receiver",
          r"a message from rank 0.* is lost: nothing in this process takes messages with tag \d+, and 64 MiB",
          r"weir lost a message", never=[r"WATCHDOG"]),
    fails("a wrong parameter: the key, the value, the range", "loopback",
          f"{WEIR} --mca btl_weir_window_max 0 ring",
          r"btl_weir_window_max: '0' is out of range \(it takes: "),
    works("a parameter that does not exist: said once a node, the nearest one; the job runs", "loopback",
          f"{WEIR} --mca btl_weir_windw_max 64 --mca btl_weir_flags send --mca btl_weir_latency 1 ring",
          r"weir: MCA parameter btl_weir_windw_max does not exist and has no effect; "
          r"did you mean btl_weir_window_max\?", r"ring: ok",
          never=[r"(?s)windw_max.*windw_max", r"btl_weir_(flags|latency) does not exist"]),
    fails("info and doctor: of the device and with the settings of a job started here", "loopback",
          "printf 'device: rxe0:1\\nwindow_max: 512\\n' >w.yaml; export WEIR_CONFIG=$PWD/w.yaml; "
          "weir info && WEIR_EAGER_MAX=8KiB weir info && weir doctor && export WEIR_DEVICE=mlx5_7 && "
          "{ weir info; echo info: $?; WEIR_MTU=x weir doctor; }",
          r"rxe0  driver", r"up to 64 KiB are sent without asking: auto; 48 KiB in jobs with more than \d+ processes",
          r"up to 8 KiB are sent without asking: as configured", r"\* port rxe0:1 ", r"\* GID +\d+ ",
          r"ok +configuration +no mistakes; 2 keys are set", r"(?m)^info: 1$",
          r"fail +configuration +environment variable WEIR_MTU: ", r"mlx5_7"),
    fails("another user since MPI_Init: why the kernel refuses the adapter", "loopback",
          f"{WEIR} ring --user 65534",
          r"weir: rank [01] on host \w+: rxe0:1 (makes no further connections|refuses work requests of a queue pair) "
          r"\(Permission denied: the kernel refuses the adapter to a process that has changed its user",
          never=[r"ring: ok", "no address or route"]),
    works("a small stack", "loopback", f"{WEIR} sh -c 'ulimit -s 128; exec bigmix --rounds 1 --largest 1M'",
          r"bigmix: ok"),
    # tcmalloc's own munmap is not patched. With registrations kept, large_memory finds stale ones.
    works("an allocator whose munmap nobody sees: memory is registered for each use", "loopback",
          f"for program in 'large_memory --rounds 1 --counters' rma_windows; do {WEIR} --mca btl_weir_check_leaks on "
          "--mca osc rdma,sm --mca osc_rdma_btls weir -x LD_PRELOAD=libtcmalloc_minimal.so.4 $program || exit; done",
          r"weir: rank 0 on host \w+: registers memory anew for each large message, which takes longer: memory given "
          r"back by .* would not be seen", r"btl_weir_gets min [1-9]", r"registration_hits min 0 max 0 ",
          r"large_memory: ok", r"rma_windows: ok", never=["leaked"], only_here=True),
    fails("a wrong unit: the key and what it takes", "loopback",
          f"{WEIR} --mca btl_weir_rnr_timer 12furlongs ring",
          r"btl_weir_rnr_timer: .*furlongs.* \(it takes: "),
    # The doctor provokes RNR NAKs on the same port: before the job they do not count, within it
    # they do.
    works("RNR NAKs of the device: MPI_T shows those since MPI_Init", "loopback",
          f"weir doctor >/dev/null && {WEIR} ring --counters && "
          f"{WEIR} ring --counters --during 'weir doctor >/dev/null'",
          r"(?s)rnr_naks_sent min 0 max 0 .*rnr_naks_sent min [1-9]",
          r"(?s)rnr_naks_received min 0 max 0 .*rnr_naks_received min [1-9]"),
    fails("a wrong file: every line, the nearest key, once a node", "loopback",
          f"printf 'windw_max: 3\\nmtu: 1500\\n' >w.yaml; {WEIR} --mca btl_weir_config $PWD/w.yaml ring",
          r"/w\.yaml:1: windw_max: there is no such key; did you mean window_max\?", r"/w\.yaml:2: mtu: ",
          never=[r"ring: ok", r"(?s)w\.yaml:1: .*w\.yaml:1: "]),
    works("a wrong file of the user, nobody asked: silent and works", "loopback",
          "mkdir weir; echo nonsense >weir/weir.yaml; XDG_CONFIG_HOME=$PWD mpirun -np 2 ring",
          r"ring: ok", never=[r"weir", r"nonsense"]),
    works("a send that nobody receives: check_leaks counts what is left", "loopback",
          f"{WEIR} --mca btl_weir_check_leaks on "
          "large_traffic --rounds 1 --bytes 1M --ring-bytes 1M --leave-send",
          r"large_traffic: ok", r"weir: rank 0 on host \w+: leaked [1-9]\d* handles of registered memory",
          r"rank 1 on host \w+: leaked .* registrations in use", never=[r"one-sided operations"]),
    fails("a file: its values are in effect, a parameter wins", "loopback",
          "echo 'window_initial: 32' >w.yaml; export WEIR_CONFIG=$PWD/w.yaml; "
          f"{WEIR} --mca btl_base_verbose 10 ring --counters && weir config show && "
          f"{WEIR} --mca btl_weir_window_initial 0 ring",
          r"uses rxe0:1 with profile rxe", r"ring: ok",
          r"counter btl_weir_window min 32 ", r"window_initial +32 +/.*/w\.yaml:1",
          r"Profile in effect: rxe, port rxe0:1",
          r"MCA parameter btl_weir_window_initial: '0' is out of range"),
])
def test_what_the_user_is_told(command, succeeds, says, never, build, tmp_path):
    """The job ends in time, as it has to, and says so."""
    judge(sh(command, build, tmp_path, LIMIT_S), succeeds, says, never)


@pytest.mark.lab("loopback")
@pytest.mark.breaks_boot
def test_a_device_that_is_removed_under_a_job(build, tmp_path):
    """Named, sooner than any timeout of weir's. The kernel removes it once the job is over."""
    judge(sh(f"(sleep 3; exec rdma link delete rxe0) & {WEIR} random_soak --messages 100000000", build, tmp_path, 25),
          False, [r"weir: rank [01] on host \w+: rxe0:1 failed: it was removed\. .*dmesg"])
