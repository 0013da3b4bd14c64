"""The MPI programs as tests: which program, on how many ranks, with what settings, and what must hold.

Each function is the cases of one test in test_programs.py.
"""

import functools
import os

from mpi.judging import (LIMIT_S, SCALAPACK, Carried, CarriedWithout, Case, ReadyForLarge, TokensReturned, UsesWeir,
                         check_hpcc, check_killed, check_named, check_netpipe, check_ok_line, check_scalapack,
                         prepare_hpcc, prepare_scalapack)

DEATH_LIMIT_S = 60  # for a job of which a rank dies


def eager_case(program, np, limit):
    return Case(program, np, mca=[("btl_weir_eager_limit", str(limit))],
                note=f"eager_limit={limit}", long=True)


def proof(np=2):
    proof = UsesWeir()
    case = Case("ring", np, ["--laps", "200"], prepare=proof.prepare,
                check=proof.check)
    case.name = "traffic really uses weir"
    return [case]


def pt2pt():
    cases = proof()

    def add(program, *nps, long=(), args=(), note=""):
        cases.extend(Case(program, np, args, note=note, long=np in long)
                     for np in sorted({*nps, *long}))

    add("ring", 8)
    add("pingpong", 2, args=["--ms", "10", "--sizes", "0,8,4K,64K,1M"])
    cases.append(Case("msgrate", 2, ["--bytes", "2048", "--messages", "2000", "--counters"], note="2 KiB share frames",
                      check=ReadyForLarge("messages_bundled"), alone=True))
    add("collective_times", long=[3], args=["--sizes", "8,64K", "--ms", "5"])
    add("initlat", long=[8])
    add("alltoall_mem", long=[8], args=["--rounds", "10"])
    add("pt2pt_modes", 4, long=[1])
    add("pt2pt_modes", long=[8], args=["--largest", "70000"])
    add("wildcards", long=[8], args=["--messages", "40"])
    add("unexpected_flood", long=[8])
    add("unexpected_flood", 2, args=["--count", "20000", "--bytes", "8", "--sleep-ms", "100"],
        note="20000 messages")
    add("collectives", 3)
    add("collectives", long=[8], args=["--largest", "8000"])
    add("threads", 4, args=["--threads", "2", "--rounds", "20"], note="2 threads")
    add("threads", long=[4])
    add("spawn", 2, long=[3])
    add("bigmix", long=[8], args=["--rounds", "1", "--largest", "2M"])
    cases.append(Case("bigmix", 2, note="copied, within 1 MiB", check=Carried("messages_sent"),
                      mca=[("btl_weir_flags", "send"), ("btl_weir_send_memory_max", "1MiB")]))
    trains = [("btl_weir_eager_max", "64KiB")]
    cases.append(Case("pt2pt_modes", 3, note="in trains", check=Carried("trains_sent"), mca=trains))
    cases.append(Case("table1_orderings", 3, note="in trains", mca=trains, long=True))
    cases.append(Case("unexpected_flood", 3, ["--bytes", "20000", "--count", "200"], note="in trains", mca=trains,
                      long=True))
    cases.append(Case("btl_calls", 2, alone=True, mca=[("btl_weir_send_memory_max", "16MiB")]))
    cases.append(Case("btl_calls", 2, ["--leave"], note="a dead peer is left", alone=True,
                      launch=["--enable-recovery"]))
    for np, seed in ((3, 2), (8, 4)):
        add("random_soak", long=[np], args=["--seed", str(seed)], note=f"seed={seed}")
    for program in ("pt2pt_modes", "random_soak"):
        cases.append(eager_case(program, 3, 1024))
    return cases


