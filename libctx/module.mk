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
		-Wl,-soname,libctx.so.$(SOMAJOR) \
		-Wl,--version-script=$(filter %.map,$^) \
		-o $@ $(filter %.o,$^) $$($(PKG_CONFIG) --libs libprotobuf-c) -lpthread
	@ln -sf libctx.so.$(VERSION) $(@D)/libctx.so.$(SOMAJOR)
	@ln -sf libctx.so.$(SOMAJOR) $(@D)/libctx.so

all: $B/lib/libctx.a $B/lib/libctx.so.$(VERSION) $B/$d/libctx.pc

# ---- tests: unit tests see the library's internals
ctx-libs = $$($(PKG_CONFIG) --libs libprotobuf-c)
$(call atf-c-tests,$d): $B/$d/internal.a
$(call atf-c-tests,$d): libs = $(ctx-libs)
$(addsuffix .o,$(call atf-c-tests,$d)): mod-cppflags = -I$B/libctx/proto -Ilibctx
$(addsuffix .o,$(call atf-c-tests,$d)): | $(ctx-pb)
