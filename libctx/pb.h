/* pb.h - short names for the generated protobuf-c messages */
#ifndef PCTX_PB_H
#define PCTX_PB_H

#include "opentelemetry/proto/common/v1/common.pb-c.h"
#include "opentelemetry/proto/processcontext/v1development/process_context.pb-c.h"
#include "opentelemetry/proto/resource/v1/resource.pb-c.h"

typedef Opentelemetry__Proto__Common__V1__AnyValue pb_any;
typedef Opentelemetry__Proto__Common__V1__ArrayValue pb_array;
typedef Opentelemetry__Proto__Common__V1__KeyValueList pb_kvlist;
typedef Opentelemetry__Proto__Common__V1__KeyValue pb_kv;
typedef Opentelemetry__Proto__Resource__V1__Resource pb_resource;
typedef Opentelemetry__Proto__Processcontext__V1development__ProcessContext pb_context;

#define pb_any_init	 opentelemetry__proto__common__v1__any_value__init
#define pb_array_init	 opentelemetry__proto__common__v1__array_value__init
#define pb_kvlist_init	 opentelemetry__proto__common__v1__key_value_list__init
#define pb_kv_init	 opentelemetry__proto__common__v1__key_value__init
#define pb_resource_init opentelemetry__proto__resource__v1__resource__init

#define PB_CONTEXT(name) \
	opentelemetry__proto__processcontext__v1development__process_context__##name

#define pb_context_init	  PB_CONTEXT(init)
#define pb_context_size	  PB_CONTEXT(get_packed_size)
#define pb_context_pack	  PB_CONTEXT(pack)
#define pb_context_unpack PB_CONTEXT(unpack)
#define pb_context_free	  PB_CONTEXT(free_unpacked)

/* the cases of AnyValue's oneof: PB_ANY(STRING_VALUE) */
#define PB_ANY(name) OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_##name

#endif /* PCTX_PB_H */