def few_connections():
    """Connections end and come back all the time, which takes milliseconds of CPU each."""
    def case(program, np, connections, args=(), long=True):
        mca = [("btl_weir_connections_max", str(connections))]
        return Case(program, np, args, note=f"{connections} connections", long=long,
                    mca=mca + (OSC_OVER_WEIR if program.startswith("rma_") else []),
                    check=Carried("connections_parted"))

    return [case("alltoall_mem", 8, 4, ["--rounds", "2"], long=False),
            case("random_soak", 16, 4, ["--messages", "1000"], long=40),
            case("collectives", 6, 4, ["--largest", "8000"]),
            case("bigmix", 9, 4, ["--rounds", "1", "--largest", "2M"]),
            case("rma_sync", 8, 3, ["--rounds", "1"]),
            case("rma_windows", 4, 2, ["--rounds", "1"]),
            *(case(program, 4, 2) for program in ("pt2pt_modes", "threads", "rma_list"))]


def rails():
    """Each process has two ports."""
    both = [("btl_weir_device", "rxe0,rxe1")]

    def case(program, np, args=(), counted=("rail_parts",), long=False):
        return Case(program, np, args, note="two rails", long=long,
                    mca=both + (OSC_OVER_WEIR if program.startswith("rma_") else []),
                    check=Carried(*counted))

    def spread(program, np, args=(), long=False):
        """Without windows: what Open MPI 4.1 has for them then refuses MPI_THREAD_MULTIPLE."""
        return Case(program, np, args, note="two rails, frames spread", long=long,
                    mca=[*both, ("btl_weir_frames", "spread")], check=Carried("messages_sent"))

    few = ["--rounds", "1"]
    return [case("bigmix", 4, [*few, "--largest", "4M"], long=True), case("large_traffic", 4, few),
            case("large_memory", 4, few, long=True), case("pt2pt_modes", 3),
            case("threads", 2, long=True), case("rma_sync", 4, few, ["puts", "gets"]),
            case("rma_data", 4, counted=["puts", "gets", "rail_parts"], long=True),
            Case("spawn", 2, note="two rails", mca=both, long=True),
            spread("pt2pt_modes", 3, long=True),
            # Fragments of columns, which ob1 has to get in order.
            spread("threads", 2, ["--rounds", "5", "--flood", "20"]),
            spread("bigmix", 4, [*few, "--largest", "4M"], long=True),
            *(spread(program, 4, long=True) for program in ("collectives", "unexpected_flood", "random_soak")),
            *(case(program, 4, counted=counted, long=True) for program, counted in
              (("table1_orderings", ["gets"]), ("random_soak", ["messages_sent"]),
               ("rma_windows", ["puts", "gets"]), ("rma_atomics", ["atomics"]), ("rma_list", ["atomics"])))]


# How osc/rdma is made to take weir whatever else is there. sm is for shared windows, which osc/rdma
# does not have.
OSC_OVER_WEIR = [("osc", "rdma,sm"), ("osc_rdma_btls", "weir")]


def carried_case(program, np, counted, args=(), note="", osc=OSC_OVER_WEIR, mca=(),
                 long=False):
    return Case(program, np, args, note=note, long=long,
                mca=[*mca, *(osc if program.startswith("rma_") else [])], check=Carried(*counted))


