// The part of the hyper-parameters that every architecture has; for model.c alone.
#ifndef RN_MODEL_HPARAMS_H
#define RN_MODEL_HPARAMS_H

#include "model/model.h"

// is_hybrid: layers may be without attention or feed-forward, and differ in them.
rn_status hparams_common(struct hparams *hp, const struct weights *weights, bool is_hybrid,
                         rn_error *err);

#endif
