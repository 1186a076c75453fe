/* Group C, one row of softmax: its potential, duality, Fisher information and advantage, and how a sparse row
 * is found [LIT-14..16, LIT-18..20, LIT-22..31]. s, p, u [m]; phi(s) = tau log sum exp(s / tau). */
#include "statements/check.h"

enum { M = 8, TRIALS = 30 };

/* ---- sparse rows ---- */

static int descending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* p = max(0, s - theta), theta from the sorted scores. */
static void sparsemax_by_sorting(const double *s, double *p) {
    double sorted[M], sum = 0.0, theta = 0.0;
    memcpy(sorted, s, sizeof sorted);
    qsort(sorted, M, sizeof *sorted, descending);
    for (int k = 0; k < M; k++) {
        sum += sorted[k];
        if (1.0 + (k + 1) * sorted[k] > sum) theta = (sum - 1.0) / (k + 1);
    }
    for (int j = 0; j < M; j++) p[j] = fmax(0.0, s[j] - theta);
}

/* p = max(0, (alpha - 1) s - x)^(1/(alpha - 1)), x halved into place. */
static void entmax_by_bisection(const double *s, double alpha, double *p) {
    double high = -HUGE_VAL, low;
    for (int j = 0; j < M; j++) high = fmax(high, (alpha - 1.0) * s[j]);
    low = high - 1.0;
    for (int step = 0; step < 80; step++) {
        const double x = 0.5 * (low + high);
        double sum = 0.0;
        for (int j = 0; j < M; j++)
            sum += pow(fmax(0.0, (alpha - 1.0) * s[j] - x), 1.0 / (alpha - 1.0));
        if (sum >= 1.0)
            low = x;
        else
            high = x;
    }
    for (int j = 0; j < M; j++)
        p[j] = pow(fmax(0.0, (alpha - 1.0) * s[j] - low), 1.0 / (alpha - 1.0));
}

static double sorting(trial *t) {
    double p[M];
    double *s = scores_of(t, 1, M, t->draw % CHARACTERS);
    head *h = statement_plan(t, 1, M, s, "sparsemax", 1.0, 0.0);
    sparsemax_by_sorting(s, p);
    return farthest(h->p, p, M);
}

static double bisection(trial *t) {
    double p[M];
    static const char *const methods[] = {"entmax:1.5", "entmax:1.25", "entmax:2"};
    static const double orders[] = {1.5, 1.25, 2.0};
    double *s = scores_of(t, 1, M, t->draw % CHARACTERS);
    head *h = statement_plan(t, 1, M, s, methods[t->draw % 3], 1.0, 0.0);
    entmax_by_bisection(s, orders[t->draw % 3], p);
    return farthest(h->p, p, M);
}

/* ---- context and utility ---- */

static double context_by_loops(trial *t) {
    enum { WIDTH = 5 };
    double *p = distribution(t, M, 1.0), *v = normals(t, M * WIDTH, 1.0), c[WIDTH], most = 0.0;
    if (ota_context(p, v, M, WIDTH, c, NULL, NULL) < 0) return NAN;
    seen(t, c, WIDTH);
    for (int k = 0; k < WIDTH; k++) {
        long double sum = 0.0L;
        for (int j = 0; j < M; j++) sum += (long double)p[j] * v[j * WIDTH + k];
        most = worse(most, fabs((double)sum - c[k]));
    }
    return most;
}

/* L(c) = sum_k sin c_k; u_j = -dL/dp_j against differences of L(c(p)) along p_j. */
static double utility_by_differences(trial *t) {
    enum { WIDTH = 3 };
    double *p = distribution(t, M, 1.0), *v = normals(t, M * WIDTH, 1.0), most = 0.0;
    double slope[WIDTH], minus_u[M];
    for (int k = 0; k < WIDTH; k++) {
        double c = 0.0;
        for (int j = 0; j < M; j++) c += p[j] * v[j * WIDTH + k];
        slope[k] = cos(c);
    }
    const ota_head_chain chain = {.queries = 1,
                                  .keys = M,
                                  .width = 1,
                                  .values_width = WIDTH,
                                  .v = v,
                                  .dout = slope,
                                  .dp = minus_u};
    if (ota_head_chain_rule(&chain, NULL, NULL) < 0) return NAN;
    seen(t, minus_u, M);
    for (int j = 0; j < M; j++) {
        const double step = 1e-5;
        double loss[2] = {0.0, 0.0};
        for (int side = 0; side < 2; side++) {
            for (int k = 0; k < WIDTH; k++) {
                double c = (side == 0 ? step : -step) * v[j * WIDTH + k];
                for (int l = 0; l < M; l++) c += p[l] * v[l * WIDTH + k];
                loss[side] += sin(c);
            }
        }
        most = worse(most, fabs(minus_u[j] - (loss[0] - loss[1]) / (2.0 * step)));
    }
    return most;
}