def rma():
    cases = []

    def add(*args, **options):
        cases.append(carried_case(*args, **options))

    add("rma_sync", 4, ["puts", "gets"], ["--rounds", "1"])
    add("rma_data", 4, ["puts", "gets"], long=True)
    add("rma_atomics", 4, ["atomics"], ["--count", "50", "--long", "5000"])
    add("rma_windows", 4, ["puts", "gets"], ["--refused"])
    add("large_memory", 2, ["gets", "registration_misses", "registration_invalidations"], ["--rounds", "1"])
    add("large_traffic", 4, ["gets", "registration_hits"], long=True)
    add("table1_orderings", 4, ["gets"], long=True)
    add("rma_windows", 2, ["puts"], ["--rounds", "0", "--many", "2300", "--made", "2300"], note="thousands", long=100)
    # Twice 4 GiB.
    cases.append(Case("large_length", 2, ["--mib", "4096"], check=Carried("gets"), timeout=2 * LIMIT_S, long=True,
                      mca=[("btl_weir_registration_memory_max", "8GiB")]))
    cases.append(Case("large_memory", 2, ["--rounds", "1", "--unseen"], note="without registrations", long=True,
                      mca=[("btl_weir_registration_memory_max", "0")], check=Carried("messages_sent")))
    # With c 4 the second lane is one that chains fit.
    add("large_memory", 2, ["gets", "chains"], ["--rounds", "2"], note="offloaded, c 4", long=True,
        mca=[("btl_weir_reads_max", "4")])
    for program in ("rma_sync", "rma_atomics"):
        add(program, 3, [], ["--window", "allocate"], note="allocated", long=True)
    add("rma_sync", 4, ["puts", "gets"], ["--rounds", "1"], osc=[], note="osc as it comes",
        long=True)
    add("rma_passive", 2, ["puts", "gets", "atomics"],
        ["--bytes", "24M", "--repeat", "1", "--compute-ms", "500"])
    add("rma_beside", 2, ["puts", "gets"])
    # Twenty times or so in a hundred lists osc/rdma hands out a handle that is another's by then.
    add("rma_list", 4, ["gets", "atomics"], ["--spread"])
    add("rma_list", 4, ["gets", "atomics"], note="neighbours in a page", long=True)
    add("large_traffic", 8, ["gets"], ["--bytes", "1M", "--ring-bytes", "2M"], long=True)
    return cases


def shared():
    """Few tokens and a small budget, so that nearly every request waits."""
    def case(program, np, counted, note, args=(), check=Carried, long=False, **keys):
        mca = [(f"btl_weir_{key}", value) for key, value in keys.items()]
        return Case(program, np, args, note=note, long=long,
                    mca=mca + (OSC_OVER_WEIR if program.startswith("rma_") else []),
                    check=check(*counted))

    waits = ["token_requests", "token_waits"]
    always = dict(admission="always", tokens="3")
    crowd = case("large_traffic", os.cpu_count() + 1, ["gets"], "", ["--rounds", "1"],
                 check=functools.partial(CarriedWithout, "node_read_waits"), reads_max="2")
    crowd.name = "large_traffic more ranks than CPUs"
    crowd.long = True
    return [
        case("bigmix", 4, waits, "3 tokens", long=True, **always),
        case("pt2pt_modes", 3, waits, "1 token", admission="always", tokens="1", long=True),
        case("unexpected_flood", 8, waits, "3 tokens", long=True, **always),
        case("threads", 2, waits, "3 tokens", long=True, **always),
        case("rma_sync", 4, waits, "tokens by size", ["--rounds", "1"], admission="always",
             tokens="8", bytes_per_token="1KiB", long=True),
        case("large_traffic", 4, waits, "tokens by size", admission="always", tokens="8",
             bytes_per_token="64KiB", long=True),
        case("alltoall_mem", 4, waits, "thresholds", ["--rounds", "10"], admission="thresholds",
             tokens="3", nrct="64B=2, 1MiB=1", crct="1@64B=4, 4@64B=1"),
        case("collectives", 3, ["rate_waits"], "by rate", admission="always", long=True,
             node_sharing="off", delay="64B=20us, 1MiB=100us"),
        case("large_traffic", 4, ["gets", "node_read_waits"], "c of 2 for the node", ["--rounds", "1"],
             reads_max="2", node_sharing="user"),
        crowd,
    ]


def proxied(program, np, servers, args=(), counted=("proxy_served",), note="", check=None,
            prepare=None, long=False, **keys):
    keys["proxy_servers"] = str(servers)
    return Case(program, np, args, reads_counters=True, ours=check is None,
                note=f"{servers} server{'s' if servers > 1 else ''}{note}",
                mca=[(f"btl_weir_{key}", value) for key, value in keys.items()] +
                [("mpi_yield_when_idle", "1"), *(OSC_OVER_WEIR if program.startswith("rma_") else [])],
                prepare=prepare, long=long,
                check=Carried(*counted, check=check or check_ok_line))


