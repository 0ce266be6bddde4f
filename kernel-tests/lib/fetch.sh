# shellcheck shell=sh
# The cache: kernels/NAME holds vmlinuz, version and modules.cpio.

days_valid=7

# is_fresh ENTRY: it was looked up in the archive within the last days
is_fresh()
{
	[ -n "$(find "$cache/$1.looked-up" -mtime -$days_valid 2> /dev/null)" ]
}

# unpack DIR: every DIR/*.deb into DIR/x. Directories that are links, as /lib
# is where /usr is merged, stay links.
unpack()
{
	mkdir -p "$1/x/usr/lib" "$1/x/usr/bin" "$1/x/usr/sbin" "$1/x/usr/lib64"
	for l in lib bin sbin lib64; do ln -s usr/$l "$1/x/$l"; done
	for deb in "$1"/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$1/x" --no-same-owner --keep-directory-symlink ||
			die "unpacking ${deb##*/} failed: $(room)"
		rm -f "$deb"
	done
}

# modules_archive DIR VERSION OUT: those of kernel-tests/modules and what they
# need, uncompressed; NAME.load lists for each in which order
modules_archive()
{
	PATH=$PATH:/sbin:/usr/sbin depmod -b "$1/x" "$2" || die "depmod failed for $2"
	from=$1/x/lib/modules/$2 to=$1/m/lib/modules/$2
	mkdir -p "$to"
	for m in $(table modules); do
		modules_of "$from/modules.dep" "$m" > "$to/$m.load"
		[ -s "$to/$m.load" ] || rm "$to/$m.load"
	done
	cat "$to"/*.load | sort -u | while read -r ko; do
		file=$(find "$from" -name "$ko" -o -name "$ko.xz" | head -n 1)
		case $file in
		*.xz) xz -dc "$file" > "$to/$ko" ;;
		*) cp "$file" "$to/$ko" ;;
		esac || exit 1
	done || die "unpacking the modules of $2 failed: $(room)"
	(cd "$1/m" && find . | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0) > "$3"
}

# modules_of MODULES.DEP NAME: file names (without .xz) in loading order
modules_of()
{
	awk -v want="$2" '
	function base(p) { sub(/.*\//, "", p); sub(/\.xz$/, "", p); return p }
	{ sub(/:$/, "", $1); name = base($1); sub(/\.ko$/, "", name); gsub(/-/, "_", name)
	  if (name == want) for (i = NF; i >= 1; i--) print base($i) }' "$1"
}

# The packages of a kernel: the image, and since 7.x those it is split into.
image_packages()
{
	echo "$2"
	apt-cache "$(apt_at "$1")" depends --important "$2" | sed -n 's/^ *Depends: //p' |
		grep -E '^linux-(base|binary|modules)-[0-9]' || :
}

# make_debian SUITE PACKAGE DIR OUT
make_debian()
{
	need_room 600
	# shellcheck disable=SC2046 # a list of packages
	apt_download "$1" "$3" $(image_packages "$1" "$2")
	unpack "$3"
	version=${2#linux-image-}
	for f in boot/vmlinuz-$version usr/lib/modules/$version/vmlinuz; do
		[ ! -f "$3/x/$f" ] || cp "$3/x/$f" "$4/vmlinuz"
	done
	[ -s "$4/vmlinuz" ] || die "no vmlinuz in $2 of $1"
	modules_archive "$3" "$version" "$4/modules.cpio"
	echo "$version" > "$4/version"
}

# make_built SUITE PACKAGE DIR OUT FRAGMENT
make_built()
{
	need_room 4000
	apt_download "$1" "$3" "$2"
	unpack "$3"
	mkdir "$3/src"
	source_unpack "$3/x/usr/src/$2.tar.xz" "$3/src" ||
		die "unpacking $2 failed: $(room)"
	build_kernel "$3/src" "$5" "$4"
	: > "$4/modules.cpio"
}

# kernel_prepare NAME: the newest is in the cache, or die. Under a lock.
kernel_prepare()
{
	entry=kernels/$1 fragment=
	if is_fresh "$entry" && entry_good "$entry"; then return; fi
	if [ -n "${KERNELS_OFFLINE:-}" ]; then
		entry_good "$entry" && return
		die "kernel $1 is not in $cache, and KERNELS_OFFLINE is set"
	fi
	from=$(kernel_field "$1" 2)
	case $from in
	built:*) fragment=$kt/${from#*+} from=${from#built:} from=${from%+*} ;;
	esac
	suite=${from%%:*}
	apt_update "$suite"
	package=$(apt_newest "$suite" "${from#*:}")
	[ -n "$package" ] || die "suite $suite has no package ${from#*:} (kernel $1)"
	made_by=$(sha256sum < "${fragment:-$kt/modules}")
	id="$package $(apt_version "$suite" "$package") ${made_by%% *}"
	if [ "$(cat "$cache/$entry/package" 2> /dev/null)" != "$id" ] || ! entry_good "$entry"; then
		say "preparing kernel $1: ${id% *}"
		kernel_make "$entry" "$suite" "$package" "$fragment" "$id"
	fi
	touch "$cache/$entry.looked-up"
}

kernel_make()
{
	dir=$(entry_new) || exit 1
	# shellcheck disable=SC2064 # the directory of now
	trap "rm -rf '$dir'" EXIT INT TERM
	mkdir "$dir/out"
	if [ -n "$4" ]; then
		make_built "$2" "$3" "$dir" "$dir/out" "$4"
	else
		make_debian "$2" "$3" "$dir" "$dir/out"
	fi
	echo "$5" > "$dir/out/package"
	entry_keep "$dir/out" "$1"
	rm -rf "$dir"
	trap - EXIT INT TERM
}

# kernel_ready NAME
kernel_ready()
{
	locked "kernel-$1" kernel_prepare "$1"
}
