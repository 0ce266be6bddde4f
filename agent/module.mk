# wprof-agent and its client wprof-ctl: gRPC's C core and protobuf-c
d := agent

# ---- messages; the imports are libctx's, health is Debian's grpc-proto
GRPC_PROTO  ?= /usr/share/grpc-proto
agent-pb    := $B/$d/proto/agent.pb-c.c
health-pb   := $B/$d/proto/grpc/health/v1/health.pb-c.c
# (this file is read before libctx's, which has the rule)
otel-pb     := $(patsubst %.proto,$B/%.pb-c.c,$(shell find libctx/proto -name '*.proto'))
agent-pb-o  := $(agent-pb:.c=.o) $(health-pb:.c=.o) $(otel-pb:.c=.o)

$(agent-pb): $d/proto/agent.proto
	@mkdir -p $(@D)
	$(call say,PB)$(PROTOC_C) -Iagent/proto -Ilibctx/proto --c_out=$B/agent/proto $<

$(health-pb): $(GRPC_PROTO)/grpc/health/v1/health.proto
	@mkdir -p $(@D)
	$(call say,PB)$(PROTOC_C) -I$(GRPC_PROTO) --c_out=$B/agent/proto $<

# ---- the two programs
agent-obj := $(patsubst %.c,$B/%.o,$(wildcard $d/*.c))
ctl-obj   := $(patsubst %.c,$B/%.o,$(wildcard $d/ctl/*.c))
objects   += $(agent-obj) $(ctl-obj) $(agent-pb:.c=.o) $(health-pb:.c=.o)
agent-cppflags := -I$B/agent/proto -I$B/libctx/proto -Iagent -Ilibctx/tool -Ilibwprof

$(agent-obj) $(agent-pb:.c=.o) $(health-pb:.c=.o): mod-cppflags = $(agent-cppflags)
$(ctl-obj): mod-cppflags = $(agent-cppflags) -Iagent/ctl -Ilibctx
$(agent-obj) $(ctl-obj) $(agent-pb-o): | $(agent-pb) $(health-pb) $(otel-pb)

agent-libs = $$($(PKG_CONFIG) --libs libprotobuf-c) -lgrpc -lgpr -lpthread -lm

# dumps are steered by what is inside libwprof (criu/dump.h)
$B/bin/wprof-agent: $(agent-obj) $(agent-pb-o) $(addprefix $B/libctx/tool/,bounded.o cli.o) \
		$B/libwprof/internal.a $B/lib/libctx.a
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(agent-libs)

# the client shows contexts as pctx does, from the bytes of a message, and reads
# what libwprof keeps of dumps
ctl-shared := $(addprefix $B/libctx/tool/,cli.o otlp_json.o show.o text.o)
$B/bin/wprof-ctl: $(ctl-obj) $(agent-pb:.c=.o) $(health-pb:.c=.o) $(ctl-shared) $B/libctx/internal.a \
		$B/libwprof/internal.a
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(agent-libs) \
		$$($(PKG_CONFIG) --libs jansson)

sbin-programs += $B/bin/wprof-agent
bin-programs  += $B/bin/wprof-ctl
all: $B/bin/wprof-agent $B/bin/wprof-ctl

# ---- tests: the independent client comes from npm, into the cache
agent-node:
	@./agent/tests/node/install $B
all-tests: agent-node
.PHONY: agent-node

# unit tests: of one file each
$(call atf-c-tests,$d): $B/$d/ctl/stoprule.o
$(addsuffix .o,$(call atf-c-tests,$d)): mod-cppflags = -Iagent/ctl