def proxy():
    """Every rank's small messages may go by another one's lanes; some do."""
    case = proxied

    return [
        case("unexpected_flood", 4, 1),
        case("pt2pt_modes", 4, 2, long=True),
        case("bigmix", 4, 1, long=True,
             counted=["proxy_served", "proxy_sent_in_place", "gets"]),
        case("alltoall_mem", 8, 2, ["--rounds", "10"], counted=["proxy_served", "proxy_coalesced"]),
        case("threads", 4, 1, long=True),
        case("collectives", 4, 2, counted=["proxy_served", "token_requests"], note=" and 3 tokens", long=True,
             admission="always", tokens="3"),
        case("rma_sync", 4, 1, ["--rounds", "1"], counted=["proxy_served", "puts", "gets"], long=True),
        case("hpcc", 4, 1, counted=["proxy_served", "gets"], check=check_hpcc,
             prepare=functools.partial(prepare_hpcc, 4), long=True),
        *(Case("killed_peer", 4, ["--survivors", survivors, "--victim", "2"], timeout=DEATH_LIMIT_S,
               mca=[("btl_weir_proxy_servers", "1")], check=check_killed, launch=["--enable-recovery"],
               note=f"{survivors} 1 server silent runtime", long=survivors == "send")
          for survivors in ("mixed", "send"))
    ]


def token_node():
    """Each node has tokens of its own."""
    def case(program, args, counted, note, **keys):
        mca = [(f"btl_weir_{key}", value) for key, value in {"admission": "always", **keys}.items()]
        tokens = 2 * int(keys["tokens"])
        return Case(program, 4, args, mca=mca, settles=True, long=True,
                    note=note, check=TokensReturned(tokens, *counted))

    return [case("alltoall_mem", ["--rounds", "10"], [], "2 tokens a node", tokens="2"),
            case("bigmix", ["--rounds", "1"], ["gets"], "tokens by size", tokens="8", bytes_per_token="64KiB")]


def rma_node():
    cases = [carried_case("rma_sync", 4, ["puts", "gets"], ["--rounds", "1"]),
             carried_case("rma_data", 2, ["puts", "gets"], long=True),
             carried_case("rma_atomics", 4, ["atomics"], ["--count", "8", "--long", "1000"], long=True),
             carried_case("rma_sync", 2, ["puts", "gets", "atomics"],
                          ["--window", "allocate"], note="allocated", long=True),
             # Dynamic windows over two nodes: osc/rdma of 4.1.4 waits for itself (README.md).
             carried_case("rma_windows", 4, ["puts", "gets"],
                          ["--rounds", "2", "--without-dynamic"], long=True),
             carried_case("large_memory", 2, ["gets"], ["--rounds", "1"], long=True),
             carried_case("large_traffic", 4, ["gets"], ["--rounds", "1", "--bytes", "1M"], long=True)]
    cases += [carried_case("rma_passive", 2, ["puts", "gets", "atomics"],
                           ["--repeat", "1", "--compute-ms", "500"], long=True),
              proxied("alltoall_mem", 8, 1, ["--rounds", "10"], long=True),
              proxied("rma_data", 4, 1, counted=["puts", "gets"], long=True)]
    return cases