/* ---- Jacobian, advantage ---- */

static double jacobian_by_differences(trial *t) {
    double most = 0.0;
    const double tau = between(t, 0.4, 2.0), step = 1e-5;
    double *s = normals(t, M, 1.0), p[M], up[M], down[M], jacobian[M * M];
    softmax_formula(s, M, tau, p);
    if (ota_softmax_jacobian(p, M, tau, jacobian, NULL, NULL) < 0) return NAN;
    seen(t, jacobian, M * M);
    for (int j = 0; j < M; j++) {
        double *moved = copy_of(t, s, M);
        moved[j] += step;
        softmax_formula(moved, M, tau, up);
        moved[j] = s[j] - step;
        softmax_formula(moved, M, tau, down);
        for (int k = 0; k < M; k++) {
            most = worse(most, fabs(jacobian[k * M + j] - (up[k] - down[k]) / (2.0 * step)));
        }
    }
    return most;
}

/* Asymmetry, |J 1|, and how negative x^T J x gets. */
static double jacobian_laws(trial *t) {
    double most = 0.0, jacobian[M * M];
    double *p = distribution(t, M, 2.0), *x = normals(t, M, 1.0), form = 0.0;
    if (ota_softmax_jacobian(p, M, 1.0, jacobian, NULL, NULL) < 0) return NAN;
    seen(t, jacobian, M * M);
    for (int k = 0; k < M * M; k++) {
        most = worse(most, fabs(jacobian[k] - jacobian[k % M * M + k / M]));
        form += x[k / M] * jacobian[k] * x[k % M];
    }
    for (int k = 0; k < M; k++) most = worse(most, fabs(sum_of(jacobian + k * M, M)));
    most = worse(most, -form);
    return most;
}

static double advantage_mean(trial *t) {
    double most = 0.0, advantage[M];
    double *p = distribution(t, M, 2.0), *u = normals(t, M, 1.0);
    if (ota_advantage(p, u, M, 1.0, advantage, NULL, NULL, NULL) < 0) return NAN;
    seen(t, advantage, M);
    most = worse(most, fabs(dot(p, advantage, M)));
    for (int j = 0; j < M; j++) most = worse(most, fabs(advantage[j] - u[j] + dot(p, u, M)));
    return most;
}

/* Keys where a descent step does not have the sign of the advantage. */
static double advantage_signs(trial *t) {
    double wrong = 0.0, advantage[M], gradient[M];
    for (int trials = 0; trials < TRIALS; trials++) {
        double *p = distribution(t, M, 2.0), *u = normals(t, M, 1.0);
        if (ota_advantage(p, u, M, 0.7, advantage, gradient, NULL, NULL) < 0) return NAN;
        for (int j = 0; j < M; j++) {
            const double formula = u[j] - dot(p, u, M), step = -seen_number(t, gradient[j]);
            wrong += (step > 0.0) != (formula > 0.0);
        }
    }
    return wrong;
}

/* Draws of (u_k - b) grad log p_k: the mean's distance from -dL/ds in standard errors. */
static double mean_of_draws(trial *t, const double *p, const double *u, const double *gradient) {
    enum { DRAWS = 20000 };
    double sum[M] = {0.0}, square[M] = {0.0}, most = 0.0;
    for (int draw = 0; draw < DRAWS; draw++) {
        double left = uniform(t);
        int k = 0;
        while (k < M - 1 && left >= p[k]) left -= p[k++];
        for (int j = 0; j < M; j++) {
            const double x = (u[k] - 0.4) * ((j == k ? 1.0 : 0.0) - p[j]);
            sum[j] += x / (double)DRAWS;
            square[j] += x * x / (double)DRAWS;
        }
    }
    for (int j = 0; j < M; j++) {
        const double error = sqrt((square[j] - sum[j] * sum[j]) / (double)DRAWS);
        most = worse(most, fabs(sum[j] + gradient[j]) / error);
    }
    return most;
}

/* One of 2,000 right samples has a mean further off than 4 in one of M keys, so a second one is drawn then; a gradient
 * that is wrong misses both. */
