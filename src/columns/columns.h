/* columns.h: a column rule is a row of a table: what solvers, backends and the operator ask of it. For a key j with
 * c_j = sum_i P_ij, target T_j, potential g_j in units of S and L_j = LSE_i((S_ij + f_i) / t), the column update of
 * every entropy plan is one formula,
 *
 *     g' = min(ceiling, (1 - decay) g + step t (log T - L))
 *     where that is at the ceiling: g' = max(ceiling, the same for the target floor T)
 *
 *     exact     decay 1       step 1            floor 1   ceiling +inf     c = T, T balanced to the row mass
 *     relaxed   decay 1       step rho/(rho+t)  floor 1   ceiling +inf     c = T exp(-g / rho)       [DER-01, 10]
 *     capped    decay 1       step 1            floor 0   ceiling 0        c <= T, or = T and g < 0  [DER-02]
 *     bounded   decay 1       step 1            floor LO/HI      0         floor T <= c <= T, with g < 0 only at T and
 *                                                                           g > 0 only at floor T
 *     elastic   decay lambda  step lambda       floor 1   ceiling +inf     a number of these steps   [ELA-09]
 *
 * T = 0 gives g = -inf. Free, prefix and online columns have no such update, only facts.
 *
 * This folder: one file a rule, with its update, its residual and its part of the formulas of Newton, the interior
 * point and derivatives, as a row of the table in columns.c; capped.c has the most to say. Solvers, backends and
 * the operator call the row and never ask which rule it is. A new rule is a file, an `extern` in column_rules.h, an
 * entry in columns.c, and its word in validation/method.c. May call: base/ and problem/. */
#ifndef OTA_COLUMNS_H
#define OTA_COLUMNS_H

#include <math.h>

#include "problem/fields.h"
#include "problem/problem.h"

enum { OTA_RULE_PARAMETERS = 2 }; /* most that a rule has */

/* A parameter of a rule: RULE:VALUE,VALUE of the method grammar, its field in ota_problem, and its derivative. */
typedef struct ota_rule_parameter {
    const char *name; /* NULL: past the last */
    size_t problem;   /* offset of a double, or of an int64_t where it is a count */
    int derivative;   /* row of ota_derivatives (fields.h); OTA_DERIVATIVES: it has none */
    double otherwise; /* where the word is without it; NaN: it must be given */
    bool count;
} ota_rule_parameter;

/* What the rule lets the rows of a head have to do with each other. */
typedef enum ota_column_coupling {
    OTA_COUPLING_NONE,      /* each row alone: free */
    OTA_COUPLING_ORDERED,   /* each row takes from what earlier rows left: online */
    OTA_COUPLING_LEADING,   /* each row is the last of a plan of the rows before it: prefix */
    OTA_COUPLING_POTENTIALS /* all rows, through one potential per key */
} ota_column_coupling;

/* The parameters of a rule at one key. */
typedef struct ota_column_parameters {
    double strength; /* rho, units of S */
    double lambda;
    double floor; /* least column sum in units of T */
    double scale; /* T in units of the key's mass */
} ota_column_parameters;

/* A key whose multiplier is known. */
typedef struct ota_target_key {
    double mass, sum, g;
    bool rounds; /* of fixed rounds: the multiplier is the derivative by T */
} ota_target_key;

/* How the sum that a rule asks of a key moves with the key's mass and the rule's parameters. */
typedef struct ota_target_slope {
    double by_mass, by_parameter[OTA_RULE_PARAMETERS];
} ota_target_slope;

/* The dual function of a rule is smooth in g, or has one kink, where a key rests whose sum lies between two bounds. */
typedef struct ota_column_kink {
    double at;           /* g */
    double below, above; /* the sum that is asked for on either side */
} ota_column_kink;

/* One update of one key. */
typedef struct ota_column_step {
    double decay, step;
    double floor;   /* least column sum in units of T; binds with g at a finite ceiling */
    double ceiling; /* largest g of a key with less than T */
} ota_column_step;

/* The columns of a plan, arrays [count]. */
typedef struct ota_column_sums {
    int64_t count;
    const double *sum;     /* c, or c / v */
    const double *scaling; /* v, or NULL: 1 */
    const double *target;
    const double *g; /* read by rules that are no equality */
    ota_column_parameters parameters;
    const double *floors; /* of each key, in the place of the parameters' floor; or NULL */
} ota_column_sums;

/* One key at an interior point, where some rules have unknowns of their own: the sum c, or the capacity s that is left,
 * with s (-g) = beta; between two bounds s and its price, what the sum has above the lower one and the reward of that. */
