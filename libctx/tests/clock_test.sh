# Timestamps under clocks that stand still, go back, overflow or fail
publisher=$(atf_get_srcdir)/publisher
# the clock is preloaded before a sanitizer's runtime, which does not like that
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0"

# publish five times with FAKE_CLOCK=$1; the timestamps, one a line
timestamps()
{
	FAKE_CLOCK=$1 LD_PRELOAD=$(atf_get_srcdir)/fake_clock.so $publisher publish a header \
		publish b header publish c header publish d header publish e header > out ||
		atf_fail "publisher failed"
	cat out
	[ "$(grep -c '^publish: 0$' out)" = 5 ] || atf_fail "not all were published"
	awk '$1 == "header:" && NF > 2 { print $2 }' out > timestamps
}

atf_test_case clock__fails
clock__fails_head()
{
	atf_set "descr" "Without a clock publishing fails, and an update leaves the old context"
}
clock__fails_body()
{
	FAKE_CLOCK=fail LD_PRELOAD=$(atf_get_srcdir)/fake_clock.so atf_check \
		-o inline:'publish: -22\nheader: none\nheader: 0\nsound: 0\nmaps: 0\n' \
		"$publisher" publish a header sound maps
	FAKE_CLOCK=7,fail LD_PRELOAD=$(atf_get_srcdir)/fake_clock.so atf_check \
		-o match:'^header: 7000000000 ' -o match:'^publish: -22$' -o match:'^sound: 0$' \
		"$publisher" publish a publish b header sound
}

atf_test_case clock__frozen
clock__frozen_head()
{
	atf_set "descr" "With a clock that stands still each timestamp is later than the last"
}
clock__frozen_body()
{
	timestamps 5.000000100
	seq 5000000100 5000000104 > expected
	atf_check diff -u expected timestamps
}

atf_test_case clock__backward
clock__backward_head()
{
	atf_set "descr" "With a clock that goes back, too, and it is used again when it is ahead"
}
clock__backward_body()
{
	timestamps 9,5,8,1,9.000000100
	printf '9000000000\n9000000001\n9000000002\n9000000003\n9000000100\n' > expected
	atf_check diff -u expected timestamps
}

atf_test_case clock__zero
clock__zero_head()
{
	atf_set "descr" "A clock at 0 or before it never gives the timestamp 0"
}
clock__zero_body()
{
	timestamps 0,0,-5,0
	seq 1 5 > expected
	atf_check diff -u expected timestamps
}

atf_test_case clock__overflow
clock__overflow_head()
{
	atf_set "descr" "A clock past 64 bits of nanoseconds gives the last timestamps, then an error"
}
clock__overflow_body()
{
	FAKE_CLOCK=99999999999 LD_PRELOAD=$(atf_get_srcdir)/fake_clock.so atf_check \
		-o save:out "$publisher" publish a header publish b header publish c header sound
	atf_check -o ignore grep -E '^header: 18446744073709551614 ' out
	atf_check -o inline:'2\n' grep -c '^header: 18446744073709551615 ' out
	atf_check -o ignore grep -x "publish: -75" out
	atf_check -o ignore grep -x "sound: 0" out
}

atf_test_case clock__kept_after_unpublish
clock__kept_after_unpublish_head()
{
	atf_set "descr" "After withdrawal the next timestamp is still later than the last one"
}
clock__kept_after_unpublish_body()
{
	FAKE_CLOCK=5 LD_PRELOAD=$(atf_get_srcdir)/fake_clock.so atf_check \
		-o match:'^header: 5000000001 ' "$publisher" publish a unpublish publish b header
}

atf_init_test_cases()
{
	atf_add_test_case clock__fails
	atf_add_test_case clock__frozen
	atf_add_test_case clock__backward
	atf_add_test_case clock__zero
	atf_add_test_case clock__overflow
	atf_add_test_case clock__kept_after_unpublish
}
