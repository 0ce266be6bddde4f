# libctx (static and shared), the pctx program, the preloaded shim
d := libctx

# ---- messages by protobuf-c; imports are found below libctx/proto
ctx-proto := $(shell find $d/proto -name '*.proto')
ctx-pb    := $(ctx-proto:%.proto=$B/%.pb-c.c)
ctx-src   := $(wildcard $d/*.c)
ctx-obj   := $(ctx-src:%.c=$B/%.o) $(ctx-pb:.c=.o)
objects   += $(ctx-obj)

$(ctx-pb): $B/libctx/proto/%.pb-c.c: libctx/proto/%.proto
	@mkdir -p $(@D)
	$(call say,PB)$(PROTOC_C) -Ilibctx/proto --c_out=$B/libctx/proto $<

$(ctx-obj): mod-cppflags = -I$B/libctx/proto
$(ctx-obj): | $(ctx-pb)

# the newest node of the map must be the version of the Makefile
ctx-map := $(shell sed -n 's/^PCTX_\([0-9.]*\) {$$/\1/p' $d/libctx.map | tail -n 1)
ifeq ($(filter $(ctx-map).%,$(VERSION)),)
$(error VERSION is $(VERSION), the newest node of $d/libctx.map is PCTX_$(ctx-map))
endif

# For our own tests and programs: every symbol of the library.
$B/$d/internal.a: $(ctx-obj)
	$(call say,AR)rm -f $@ && $(AR) rcs $@ $^

# For users: one object whose hidden symbols are local, so that a program
# with protobuf-c messages of the same names links.
$B/lib/libctx.a: $(ctx-obj)
	@mkdir -p $(@D)
	$(call say,AR)rm -f $@ && $(LD) -r -o $(@:.a=.o) $^ && \
		$(OBJCOPY) --localize-hidden $(@:.a=.o) && $(AR) rcs $@ $(@:.a=.o) && rm -f $(@:.a=.o)
OBJCOPY ?= objcopy

$B/lib/libctx.so.$(VERSION): $(ctx-obj) $d/libctx.map
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) -shared $(if $(findstring sanitize,$(CFLAGS)),,-Wl,-z,defs) \
		-Wl,-soname,libctx.so.$(SOMAJOR) -Wl,-z,nodelete \
		-Wl,--version-script=$(filter %.map,$^) \
		-o $@ $(filter %.o,$^) $$($(PKG_CONFIG) --libs libprotobuf-c) -lpthread
	@ln -sf libctx.so.$(VERSION) $(@D)/libctx.so.$(SOMAJOR)
	@ln -sf libctx.so.$(SOMAJOR) $(@D)/libctx.so

all: $B/lib/libctx.a $B/lib/libctx.so.$(VERSION) $B/$d/libctx.pc

# ---- the preloaded shim: everything but libc is inside and hidden. The static
# libprotobuf-c is position independent only as far as its symbols are local,
# so all of them are made local before the link. Never with a sanitizer, whose
# runtime the programs it is loaded into do not have.
shim     := $B/lib/procscope/libpctx-preload.so
shim-src := $(wildcard $d/preload/*.c) $(addprefix $d/,arena.c encode.c foreign.c keymap.c \
	    otel_env.c publish.c state.c utf8.c)
shim-obj := $(shim-src:%.c=$B/shim/%.o) $(ctx-pb:$B/%.c=$B/shim/%.o)
objects  += $(shim-obj)
$(shim-obj) $(shim): private override CFLAGS := $(filter-out -fsanitize% -fno-sanitize%,$(CFLAGS))
$(shim): private override LDFLAGS := $(filter-out -fsanitize%,$(LDFLAGS))
$(shim-obj): mod-cppflags = -I$B/libctx/proto -Ilibctx
$(shim-obj): | $(ctx-pb)

$B/shim/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(all-cppflags) $(all-cflags) -c -o $@ $<

$B/shim/%.pb-c.o: $B/%.pb-c.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(all-cppflags) $(all-cflags) -w -c -o $@ $<

$(shim): $(shim-obj)
	@mkdir -p $(@D)
	$(call say,LD)$(LD) -r -o $(@:.so=.o) $^ \
		"$$($(PKG_CONFIG) --variable=libdir libprotobuf-c)/libprotobuf-c.a" && \
		$(OBJCOPY) --keep-global-symbol=none $(@:.so=.o) && \
		$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-z,defs -Wl,-soname,$(@F) \
		-o $@ $(@:.so=.o) -lpthread && rm -f $(@:.so=.o)

preload-libs += $(shim)
all: $(shim)

# ---- the pctx program
ctx-tool-src := $(wildcard $d/tool/*.c)
ctx-tool-obj := $(ctx-tool-src:%.c=$B/%.o)
objects      += $(ctx-tool-obj)
$(ctx-tool-obj): mod-cppflags = -Ilibctx $$($(PKG_CONFIG) --cflags jansson) $(watch-cppflags)
$B/bin/pctx: $(ctx-tool-obj) $B/$d/internal.a
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ \
		$$($(PKG_CONFIG) --libs jansson libprotobuf-c $(watch-pkg)) -lpthread

# `pctx watch` is told of publications by an eBPF program, if this machine can
# build one: clang for bpf, bpftool, libbpf. Without, it looks again and again.
BPFTOOL   ?= $(or $(shell command -v bpftool),$(wildcard /usr/sbin/bpftool))
BPF_CLANG ?= clang
watch-can := $(and $(BPFTOOL),$(filter x86_64,$(shell uname -m)),$(shell \
	     $(PKG_CONFIG) --exists libbpf && $(BPF_CLANG) --print-targets 2>/dev/null | grep -w bpf))
ifneq ($(watch-can),)
watch-cppflags := -DHAVE_WATCH_BPF -I$B/libctx/tool/bpf
watch-pkg      := libbpf
$B/$d/tool/notify.o: $B/$d/tool/bpf/watch.skel.h
else
$(info pctx watch: built without eBPF (needs clang, bpftool, libbpf-dev on x86-64); it will poll)
endif

$B/%.bpf.o: %.bpf.c $d/tool/bpf/watch_event.h
	@mkdir -p $(@D)
	$(call say,BPF)$(BPF_CLANG) -target bpf -O2 -g -Wall -Werror -Wno-unused-parameter \
		-I/usr/include/$$($(CC) -print-multiarch) -D__TARGET_ARCH_x86 -c -o $@ $<

$B/%.skel.h: $B/%.bpf.o
	$(call say,SKEL)$(BPFTOOL) gen skeleton $< name $(*F)_bpf > $@

bin-programs += $B/bin/pctx
all: $B/bin/pctx

# ---- tests: unit tests see the library's internals
ctx-libs = $$($(PKG_CONFIG) --libs libprotobuf-c)

# what the publisher's tests share; objects come before the archive
pub-tests := $(filter $(addprefix $B/$d/tests/,publish_test deny_test fork_test second_test \
	     encode_test key_map_test otel_env_test stores_test),$(call atf-c-tests,$d))
$(pub-tests): $B/$d/tests/pub_util.o

# programs that the sh tests run
pub-obj := $(addprefix $B/$d/tests/,pub_util.o publisher.o)
$(pub-obj): mod-cppflags = -I$B/libctx/proto -Ilibctx
$(pub-obj): | $(ctx-pb)
$B/$d/tests/publisher: $(pub-obj) $B/$d/internal.a
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(ctx-libs) -lpthread

$B/$d/tests/fake_clock.so: $B/shim/$d/tests/fake_clock.o
	$(call say,LD)$(CC) $(LDFLAGS) -shared -o $@ $^

$B/$d/tests/shim_target: $B/shim/$d/tests/shim_target.o
	$(call say,LD)$(CC) $(LDFLAGS) -o $@ $^ -lpthread

$B/$d/tests/fake_clock.so $B/$d/tests/shim_target: private override LDFLAGS := \
	$(filter-out -fsanitize%,$(LDFLAGS))
$B/shim/$d/tests/%.o: private override CFLAGS := $(filter-out -fsanitize% -fno-sanitize%,$(CFLAGS))

all-tests: $(addprefix $B/$d/tests/,publisher fake_clock.so shim_target)
objects += $(pub-obj) $(addprefix $B/shim/$d/tests/,fake_clock.o shim_target.o)

$(call atf-c-tests,$d): $B/$d/internal.a
$(call atf-c-tests,$d): libs = $(ctx-libs)
$(addsuffix .o,$(call atf-c-tests,$d)): mod-cppflags = -I$B/libctx/proto -Ilibctx
$(addsuffix .o,$(call atf-c-tests,$d)): | $(ctx-pb)

# ---- programs that tests call
ctx-helpers := $(patsubst $d/tests/helpers/%.c,$B/$d/tests/helpers/%,$(wildcard $d/tests/helpers/*.c))
objects     += $(ctx-helpers:=.o)
$(addsuffix .o,$(ctx-helpers)): mod-cppflags = -I$B/libctx/proto -Ilibctx -Ilibctx/tool
$(ctx-helpers): %: %.o $B/$d/tool/otlp_json.o $B/$d/internal.a
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ \
		$$($(PKG_CONFIG) --libs jansson libprotobuf-c) -lpthread
all-tests: $(ctx-helpers)

# ---- fuzzing: clang only, everything instrumented but libprotobuf-c. What is
# found lands in the build tree; what is worth keeping goes to libctx/fuzz/corpus.
FUZZ_CC      ?= clang
FUZZ_SECONDS ?= 300
fuzz-programs += $B/fuzz/ctx_reader
$B/fuzz/ctx_reader: $d/fuzz/reader.c $(ctx-src) $(ctx-pb)
	@mkdir -p $(@D)
	$(call say,FUZZ)$(FUZZ_CC) -std=c11 -D_GNU_SOURCE -DPROCSCOPE_VERSION='"$(VERSION)"' \
		-w -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
		-Ilibctx -Ilibctx/include -I$B/libctx/proto -o $@ $^ \
		$$($(PKG_CONFIG) --libs libprotobuf-c) -lpthread

fuzz:
	@./scripts/need build fuzz
	@$(MAKE) --no-print-directory $(fuzz-programs)
	@mkdir -p $B/fuzz/found/ctx_reader
	cd $B/fuzz && ./ctx_reader -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=1024 \
		-max_len=70000 -print_final_stats=1 found/ctx_reader "$(CURDIR)/libctx/fuzz/corpus/reader"

.PHONY: fuzz