typedef struct ota_interior_key {
    ota_column_parameters parameters;
    double target, g;
    double own, rest, price, reward; /* those unknowns */
    double step;                     /* dg */
    double own_step, price_step;
    double beta;
    double second[2]; /* second-order terms of the predictor, one a product */
} ota_interior_key;

typedef struct ota_interior_rule {
    int products; /* of slack and price that tend to beta, per key */
    double start; /* g at first, in units of the first slack */
    /* The unknowns of a key that the first plan gives `sum`; NULL: the sum. */
    void (*begin)(ota_interior_key *key, double sum, double slack);
    /* The sum after a step, less dg's part, which is -diagonal dg. `corrected`: with second-order terms of the step before. */
    double (*part)(ota_interior_key *key, bool corrected, double *diagonal);
    /* Steps of the unknowns; lowers `limit` to what keeps them inside; adds to the sums of products now and of steps. */
    void (*move)(ota_interior_key *key, double *limit, double *product, double *complement);
    /* A step of this length; NULL: of `own`. */
    void (*advance)(ota_interior_key *key, double length);
    /* g where the bounds of the key do not bind, at the end; NULL: as it is */
    double (*finish)(const ota_interior_key *key, double range);
} ota_interior_rule;

/* What holds for every key of a rule. */
typedef enum ota_rule_trait {
    OTA_RULE_EQUALITY = 1 << 0,    /* c is to be T; without a say of g */
    OTA_RULE_BALANCED = 1 << 1,    /* an equality that is met: totals of T and of the rows agree, no
                                      key with T > 0 is unused */
    OTA_RULE_CAPACITY = 1 << 2,    /* T is the most that a key can take; g < 0 is the price of it */
    OTA_RULE_UNIT_MASSES = 1 << 3, /* the mass of a key is 1 where none is given, not its share of
                                      the rows' */
    OTA_RULE_PENALISED = 1 << 4,   /* rho KL(c | T): any sums are possible, constants in g matter,
                                      unused keys do not */
    OTA_RULE_DAMPED = 1 << 5,      /* a key with lambda = 0 never moves */
    OTA_RULE_COUNTED = 1 << 6,     /* a number of rounds, not what they converge to */
    OTA_RULE_CONSTRAINED = 1 << 7, /* the support may have no plan, or none with positive weights */
    OTA_RULE_SERVES_ALL = 1 << 8   /* a row with mass and no key makes the head infeasible */
} ota_rule_trait;

typedef struct ota_column_rule_row {
    const char *name;
    ota_rule_parameter parameters[OTA_RULE_PARAMETERS + 1];

    /* Parameters, and cells without a meaning; what the scores' shape and sink must be. NULL: anything. */
    ota_status (*check)(const ota_resolved *r, ota_error *error);
    ota_status (*check_shape)(const ota_resolved *r, ota_error *error);
    /* The hint of the refusal of a method whose parameters are out of range; NULL: they are in it. */
    const char *(*values_wrong)(const ota_problem *problem);

    /* ---- facts */
    ota_column_coupling coupling;
    unsigned traits; /* ota_rule_trait */
    double ceiling;  /* largest g */

    /* ---- of rules with potentials */
    ota_column_step (*step)(const ota_column_parameters *key, double t);
    /* sum_j of how far c is from what T and g ask for: the residual that decides (numerics.md). */
    double (*residual)(const ota_column_sums *columns);
    /* The same for c alone, where g may still be moved; NULL: it is the residual. */
    double (*excess)(const ota_column_sums *columns);

    /* ---- T and what lies between its bounds */
    double (*scale)(const ota_problem *problem); /* T in units of the key's mass; NULL: 1 */
    double (*floor)(const ota_problem *problem); /* NULL: 0 */

    /* ---- Newton; NULL: nothing */
    double (*wanted)(double target, double g, double strength); /* c at the optimum; NULL: T */
    /* What the rule adds to the diagonal of t times the Hessian. */
    double (*diagonal)(double target, double g, double strength, double t);
    ota_column_kink (*kink)(const ota_column_parameters *key, double target);

    const ota_interior_rule *interior; /* NULL: a key has no unknown of its own */

    /* ---- derivatives of a step, with ratio = log T - L; NULL: 0 */
    double (*gain_by_t)(const ota_column_parameters *key, double t,
                        double ratio); /* less its share */
    /* Of g' by the parameters, beside their part in T, times `share`. */
    void (*by_parameter)(const ota_column_parameters *key, double t, double g, double ratio,
                         double share, double by[OTA_RULE_PARAMETERS]);
    /* b times that of the sum that is asked of a key: at a solution, or, `rounds`, of T in fixed rounds. NULL: the mass's. */
    ota_target_slope (*target_slope)(const ota_problem *problem, const ota_target_key *key,
                                     double b);
} ota_column_rule_row;

