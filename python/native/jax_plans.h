/* jax_plans.h: idle plans of compiled programs, by name. A name is the bytes of a call as Python filled them when the function was
 * traced: spec, layout of the arrays and what is wanted, everything but addresses and traced numbers. */
#ifndef OTATTN_JAX_PLANS_H
#define OTATTN_JAX_PLANS_H

#include "otattn.h"

/* An idle plan of the name, which no other call has now; NULL: there is none. */
ota_plan *jax_take_plan(const void *name, size_t size);

/* Keeps the plan for the next call of its name, or frees it. */
void jax_give_plan(ota_plan *plan, const void *name, size_t size);

/* Frees all idle plans; those at work are kept or freed when they come back. */
OTA_API void ota_jax_release(void);

#endif
