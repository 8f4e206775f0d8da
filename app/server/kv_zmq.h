// The calls of libzmq. It is loaded when KV events are asked for: it brings a dozen libraries,
// which every other start of the program would load too.
#ifndef RN_SERVER_KV_ZMQ_H
#define RN_SERVER_KV_ZMQ_H

#include <zmq.h>

#include "runnel.h"

#define KV_ZMQ_CALLS(X)                                                                            \
    X(ctx_new, zmq_ctx_new)                                                                        \
    X(ctx_term, zmq_ctx_term)                                                                      \
    X(socket, zmq_socket)                                                                          \
    X(close, zmq_close)                                                                            \
    X(bind, zmq_bind)                                                                              \
    X(connect, zmq_connect)                                                                        \
    X(setsockopt, zmq_setsockopt)                                                                  \
    X(getsockopt, zmq_getsockopt)                                                                  \
    X(send, zmq_send)                                                                              \
    X(recv, zmq_recv)                                                                              \
    X(poll, zmq_poll)                                                                              \
    X(last_error, zmq_errno)                                                                       \
    X(error_text, zmq_strerror)

struct kv_zmq {
#define X(name, symbol) __typeof__(symbol) *name;
    KV_ZMQ_CALLS(X)
#undef X
};

// The library stays loaded. RN_ERR_UNSUPPORTED: this machine has none; the message says which.
rn_status kv_zmq_load(struct kv_zmq *out, rn_error *err);

#endif
