# the benches: one program a file, run one after the other by `make bench`
d := bench

bench-programs := $(patsubst %.c,$B/%,$(wildcard $d/*.c))
objects        += $(bench-programs:%=%.o)

$(bench-programs:%=%.o): mod-cppflags = -Ilibwprof -Ilibctx

$(bench-programs): %: %.o $B/libwprof/internal.a $B/libctx/internal.a
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ \
		$$($(PKG_CONFIG) --libs libprotobuf-c) $(bench-libs) -lpthread -lm

# the one that has a gRPC server and client of its own
$B/$d/agent: bench-libs = -lgrpc -lgpr

all-bench: all $(bench-programs)

# A target that is missed fails the bench, not the ones after it.
bench:
	@./scripts/need build
	@$(MAKE) --no-print-directory all-bench
	@rc=0; for b in $(bench-programs); do \
		echo "== $${b##*/}"; $$b || rc=1; \
	done; exit $$rc

.PHONY: all-bench bench

# ---- the long runs: test programs that do more when the suite's variable soak
# is set; T= names others
soak-tests += libctx/tests/storm_test libwprof/tests/inject_survival_test libwprof/tests/exact_test \
              agent/tests/node_test

soak:
	@SOAK=true $(MAKE) --no-print-directory check K=none T='$(or $(T),$(soak-tests))'

.PHONY: soak

# ---- the table of the write profiler's document, ours beside it; EXPERIMENT_SECONDS for each recording
EXPERIMENT_SECONDS ?= 20

experiments:
	@./scripts/need build experiments
	@$(MAKE) --no-print-directory all
	@./scripts/experiments $B $(EXPERIMENT_SECONDS)

.PHONY: experiments
