# shellcheck shell=sh
# Common to the kernel tests: messages, the tables, the cache. Sourced by
# scripts that have set $kt, the directory kernel-tests, and use set -eu.

me=${0##*/}
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/procscope

# die WHAT: one line, and out. Status 1 is a failure, 2 wrong usage.
die() { echo "$me: $*" >&2; exit 1; }
usage() { echo "$me: $*; try '$me --help'" >&2; exit 2; }
say() { echo "$me: $*" >&2; }

need_program()
{
	command -v "$1" > /dev/null ||
		die "$1 is not there: install the package $2, or let scripts/need kernels do it"
}

# table FILE: its lines without comments
table() { sed 's/^#.*//; /^[[:space:]]*$/d' "$kt/$1"; }

# table_line FILE NAME: the line of that name, or fail
table_line() { table "$1" | awk -v n="$2" '$1 == n { print; found = 1 } END { exit !found }'; }

kernel_names() { table kernels | awk '{ print $1 }'; }

# kernel_field NAME N: a column of kernel NAME
kernel_field() { table_line kernels "$1" | awk -v n="$2" '{ print $n }'; }

kernel_must_exist()
{
	table_line kernels "$1" > /dev/null ||
		usage "no kernel '$1' in kernel-tests/kernels: there are $(kernel_names | tr '\n' ' ')"
}

# boot_names check|all: those of `make check`, or all
boot_names() { table boots | awk -v which="$1" 'which == "all" || $3 == which { print $1 }'; }

# boot_kernel NAME: the kernel of a boot; a kernel is its own
boot_kernel() { table_line boots "$1" | awk '{ print $2 }' | grep . || echo "$1"; }

boot_must_exist() { table_line boots "$1" > /dev/null || kernel_must_exist "$1"; }

# locked NAME FUNCTION ARG...: run FUNCTION while no other process runs one
# under the same name. The lock goes with the process, however it ends.
locked()
{
	lock_name=$1; shift
	mkdir -p "$cache/locks" 2> /dev/null || die "cannot make $cache/locks: set XDG_CACHE_HOME to where there is room"
	(
		flock -n 9 || { say "waiting for another run that prepares $lock_name"; flock 9; }
		"$@"
	) 9> "$cache/locks/$lock_name"
}

# A cache entry is a directory that appears whole, by one rename, and lists the
# checksums of its files. Whatever a broken run leaves lies under $cache/tmp.

# entry_new: an empty directory to fill, on the file system of the cache
entry_new()
{
	mkdir -p "$cache/tmp" && mktemp -d "$cache/tmp/XXXXXX" ||
		die "cannot write to $cache: set XDG_CACHE_HOME to where there is room"
}

# entry_keep DIR ENTRY: DIR is complete and takes its place as $cache/ENTRY
entry_keep()
{
	(cd "$1" && find . -type f ! -name SHA256SUMS -print0 | LC_ALL=C sort -z |
		xargs -0 sha256sum > SHA256SUMS) &&
	mkdir -p "$(dirname "$cache/$2")" && rm -rf "${cache:?}/$2" && mv "$1" "$cache/$2" ||
		die "cannot keep $2 in $cache: is there room? ($(room))"
}

# entry_good ENTRY: it is there and its checksums hold; a damaged one is removed
entry_good()
{
	[ -f "$cache/$1/SHA256SUMS" ] || return 1
	(cd "$cache/$1" && sha256sum --quiet -c SHA256SUMS) > /dev/null 2>&1 && return 0
	say "$cache/$1 is damaged (checksum): making it anew"
	rm -rf "${cache:?}/$1"
	return 1
}

room() { df -Ph "$cache" 2> /dev/null | awk 'NR == 2 { print $4 " free on " $6 }'; }

# need_room MB: fail before, rather than half way through
need_room()
{
	free_mb=$(df -Pm "$cache" | awk 'NR == 2 { print $4 }')
	[ "$free_mb" -ge "$1" ] ||
		die "$cache needs $1 MB, there are $(room): make room or set XDG_CACHE_HOME"
}

# Removes what earlier runs left when they were killed; a day is longer than
# any run takes.
cache_sweep() { find "$cache/tmp" -mindepth 1 -maxdepth 1 -mmin +1440 -exec rm -rf {} + 2> /dev/null || :; }
