# shellcheck shell=sh
# The kernel that is built: Debian's source package, tinyconfig, a fragment.

build_log=$cache/build.log

# source_unpack ARCHIVE DIR: without what this kernel is not made of, half of 90,000
# files; Kconfig files and Makefiles come all, as they name each other.
source_unpack()
{
	set -- "$1" "$2" --exclude='*/arch/[!x]*/*.[chSd]*' --exclude='*/Documentation/*.*' \
		--exclude='*/tools/testing/*' --exclude='*/tools/perf/*' --exclude='*/sound/*.[ch]' \
		--exclude='*/drivers/net/*/*.[ch]'
	for d in gpu media staging infiniband scsi usb iio; do
		set -- "$@" --exclude="*/drivers/$d/*.[ch]"
	done
	archive=$1 to=$2; shift 2
	tar -xf "$archive" -C "$to" --strip-components=1 --wildcards-match-slash "$@"
}

# build_config DIR FRAGMENT: every option of the fragment must survive
build_config()
{
	make -C "$1" ARCH=x86_64 tinyconfig > "$build_log" 2>&1 &&
	(cd "$1" && ./scripts/kconfig/merge_config.sh -m .config "$2") >> "$build_log" 2>&1 &&
	make -C "$1" ARCH=x86_64 olddefconfig >> "$build_log" 2>&1 || {
		tail -n 10 "$build_log" >&2
		die "configuring the kernel failed: see $build_log"
	}
	dropped=$(grep '^CONFIG_' "$2" | grep -vxF -f "$1/.config" | tr '\n' ' ') || :
	[ -z "$dropped" ] || die "the kernel's configuration dropped: $dropped(unmet dependencies in ${2##*/})"
}

# build_kernel SOURCE-TREE FRAGMENT DIR: vmlinuz and version into DIR
build_kernel()
{
	for p in flex:flex bison:bison bc:bc gcc:gcc xz:xz-utils; do need_program "${p%:*}" "${p#*:}"; done
	build_config "$1" "$2"
	say "building a kernel, some 6 minutes on 2 cores, once for each version: log in $build_log"
	nice make -C "$1" ARCH=x86_64 -j"$(nproc)" bzImage >> "$build_log" 2>&1 || {
		grep -E 'error|Error' "$build_log" | tail -n 10 >&2
		die "building the kernel failed: see $build_log; $(room)"
	}
	cp "$1/arch/x86/boot/bzImage" "$3/vmlinuz" &&
	cp "$1/.config" "$3/config" &&
	make -s -C "$1" ARCH=x86_64 kernelrelease > "$3/version" ||
		die "the built kernel cannot be kept: $(room)"
}