def overlap():
    """Computations that end only when the messages have moved; and what a second thread might break."""
    on = [("btl_weir_overlap", "on")]

    def demand(np, note="", args=(), check=("overlap_upcalls", "gets"), **options):
        return Case("overlap", np, ["--demand", *args], note="demanded" + note, timeout=60,
                    check=Carried(*check), **options)

    def case(program, np, args=(), note="", long=False, osc=(), value="on", launch=()):
        return Case(program, np, args, note=f"overlap {value}{note}", long=long, launch=launch,
                    mca=[("btl_weir_overlap", value), *osc])

    def every(value, level, launch):
        """What a second thread might break, where MPI promises its program that level of threads."""
        return [case(program, np, args, f", {level}", long=True, value=value, launch=launch,
                     osc=OSC_OVER_WEIR if program.startswith("rma_") else ())
                for program, np, args in (
                    ("pt2pt_modes", 3, ["--largest", "70000"]), ("wildcards", 4, []),
                    ("collectives", 3, ["--largest", "8000"]),
                    ("spawn", 2, []), ("bigmix", 4, ["--rounds", "1", "--largest", "2M"]),
                    ("random_soak", 4, ["--seed", "6"]), ("large_memory", 2, ["--rounds", "2"]),
                    ("unexpected_flood", 4, []), ("rma_sync", 4, ["--rounds", "1"]),
                    ("rma_data", 2, []))]

    def level_of(number):
        return ["-x", f"OMPI_MPI_THREAD_LEVEL={number}"]

    return [
        demand(2, mca=on), demand(4, mca=on, args=["--bytes", "64K", "--repeat", "10"], long=True),
        demand(2, " of scattered data", mca=on, args=["--gaps", "--count", "1"],
               check=["overlap_upcalls"]),
        demand(2, " by a program with threads", args=["--threads", "--counters"], alone=True,
               mca=[("btl_weir_overlap", "auto")]),
        Case("threads", os.cpu_count() + 1, ["--threads", "2", "--rounds", "20"],
             note="overlap auto on a full node", mca=[("btl_weir_overlap", "auto")],
             check=CarriedWithout("overlap_wakeups", "messages_sent")),
        case("threads", 4, ["--threads", "2", "--rounds", "20"]),
        case("rma_sync", 4, ["--rounds", "1"], osc=OSC_OVER_WEIR), case("stencil", 4, ["--bytes", "64K"], long=True),
        *(Case("overlap_collectives", np, ["--demand"], note="demanded", timeout=60,
               mca=[("btl_weir_overlap", "all")], check=Carried("overlap_upcalls", "gets"),
               long=np == 2) for np in (2, 4)),
        case("threads", 4, ["--threads", "2", "--rounds", "20"], value="all", long=True),
        # All beneath MPI asks only whether there may be threads: the levels between are like one of these two.
        *every("on", "single", level_of(0)), *every("all", "multiple", level_of(3)),
        *(case("collectives", 3, note=f", {name}", long=True, launch=level_of(level))
          for level, name in ((1, "funneled"), (2, "serialized"))),
        *killed(["--mca", "btl_weir_overlap", "on"], " overlap on", ("mixed", "large"))]


def node():
    cases = [Case("random_soak", 4, ["--messages", "2000"])]
    with_long = [
        Case("pt2pt_modes", 4, ["--largest", "70000"]),
        Case("unexpected_flood", 4),
        Case("pingpong", 2, ["--ms", "10", "--sizes", "0,8,4K,64K,1M"]),
        Case("table1_orderings", 2), Case("threads", 2), Case("initlat", 4),
        Case("wildcards", 4, ["--messages", "60"]), Case("collectives", 4, ["--largest", "8000"]),
        # The children all on the first node: spread over both, Open MPI 4.1.4 loses them in their
        # MPI_Init ("PML add procs failed: Not found"), with every transport.
        Case("spawn", 2, ["--here"], note="by the first node")]
    for case in with_long:
        case.long = True
    return (proof() + cases + with_long + token_node() +
            rma_node() + app_node())


def killed(launch=(), note="", of=("mixed", "recv", "send", "large"), check=check_killed, long=True):
    """With --enable-recovery the runtime keeps quiet; else it ends all."""
    return [Case("killed_peer", 4, ["--survivors", survivors, "--victim", "0" if survivors == "mixed" else "2"],
                 timeout=DEATH_LIMIT_S, note=survivors + note, launch=launch, check=check,
                 long=long or survivors != "mixed") for survivors in of]


