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

.PHONY: check-kernels