static double reinforce(trial *t) {
    double *p = distribution(t, M, 1.0), *u = normals(t, M, 1.0), gradient[M];
    if (ota_advantage(p, u, M, 1.0, NULL, gradient, NULL, NULL) < 0) return NAN;
    seen(t, gradient, M);
    const double once = mean_of_draws(t, p, u, gradient);
    return once <= 4.0 ? once : mean_of_draws(t, p, u, gradient);
}

/* Any baseline b has the same expectation, summed exactly. */
static double reinforce_baselines(trial *t) {
    double most = 0.0, gradient[M];
    double *p = distribution(t, M, 1.0), *u = normals(t, M, 1.0);
    const double baseline = normal(t) * 3.0;
    if (ota_advantage(p, u, M, 1.0, NULL, gradient, NULL, NULL) < 0) return NAN;
    seen(t, gradient, M);
    for (int j = 0; j < M; j++) {
        double mean = 0.0;
        for (int k = 0; k < M; k++)
            mean += p[k] * (u[k] - baseline) * ((j == k ? 1.0 : 0.0) - p[j]);
        most = worse(most, fabs(mean + gradient[j]));
    }
    return most;
}

/* Total variance of the estimator with baseline E u over that with 0, utilities shifted by 5. The mean is
 * the library's gradient. */
static double baseline_variance(trial *t) {
    double *p = distribution(t, M, 1.0), *u = normals(t, M, 1.0), gradient[M], variance[2];
    for (int j = 0; j < M; j++) u[j] += 5.0;
    if (ota_advantage(p, u, M, 1.0, NULL, gradient, NULL, NULL) < 0) return NAN;
    for (int way = 0; way < 2; way++) {
        const double baseline = way == 0 ? dot(p, u, M) : 0.0;
        variance[way] = -dot(gradient, gradient, M);
        for (int k = 0; k < M; k++) {
            for (int j = 0; j < M; j++) {
                const double x = (u[k] - baseline) * ((j == k ? 1.0 : 0.0) - p[j]);
                variance[way] += p[k] * x * x;
            }
        }
    }
    return seen_number(t, variance[0] / variance[1]);
}

/* ---- potential and duality ---- */

/* V(s) = J(p*(s), s) at the moved scores too: the envelope, without the potential. */
static double envelope(trial *t) {
    double most = 0.0;
    const double tau = between(t, 0.3, 2.0), step = 1e-5;
    double *s = normals(t, M, 1.0), p[M], phi = NAN, value[3] = {NAN, NAN, NAN};
    softmax_formula(s, M, tau, p);
    (void)ota_softmax_objective(p, s, M, tau, &value[0], NULL, NULL);
    if (ota_softmax_potential(s, M, tau, &phi, NULL, NULL, NULL) < 0) return NAN;
    most = worse(most, fabs(seen_number(t, value[0]) + phi));
    for (int j = 0; j < M; j++) {
        double moved_p[M], *moved = copy_of(t, s, M);
        for (int side = 1; side <= 2; side++) {
            moved[j] = s[j] + (side == 1 ? step : -step);
            softmax_formula(moved, M, tau, moved_p);
            (void)ota_softmax_objective(moved_p, moved, M, tau, &value[side], NULL, NULL);
        }
        most = worse(most, fabs((value[1] - value[2]) / (2.0 * step) + p[j]));
    }
    return most;
}

/* grad phi by differences. */
static double potential_slope(trial *t) {
    double most = 0.0;
    const double tau = between(t, 0.3, 2.0), step = 1e-5;
    double *s = normals(t, M, 1.0), potential[3], weights[M];
    if (ota_softmax_potential(s, M, tau, &potential[0], weights, NULL, NULL) < 0) return NAN;
    seen(t, weights, M);
    for (int j = 0; j < M; j++) {
        double *moved = copy_of(t, s, M);
        moved[j] += step;
        (void)ota_softmax_potential(moved, M, tau, &potential[1], NULL, NULL, NULL);
        moved[j] = s[j] - step;
        (void)ota_softmax_potential(moved, M, tau, &potential[2], NULL, NULL, NULL);
        most = worse(most, fabs((potential[1] - potential[2]) / (2.0 * step) - weights[j]));
    }
    return most;
}

