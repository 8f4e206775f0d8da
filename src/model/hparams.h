// The part of the hyper-parameters that every architecture has; for model.c alone.
#ifndef RN_MODEL_HPARAMS_H
#define RN_MODEL_HPARAMS_H

#include "model/arch.h"

rn_status hparams_common(struct hparams *hp, const struct weights *weights, const struct arch *arch,
                         rn_error *err);

#endif
