# the kernel tests: what runs in guests is built as any other test
d := kernel-tests

kernel-tests-c := $(call atf-c-tests,$d)
$(kernel-tests-c): $B/lib/libctx.a
$(kernel-tests-c): libs = $$($(PKG_CONFIG) --libs libprotobuf-c)

# K=6.12 (several in quotes), T=libctx, or a program, or a case
check-kernels:
	@./scripts/need build check kernels
	@$(MAKE) --no-print-directory all-tests
	@./kernel-tests/check $B $(K) -- $(T)

# the table of docs/KERNELS.md, after a change of kernel-tests/expectations or boots
kernels-table:
	@./kernel-tests/table --update

# the table of docs/MIGRATION.md, of the last runs of the boots ...-migrate...
migration-table:
	@./kernel-tests/migrations $B --update

.PHONY: check-kernels kernels-table migration-table

# ---- what is run only in guests (kernel-tests/boots, Kyuafile.guests)
inside-tests := $(addprefix $B/,$(shell ./scripts/atf-list $d/inside))
inside-c     := $(filter %/hugetlb_test %/swap_test,$(inside-tests))
c-tests      += $(inside-c)
sh-tests     += $(filter-out $(inside-c),$(inside-tests))
inside-programs := $B/$d/inside/target $B/$d/inside/session
objects      += $(inside-programs:%=%.o)

$(inside-programs:%=%.o) $(inside-c:%=%.o): mod-cppflags = -Ilibwprof
$(inside-c): $B/libwprof/internal.a
$(inside-c): libs = $$($(PKG_CONFIG) --libs libprotobuf-c)

$B/$d/inside/target: $B/$d/inside/target.o
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $<
$B/$d/inside/session: $B/$d/inside/session.o $B/lib/libwprof.a
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $$($(PKG_CONFIG) --libs libprotobuf-c)

all-tests: $(inside-tests) $(inside-programs) $B/bench/independence

# ---- the long runs: many more operations beside CRIU
soak: soak-criu
soak-criu:
	@./scripts/need build check kernels
	@$(MAKE) --no-print-directory all-tests
	@SOAK=true ./kernel-tests/check --timeout 3600 $B 6.12-criu newest-criu 6.12-migrate

# ---- 100,000 random operations in each way of scanning, in emulated kernels
soak: soak-exact
soak-exact:
	@./scripts/need build check kernels
	@$(MAKE) --no-print-directory all-tests
	@SOAK=true ./kernel-tests/check --timeout 3600 $B 6.12 newest -- \
		$(addprefix libwprof/tests/exact_test:,random__as_chosen random__two_phases \
		random__one_filter huge__as_chosen)

.PHONY: soak-criu soak-exact