/* phi against long double, relative, scores up to 1e4 tau. */
static double potential_formula(trial *t) {
    const double tau = between(t, 0.1, 3.0), size = pow(10.0, (double)(t->draw % 5));
    double *s = uniforms(t, M, -size * tau, size * tau), potential = NAN;
    (void)ota_softmax_potential(s, M, tau, &potential, NULL, NULL, NULL);
    const double formula = tau * log_sum_exp(s, M, tau);
    return fabs(seen_number(t, potential) - formula) / (tau + fabs(formula));
}

static double dual_of(const double *s, double tau, double lambda) {
    double value = NAN;
    (void)ota_softmax_dual(s, M, tau, lambda, &value, NULL, NULL);
    return value;
}

/* Dual at tau - phi against -phi; and what other multipliers exceed it by. */
static double strong_duality(trial *t) {
    double most = 0.0;
    const double tau = between(t, 0.3, 2.0);
    double *s = normals(t, M, 1.0);
    const double phi = tau * log_sum_exp(s, M, tau);
    const double best = seen_number(t, dual_of(s, tau, tau - phi));
    most = worse(most, fabs(best + phi));
    for (int k = 0; k < 20; k++) {
        most = worse(most, dual_of(s, tau, tau - phi + normal(t)) - best);
    }
    return most;
}

/* Scores of mean 2: phi is far from 0. */
static double dual_is_lse(trial *t) {
    double *s = normals(t, M, 0.5);
    for (int j = 0; j < M; j++) s[j] += 2.0;
    const double phi = log_sum_exp(s, M, 1.0);
    return fabs(dual_of(s, 1.0, 1.0 - phi) - phi);
}

static double fenchel_identity(trial *t) {
    double most = 0.0;
    const double tau = between(t, 0.3, 2.0);
    double *s = normals(t, M, 1.0), *p = distribution(t, M, 1.0), star[M], divergence = 0.0;
    ota_fenchel fenchel;
    if (ota_fenchel_of(p, s, M, tau, &fenchel, NULL, NULL) < 0) return NAN;
    softmax_formula(s, M, tau, star);
    for (int j = 0; j < M; j++) divergence += tau * p[j] * log(p[j] / star[j]);
    most = worse(most, fabs(seen_number(t, fenchel.gap) - divergence));
    most = worse(most, fabs(fenchel.divergence - divergence));
    if (ota_fenchel_of(star, s, M, tau, &fenchel, NULL, NULL) < 0) return NAN;
    most = worse(most, fabs(fenchel.gap));
    return most;
}

static ota_fenchel at_optimum(trial *t, double tau, double *phi) {
    double *s = normals(t, M, 1.0), p[M];
    ota_fenchel fenchel = {NAN, NAN, NAN, NAN};
    softmax_formula(s, M, tau, p);
    *phi = tau * log_sum_exp(s, M, tau);
    (void)ota_fenchel_of(p, s, M, tau, &fenchel, NULL, NULL);
    return fenchel;
}

static double subdifferential(trial *t) {
    double most = 0.0, phi;
    const double tau = between(t, 0.3, 2.0);
    const ota_fenchel fenchel = at_optimum(t, tau, &phi);
    most = worse(most, seen_number(t, fenchel.spread));
    most = worse(most, fabs(fenchel.level - (phi - tau)));
    return most;
}

/* s = grad f(p*) = tau (log p* + 1), as printed: the distance is |phi - tau|. */
static double gradient_of_f(trial *t) {
    double phi;
    return fabs(at_optimum(t, 0.5, &phi).level);
}

/* ---- Fisher information ---- */

/* F as the expectation of (e_k - p)(e_k - p)^T / tau^2 under p; F 1 = 0; rank. */
static double fisher_definition(trial *t) {
    double most = 0.0, fisher[M * M];
    const double tau = between(t, 0.4, 2.0);
    double *p = distribution(t, M, 1.5);
    int64_t rank = 0;
    if (t->draw % 3 == 0) {
        p[0] += p[1];
        p[1] = 0.0;
    }
    if (ota_fisher_matrix(p, M, tau, fisher, &rank, NULL, NULL) < 0) return NAN;
    seen(t, fisher, M * M);
    for (int a = 0; a < M * M; a++) {
        long double mean = 0.0L;
        for (int k = 0; k < M; k++) {
            mean += (long double)p[k] * ((k == a / M ? 1.0L : 0.0L) - p[a / M]) *
                    ((k == a % M ? 1.0L : 0.0L) - p[a % M]);
        }
        most = worse(most, fabs(fisher[a] * tau * tau - (double)mean));
    }
    for (int k = 0; k < M; k++) most = worse(most, fabs(sum_of(fisher + k * M, M)) * tau * tau);
    most = worse(most, fabs((double)rank - (t->draw % 3 == 0 ? M - 2 : M - 1)));
    return most;
}

