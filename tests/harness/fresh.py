"""A fresh Debian 12 of the smallest kind, as a root file system without a VM. This wants root and a network."""

# $1 the tree, $2 the project; the rest is the command
INSIDE = """\
set -e
tree=$1 project=$2
shift 2
mount -t proc proc "$tree/proc"
mount --rbind /dev "$tree/dev"
for file in /etc/hosts /etc/resolv.conf; do : >>"$tree$file" && mount --bind -o ro "$file" "$tree$file"; done
mount --rbind "$project" "$tree/mnt"
exec chroot "$tree" sh -c 'cd /mnt && exec "$@"' sh "$@"
"""
ENVIRONMENT = ["HOME=/root", "DEBIAN_FRONTEND=noninteractive",
               "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]


def making(tree, mirror, proxies):
    """The command that makes it."""
    return ["env", *(f"{name}={value}" for name, value in proxies.items()),
            "debootstrap", "--variant=minbase", "bookworm", str(tree), mirror]


def inside(tree, project, *command):
    """`command` in it, in the project's folder; variables may stand before it."""
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", INSIDE, "sh", str(tree), str(project),
            "env", "-i", *ENVIRONMENT, *command]
