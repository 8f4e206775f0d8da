// How a run samples: the sampling options over the settings of the model's file.
#ifndef RN_APP_SAMPLING_H
#define RN_APP_SAMPLING_H

#include "options/options.h"

struct sampling {
    rn_sampling value; // its lists point to bias and into the options
    rn_logit_bias bias[RN_MAX_LOGIT_BIAS];
};

// On failure the error has been printed and the exit code is returned. out is not to be moved.
int sampling_get(const struct options *options, const rn_model_info *info, struct sampling *out);

#endif