static double gradient_by_fisher(trial *t) {
    double most = 0.0, gradient[M], product[M];
    const double tau = between(t, 0.4, 2.0);
    double *p = distribution(t, M, 1.5), *u = normals(t, M, 1.0);
    if (ota_advantage(p, u, M, tau, NULL, gradient, NULL, NULL) < 0 ||
        ota_fisher_product(p, u, M, tau, product, NULL, NULL) < 0) {
        return NAN;
    }
    seen(t, gradient, M);
    for (int j = 0; j < M; j++) most = worse(most, fabs(gradient[j] + tau * product[j]));
    return most;
}

/* step = -F^+ grad: orthogonal to 1, and F step = -grad by the definition of both. */
static double natural_step(trial *t) {
    double most = 0.0, step[M];
    const double tau = between(t, 0.4, 2.0);
    double *p = distribution(t, M, 1.0), *u = normals(t, M, 1.0);
    if (ota_natural_gradient(p, u, M, tau, step, NULL, NULL) < 0) return NAN;
    seen(t, step, M);
    most = worse(most, fabs(sum_of(step, M)));
    for (int j = 0; j < M; j++) {
        const double moved = p[j] * (step[j] - dot(p, step, M)) / (tau * tau);
        const double gradient = -p[j] / tau * (u[j] - dot(p, u, M));
        most = worse(most, fabs(moved + gradient));
    }
    return most;
}

/* Saturated to 1e-200: the step stays tau (u - mean u). */
static double natural_step_saturated(trial *t) {
    double p[M], step[M], most = 0.0, *u = normals(t, M, 1.0);
    for (int j = 0; j < M; j++) p[j] = j == 2 ? 1.0 : 1e-200;
    if (ota_natural_gradient(p, u, M, 0.7, step, NULL, NULL) < 0) return NAN;
    seen(t, step, M);
    for (int j = 0; j < M; j++) {
        most = worse(most, fabs(step[j] - 0.7 * (u[j] - sum_of(u, M) / (double)M)));
    }
    return most;
}

/* With F inverted, as printed, the step would be tau u. */
static double step_by_inverse(trial *t) {
    double most = 0.0, step[M], *p = distribution(t, M, 1.0), *u = normals(t, M, 1.0);
    if (ota_natural_gradient(p, u, M, 1.0, step, NULL, NULL) < 0) return NAN;
    for (int j = 0; j < M; j++) most = worse(most, fabs(step[j] - u[j]));
    return most;
}

static double hessian_by_differences(trial *t) {
    double most = 0.0;
    const double tau = 0.8, step = 1e-3;
    double *s = normals(t, M, 1.0), p[M], jacobian[M * M];
    softmax_formula(s, M, tau, p);
    if (ota_softmax_jacobian(p, M, tau, jacobian, NULL, NULL) < 0) return NAN;
    seen(t, jacobian, M * M);
    for (int a = 0; a < M * M; a++) {
        double second = 0.0;
        /* The mixed difference of steps h and 2 h: its error is O(h^4). */
        for (int scale = 1; scale <= 2; scale++) {
            double mixed = 0.0;
            for (int corner = 0; corner < 4; corner++) {
                double *moved = copy_of(t, s, M);
                const double by = step * scale;
                moved[a / M] += corner % 2 == 0 ? by : -by;
                moved[a % M] += corner / 2 == 0 ? by : -by;
                mixed += (corner == 0 || corner == 3 ? tau : -tau) * log_sum_exp(moved, M, tau);
            }
            mixed /= 4.0 * step * step * scale * scale;
            second += scale == 1 ? 4.0 / 3.0 * mixed : -mixed / 3.0;
        }
        most = worse(most, fabs(second - jacobian[a]));
    }
    return most;
}

static double geodesic_formula(trial *t) {
    double *p = distribution(t, M, 1.0), *q = distribution(t, M, 1.0), overlap = 0.0;
    ota_divergence d;
    if (ota_divergence_of(p, q, M, &d, NULL, NULL) < 0) return NAN;
    for (int j = 0; j < M; j++) overlap += sqrt(p[j] * q[j]);
    return fabs(seen_number(t, d.fisher_rao) - 2.0 * acos(overlap));
}