/* columns.c */
const ota_column_rule_row *ota_column_rule_of(ota_column_rule rule);
/* Of a rule of the enum, past the last one with the name NULL. */
const ota_rule_parameter *ota_rule_parameters(ota_column_rule rule);
/* Why the values of the parameters are out of range, as a hint; NULL: they are in it. */
const char *ota_rule_values_wrong(const ota_problem *problem);
/* The validation: fills its part of `r` from r->problem; the masses once terms and supports are known. */
ota_status ota_resolve_columns(ota_resolved *r, ota_error *error);
ota_status ota_resolve_masses(ota_resolved *r, ota_error *error);
/* What is asked of a key of this mass, and the rule's parameters, which are the same for all keys but lambda. */
double ota_column_target(const ota_problem *problem, double mass);
/* What totals of T and floor T that miss the rows' mass by rounding are to be multiplied by; 1 where they do not. */
double ota_column_balance(const ota_column_parameters *key, double total, double mass,
                          double tolerance);
/* Moves potentials by the constant that brings the nearest key to its kink at 0, where all open ones lie on one side of it: rows
 * that are exact and have no sink answer to it, and updates of keys would go there in steps of one constant. */
void ota_column_begin(const ota_column_rule_row *rule, int64_t count, double *g);
ota_column_parameters ota_column_parameters_of(const ota_problem *problem);
ota_target_slope ota_column_target_slope(const ota_problem *problem, const ota_target_key *key,
                                         double b);

static inline bool ota_rule_is(const ota_column_rule_row *rule, ota_rule_trait trait) {
    return (rule->traits & (unsigned)trait) != 0;
}

/* The next g of a key; `log_ratio` = log T - L, in nats. */
static inline double ota_column_next(ota_column_step update, double t, double g, double log_ratio) {
    double next = update.step * t * log_ratio;
    if (update.decay < 1.0 || update.decay > 1.0) {
        next += (1.0 - update.decay) * g;
    }
    if (next < update.ceiling) return next;
    const double risen =
        update.floor > 0.0 ? next + update.step * t * log(update.floor) : -INFINITY;
    return risen > update.ceiling ? risen : update.ceiling;
}

/* The same step lengthened or shortened to omega of it, on the side of the ceiling that the step ends on. */
static inline double ota_column_relax(ota_column_step update, double omega, double g, double next) {
    const double moved = (1.0 - omega) * g + omega * next;
    if (next > update.ceiling) return moved > update.ceiling ? moved : update.ceiling;
    return moved < update.ceiling ? moved : update.ceiling;
}

/* Does the next g depend on g and the sums, or rest at the ceiling? */
static inline bool ota_column_moves(ota_column_step update, double next) {
    return next < update.ceiling || next > update.ceiling;
}

/* Is v' = T / c the whole update? */
static inline bool ota_column_step_divides(ota_column_step update) {
    return !(fabs(update.decay - 1.0) > 0.0) && !(fabs(update.step - 1.0) > 0.0);
}

/* Does a key rest at g = 0 between its bounds? No small move of the others changes that. */
static inline bool ota_column_rests(const ota_column_rule_row *rule,
                                    const ota_column_parameters *key, double g) {
    if (rule->kink == NULL) return rule->coupling == OTA_COUPLING_NONE;
    return key->floor < 1.0 && !(g < 0.0) && !(g > 0.0 && g < rule->ceiling);
}

/* What a penalty on the sums adds to the diagonal of the system of multipliers, with c the sum. */
static inline double ota_column_softness(const ota_column_rule_row *rule,
                                         const ota_column_parameters *key, double sum, double t) {
    return ota_rule_is(rule, OTA_RULE_PENALISED) ? t * sum / key->strength : 0.0;
}

/* The kink of a key, or one out of reach. */
static inline ota_column_kink ota_column_kink_of(const ota_column_rule_row *rule,
                                                 const ota_column_parameters *key, double target) {
    if (rule->kink != NULL) return rule->kink(key, target);
    return (ota_column_kink){INFINITY, target, target};
}

/* The nearest g that the rule allows. */
static inline double ota_column_project(const ota_column_rule_row *rule, double g) {
    return g > rule->ceiling ? rule->ceiling : g;
}

static inline double ota_column_sum(const ota_column_sums *columns, int64_t j) {
    return columns->scaling != NULL ? columns->scaling[j] * columns->sum[j] : columns->sum[j];
}

#endif
