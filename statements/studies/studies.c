/* The studies that tell the story of the checks in pictures: one row a study, its points computed by a function
 * of this folder, its figure program/report/figures/FIGURE.vl.json. The page shows them in this order. */
#include "studies.h"

/* Members in the order of the struct; those that are left out are 0. */
#define STUDY(requirement, ...)                                                                    \
    { .id = requirement, __VA_ARGS__ }

const statement_study statement_studies[] = {
    STUDY("TOT-97", "contraction", study_contraction, "kernels", {"vectors", "bound", "measured"},
          "Contraction against its bound",
          "A positive kernel brings any two vectors nearer in the Hilbert metric, by the factor "
          "tanh(Delta/4) at least, where Delta is its projective diameter. This is why Sinkhorn "
          "converges at all. Each kernel stands at its bound; no pair of vectors may lie above the "
          "diagonal.",
          "Largest d_H(Kx, Ky) / d_H(x, y) found for {samples} kernels of {size} x {size}, "
          "{rounds} pairs each.",
          .answer = "Kernels contract: where the bound tanh(Delta/4) is {bound|last}, the largest "
                    "ratio of distances found is {random vectors|last} for random vectors and "
                    "{two-level vectors|last} for two-level ones.",
          .part = STUDY_ROUNDS, .size = {2, 6, 64}, .samples = {2, 40, 170},
          .rounds = {2, 2000, 100000}),
    STUDY(
        "TOT-90", "iterations", study_iterations, "solves", {"series", "epsilon", "rounds"},
        "Sinkhorn rounds against epsilon",
        "At Hamming cost the diameter of the kernel is exactly 2/epsilon, whatever the vocabulary, "
        "so the rounds to a column error of 1e-6 have a bound that no pair of distributions can "
        "exceed: 12 at epsilon = 1. The 42 that table 5 prints there cannot come from this kernel.",
        "Rounds to 1e-6, vocabulary of {size}, both axes logarithmic.",
        .answer = "Sinkhorn at Hamming cost and epsilon {independent pair|from} takes an "
                  "independent pair {independent pair|first} rounds to 1e-6, and no pair can take "
                  "more than {possible at most|first}; table 5 prints {printed in table 5|first}.",
        .part = STUDY_ROUNDS, .size = {2, 4000, 1000000}, .samples = {2, 13, 33},
        .rounds = {1, 100000, 10000000}),
    STUDY("TOT-90", "tolerances", study_tolerances, "solves", {"series", "tolerance", "rounds"},
          "Sinkhorn rounds against the error asked for",
          "At epsilon = 1 every further factor of 100 costs at most three rounds more, because "
          "each round shrinks the error by tanh^2(1/2) = .2136 at least. Table 5 prints 42, 59 and "
          "75 rounds on average for 1e-6, 1e-8 and 1e-10; at most 12, 15 and 18 are possible, for "
          "any pair of distributions.",
          "Rounds at epsilon = 1 to a column error, vocabulary of {size}.", .part = STUDY_ROUNDS,
          .size = {2, 4000, 1000000}),
    STUDY("ELA-17", "elastic", study_elastic, "rounds", {"lambda", "round", "delta"},
          "The elastic path",
          "Elastic rounds lead from softmax (round 0) to the doubly stochastic plan. Every lambda "
          "above 0 ends there; it only sets the speed, which the second singular value of that "
          "plan predicts.",
          "How far the worst key is from its even share after so many rounds, n = {size}.",
          .answer = "After {1|to} elastic rounds the worst key is {1|last} from its even share at "
                    "lambda 1, {0.25|last} at lambda 0.25 and {0|last} at 0, which is softmax.",
          .part = STUDY_ELASTIC, .size = {2, 24, 512}, .rounds = {1, 16, 120}),
    STUDY("CETA-33", "sink", study_sink, "shifts", {"method", "shift", "delta"},
          "Receivers under a sink",
          "One key's scores are raised by a common shift. Under softmax it ends with all the mass, "
          "n - 1 more than its share. A doubly stochastic plan does not notice: the shift is a "
          "change of gauge.",
          "Largest deviation of a column sum from 1 against the shift, n = {size}.",
          .answer =
              "A key whose scores are raised by {softmax|to} ends with {softmax|last} more than "
              "its share under softmax and {softmax/exact|last} under the doubly stochastic plan.",
          .part = STUDY_CERTIFICATES, .size = {4, 24, 512}, .samples = {2, 17, 120}),
    STUDY("DER-17", "tightness", study_tightness, "pairs", {"bound", "change", "use"},
          "How much of a certificate is used",
          "The printed certificate says that plans move by at most (n/tau) max|S - T|; the sharp "
          "one that they move by at most 2n tanh(R/2 tau), R the part of S - T that no row and "
          "column shifts explain. The second is met by plans on two permutations however far they "
          "move, the first in the limit only.",
          "||P - Q||_1 over its bound against max|S - T| / tau, n = {size}.",
          .part = STUDY_CERTIFICATES, .size = {2, 8, 256}, .samples = {4, 160, 256}),
    STUDY(
        "CETA-32", "cycle", study_cycle, "changes", {"quantity", "change", "share"},
        "Two permutations: a bound that is met",
        "Scores that favour the identity, and the same scores with a cyclic shift favoured "
        "instead. The plans differ by exactly 2n tanh(a/2), a the change of a score: the sharp "
        "certificate is met at every a, the printed one is left behind and passes the largest "
        "distance there is at a = 2.",
        "||P - Q||_1 as a share of its largest value 2n against the change of a score, n = {size}.",
        .answer = "Scores that change by {measured|to} turn a plan over by {measured|last} of the "
                  "largest distance; the sharp certificate allows {sharp bound|last}, the printed "
                  "one {printed bound|last}.",
        .part = STUDY_CERTIFICATES, .size = {2, 7, 64}, .samples = {1, 24, 170}),
    STUDY("CETA-23", "cold", study_cold, "temperatures", {"quantity", "temperature", "share"},
          "A near tie at low temperature",
          "Scores on two permutations that nearly tie change by 1e-3. At temperature 1 nobody sees "
          "it; as the temperature falls the same small change turns the whole plan over. The sharp "
          "certificate follows it to the end, the printed one promises nothing below tau = 5e-4.",
          "||P - Q||_1 as a share of its largest value 2n against temperature, scores changed by "
          "1e-3, n = {size}.",
          .part = STUDY_CERTIFICATES, .size = {2, 6, 64}, .samples = {2, 33, 170}),
    STUDY("CETA-31", "collapse", study_collapse, "sizes", {"method", "n", "delta"},
          "Collapsed receivers",
          "When every query prefers the same key, softmax gives it all n units of mass, n - 1 more "
          "than its share, the most there can be. The doubly stochastic plan leaves every key its "
          "unit.",
          "Largest deviation of a column sum from 1 against n = 2 to {size}, one key preferred by "
          "60.",
          .part = STUDY_CERTIFICATES, .size = {2, 64, 256}),
    STUDY(
        "ELA-15", "stability", study_stability, "rates", {"series", "lambda", "rate"},
        "Where relaxation is stable",
        "Near the doubly stochastic plan each elastic round multiplies the error by max|1 - lambda "
        "(1 - sigma_k^2)|. It shrinks while lambda stays below 2/(1 - sigma_n^2), which is 2 or "
        "more. From any start it shrinks below 2/(1 + tanh^2(Delta/4)). A rate above 1 diverges.",
        "Factor of the column error a round against lambda, n = {size}, measured over at most "
        "{rounds} rounds.",
        .part = STUDY_ELASTIC, .size = {2, 8, 256}, .samples = {2, 44, 250},
        .rounds = {8, 60, 1000}),
    STUDY("ELA-16", "annealing", study_annealing, "solves", {"series", "epsilon", "rounds"},
          "What annealing saves",
          "Rounds to a column error, from scratch and with epsilon halved from 1 every five "
          "rounds. For a fine error the last stage sets the pace and nothing is gained. For a "
          "coarse one annealing costs rounds while epsilon is high and saves them once it is low.",
          "Sinkhorn rounds against epsilon, mean over {samples} matrices of costs U[0,1], n = "
          "{size}, both axes logarithmic.",
          .part = STUDY_ROUNDS, .size = {2, 64, 256}, .samples = {1, 3, 100},
          .rounds = {1, 100000, 1000000}),
    STUDY("ELA-18", "relaxed", study_relaxed, "plans", {"lambda", "round", "share"},
          "An elastic plan is almost a relaxed one",
          "What a few elastic rounds give is no optimum of a relaxed problem, but one lies near: "
          "of all KL-relaxed plans the nearest is this far, as a share of the way from softmax to "
          "the doubly stochastic plan.",
          "l1 distance to the nearest relaxed plan over that of softmax and exact, n = {size}.",
          .part = STUDY_ELASTIC, .size = {2, 24, 128}, .rounds = {1, 16, 128}),
    STUDY("ELA-19", "annealed", study_annealed_path, "rounds", {"series", "round", "delta"},
          "The elastic update with annealing inside",
          "The note lowers epsilon inside the elastic loop and does not say what is kept from "
          "stage to stage. Keeping the potential g = epsilon log v keeps the progress; keeping v = "
          "exp(g/epsilon) shrinks g with epsilon and throws part of it away. Only the first comes "
          "near the doubly stochastic plan.",
          "Largest deviation of a column sum from 1, epsilon from 1 to .01 in {rounds} stages of "
          "one round, costs U[0,1], n = {size}.",
          .part = STUDY_ELASTIC, .size = {2, 32, 128}, .rounds = {2, 60, 85}),
    STUDY("DER-06", "time", study_time, "plans", {"lambda", "time", "distance"},
          "Elastic rounds as time",
          "lambda times the rounds acts as a time: plans of equal lambda T lie on one curve as "
          "long as lambda is small, and the curve falls as the slowest mode does, exp(-lambda T (1 "
          "- sigma_2^2)). Larger lambda are a little ahead.",
          "l1 distance to the doubly stochastic plan, over n, against lambda T, n = {size}.",
          .part = STUDY_ELASTIC, .size = {2, 24, 256}, .rounds = {1, 8, 84}),
    STUDY("LIT-04", "variance", study_variance, "widths", {"scores", "width", "variance"},
          "Why scores are divided by sqrt(d)",
          "The product of two standard normal vectors of width d has variance d. Softmax of such "
          "scores puts all its mass on one key as d grows. Divided by sqrt(d) they have variance 1 "
          "whatever the width.",
          "Variance of the scores of {samples} queries and keys against their width, both axes "
          "logarithmic.",
          .part = STUDY_ROWS, .size = {2, 512, 2048}, .samples = {4, 128, 1024}),
    STUDY(
        "LIT-20", "reinforce", study_reinforce, "estimates", {"estimator", "draws", "error"},
        "The gradient by drawing keys",
        "The score-function estimate draws keys and averages (u_k - b)(e_k - p). Every baseline b "
        "has the same mean, the gradient by transport, but not the same spread: with utilities far "
        "from 0 the baseline E u pays, and both errors fall as one over the root of the draws.",
        "Root mean square error of the estimate over {samples} repeats against the draws, {size} "
        "keys.",
        .answer = "With {no baseline|to} drawn keys the gradient is off by {no baseline|last} "
                  "without a baseline and by {baseline E u|last} with the baseline E u.",
        .part = STUDY_ROWS, .size = {2, 16, 512}, .samples = {2, 100, 10000},
        .rounds = {8, 2048, 65536}),
    STUDY("TOT-19", "complexity", study_complexity, "times", {"problem", "keys", "seconds"},
          "What a row costs and what a balanced round costs",
          "A softmax row reads its keys once, so time grows as V. A balanced round reads a V x V "
          "kernel, so time grows as V^2. On two logarithmic axes these are slopes 1 and 2.",
          "Processor time of one call against V, least of 7, V up to {size} and 64 times that for "
          "rows.",
          .part = STUDY_ROUNDS, .size = {128, 512, 2048}),
    STUDY("TOT-35", "saturated", study_saturated, "temperatures",
          {"deviation", "temperature", "share"}, "Saturated rows against temperature",
          "For fixed scores the share of rows whose largest weight is above .9999 can only fall "
          "when the temperature rises. The wider the scores, the higher the temperature it takes.",
          "Share of {samples} rows of {size} normal scores with 1 - max p < 1e-4.",
          .part = STUDY_ROWS, .size = {2, 16, 512}, .samples = {1, 2000, 10000}),
    STUDY("TOT-92", "probe", study_probe, "factors", {"quantity", "factor", "change"},
          "The norm of the probe",
          "Scaling the probe W by s scales the printed drift bound by s until it reaches 2, which "
          "nothing can exceed. The sharp bound bends with what is measured.",
          "l1 change of the prediction for one step of length 0.1, {size} symbols, both axes "
          "logarithmic.",
          .part = STUDY_ROWS, .size = {2, 64, 2048}, .samples = {2, 25, 170}),
    STUDY("TOT-117", "lipschitz", study_lipschitz, "steps", {"bound", "step", "share"},
          "Is the Lipschitz bound attained",
          "Two symbols and a step e along (1, -1). The printed bound e is only approached as e "
          "goes to 0. The sharp one, 2 tanh(osc/4), is met at every e by a step that crosses the "
          "middle evenly.",
          "||p' - p||_1 over its bound against the step e.", .part = STUDY_ROWS,
          .samples = {2, 33, 128}),
    STUDY("TOT-118", "counterexample", study_counterexample, "steps", {"series", "step", "change"},
          "A kept maximum does not bound the change",
          "z = (10, 0) and the second symbol raised by x. Up to x = 10 the first stays the "
          "largest, and the printed theorem allows a change of 2 eps = 9e-5. The change grows to 1 "
          "all the same. What holds always is twice the larger of both tails.",
          "l1 change of p against x, and two bounds, logarithmic.", .part = STUDY_ROWS,
          .samples = {1, 48, 170}),
    STUDY("TOT-113", "example_c4", study_example, "weights", {"source", "cell", "weight"},
          "Example C.4",
          "Three queries and four keys, as printed and recomputed. The printed rows 1 and 2 divide "
          "by 6.873; the sum of their exponentials is 6.804, so they add up to .988.",
          "Weights by row and key, and the sums of the rows.", .part = STUDY_EXAMPLES,
          .figure = "weights"),
    STUDY("TOT-114", "example_shift", study_shifted, "shifts", {"quantity", "shift", "change"},
          "A shift of a row's costs",
          "Adding c to the costs of row 1 of example C.4 moves the potential of that row by c and "
          "no weight at all.",
          "Change of the potential of row 1, and of the weight that changes most, against c.",
          .part = STUDY_EXAMPLES, .figure = "shifted", .samples = {2, 17, 250}),
    STUDY("TOT-115", "example_balanced", study_balanced, "weights", {"source", "cell", "weight"},
          "Example C.4, balanced",
          "The same scores with every key asked for 3/4 of mass. Keys 1 and 2 give up what keys 3 "
          "and 4 lack.",
          "Weights by row and key, and the sums of the columns.", .part = STUDY_EXAMPLES,
          .figure = "weights"),
    STUDY("TOT-116", "example_c3", study_product, "weights", {"source", "cell", "weight"},
          "Example C.3",
          "Two layers, 2 x 3 and 3 x 3. Only S1 S2 has matching shapes; the matrix that is printed "
          "as S2 S1 is neither, and its second row differs by up to .057. The conclusion survives: "
          "the determinant of the log ratios is .011443, not 0.",
          "Entries of the product by row and column.", .part = STUDY_EXAMPLES, .figure = "weights"),
    STUDY("LIT-33", "gallery", study_gallery, "weights", {"method", "key", "weight"},
          "Regularisers on one row",
          "One set of scores. Entropy keeps every key. Tsallis entropies of order 1.5 and 2 drop "
          "the worst, and the worst two. A linear bias moves weight to near keys.",
          "Weights of the scores 1, .5, .2, -1 at temperature 1.", .part = STUDY_ROWS),
    STUDY("BLOG-04", "post", study_post, "weights", {"source", "cell", "weight"},
          "The post's two by two",
          "The post derives softmax over a row and constrains the columns. Its costs show that "
          "these are two problems: the constraint it prints leads to a softmax over each column.",
          "Weights by row and key, C = -[[1, 0], [2, 0]].", .part = STUDY_EXAMPLES,
          .figure = "weights"),
};
const int statement_study_count = (int)(sizeof statement_studies / sizeof statement_studies[0]);
