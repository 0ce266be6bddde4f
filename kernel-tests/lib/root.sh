# shellcheck shell=sh
# What a guest's memory holds at boot: cpio archives one behind the other.
#   root     programs and libraries of this machine (kernel-tests/tools), cached
#   modules  of the kernel, cached
#   job      /init with its options; made for each boot
#   tree     the source tree and what was built, at the same path as here; made for
#            each run

system_path=/usr/sbin:/usr/bin:/sbin:/bin

# root_files: paths of the files of kernel-tests/tools, on this machine
root_files()
{
	# shellcheck disable=SC2086 # what: may be a pattern
	table tools | while read -r kind what; do
		case $kind in
		cmd) PATH=$system_path command -v "$what" || : ;;
		pkg) dpkg -L "$what" 2> /dev/null |
			grep -vE '^/usr/share/(doc|man|locale|info|lintian|bash-completion)(/|$)' || : ;;
		tree) find $what -type f -readable ! -path '*/test/*' ! -path '*/config-*' \
			! -path '*/ensurepip/*' ! -path '*/idlelib/*' ! -path '*/lib2to3/*' \
			! -path '*/pydoc_data/*' 2> /dev/null || : ;;
		*) die "kernel-tests/tools: unknown kind '$kind'" ;;
		esac
	done | while read -r f; do if [ -f "$f" ] && [ -r "$f" ]; then echo "$f"; fi; done
}

# libraries_of: what the programs and libraries named on stdin are linked with
libraries_of()
{
	while read -r f; do
		case $f in *.so|*.so.*) echo "$f" ;; *) [ ! -x "$f" ] || echo "$f" ;; esac
	done | xargs -r -d '\n' ldd 2> /dev/null |
		sed -n -e 's|^[^/]* => \(/.*\) (0x[0-9a-f]*)$|\1|p' -e 's|^[[:space:]]\(/.*\) (0x[0-9a-f]*)$|\1|p' | sort -u
}

# real_names: absolute paths on stdin with their directories resolved, so that
# /lib/x.so becomes /usr/lib/x.so where /lib is a link
real_names()
{
	sort -u | while read -r f; do
		dir=${f%/*}
		[ "$dir" = "${last-}" ] || { last=$dir; real=$(realpath -m "$dir/."); }
		echo "${real%/}/${f##*/}"
	done | sort -u
}

# archive: the files named on stdin (absolute), links followed, with their
# directories, all owned by root
archive()
{
	awk '{ print; while (sub(/\/[^\/]*$/, "") && $0 != "" && !seen[$0]++) print }' |
		sed 's|^/||' | LC_ALL=C sort -u |
		(cd / && cpio --quiet -o -L -H newc -R 0:0)
}

# root_skeleton DIR: directories, links, the names of users
root_skeleton()
{
	mkdir -p "$1/usr/bin" "$1/usr/sbin" "$1/usr/lib" "$1/usr/lib64" "$1/usr/libexec" "$1/bb" "$1/dev" "$1/proc" \
		"$1/sys" "$1/run" "$1/tmp" "$1/var/tmp" "$1/root" "$1/home" "$1/etc" "$1/mnt" "$1/job"
	for l in bin sbin lib lib64; do ln -s usr/$l "$1/$l"; done
	ln -s /run "$1/var/run"
	chmod 1777 "$1/tmp" "$1/var/tmp"
	printf '%s\n' 'root:x:0:0:root:/root:/bin/sh' 'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin' \
		'user:x:1000:1000:user:/tmp:/bin/sh' > "$1/etc/passwd"
	printf '%s\n' 'root:x:0:' 'nogroup:x:65534:' 'user:x:1000:' > "$1/etc/group"
	printf '%s\n' 'passwd: files' 'group: files' 'hosts: files' > "$1/etc/nsswitch.conf"
	printf '127.0.0.1 localhost guest\n::1 localhost\n' > "$1/etc/hosts"
	echo guest > "$1/etc/hostname"
	cp /bin/busybox "$1/bb/busybox" || die "no /bin/busybox: install the package busybox-static"
	ldd "$1/bb/busybox" > /dev/null 2>&1 && die "/bin/busybox is linked dynamically: install the package busybox-static"
	for a in $("$1/bb/busybox" --list); do [ "$a" = busybox ] || ln -s busybox "$1/bb/$a"; done
}

