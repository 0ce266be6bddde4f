atf_test_case reader__agrees_with_google
reader__agrees_with_google_head()
{
	atf_set "descr" "The reader takes, refuses and reads payloads as Google's protobuf does"
	atf_set "require.progs" "protoc /usr/bin/python3"
	atf_set "timeout" "120"
}
reader__agrees_with_google_body()
{
	top=$(atf_config_get top)
	mkdir proto
	protoc -I"$top/libctx/proto" --python_out=proto \
		$(cd "$top/libctx/proto" && find opentelemetry -name '*.proto') || atf_fail "protoc"
	# Debian's own python3 is the one that has the module
	atf_check -o empty -e match:'vectors, [1-9][0-9]* of them refused' /usr/bin/python3 \
		"$top/libctx/tests/vectors.py" "$(atf_get_srcdir)/helpers/decode" proto
}

atf_init_test_cases()
{
	atf_add_test_case reader__agrees_with_google
}
