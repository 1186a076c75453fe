/* The column side of a fixed number of rounds on a stored kernel, all of it of length m = columns:
 *
 *     K = exp((S + a - m_i) / t),  v = exp((g - a) / t)
 *     u_i = mu_i / (sum_j K_ij v_j + sink_i),   c_j = sum_i u_i K_ij
 *     exact     v' = nu / c                             capped   v' = min(nu / c, exp(-a / t))
 *     others    g' by columns.h with L = log c - a / t
 *
 * with a the part of g that the kernel has absorbed. Exact and capped columns need no logarithm. */
#ifndef OTA_SCALING_H
#define OTA_SCALING_H

#include "solver.h"

typedef struct ota_scaling {
    ota_head *head;            /* rule, nu, mass, temperature; g is filled at the end */
    double *target;            /* [columns] nu, balanced to the row mass */
    double *sum;               /* [columns] c */
    double *scaling;           /* [columns] v */
    double *absorbed;          /* [columns] a, numbers of the kernel's type */
    const unsigned char *used; /* [columns] ota_key_use, or NULL: a row with mass may use each */
} ota_scaling;

/* What a step leaves. */
typedef enum ota_scaling_state {
    OTA_SCALING_INSIDE,  /* the kernel still carries every scaling */
    OTA_SCALING_OUTSIDE, /* absorb g into a new kernel */
    OTA_SCALING_LOST     /* sums underflowed: the general solver has to decide */
} ota_scaling_state;

/* Targets from head->nu and mass. False: some mass has no place or there is none, and the general
 * solver knows the words for it. */
bool ota_scaling_begin(ota_scaling *s);
/* One column update from c. */
ota_scaling_state ota_scaling_step(ota_scaling *s);
/* head->g from v and a. */
void ota_scaling_potentials(ota_scaling *s);
/* a = head->g in the kernel's type, v = what is left. */
void ota_scaling_absorb(ota_scaling *s);
/* v from head->g with a as it is. */
ota_scaling_state ota_scaling_restore(ota_scaling *s);
/* head->found.column_error of the plan with column sums c v. */
void ota_scaling_measure(ota_scaling *s);
/* The column residual that decides (numerics.md): for caps with the complementarity that is
 * violated. Fills head->g where the rule asks for it. */
double ota_scaling_residual(ota_scaling *s);
/* Relaxed columns: moves g by the constant that makes the dual stationary along constants. Returns the
 * factor of v, whose inverse belongs on u; no weight moves. 1 for every other rule. */
double ota_scaling_constant(ota_scaling *s);

#endif
