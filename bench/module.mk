# the benches: one program a file, run one after the other by `make bench`
d := bench

bench-programs := $(patsubst %.c,$B/%,$(wildcard $d/*.c))
objects        += $(bench-programs:%=%.o)

$(bench-programs:%=%.o): mod-cppflags = -Ilibwprof -Ilibctx

$(bench-programs): %: %.o $B/libwprof/internal.a $B/libctx/internal.a
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ \
		$$($(PKG_CONFIG) --libs libprotobuf-c) -lpthread -lm

all-bench: all $(bench-programs)

# A target that is missed fails the bench, not the ones after it.
bench:
	@./scripts/need build
	@$(MAKE) --no-print-directory all-bench
	@rc=0; for b in $(bench-programs); do \
		echo "== $${b##*/}"; $$b || rc=1; \
	done; exit $$rc

.PHONY: all-bench bench

# ---- the long runs: each line a program of the benches with its arguments,
# or a test program that does more when the suite's variable soak is set
soak-runs  += ctx_storm:10000000
soak-tests += libwprof/tests/inject_survival_test

soak:
	@./scripts/need build
	@$(MAKE) --no-print-directory all-bench
	@rc=0; for run in $(soak-runs); do \
		echo "== $$run"; $B/bench/$${run%%:*} $${run#*:} || rc=1; \
	done; \
	SOAK=true $(MAKE) --no-print-directory check K=none T='$(soak-tests)' || rc=1; \
	exit $$rc

.PHONY: soak
