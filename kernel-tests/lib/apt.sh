# shellcheck shell=sh
# Packages of any Debian suite, without touching the system's apt: a private
# state directory for each suite, its own sources, lists and status file. apt
# verifies the suite's signature and each package's checksum.

keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# The mirror this machine's own apt uses, for the main or the security archive.
apt_mirror()
{
	case $1 in
	*-security) given=${DEBIAN_SECURITY_MIRROR:-} ;;
	*) given=${DEBIAN_MIRROR:-} ;;
	esac
	[ -z "$given" ] || { echo "$given"; return; }
	apt-get indextargets --format '$(ORIGIN) $(RELEASE) $(REPO_URI)' | awk -v suite="$1" '
		$1 == "Debian" && ($2 ~ /-security$/) == (suite ~ /-security$/) { print $3; exit }'
}

# apt_at SUITE: the options that make apt use the suite's private state
apt_at() { echo "-c=$cache/apt/$1/apt.conf"; }

apt_state()
{
	dir=$cache/apt/$1
	mirror=$(apt_mirror "$1")
	[ -n "$mirror" ] || die "$1: no Debian mirror in this system's apt sources; set DEBIAN_MIRROR and DEBIAN_SECURITY_MIRROR"
	[ -f "$keyring" ] || die "$keyring is not there: install the package debian-archive-keyring"
	mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial" "$dir/empty"
	: > "$dir/status"
	# sid's Release file may be past its date, which says nothing about it
	case $1 in sid) check=no ;; *) check=yes ;; esac
	echo "deb [signed-by=$keyring check-valid-until=$check] $mirror $1 main" > "$dir/sources.list"
	cat > "$dir/apt.conf" <<-EOF
		Dir::Etc::sourcelist "$dir/sources.list";
		Dir::Etc::sourceparts "$dir/empty";
		Dir::Etc::preferencesparts "$dir/empty";
		Dir::State "$dir";
		Dir::State::status "$dir/status";
		Dir::State::lists "$dir/lists";
		Dir::Cache "$dir/cache";
		APT::Architecture "amd64";
		APT::Architectures { "amd64"; };
		APT::Sandbox::User "";
		APT::Get::Assume-Yes "true";
		APT::Install-Recommends "false";
		Acquire::Languages "none";
		Acquire::Retries "2";
		Acquire::http::Timeout "30";
		Dpkg::Use-Pty "false";
		#clear APT::Update::Post-Invoke;
		#clear APT::Update::Post-Invoke-Success;
		#clear DPkg::Post-Invoke;
	EOF
}

# apt_update SUITE: its package lists, at most an hour old. One at a time: two kernels
# or extras may be of one suite.
apt_update() { locked "suite-$1" apt_refresh "$1" || exit 1; }

apt_refresh()
{
	apt_state "$1"
	[ -z "$(find "$cache/apt/$1" -maxdepth 1 -name updated -mmin -60)" ] || return 0
	need_room 300
	rm -f "$cache/apt/$1/updated"
	apt-get "$(apt_at "$1")" -q -o APT::Update::Error-Mode=any update > "$cache/apt/$1/log" 2>&1 || {
		sed -n 's/^[EW]: /  /p' "$cache/apt/$1/log" | head -n 4 >&2
		die "suite $1 cannot be reached at $(apt_mirror "$1"): $(room) in the cache; check the network or set DEBIAN_MIRROR"
	}
	touch "$cache/apt/$1/updated"
}

# apt_newest SUITE REGEX: the package of the newest version whose name matches
apt_newest()
{
	apt-cache "$(apt_at "$1")" pkgnames linux- | grep -xE "$2" | sort -V | tail -n 1
}

# apt_version SUITE PACKAGE
apt_version()
{
	apt-cache "$(apt_at "$1")" show --no-all-versions "$2" | sed -n 's/^Version: //p' | head -n 1
}

# apt_download SUITE DIR PACKAGE...: the .deb files, checksums verified by apt
apt_download()
{
	suite=$1 to=$2; shift 2
	(cd "$to" && apt-get "$(apt_at "$suite")" -q download "$@" > log 2>&1) || {
		sed -n 's/^[EW]: /  /p' "$to/log" | head -n 4 >&2
		die "downloading $* of $suite failed: $(room)"
	}
	rm -f "$to/log"
}