# Each upgrade of a package makes a new root. The last three are kept, and those that a
# run may still be using.
roots_sweep()
{
	find "$cache/roots" -mindepth 1 -maxdepth 1 -printf '%T@ %p\n' | sort -rn | tail -n +4 | cut -d ' ' -f 2- |
		while read -r old; do find "$old" -maxdepth 0 -mmin +240 -exec rm -rf {} +; done
}

root_make()
{
	! entry_good "$1" || return 0
	say "making the guest's root out of this machine's programs"
	need_room 300
	dir=$(entry_new) || exit 1
	# shellcheck disable=SC2064 # the directory of now
	trap "rm -rf '$dir'" EXIT INT TERM
	mkdir "$dir/out" "$dir/skeleton"
	root_skeleton "$dir/skeleton"
	root_files > "$dir/files"
	libraries_of < "$dir/files" | cat - "$dir/files" | real_names > "$dir/all"
	(cd "$dir/skeleton" && find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0) > "$dir/out/skeleton.cpio" &&
	archive < "$dir/all" > "$dir/out/root.cpio" || die "making the guest's root failed: $(room)"
	cp "$dir/all" "$dir/out/files"
	roots_sweep
	entry_keep "$dir/out" "$1"
	rm -rf "$dir"
	trap - EXIT INT TERM
}

# root_ready: sets $root to the directory of the root for this machine as it is
root_ready()
{
	need_program cpio cpio
	key=$(cat "$kt/tools" "$kt/lib/root.sh" /var/lib/dpkg/status 2> /dev/null | sha256sum | cut -c1-16)
	locked root root_make "roots/$key" || exit 1
	root=$cache/roots/$key
}

# tree_files TOP BUILD: what of the tree goes into the guest: the sources, and
# programs, libraries and tests of the build directory
tree_files()
{
	find "$1" -mindepth 1 -name '.?*' -prune -o -path "$2" -prune -o -path "$1/build*" -prune -o -type f -readable -print
	[ ! -d "$2" ] || find "$2" -path "$2/kernel-tests/guests" -prune -o -type f \
		! -name '*.o' ! -name '*.a' ! -name '*.d' ! -name '*.db' -readable \
		\( -perm -u+x -o -name '*.so*' -o -name '*.json' -o -name '*.list' \) -print
	[ ! -d "$2/lib" ] || find "$2/lib" -type l
}

# tree_make TOP BUILD OUT: the tree, the libraries it needs beside the root, and their
# directories
tree_make()
{
	tree_files "$1" "$2" > "$3.tree"
	libraries_of < "$3.tree" | real_names | LC_ALL=C comm -23 - "$root/files" > "$3.libs"
	{
		(cat "$3.libs"; cat "$3.tree") | awk -v top="$1/" -v build="$2/" '
			{ print; while (sub(/\/[^\/]*$/, "") && $0 != "" && !seen[$0]++)
				if ((index($0 "/", top) == 1 && $0 "/" != top) ||
				    index($0 "/", build) == 1 || index(build, $0 "/") == 1) print }' |
			sed 's|^/||' | LC_ALL=C sort -u | (cd / && cpio --quiet -o -L -H newc -R 0:0)
	} > "$3" || die "packing the tree for the guest failed: $(df -Ph "$3" | awk 'NR == 2 { print $4 " free on " $6 }')"
	rm -f "$3.tree" "$3.libs"
}

# job_make TOP DIR OUT: DIR holds what lies under /job in the guest
job_make()
{
	mkdir -p "$2.skel$1"
	cp -R "$2" "$2.skel/job" && mv "$2.skel/job/init" "$2.skel/init" &&
	(cd "$2.skel" && find . -mindepth 1 | cpio --quiet -o -H newc -R 0:0) > "$3" ||
		die "packing the job for the guest failed: $(df -Ph "$3" | awk 'NR == 2 { print $4 " free on " $6 }')"
}
