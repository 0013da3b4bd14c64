"""Who is measured, and how each is started at its best."""

import os


PLUGIN = "mca_btl_weir.so"
PLUGIN_PATH = "OMPI_MCA_mca_base_component_path"


class Peer:
    """An MPI transport; `mca` and `environment` select it and make it work."""

    def __init__(self, key, title, mca, environment=(), counts=None):
        self.key, self.title, self.mca = key, title, mca
        self.environment, self.counts = dict(environment), counts


RAW = "raw"  # verbs without MPI: rig/raw.py
OTHERS = ["ucx", "ofi", "tcp"]  # in the order of the tables

RDMA = ("btl_weir_flags", "send,put,get,atomics,fetching-atomics,rdma-flush")
COPIES = ("btl_weir_flags", "send")


def weir(key, title, *mca):
    return Peer(key, title, [("pml", "ob1"), ("btl", "weir,self"), *mca],
                counts="btl_weir_messages_sent")


PEERS = {peer.key: peer for peer in (
    weir("weir", "weir", RDMA),
    weir("alone", "weir, no bundling", RDMA, ("btl_weir_bundle_size", "0")),
    weir("copy", "weir, copying", COPIES),
    weir("off", "weir, overlap off", RDMA, ("btl_weir_overlap", "off")),
    weir("on", "weir, overlap on", RDMA, ("btl_weir_overlap", "on")),
    # UCX 1.13 takes the IP version of a received datagram from a field that only Mellanox devices
    # fill, and drops all datagrams of rxe: rc_v could not connect without the variable. No BTL is
    # opened beside it, so that its MPI_Init is not charged for other transports.
    Peer("ucx", "UCX rc_v", [("pml", "ucx"), ("btl", "self")],
         {"UCX_TLS": "rc_v,self", "UCX_UD_VERBS_ETH_DGID_CHECK": "n"}),
    # Its completion queue is sized for 256 peers, more than rxe has.
    Peer("ofi", "OFI rxm", [("pml", "cm"), ("mtl", "ofi"), ("btl", "self"),
                            ("mtl_ofi_provider_include", "verbs;ofi_rxm")],
         {"FI_UNIVERSE_SIZE": "4"}),
    Peer("tcp", "btl tcp", [("pml", "ob1"), ("btl", "tcp,self")]),
)}

TITLES = {RAW: "raw verbs", **{key: peer.title for key, peer in PEERS.items()}}


def one_sided(peer):
    """The peer with the component of MPI's one-sided part that goes with it."""
    mca = (("osc", "rdma"), ("osc_rdma_btls", "weir")) if peer.counts else (("osc", "ucx"),)
    return Peer(peer.key, peer.title, [*peer.mca, *mca], peer.environment, peer.counts)


def command(peer, ranks, program, arguments, own_core, each=None):
    """mpirun's words. own_core: a core for each rank, which then never yields it. each: a list with
    the variables of every rank, NAME=VALUE."""
    words = ["mpirun", "--bind-to", "core" if own_core else "none"]
    if hosts := os.environ.get("LAB_HOSTFILE"):  # the lower half of the ranks on the first node
        words += ["--hostfile", hosts, "--map-by", f"ppr:{ranks // 2}:node"]
    words += ["--gmca", "mpi_yield_when_idle", "0" if own_core else "1"]
    for key, value in peer.mca:
        words += ["--gmca", key, value]
    for key in peer.environment:
        words += ["-x", key]
    program = [program] + [str(a) for a in arguments]
    if each is None:
        return words + ["-np", str(ranks)] + program
    for i, variables in enumerate(each):
        words += ([":"] if i else []) + ["-np", "1"]
        for variable in variables:
            words += ["-x", variable]
        words += program
    return words


def environment(peer):
    merged = dict(os.environ)
    merged.pop("OMPI_MCA_pml", None)  # tools/env sets it for weir; every peer says its own
    return {**merged, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            **peer.environment}


def obstacle(peer):
    """Why the peer cannot run here, if that is known before trying."""
    if "weir" in dict(peer.mca)["btl"]:
        places = os.environ.get(PLUGIN_PATH, "").split(":")
        if not any(os.path.isfile(os.path.join(p, PLUGIN)) for p in places):
            return f"weir is not built: no {PLUGIN} in the build directory"
    return None
