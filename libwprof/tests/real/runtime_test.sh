# Language runtimes with memory management of their own: numpy, a JVM, node.
# Each does the same sums (grind.py says which) in an array of 64 MiB, and makes
# garbage beside; the result is known in closed form, so one lost or torn write
# of the billions shows.

# The sum of a pass, modulo 2^32: x -> m * x + c, eight times, of 0 to n - 1.
expected()
{
	/usr/bin/python3 -c '
n, m, c, a, b = 16 << 20, 1664525, 1013904223, 1, 0
for _ in range(8):
    a, b = a * m, b * m + c
print((a * (n * (n - 1) // 2) + b * n) % 2**32)'
}

# ground PROGRAM COMMAND...: profiled under way; every pass has the right sum
ground()
{
	grinder=$1; shift
	started "$grinder" "$@"
	await grep -q '^pass' "$grinder.log"
	profiled "$grinder" "$(pid_of "$grinder")"
	touch stop
	ended "$grinder"
	atf_check -o match:'^done$' tail -n 1 "$grinder.log"
	atf_check -o inline:"pass $(expected)\n" sh -c "grep pass '$grinder.log' | sort -u"
}

runtime() # NAME DESCR PROGRAMS
{
	atf_test_case "$1" cleanup
	eval "$1_head() { atf_set descr '$2'; atf_set require.progs '$3'; atf_set timeout 180; }"
	eval "$1_cleanup() { . \"\$(atf_config_get top)/libwprof/tests/real/real.sh\"; stop_all; }"
}

runtime numpy__under_load 'numpy in the system python computes the right sums while profiled' \
	'/usr/bin/python3 jq'
numpy__under_load_body()
{
	. "$(atf_config_get top)/libwprof/tests/real/real.sh"
	ground numpy /usr/bin/python3 "$src/grind.py"
}

runtime jvm__under_load 'a JVM computes the right sums while profiled' \
	'java ecj /usr/bin/python3 jq'
jvm__under_load_body()
{
	. "$(atf_config_get top)/libwprof/tests/real/real.sh"
	atf_check -o ignore -e ignore ecj -11 -proc:none -d . "$src/Grind.java"
	ground jvm java -Xms192m -Xmx192m -XX:+UseSerialGC -cp . Grind
}

runtime node__under_load 'node computes the right sums while profiled' \
	'node /usr/bin/python3 jq'
node__under_load_body()
{
	. "$(atf_config_get top)/libwprof/tests/real/real.sh"
	ground node node "$src/grind.js"
}

atf_init_test_cases()
{
	atf_add_test_case numpy__under_load
	atf_add_test_case jvm__under_load
	atf_add_test_case node__under_load
}
