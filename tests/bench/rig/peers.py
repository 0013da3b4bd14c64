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

PEERS = {peer.key: peer for peer in (
    Peer("weir", "weir", [("pml", "ob1"), ("btl", "weir,self")], counts="btl_weir_messages_sent"),
    Peer("alone", "weir, no bundling",
         [("pml", "ob1"), ("btl", "weir,self"), ("btl_weir_bundle_size", "0")],
         counts="btl_weir_messages_sent"),
    # UCX 1.13 takes the IP version of a received datagram from a field that only Mellanox devices
    # fill, and drops all datagrams of rxe: rc_v could not connect without the variable. No BTL is
    # opened beside it, so that its MPI_Init is not charged for other transports.
    Peer("ucx", "UCX rc_v", [("pml", "ucx"), ("btl", "self")],
         {"UCX_TLS": "rc_v,self", "UCX_UD_VERBS_ETH_DGID_CHECK": "n"}),
    Peer("tcp", "btl tcp", [("pml", "ob1"), ("btl", "tcp,self")]),
)}

TITLES = {RAW: "raw verbs", **{key: peer.title for key, peer in PEERS.items()}}


def command(peer, ranks, program, arguments, own_core):
    """mpirun's words. own_core: a core for each rank, which then never yields it."""
    words = ["mpirun", "-np", str(ranks), "--bind-to", "core" if own_core else "none"]
    words += ["--mca", "mpi_yield_when_idle", "0" if own_core else "1"]
    for key, value in peer.mca:
        words += ["--mca", key, value]
    for key in peer.environment:
        words += ["-x", key]
    return words + [program] + [str(a) for a in arguments]


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