/* |distance^2 / ds^T F ds - 1| for a step of 1e-4. */
static double metric(trial *t) {
    double product[M];
    static const double taus[] = {0.5, 1.0, 3.0};
    const double tau = taus[t->draw % 3];
    double *s = normals(t, M, 1.0), *step = normals(t, M, 1e-4), *moved = copy_of(t, s, M);
    for (int j = 0; j < M; j++) moved[j] += step[j];
    double p[M];
    softmax_formula(s, M, tau, p);
    ota_divergence d;
    if (ota_divergence_of_logits(s, moved, OTA_F64, M, tau, &d, NULL, NULL) < 0 ||
        ota_fisher_product(p, step, M, tau, product, NULL, NULL) < 0) {
        return NAN;
    }
    const double ratio = d.fisher_rao * d.fisher_rao / dot(step, product, M);
    return fabs(seen_number(t, ratio) - 1.0);
}

static const statement_check table[] = {
    AT_MOST("LIT-14", "sparsemax against sorting", sorting, 1e-14, TRIALS),
    AT_MOST("LIT-14", "entmax 1.25, 1.5, 2 against bisection", bisection, 1e-14, TRIALS),
    AT_MOST("LIT-15", "context vector against long double sums", context_by_loops, 1e-14),
    AT_MOST("LIT-16", "marginal utility against differences of the loss", utility_by_differences,
            1e-8),
    AT_MOST("LIT-18", "Jacobian against differences", jacobian_by_differences, 1e-8, TRIALS),
    AT_MOST("LIT-18", "Jacobian symmetric, semi-definite, J 1 = 0", jacobian_laws, 1e-15, TRIALS),
    AT_MOST("LIT-19", "A = u - E u, sum p A = 0", advantage_mean, 4e-15, TRIALS),
    AT_MOST("LIT-19", "descent steps without the sign of A", advantage_signs, 0.0),
    AT_MOST("LIT-20", "20000 score-function draws: standard errors from -dL/ds", reinforce, 4.0),
    AT_MOST("LIT-20", "any baseline: expectation against -dL/ds", reinforce_baselines, 2e-15,
            TRIALS),
    AT_MOST("LIT-20", "variance with baseline E u over that with 0", baseline_variance, 0.5),
    AT_MOST("LIT-22", "V = J(p*) = -phi, differences of J(p*(s), s) are -p*", envelope, 1e-9,
            TRIALS),
    AT_MOST("LIT-23", "phi against long double, |s|/tau up to 1e4, relative", potential_formula,
            1e-15, TRIALS),
    AT_MOST("LIT-23", "grad phi = p* by differences", potential_slope, 1e-9, TRIALS),
    AT_MOST("LIT-24", "the dual's maximum is -phi, at tau - phi", strong_duality, 1e-13, TRIALS),
    PRINTED_AT_MOST("LIT-24", "the dual's maximum is the log-sum-exp: |difference| (E25)",
                    dual_is_lse, 1e-13),
    AT_MOST("LIT-25", "f(p) + phi(s) - <p,s> = tau KL(p|p*), 0 at p*", fenchel_identity, 1e-13,
            TRIALS),
    AT_MOST("LIT-26", "s - tau (log p* + 1) is one number, phi - tau", subdifferential, 1e-13,
            TRIALS),
    PRINTED_AT_MOST("LIT-26", "s = grad f(p*): |difference| (E24)", gradient_of_f, 1e-12),
    AT_MOST("LIT-27", "F against its expectation, F 1 = 0, its rank", fisher_definition, 1e-15,
            TRIALS),
    AT_MOST("LIT-28", "dL/ds = -tau F u", gradient_by_fisher, 1e-15, TRIALS),
    AT_MOST("LIT-29", "F step = -grad and step orthogonal to 1", natural_step, 1e-14, TRIALS),
    AT_MOST("LIT-29", "closed form where F is numerically 0", natural_step_saturated, 1e-14),
    PRINTED_AT_MOST("LIT-29", "the step by F^-1 is tau u: |difference| (E23)", step_by_inverse,
                    1e-12),
    AT_MOST("LIT-30", "Hessian of phi by differences against J", hessian_by_differences, 2e-8),
    AT_MOST("LIT-31", "geodesic distance is 2 arccos sum sqrt(p q)", geodesic_formula, 1e-13,
            TRIALS),
    AT_MOST("LIT-31", "|distance^2 / ds F ds - 1| of a small step", metric, 1e-3, TRIALS),
};
CHECK_GROUP(statement_checks_geometry, table);
