# shellcheck shell=sh
# Extras: extras/NAME/root.cpio in the cache holds /opt/NAME, the packages of
# kernel-tests/extras, and the command NAME.

extra_field() { table_line extras "$1" | awk -v n="$2" '{ print $n }'; }
extra_modules() { extra_field "$1" 5 | tr ',' ' '; }

# extra_fetch SUITE PACKAGE DIR: the package and all it depends on, as .deb;
# the private status file knows of no installed package, so that is everything
extra_fetch()
{
	need_room 500
	mkdir -p "$3/partial"
	apt-get "$(apt_at "$1")" -q -o Dir::Cache::archives="$3" -o Debug::NoLocking=1 \
		--download-only install "$2" > "$3.log" 2>&1 || {
		sed -n 's/^[EW]: /  /p' "$3.log" | head -n 4 >&2
		die "downloading $2 of $1 and what it depends on failed: $(room)"
	}
	rm -rf "$3/partial" "$3/lock"
}

# extra_command NAME PROGRAM FILE: a script that runs the program with the
# loader and the libraries it was made for
extra_command()
{
	cat > "$3" <<-EOF
		#!/bin/sh
		o=/opt/$1
		lib=\$o/usr/lib/x86_64-linux-gnu
		exec \$lib/ld-linux-x86-64.so.2 --library-path \$lib \$o/$2 "\$@"
	EOF
	chmod 755 "$3"
}

extra_make()
{
	dir=$(entry_new) || exit 1
	# shellcheck disable=SC2064 # the directory of now
	trap "rm -rf '$dir'" EXIT INT TERM
	mkdir -p "$dir/debs" "$dir/out" "$dir/root/opt" "$dir/root/usr/bin"
	extra_fetch "$2" "$3" "$dir/debs"
	unpack "$dir/debs"
	rm -rf "$dir/debs/x/usr/share" "$dir/debs/x/var" "$dir/debs/x/etc"
	mv "$dir/debs/x" "$dir/root/opt/$1"
	extra_command "$1" "$(extra_field "$1" 4)" "$dir/root/usr/bin/$1"
	(cd "$dir/root" && find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0) > "$dir/out/root.cpio" ||
		die "packing $1 failed: $(room)"
	echo "$4" > "$dir/out/package"
	entry_keep "$dir/out" "extras/$1"
	rm -rf "$dir"
	trap - EXIT INT TERM
}

# extra_prepare NAME: as kernel_prepare
extra_prepare()
{
	entry=extras/$1
	if is_fresh "$entry" && entry_good "$entry"; then return; fi
	suite=$(extra_field "$1" 2) package=$(extra_field "$1" 3)
	if [ -n "${KERNELS_OFFLINE:-}" ]; then
		entry_good "$entry" && return
		die "$1 is not in $cache, and KERNELS_OFFLINE is set"
	fi
	apt_update "$suite"
	id="$package $(apt_version "$suite" "$package") $(sha256sum < "$kt/lib/extras.sh")"
	if [ "$(cat "$cache/$entry/package" 2> /dev/null)" != "$id" ] || ! entry_good "$entry"; then
		say "preparing $1: $package of $suite"
		extra_make "$1" "$suite" "$package" "$id"
	fi
	touch "$cache/$entry.looked-up"
}

extra_ready() { locked "extra-$1" extra_prepare "$1"; }
