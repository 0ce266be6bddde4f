# the synthetic workloads: memwrite, memory-alloc, matmul
d := workloads

workload-names  := memwrite memory-alloc matmul
workload-common := $(patsubst %,$B/$d/%.o,workload run publish options pattern truth)
workload-bins   := $(workload-names:%=$B/bin/%)
workload-obj    := $(workload-names:%=$B/$d/%.o) $(workload-common)
objects         += $(workload-obj)
bin-programs    += $(workload-bins)

$(workload-obj): mod-cppflags = -Ilibctx/tool -Iworkloads

$(workload-bins): $B/bin/%: $B/$d/%.o $(workload-common) $B/libctx/tool/cli.o $B/lib/libctx.a
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ \
		$$($(PKG_CONFIG) --libs libprotobuf-c jansson) -lpthread -lm

all: $(workload-bins)

# ---- tests
workload-tests := $(call atf-c-tests,$d)
$(workload-tests): $(workload-common) $B/libctx/tool/cli.o $B/lib/libctx.a
$(workload-tests): libs = $$($(PKG_CONFIG) --libs libprotobuf-c jansson) -lm
$(addsuffix .o,$(workload-tests)): mod-cppflags = -Ilibctx/tool -Iworkloads
