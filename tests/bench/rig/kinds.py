"""What `bench --only` measures: its groups, and the files in `programs` that they need."""

from rig import applications, crowds, icount, measures

ALONE = ("collectives", "applications", "threads", "pairs", "many")  # not among everything
LONG = ALONE[1:]  # minutes a round


def of(asked):
    """(groups, needs). asked: {only, nodes, ranks, parts}"""
    only = asked["only"]
    if only == "applications":
        return applications.groups(asked), applications.PROGRAMS
    if only == "many":
        return crowds.many_groups(asked), crowds.PROGRAMS
    if only in ("threads", "pairs"):
        groups = crowds.thread_groups if only == "threads" else crowds.pair_groups
        return groups(), measures.PROGRAMS
    if only == "icount":
        return [icount.group()], measures.PROGRAMS
    return measures.groups_for(only), measures.PROGRAMS