def app_case(program, np, check, args=(), note="", prepare=None, long=False, counts="gets"):
    case = Case(program, np, args, note=note, prepare=prepare, ours=False, long=long,
                check=Carried(counts, check=check), reads_counters=True)
    case.name = case.name.removeprefix(SCALAPACK + "/")
    return case


def netpipe_case(largest):
    return app_case("NPopenmpi", 2, check_netpipe, ["-i", "-u", str(largest), "-n", "20"], note="integrity", long=True)


def scalapack_case(program, long=False):
    return app_case(os.path.join(SCALAPACK, program), 4, check_scalapack,
                    prepare=prepare_scalapack, long=long, counts="trains_sent")


def app():
    return [app_case("hpcc", 4, check_hpcc, prepare=functools.partial(prepare_hpcc, 4), long=True),
            netpipe_case(1 << 20), scalapack_case("xdllt"), scalapack_case("xdqr", long=True)]


def app_node():
    return [netpipe_case(1 << 18), scalapack_case("xdllt", long=True)]


def brief_of_4_1():
    cases = proof() + [
        Case("pingpong", 2, ["--ms", "30"]), Case("pt2pt_modes", 4, ["--largest", "70000"]),
        Case("threads", 2), Case("collectives", 3, ["--largest", "8000"]),
        carried_case("rma_sync", 4, ["puts", "gets"], ["--rounds", "1"]),
        carried_case("rma_atomics", 2, ["atomics"], ["--count", "8", "--long", "5000"])]
    for case in cases:
        case.long = case.program not in ("ring", "pt2pt_modes", "rma_sync")
    return cases


def brief():
    """With what wants jobs of its own: overlap, and windows by messages."""
    cases = brief_of_4_1()
    for case in cases:
        case.long = False
    moves_all = dict(mca=[("btl_weir_overlap", "all")], note="overlap demanded", timeout=60,
                     check=Carried("overlap_upcalls", "gets"))
    return cases + [
        *(Case(program, 2, ["--demand"], **moves_all) for program in ("overlap", "overlap_collectives")),
        Case("rma_sync", 2, ["--rounds", "1"], note="by messages", mca=[("btl_weir_flags", "send")])]


def arm():
    tokens = [("btl_weir_admission", "always"), ("btl_weir_tokens", "3")]
    return proof() + [
        Case("random_soak", 3, ["--seed", "5"]),
        carried_case("rma_sync", 2, ["puts", "gets"], ["--rounds", "1"]),
        Case("alltoall_mem", 4, ["--rounds", "4"], note="3 tokens", mca=tokens,
             check=Carried("token_requests", "token_waits")),
        proxied("alltoall_mem", 4, 1, ["--rounds", "4"])]


def mpi_4():
    """What Open MPI has from 5.0 on, and processes that come and go many times."""
    return [carried_case("persistent", 4, ["gets"]),
            Case("partitioned", 4, ["--rounds", "1", "--part", "300000", "--counters"], check=Carried("gets")),
            Case("sessions", 4, ["--times", "2", "--counters"], check=Carried("gets")),
            Case("persistent", 7, ["--largest", "5000"], long=True),
            Case("partitioned", 5, ["--neighbours", "4", "--rounds", "10"], long=True),
            Case("sessions", 2, ["--times", "30"], long=True),
            Case("spawn", 2, ["--generations", "50"], note="50 times", long=True)]


def mpi_4_on_nodes():
    cases = mpi_4()[:3]
    for case in cases:
        case.long = True
    return cases


def silent():
    """So that only the transport can notice. Stock transports fail them."""
    return killed(["--enable-recovery"], " silent runtime", check=check_named, long=False)
