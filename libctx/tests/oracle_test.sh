# What is published, decoded by Google's protobuf (Debian's python3-protobuf)
publisher=$(atf_get_srcdir)/publisher

# publish by the words given, decode into "decoded"
decode()
{
	protos=$(atf_config_get top)/libctx/proto
	mkdir -p generated
	# shellcheck disable=SC2046 # names without blanks
	protoc -I"$protos" --python_out=generated $(find "$protos" -name '*.proto') ||
		atf_fail "protoc failed"
	"$publisher" "$@" dump payload > out || atf_fail "publisher failed"
	cat out
	grep -qx 'dump: 0' out || atf_fail "nothing was published"
	/usr/bin/python3 "$(atf_config_get top)/libctx/tests/oracle.py" generated payload \
		> decoded || atf_fail "not decoded"
}

atf_test_case decode__kinds
decode__kinds_head()
{
	atf_set "descr" "Every kind of value is what went in, in the resource and beside it"
	atf_set "require.progs" "protoc /usr/bin/python3"
}
decode__kinds_body()
{
	decode kinds
	cat > kinds <<'END'
string string:'gr\xfc\xdf \U0001f600'
string.empty string:''
int.min int:-9223372036854775808
int.max int:9223372036854775807
int.0 int:0
double double:0.1
double.nan double:nan
double.inf double:-inf
bool.true bool:True
bool.false bool:False
bytes bytes:b'\x00\xffx\x00'
bytes.empty bytes:b''
empty empty
array [string:'v' int:-1 {k=string:'v' n=int:-1} empty []]
array.empty []
kvlist.empty {}
END
	{ sed 's/^/resource /' kinds; sed 's/^/attribute /' kinds; } > expected
	atf_check diff -u expected decoded
}

atf_test_case decode__deep
decode__deep_head()
{
	atf_set "descr" "What lies as deep as is allowed is taken by a decoder that stops at 100 messages"
	atf_set "require.progs" "protoc /usr/bin/python3"
}
decode__deep_body()
{
	decode deep
	# each of the two values is 32 lists in each other
	atf_check -o inline:'64\n' sh -c "grep -o '{k=' decoded | wc -l"
	atf_check -o inline:'2\n' grep -cF "{k=string:'deepest'}}" decoded
}

atf_test_case decode__key_map
decode__key_map_head()
{
	atf_set "descr" "The key map is an array of strings beside the resource, in their order"
	atf_set "require.progs" "protoc /usr/bin/python3"
}
decode__key_map_body()
{
	decode append a publish svc append b append a append c
	atf_check -o inline:"resource service.name string:'svc'\nattribute threadlocal.attribute_key_map [string:'a' string:'b' string:'c']\n" \
		cat decoded
}

atf_test_case decode__large
decode__large_head()
{
	atf_set "descr" "A payload of nearly 64 KiB is whole"
	atf_set "require.progs" "protoc /usr/bin/python3"
}
decode__large_body()
{
	decode bytes 65000
	atf_check -o inline:'65000\n' sh -c "grep -oF 'x00' decoded | wc -l"
}

atf_init_test_cases()
{
	atf_add_test_case decode__kinds
	atf_add_test_case decode__deep
	atf_add_test_case decode__key_map
	atf_add_test_case decode__large
}
