/* Terms: what turns raw products into scores, in f32 and f64 from one body (row_scores.inc.h). */
#include <math.h>

#include "base/half.h"
#include "problem/problem.h"
#include "masks/support.h"

/* Elements of a row are handled in pieces of this many, so that addends live in registers and L1. */
enum { PIECE = 128 };

#define REAL float
#define WORD(name) name##_f32
#include "row_scores.inc.h"
#undef REAL
#undef WORD

#define REAL double
#define WORD(name) name##_f64
#include "row_scores.inc.h"
