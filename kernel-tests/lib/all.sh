# shellcheck shell=sh
# All functions of the kernel tests; for scripts that have set $kt.
: "${kt:?}"
# shellcheck source=kernel-tests/lib/common.sh
. "$kt/lib/common.sh"
# shellcheck source=kernel-tests/lib/apt.sh
. "$kt/lib/apt.sh"
# shellcheck source=kernel-tests/lib/build.sh
. "$kt/lib/build.sh"
# shellcheck source=kernel-tests/lib/fetch.sh
. "$kt/lib/fetch.sh"
# shellcheck source=kernel-tests/lib/root.sh
. "$kt/lib/root.sh"
# shellcheck source=kernel-tests/lib/extras.sh
. "$kt/lib/extras.sh"
# shellcheck source=kernel-tests/lib/boot.sh
. "$kt/lib/boot.sh"
