/* Requirement ids that cannot be checked without running a model, each with the reason. They are never counted
 * as passed. */
#include "check.h"

const tool_pending tool_pending_ids[] = {
    {"TOT-65", "the data protocol needs the tokenizer and a text"},
    {"TOT-66", "the byte-level tokenizer belongs to the model engine"},
    {"TOT-88", "where in depth saturation happens is a property of a trained model"},
    {"TOT-91", "whether residuals grow with depth is a property of a trained model"},
    {"TOT-120", "training dynamics need checkpoints of a model"},
};
const int tool_pending_count = (int)(sizeof tool_pending_ids / sizeof tool_pending_ids[0]);
