/* The tasks of a type, in the order of ota_gradient_tasks; compiled for each type. */
#include "pairs.h"

const ota_gradient_tasks WORD(ota_gradient_tasks) = {
    pack_head,       rows_task,      keys_task,  slopes_task,        transposed_task,
    widen_task,      mark_top,       load_pairs, replay_online,      reverse_online,
    load_bias,       load_advantage, recentre,   form_kernel,        row_round,
    reverse,         advantages,     last_keys,  load_kernel_column, last_gradients,
    pack_dimensions,
};
