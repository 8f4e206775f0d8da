// Statuses and the error record: the one list that gives code, name and message. Part of the public
// interface.
#ifndef RUNNEL_STATUS_H
#define RUNNEL_STATUS_H

#define RN_STATUS_LIST(X)                                                                          \
    X(OK, "ok")                                                                                    \
    X(ERR_NOMEM, "out of memory")                                                                  \
    X(ERR_IO, "input/output error")                                                                \
    X(ERR_MODEL, "bad model")          /* the file is damaged, or is not a model */                \
    X(ERR_UNSUPPORTED, "unsupported")  /* a valid model that needs a feature runnel lacks */       \
    X(ERR_ARG, "bad argument")         /* a caller's value is out of its range */                  \
    X(ERR_CONTEXT, "context exceeded") /* the prompt does not fit the context */                   \
    X(ERR_FULL, "no capacity")         /* queue or pages are full: try later */                    \
    X(ERR_NUMERIC, "numeric error")    /* no finite logit, or none that may come */                \
    X(ERR_DEADLINE, "deadline passed") /* of the request, before its end */                        \
    X(ERR_CANCELLED, "cancelled")                                                                  \
    X(ERR_STEP, "step failed")     /* of the backend: its requests end, others continue */         \
    X(ERR_DEVICE, "device lost")   /* nothing can be computed any more */                          \
    X(ERR_BOUND, "bound not kept") /* a request's bound on time cannot be kept */                  \
    X(ERR_SHAPE, "no token fits the shape")        /* the text of a request cannot continue */     \
    X(ERR_AMBIGUOUS, "the shape is too ambiguous") /* a text has too many ways to continue */

typedef enum rn_status {
#define X(name, text) RN_##name,
    RN_STATUS_LIST(X)
#undef X
} rn_status;

// Filled by calls that fail; the message names the offending value and fits one line.
typedef struct rn_error {
    rn_status status;
    char message[512];
} rn_error;

#ifdef __cplusplus
extern "C" {
#endif

// A constant string such as "bad model".
const char *rn_status_text(rn_status status);

#ifdef __cplusplus
}
#endif

#endif
