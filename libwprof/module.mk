# libwprof (static and shared), its injector, the wprof program
d := libwprof

wprof-src := $(wildcard $d/*.c $d/criu/*.c)
wprof-proto := $(wildcard $d/criu/proto/*.proto)
wprof-pb  := $(wprof-proto:%.proto=$B/%.pb-c.c)
wprof-obj := $(wprof-src:%.c=$B/%.o) $(wprof-pb:.c=.o)
objects   += $(wprof-obj)

$(wprof-pb): $B/libwprof/criu/proto/%.pb-c.c: libwprof/criu/proto/%.proto
	@mkdir -p $(@D)
	$(call say,PB)$(PROTOC_C) -Ilibwprof/criu/proto --c_out=$B/libwprof/criu/proto $<

$(wprof-obj): mod-cppflags = -I$B/libwprof/criu/proto -Ilibwprof
$(wprof-obj): | $(wprof-pb)

# the newest node of the map must be the version of the Makefile
wprof-map := $(shell sed -n 's/^WPROF_\([0-9.]*\) {$$/\1/p' $d/libwprof.map | tail -n 1)
ifeq ($(filter $(wprof-map).%,$(VERSION)),)
$(error VERSION is $(VERSION), the newest node of $d/libwprof.map is WPROF_$(wprof-map))
endif

# For our own tests and programs: every symbol of the library.
$B/$d/internal.a: $(wprof-obj)
	$(call say,AR)rm -f $@ && $(AR) rcs $@ $^

$B/lib/libwprof.a: $(wprof-obj)
	@mkdir -p $(@D)
	$(call say,AR)rm -f $@ && $(LD) -r -o $(@:.a=.o) $^ && \
		$(OBJCOPY) --localize-hidden $(@:.a=.o) && $(AR) rcs $@ $(@:.a=.o) && rm -f $(@:.a=.o)

$B/lib/libwprof.so.$(VERSION): $(wprof-obj) $d/libwprof.map
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) -shared $(if $(findstring sanitize,$(CFLAGS)),,-Wl,-z,defs) \
		-Wl,-soname,libwprof.so.$(SOMAJOR) \
		-Wl,--version-script=$(filter %.map,$^) \
		-o $@ $(filter %.o,$^) $(wprof-libs)
	@ln -sf libwprof.so.$(VERSION) $(@D)/libwprof.so.$(SOMAJOR)
	@ln -sf libwprof.so.$(SOMAJOR) $(@D)/libwprof.so

all: $B/lib/libwprof.a $B/lib/libwprof.so.$(VERSION) $B/$d/libwprof.pc

# ---- the injector: a program of its own, started by the library
inject-obj := $(patsubst %.c,$B/%.o,$(wildcard $d/inject/*.c)) $B/$d/why.o
objects    += $(inject-obj)
libexec-programs += $B/libexec/wprof-inject

$(inject-obj): mod-cppflags = -Ilibwprof

# -z now: no symbol is to be looked up while a target waits
$B/libexec/wprof-inject: $(inject-obj)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) -Wl,-z,now -o $@ $^

all: $B/libexec/wprof-inject

# ---- the wprof program: the one place that knows both libraries
wprof-tool-obj := $(patsubst %.c,$B/%.o,$(wildcard $d/tool/*.c))
wprof-tool-main := $B/$d/tool/main.o
wprof-cli-obj  := $(addprefix $B/libctx/tool/,bounded.o cli.o deputy.o otlp_json.o text.o) \
		  $B/libctx/utf8.o
objects        += $(wprof-tool-obj)
bin-programs   += $B/bin/wprof

$(wprof-tool-obj): mod-cppflags = -Ilibwprof -Ilibctx/tool

$B/bin/wprof: $(wprof-tool-obj) $(wprof-cli-obj) $B/lib/libwprof.a $B/lib/libctx.a
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(wprof-libs) \
		$$($(PKG_CONFIG) --libs jansson libprotobuf-c tinfo) -lpthread -lm

all: $B/bin/wprof

# ---- tests: unit tests see the library's internals
wprof-libs = $$($(PKG_CONFIG) --libs libprotobuf-c)
$(call atf-c-tests,$d): $B/$d/internal.a
$(call atf-c-tests,$d): libs = $(wprof-libs)
$(addsuffix .o,$(call atf-c-tests,$d)): mod-cppflags = -I$B/libwprof/criu/proto -Ilibwprof
$(addsuffix .o,$(call atf-c-tests,$d)): | $(wprof-pb)

# CRIU images put together by hand, for the tests of the code that reads them
$B/$d/tests/images_test $B/$d/tests/images_ship_test $B/$d/tests/dump_test: $B/$d/tests/imgkit.o

# the parts of the program, without its main
wprof-tool-tests := $(filter $B/$d/tests/tool_%,$(call atf-c-tests,$d))
$(wprof-tool-tests): $(filter-out $(wprof-tool-main),$(wprof-tool-obj)) $(wprof-cli-obj) \
	$B/lib/libctx.a
$(wprof-tool-tests): libs = $B/libwprof/internal.a $(wprof-libs) \
	$$($(PKG_CONFIG) --libs jansson libprotobuf-c tinfo) -lpthread -lm

# ---- targets of the tests that cannot be functions in a test program
wprof-targets :=
ifeq ($(shell uname -m),x86_64)
wprof-targets += $B/$d/tests/targets/compat
endif

$B/$d/tests/targets/compat: $d/tests/targets/compat.S
	@mkdir -p $(@D)
	$(call say,LD)$(CC) -m32 -nostdlib -static -o $@ $<

all-tests: $(wprof-targets)

# ---- real programs under load: `make check-real` runs them, `make check` does not
real-tests := $(addprefix $B/,$(shell ./scripts/atf-list $d/tests/real))
sh-tests   += $(real-tests)

all-real: all $(real-tests)

check-real:
	@./scripts/need build check real
	@$(MAKE) --no-print-directory all-real
	@SUITE=libwprof/tests/real ./scripts/check $B $(T)

.PHONY: all-real check-real

# dumped by real CRIUs in the guests of kernel-tests
$B/$d/tests/images_target: $B/$d/tests/images_target.o
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $<
objects += $B/$d/tests/images_target.o
all-tests: $B/$d/tests/images_target

# ---- fuzzing, as of libctx; the corpus is kept in libwprof/fuzz/corpus
fuzz-programs += $B/fuzz/images
$B/fuzz/images: $d/fuzz/images.c $(wildcard $d/criu/*.c) $d/maps.c $d/why.c $(wprof-pb)
	@mkdir -p $(@D)
	$(call say,FUZZ)$(FUZZ_CC) -std=c11 -D_GNU_SOURCE -DPROCSCOPE_VERSION='"$(VERSION)"' \
		-w -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
		-Ilibwprof -Ilibwprof/include -I$B/libwprof/criu/proto -o $@ $^ \
		$$($(PKG_CONFIG) --libs libprotobuf-c)

fuzz: fuzz-images
fuzz-images:
	@./scripts/need build fuzz
	@$(MAKE) --no-print-directory $B/fuzz/images
	@mkdir -p $B/fuzz/found/images
	@rc=0; $(abspath $B/fuzz/images) -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=1024 \
		-artifact_prefix="$(abspath $B/fuzz)/" \
		-max_len=4096 -print_final_stats=1 "$(abspath $B/fuzz/found/images)" \
		"$(CURDIR)/libwprof/fuzz/corpus/images" || rc=1; rm -rf /dev/shm/images-fuzz.*; exit $$rc
.PHONY: fuzz-images

soak: soak-images
soak-images:
	@./scripts/need build check kernels
	@$(MAKE) --no-print-directory all-tests
	@./libwprof/tests/images_soak $B
.PHONY: soak-images
