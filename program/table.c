/* The two tables the command line is made from. Parsing, --help, the man page, the completions and the
 * did-you-mean hints all read them: a new flag or subcommand is a row here. */
#include <string.h>

#include "program.h"

enum {
    ATTEND = 1 << 0,
    PLAN = 1 << 1,
    COMPARE = 1 << 2,
    ASSIGN = 1 << 3,
    HAMMING = 1 << 4,
    DEMO = 1 << 5,
    BENCH = 1 << 6,
    DOCTOR = 1 << 7,
    HELP = 1 << 8,
    COMPLETIONS = 1 << 9,
    VERIFY = 1 << 10,
    ALIGN = 1 << 11,
    CERTIFY = 1 << 12,
    TOKENIZE = 1 << 13,
    INFO = 1 << 14,
    CAPTURE = 1 << 15,
    PERPLEXITY = 1 << 16,
    GENERATE = 1 << 17,
    REPORT = 1 << 18,
    ANALYZE = 1 << 19,
    ALL = (1 << 20) - 1,
    RUN = CAPTURE | PERPLEXITY | GENERATE | ANALYZE,
    SOLVE = ATTEND | PLAN | COMPARE | CERTIFY,
    WRITE = ATTEND | PLAN
};

const tool_command tool_commands[] = {
    {"attend", "QUERY KEY VALUE", 3, 3, "attention by any method: out = P V",
     "Reads queries [n,d], keys [m,d] and values [m,w], each with heads and a batch in front if "
     "there are any, forms the scores S = scale * Q K^T with the given biases and masks, solves "
     "for the coupling P by the method, and writes out = P V. Q may have more heads than K and V "
     "(grouped heads). The certificate in the summary is computed afresh from the outputs by code "
     "that shares nothing with the solvers.",
     "otattn attend Q.npy K.npy V.npy --method softmax/capped:2 --causal -o out.npy", tool_attend,
     ATTEND},
    {"plan", "SCORES", 1, 1, "the coupling of a matrix of scores (or costs)",
     "Reads scores [n,m], with heads and a batch in front if there are any, and solves for the "
     "coupling P. With --cost the matrix is a cost to be minimised; +inf in a cost, or -inf in a "
     "score, forbids the pair.",
     "otattn plan cost.npy --cost --method softmax/exact --temperature 0.05 -o P.npy", tool_plan,
     PLAN},
    {"compare", "QUERY [KEY [VALUE]]", 1, 3, "several methods on the same input, side by side",
     "Solves the same problem by each method of --methods and prints, for each, the largest mass a "
     "key receives, Delta, entropy, support, the distances to softmax and to the doubly stochastic "
     "plan, the certificate's errors and the time. One operand alone is a matrix of scores. A "
     "method that fails is a row of the table and does not stop the others.",
     "otattn compare Q.npy K.npy --methods softmax,sparsemax,softmax/capped:2,elastic:.5,4",
     tool_compare, COMPARE},
    {"assign", "COST", 1, 1, "the cheapest matching of rows with columns",
     "Matches min(n,m) pairs of the cost matrix [n,m] at the least total cost and prints the "
     "column of each row, -1 for a row left over. +inf forbids a pair. The dual value proves the "
     "optimum: gap = value - dual.",
     "otattn assign cost.npy --json", tool_assign, ASSIGN},
    {"hamming", "P Q", 2, 2, "entropic transport between two distributions, Hamming cost",
     "Transport between the distributions p and q over the same V symbols at cost 1 for every "
     "change of symbol, with entropy weight --epsilon, in time and memory O(V). Prints the cost, "
     "the objective <P,C> - epsilon H(P), the debiased divergence and the total variation.",
     "otattn hamming p.npy q.npy --epsilon 0.1 --json", tool_hamming, HAMMING},
    {"align", "A [B]", 1, 2, "row and column shifts that bring one matrix nearest to another",
     "Finds the shifts that minimise max |A_ij - B_ij - row_i - column_j| (without B: of A alone) "
     "and prints that residual with a lower bound that proves it: the mean of one closed walk "
     "through the matrix. --solver howard solves exactly, midrange by alternating sweeps, ls takes "
     "the means (least squares), fast reads the matrix once and is at most twice too high.",
     "otattn align after.npy before.npy --json", tool_align, ALIGN},
    {"certify", "", 0, 0, "how far a plan can move, and whose plan a coupling is",
     "With --perturbed, the plans of the scores S and T are solved and their distance ||P - Q||_1 "
     "is held against what the theory allows: the printed bound, (n / temperature) max |S - T|, "
     "and the sharp one, which uses only the part of S - T that no row and column shifts explain. "
     "With --values also for the outputs P V and Q W. Pairs that take no part are -inf in both. "
     "With --coupling, anyone's plan P of the scores is judged: errors of rows and columns, and "
     "the gap for --method; without a method, those that explain P best are found with their "
     "parameters.",
     "otattn certify --coupling P.npy --scores S.npy --json", tool_certify, CERTIFY},
    {"demo", "", 0, 0, "what each method does to a trained model's attention, in a second",
     "Shows attention as transport on queries, keys and values of a small trained model that come "
     "with the program: heat maps, the mass every word receives, certificates. With -o it writes a "
     "page that needs no network.",
     "otattn demo -o demo.html", tool_demo, DEMO},
    {"bench", "", 0, 0, "speed with errors checked, or (--random) a search for wrong answers",
     "Times methods on random queries, keys and values and compares every timed result with plain "
     "double loops; the row fma-ceiling is what this machine's vector units reach in the same run. "
     "With --random N it solves N random problems over temperatures from 1e-6 to 1e6 of the score "
     "range, all methods, masks and masses, has each answer judged in double precision, and fails "
     "with exit 3 if one answer with status ok violates its tolerance.",
     "otattn bench --random 10000 --seed 1", tool_bench, BENCH},
    {"verify", "", 0, 0, "every statement about attention as transport, measured",
     "Runs the checks of every requirement id: each calls the library and compares with a formula "
     "of its own, or tests a law, on random problems drawn from --seed. Forms printed in the "
     "sources that do not hold are run too and are expected to fail. Statements about models are "
     "checked on a small GPT-2 of random weights, or, with --model, they alone on that one. Fails "
     "with exit 3 if one check does not come out as expected. --self-test perturbs the library's "
     "outputs by ten times the tolerance; every id must detect it.",
     "otattn verify --only 'CETA-*' --seed 2", tool_verify, VERIFY},
    {"tokenize", "MODEL [TEXT]", 1, 2, "a text as the token ids of a model, and back",
     "MODEL is a folder with tokenizer.json, with vocab.json and merges.txt (or encoder.json and "
     "vocab.bpe), or with vocab.txt; or one tokenizer.json or vocab.txt. TEXT is a file, - for "
     "standard input, which is also read when neither it nor --text is given. Prints the ids on "
     "one line, with the special ones that the model's configuration sets around a text. --decode "
     "goes back: for byte-level BPE every byte comes back, whatever the text was.",
     "otattn tokenize gpt2/ --text 'Hello world' --json", tool_tokenize, TOKENIZE},
    {"info", "MODEL", 1, 1, "what a checkpoint is",
     "Prints architecture, sizes, parameters and, with --json, every tensor of a model, from its "
     "headers alone. MODEL is a folder with config.json and model.safetensors or its shards, a "
     ".gguf file, or the name of a model in the local hub cache. GPT-2, BERT and Llama types are "
     "known.",
     "otattn info ./gpt2 --json", tool_info, INFO},
    {"capture", "MODEL [TEXT]", 1, 2, "arrays from inside a run of a model",
     "Runs a text, or the tokens of --ids, through the model, with any attention method in any "
     "layer or head, and writes the requested arrays under TransformerLens names. They are "
     "streamed to the file: memory holds one at a time. `logits` are those of the model's head; "
     "`all` leaves them out. With --residual the run begins at --start-at-layer with a residual "
     "stream of the caller's, such as a hook_resid_pre captured before, as it was or edited.",
     "otattn capture ./gpt2 text.txt --points attn.hook_pattern -o run.safetensors", tool_capture,
     CAPTURE},
    {"perplexity", "MODEL [TEXT]", 1, 2, "how well a causal model predicts its text",
     "Cuts the text, or the tokens of --ids, into windows and prints the mean negative "
     "log-likelihood of each token given those before it in its window, and its exponential. The "
     "protocol (context, stride, tokens) is printed with the number.",
     "otattn perplexity ./gpt2 wiki.txt --context 1024 --method softmax/online:4@3-11",
     tool_perplexity, PERPLEXITY},
    {"generate", "MODEL [TEXT]", 1, 2, "the continuation of a prompt",
     "Continues the prompt, or the tokens of --ids, by --tokens more on a KV cache; greedy unless "
     "--sample. Only methods whose rows do not depend on later tokens can run so: free and online "
     "columns.",
     "otattn generate ./gpt2 --prompt 'Once upon a time' --tokens 50", tool_generate, GENERATE},
    {"analyze", "MODEL [TEXT]", 1, 2, "how a model's states and predictions evolve over its layers",
     "Cuts the text, or the tokens of --ids, into windows, runs each through the model, and "
     "measures every state, transition and head. Writes a folder: metrics.json, tables/*.csv, "
     "figures/, report.html, and one record a window, so that --resume continues an interrupted "
     "run and gives the same bytes as an uninterrupted one.",
     "otattn analyze ./gpt2 wiki.txt --windows 64x512 -o run", tool_analyze, ANALYZE},
    {"report", "RUN", 1, 1, "the page, figures and tables of an analysed run",
     "Reads metrics.json, manifest.json and tables/ of a folder that 'otattn analyze' wrote. "
     "Writes report.html (one page that needs no network), figures/NAME.vl.json (Vega-Lite with "
     "its data inside) and tables/NAME.tex. With --compare the page shows two runs beside each "
     "other and their differences with intervals.",
     "otattn report run/ --compare run2/ -o both.html", tool_report_command, REPORT},
    {"doctor", "", 0, 0, "what this build and this machine can do",
     "Lists the version, processor features, backends, kernels, solvers and methods, and solves "
     "one small problem with each kernel to see that they agree.",
     "otattn doctor --json", tool_doctor, DOCTOR},
    {"help", "[COMMAND|TOPIC]", 0, 1, "help on a command or a topic",
     "Without an operand, the overview. --man prints the manual page.", "otattn help methods",
     tool_help, HELP},
    {"completions", "SHELL", 1, 1, "completion script for bash, zsh or fish",
     "Prints the script on standard output.",
     "otattn completions bash > ~/.local/share/bash-completion/completions/otattn",
     tool_completions, COMPLETIONS},
};
const int tool_command_count = (int)(sizeof tool_commands / sizeof tool_commands[0]);

enum { METHOD, SCORES, PAIRS, MASSES, SOLVING, MACHINE, TEXTS, OUTPUT, OTHER };

const char *const tool_groups[] = {
    "Method", "Scores and biases", "Which pairs may carry weight",
    "Masses", "How it is solved",  "Machine",
    "Text",   "Input and output",  "General",
};
const int tool_group_count = (int)(sizeof tool_groups / sizeof tool_groups[0]);

#define FIELD(name) offsetof(tool_settings, name)

const tool_flag tool_flags[] = {
    {"method", 'm', false, "M", NULL, "softmax",
     "REGULARISER[/COLUMNS][{option=value,...}] or an alias; see 'otattn help methods'", WRITE,
     METHOD, false, FIELD(method), tool_parse_text},
    {"method", 'm', false, "M", NULL, "softmax/exact with --perturbed, else the one that fits best",
     "the method of the plans", CERTIFY, METHOD, false, FIELD(method), tool_parse_text},
    {"methods", 'm', false, "M,M,...", NULL, "one of each kind",
     "the methods to run; a comma before a digit belongs to the method", COMPARE | BENCH, METHOD,
     false, FIELD(methods), tool_parse_text},
    {"methods", 0, false, "M,M,...", NULL, "none",
     "run the same windows under these as well and compare (methods.csv)", ANALYZE, METHOD, false,
     FIELD(methods), tool_parse_text},
    {"temperatures", 0, false, "T,T,...", NULL, "none",
     "run the same windows at these attention temperatures as well (temperatures.csv)", ANALYZE,
     METHOD, false, FIELD(temperatures), tool_parse_text},
    {"layers", 0, false, "A-B", NULL, "all", "measure layers A to B, counted from 0", ANALYZE,
     METHOD, false, FIELD(layers), tool_parse_text},
    {"saturation", 0, false, "P,TV", NULL, "0.9999,1e-10",
     "an event: both largest probabilities above P, total variation below TV", ANALYZE, METHOD,
     false, FIELD(saturation), tool_parse_text},
    {"store", 0, false, "TYPE", "f16 f32", "f32", "f16 rounds states as if they had been stored so",
     ANALYZE, METHOD, false, FIELD(store), tool_parse_choice},
    {"method", 'm', false, "M[@PLACE,...]|@FILE", NULL, "softmax",
     "attention of all layers, or of PLACE = layer L, A-B, or head L.H, A-B.H; @FILE: a JSON file "
     "of methods and places; repeatable, the last wins",
     RUN, METHOD, false, FIELD(model_methods), tool_parse_list},
    {"temperature", 't', false, "T", NULL, "1", "a factor on the model's own temperature", RUN,
     METHOD, false, FIELD(temperature), tool_parse_text},
    {"rows", 0, false, "hard|relaxed:RHO", NULL, "hard",
     "row masses exact, or relaxed with strength RHO (with relaxed columns: unbalanced transport)",
     SOLVE, METHOD, true, FIELD(rows), tool_parse_text},
    {"axis", 0, false, "WORD", "rows columns", "rows",
     "columns solves the transposed problem: P = (plan of S^T)^T", SOLVE, METHOD, true, FIELD(axis),
     tool_parse_choice},
    {"start", 0, false, "WORD", "rows columns", "rows",
     "the side the first update belongs to; columns is the order printed for CETA", SOLVE, METHOD,
     true, FIELD(start), tool_parse_choice},
    {"end", 0, false, "WORD", "rows columns", "rows",
     "the side of the last update; after columns the rows are not exact, and a warning says so",
     SOLVE, METHOD, true, FIELD(end), tool_parse_choice},
    {"temperature", 't', false, "T[,T...]", NULL, "1",
     "scores are divided by T; one, or one per head", SOLVE, METHOD, true, FIELD(temperature),
     tool_parse_text},

    {"scale", 0, false, "S", NULL, "attend, compare 1/sqrt(d), plan 1",
     "multiplies Q K^T or the matrix", SOLVE, SCORES, true, FIELD(scale), tool_parse_positive},
    {"cost", 0, false, NULL, NULL, NULL, "the matrix, or scale * Q K^T, is a cost to be minimised",
     SOLVE, SCORES, true, FIELD(cost), tool_parse_switch},
    {"bias", 0, false, "F", NULL, NULL,
     "array added to the scores, broadcast from the right (repeatable)", SOLVE, SCORES, false,
     FIELD(biases), tool_parse_list},
    {"relative-bias", 0, false, "F[:inside]", NULL, NULL,
     "array [n+m-1] or [heads,n+m-1]: entry i-j+m-1 is added to pair (i,j); inside: before the "
     "scale",
     SOLVE, SCORES, false, FIELD(relative_bias), tool_parse_text},
    {"rope", 0, true, "BASE", NULL, "base 10000", "rotates queries and keys by their positions",
     ATTEND | COMPARE, SCORES, true, FIELD(rope), tool_parse_text},
    {"alibi", 0, false, "SLOPE[,SLOPE...]|auto", NULL, NULL,
     "subtracts SLOPE * |i-j|; one, or one per head; auto: 2^(-8h/H)", SOLVE, SCORES, true,
     FIELD(alibi), tool_parse_text},
    {"softcap", 0, false, "C", NULL, NULL, "scores become C tanh(S/C)", SOLVE, SCORES, true,
     FIELD(softcap), tool_parse_positive},
    {"sink", 0, false, "LOGIT[,LOGIT...]", NULL, NULL,
     "one more key with this logit and no value; one, or one per head", SOLVE, SCORES, true,
     FIELD(sink), tool_parse_text},

    {"sink", 0, false, "LOGIT", NULL, NULL, "one more key with this logit and no value", RUN,
     SCORES, false, FIELD(sink), tool_parse_text},
    {"windows", 0, false, "NxL", NULL, "64x512, or what there is", "N windows of L tokens", ANALYZE,
     TEXTS, false, FIELD(windows), tool_parse_text},
    {"sample", 0, false, "WORD", "first random", "first",
     "the windows at the beginning, or drawn by --seed without overlap", ANALYZE, TEXTS, false,
     FIELD(sampling), tool_parse_choice},
    {"window", 'w', false, "L,R", NULL, NULL, "keys i-L to i+R only; -1 = no limit", RUN, PAIRS,
     false, FIELD(window), tool_parse_text},
    {"lengths", 0, false, "F", NULL, NULL,
     "int64 [batch]: tokens of each sequence, the rest padding", CAPTURE, PAIRS, false,
     FIELD(lengths), tool_parse_text},

    {"causal", 'c', true, "CORNER", "top-left bottom-right", "top-left if n = m",
     "key j for query i only if j <= i (+ m-n at the bottom-right corner)", SOLVE, PAIRS, false,
     FIELD(causal), tool_parse_choice},
    {"window", 'w', false, "L,R", NULL, NULL, "keys i-L to i+R only; -1 = no limit", SOLVE, PAIRS,
     false, FIELD(window), tool_parse_text},
    {"strided", 0, false, "S", NULL, NULL, "every S-th key before and after the query's own place",
     SOLVE, PAIRS, false, FIELD(strided), tool_parse_natural},
    {"block", 0, false, "W|F", NULL, NULL,
     "pairs inside one block only: blocks of W, or an array of block sizes", SOLVE, PAIRS, false,
     FIELD(block), tool_parse_text},
    {"mask", 0, false, "F", NULL, NULL,
     "bool (true takes part) or float (added), broadcast from the right (repeatable)", SOLVE, PAIRS,
     false, FIELD(masks), tool_parse_list},
    {"lengths", 0, false, "F", NULL, NULL, "int64 [batch]: how many keys each sequence has", SOLVE,
     PAIRS, false, FIELD(lengths), tool_parse_text},
    {"corner", 0, false, "CORNER", "top-left bottom-right", "that of --causal, else top-left",
     "where query 0 stands for windows, strides, blocks and ALiBi when n and m differ", SOLVE,
     PAIRS, false, FIELD(corner), tool_parse_choice},

    {"row-mass", 0, false, "F", NULL, "1 per row", "array [n] of row masses", SOLVE, MASSES, false,
     FIELD(row_mass), tool_parse_text},
    {"column-mass", 0, false, "F", NULL, "total / usable keys",
     "array [m]: the columns' target, or a factor per key of CAP", SOLVE, MASSES, false,
     FIELD(column_mass), tool_parse_text},

    {"tolerance", 0, false, "E", NULL, "1e-5, 1e-9 for f64",
     "on the larger of row_error and column_error", SOLVE | HAMMING | ALIGN | RUN, SOLVING, true,
     FIELD(tolerance), tool_parse_positive},
    {"max-rounds", 0, false, "N", NULL, "1000", "give up after N rounds",
     SOLVE | HAMMING | ALIGN | RUN, SOLVING, true, FIELD(max_rounds), tool_parse_natural},
    {"rounds", 0, false, "K", NULL, NULL,
     "exactly K rounds, whatever the error (status fixed_iters); 0 is softmax", SOLVE | RUN,
     SOLVING, true, FIELD(rounds), tool_parse_count},
    {"anneal", 0, false, "START:FACTOR[:ROUNDS][,keep-v]", NULL, NULL,
     "begin at temperature START and multiply it by FACTOR every ROUNDS rounds", SOLVE, SOLVING,
     true, FIELD(anneal), tool_parse_text},
    {"relaxation", 0, false, "W|auto", NULL, "1", "over-relaxation of the column update, 0 < W < 2",
     SOLVE, SOLVING, true, FIELD(relaxation), tool_parse_text},
    {"elastic-lambda", 0, false, "F", NULL, "the method's",
     "array [m]: a lambda per key for elastic", SOLVE, SOLVING, false, FIELD(elastic_lambda),
     tool_parse_text},
    {"start-potential", 0, false, "F", NULL, "zeros",
     "array [m] (heads and batch in front): warm start", WRITE, SOLVING, false,
     FIELD(start_potential), tool_parse_text},
    {"center", 0, false, "WORD", "none mean midrange", "none",
     "shifts the scores before the linear domain; the plan stays the same", SOLVE, SOLVING, true,
     FIELD(center), tool_parse_choice},
    {"precision", 0, false, "WORD", "auto f32 f64", "auto", "of potentials and stored scores",
     SOLVE, SOLVING, true, FIELD(precision), tool_parse_choice},
    {"tolerance-scaling", 0, false, "E", NULL, NULL,
     "also go on until the column potential moves by at most E", SOLVE, SOLVING, true,
     FIELD(tolerance_scaling), tool_parse_positive},
    {"prune", 0, false, NULL, NULL, NULL,
     "exact columns: give weight 0 to pairs that no plan can use, and solve the rest", SOLVE,
     SOLVING, true, FIELD(prune), tool_parse_switch},
    {"solver", 0, false, "NAME", NULL, "auto", "one of those that 'otattn doctor' lists",
     SOLVE | HAMMING | ALIGN, SOLVING, true, FIELD(solver), tool_parse_text},
    {"allow-partial", 0, false, NULL, NULL, NULL,
     "write the result although the tolerance was not met (status partial, exit 0)", SOLVE, SOLVING,
     true, FIELD(allow_partial), tool_parse_switch},
    {"strict", 0, false, NULL, NULL, NULL, "rows that meet NaN or infinity are an error", SOLVE,
     SOLVING, true, FIELD(strict), tool_parse_switch},

    {"dropout", 0, false, "P", NULL, "0",
     "after the solve each weight is dropped with this probability, by --seed, and the others are "
     "divided by 1 - P; certificates and --coupling are of the plan before",
     ATTEND, SOLVING, false, FIELD(dropout), tool_parse_positive},

    {"threads", 'j', false, "N", NULL, "all processors",
     "how many threads; no result depends on it", SOLVE | ASSIGN | DEMO | BENCH | RUN, MACHINE,
     false, FIELD(threads), tool_parse_natural},
    {"cpu", 0, false, "LEVEL", "portable avx2 avx512 avx512bf16 amx neon", "the newest here",
     "use no newer instructions", SOLVE | ASSIGN | DEMO | BENCH | RUN, MACHINE, false, FIELD(cpu),
     tool_parse_choice},
    {"backend", 0, false, "NAME", "cpu plain", "cpu",
     "what computes; plain: loops that are slow and easy to read", SOLVE | ASSIGN, MACHINE, false,
     FIELD(backend), tool_parse_choice},
    {"memory", 0, false, "BYTES", NULL, "no limit", "refuse a plan that takes more workspace",
     SOLVE, MACHINE, false, FIELD(memory), tool_parse_natural},
    {"seed", 0, false, "S", NULL, "1", "seed of whatever is drawn at random",
     SOLVE | BENCH | VERIFY | GENERATE | ANALYZE, MACHINE, false, FIELD(seed), tool_parse_count},

    {"epsilon", 'e', false, "E", NULL, "must be given", "weight of the entropy", HAMMING, METHOD,
     false, FIELD(epsilon), tool_parse_positive},
    {"scores", 's', false, "F", NULL, "must be given", "scores S [...,n,m] (with --cost, costs)",
     CERTIFY, SCORES, false, FIELD(scores), tool_parse_text},
    {"perturbed", 'p', false, "F", NULL, NULL, "scores T of the same shape", CERTIFY, SCORES, false,
     FIELD(perturbed), tool_parse_text},
    {"values", 0, false, "F", NULL, NULL, "values V [m,w] or [...,m,w] of the first plan", CERTIFY,
     SCORES, false, FIELD(values), tool_parse_text},
    {"perturbed-values", 0, false, "F", NULL, "V", "values W of the second plan", CERTIFY, SCORES,
     false, FIELD(perturbed_values), tool_parse_text},
    {"coupling", 0, false, "F", NULL, NULL, "the coupling [...,n,m] to judge", CERTIFY, SCORES,
     false, FIELD(coupling), tool_parse_text},
    {"random", 0, false, "N", NULL, NULL, "solve and judge N random problems instead of timing",
     BENCH, METHOD, false, FIELD(random), tool_parse_natural},
    {"first", 0, false, "I", NULL, "0", "number of the first random problem, to repeat one", BENCH,
     METHOD, false, FIELD(first), tool_parse_count},
    {"only", 0, false, "GLOB", NULL, "all", "the ids to check, such as 'CETA-*'", VERIFY, METHOD,
     false, FIELD(only), tool_parse_text},
    {"model", 0, false, "FOLDER", NULL, "a small one of random weights",
     "only the checks on a model, on this one; those of a GPT-2's weights where it is one", VERIFY,
     METHOD, false, FIELD(model), tool_parse_text},
    {"repeat", 0, false, "N", NULL, "1", "run each check on N different draws", VERIFY, METHOD,
     false, FIELD(repeat), tool_parse_natural},
    {"size", 0, false, "N", NULL, "each study's own",
     "with -o: queries and keys, or the vocabulary, of the studies", VERIFY, METHOD, false,
     FIELD(size), tool_parse_natural},
    {"samples", 0, false, "N", NULL, "each study's own",
     "with -o: how many kernels, epsilons, shifts or pairs a study tries", VERIFY, METHOD, false,
     FIELD(samples), tool_parse_natural},
    {"rounds", 0, false, "N", NULL, "each study's own",
     "with -o: elastic rounds, most Sinkhorn rounds, or pairs of vectors a kernel", VERIFY, METHOD,
     false, FIELD(rounds), tool_parse_natural},
    {"self-test", 0, false, NULL, NULL, NULL,
     "put outputs of the library off by ten times the tolerance: every id must notice", VERIFY,
     METHOD, false, FIELD(self_test), tool_parse_switch},
    {"shapes", 0, false, "NxMxD,...", NULL, "1024x1024x64", "queries x keys x width, timed in turn",
     BENCH, METHOD, false, FIELD(shapes), tool_parse_text},
    {"small", 0, false, NULL, NULL, NULL, "time plans, small calls and decoding instead", BENCH,
     METHOD, false, FIELD(small), tool_parse_switch},
    {"scaling", 0, false, NULL, NULL, NULL,
     "compare two threads with one, beside the fma-ceiling's own", BENCH, METHOD, false,
     FIELD(scaling), tool_parse_switch},
    {"gradients", 0, false, NULL, NULL, NULL,
     "time the gradients of queries, keys and values instead", BENCH, METHOD, false,
     FIELD(gradients), tool_parse_switch},
    {"repeat", 0, false, "N", NULL, "5", "timings per row, of which the fastest counts", BENCH,
     METHOD, false, FIELD(repeat), tool_parse_natural},

    {"ids", 0, false, "F", NULL, NULL, "int64 [count] or [batch,count]: the tokens to run", RUN,
     TEXTS, false, FIELD(ids), tool_parse_text},
    {"points", 0, false, "LIST", NULL, "embedding, residual stream, patterns, last norm",
     "what to capture: names, names without blocks.L. for every layer, logits, or all", CAPTURE,
     OUTPUT, false, FIELD(points), tool_parse_text},
    {"residual", 0, false, "F", NULL, NULL,
     "[batch,count,width]: the residual stream to begin with, in the place of the embedding",
     CAPTURE, TEXTS, false, FIELD(residual), tool_parse_text},
    {"start-at-layer", 0, false, "L", NULL, "0", "the layer that --residual goes into", CAPTURE,
     TEXTS, false, FIELD(start_layer), tool_parse_count},
    {"context", 0, false, "N", NULL, "the model's positions", "tokens of a window", PERPLEXITY,
     TEXTS, false, FIELD(context), tool_parse_natural},
    {"stride", 0, false, "N", NULL, "the context: no overlap",
     "tokens between the beginnings of windows", PERPLEXITY, TEXTS, false, FIELD(stride),
     tool_parse_natural},
    {"exit", 0, false, "THETA[,K]", NULL, NULL,
     "a token stops at the layer where its largest probability has been above THETA for K (1) "
     "layers",
     PERPLEXITY | GENERATE, TEXTS, false, FIELD(exit), tool_parse_text},
    {"prompt", 0, false, "TEXT", NULL, "the operand, else standard input", "what to continue",
     GENERATE, TEXTS, false, FIELD(prompt), tool_parse_text},
    {"tokens", 'n', false, "N", NULL, "32", "how many tokens to add", GENERATE, TEXTS, false,
     FIELD(tokens), tool_parse_natural},
    {"sample", 0, false, NULL, NULL, NULL, "draw from the model's distribution by --seed", GENERATE,
     TEXTS, false, FIELD(sample), tool_parse_switch},
    {"echo", 0, false, NULL, NULL, NULL, "print the prompt too", GENERATE, TEXTS, false,
     FIELD(echo), tool_parse_switch},
    {"text", 0, false, "TEXT", NULL, "the operand, else standard input", "the text itself",
     TOKENIZE | RUN, TEXTS, false, FIELD(text), tool_parse_text},
    {"no-special", 0, false, NULL, NULL, NULL,
     "leave out the ids around a text ([CLS], [SEP], BOS); with --decode, every special id",
     TOKENIZE | RUN, TEXTS, false, FIELD(no_special), tool_parse_switch},
    {"plain", 0, false, NULL, NULL, NULL,
     "spellings of special tokens in the text, such as <|endoftext|>, are plain characters",
     TOKENIZE | RUN, TEXTS, false, FIELD(plain), tool_parse_switch},
    {"decode", 0, false, NULL, NULL, NULL,
     "the text holds ids separated by white space: print what they stand for", TOKENIZE, TEXTS,
     false, FIELD(decode), tool_parse_switch},
    {"count", 0, false, NULL, NULL, NULL, "print how many ids there are, and nothing else",
     TOKENIZE, TEXTS, false, FIELD(count), tool_parse_switch},
    {"pieces", 0, false, NULL, NULL, NULL, "print an id and its piece on every line", TOKENIZE,
     TEXTS, false, FIELD(pieces), tool_parse_switch},
    {"dtype", 0, false, "TYPE", "f64 f32 f16 bf16", "that of the files",
     "round the inputs to this type first and compute on them", SOLVE | BENCH, OUTPUT, false,
     FIELD(dtype), tool_parse_choice},
    {"out-dtype", 0, false, "TYPE", "f64 f32 f16 bf16", "that of the files", "type of the outputs",
     WRITE | CAPTURE, OUTPUT, false, FIELD(out_dtype), tool_parse_choice},
    {"out", 'o', false, "F", NULL, NULL,
     "where the result goes (.npy, .npz, .safetensors, - for npy on standard output)",
     WRITE | ASSIGN | DEMO | CAPTURE, OUTPUT, false, FIELD(out), tool_parse_text},
    {"out", 'o', false, "F", NULL, NULL,
     "page F.html, checks F.csv, or a folder for both and every study's table and figure", VERIFY,
     OUTPUT, false, FIELD(out), tool_parse_text},
    {"out", 'o', false, "RUN", NULL, "run", "the folder to write", ANALYZE, OUTPUT, false,
     FIELD(out), tool_parse_text},
    {"resume", 0, false, NULL, NULL, NULL, "go on with the folder of a run that ended early",
     ANALYZE, OUTPUT, false, FIELD(resume), tool_parse_switch},
    {"out", 'o', false, "F.html", NULL, "report.html in the folder", "where the page goes", REPORT,
     OUTPUT, false, FIELD(out), tool_parse_text},
    {"compare", 0, false, "RUN2", NULL, NULL, "the folder of a second run", REPORT, OUTPUT, false,
     FIELD(compared), tool_parse_text},
    {"coupling", 0, false, "F", NULL, NULL, "write the coupling [...,n,m]", WRITE, OUTPUT, false,
     FIELD(coupling), tool_parse_text},
    {"row-potential", 0, false, "F", NULL, NULL, "write the row potential f [...,n]", WRITE, OUTPUT,
     false, FIELD(row_potential), tool_parse_text},
    {"column-potential", 0, false, "F", NULL, NULL, "write the column potential g [...,m]", WRITE,
     OUTPUT, false, FIELD(column_potential), tool_parse_text},
    {"receiver", 0, false, "F", NULL, NULL, "write the mass every key receives [...,m]", WRITE,
     OUTPUT, false, FIELD(receiver), tool_parse_text},
    {"grad", 0, false, "DOUT", NULL, NULL,
     "dL/dout (attend) or dL/dP (plan) of a number L: its derivatives go to --grad-out", WRITE,
     OUTPUT, false, FIELD(grad), tool_parse_text},
    {"grad-out", 0, false, "G.npz", NULL, NULL,
     "write the gradients: query, key, value and bias (attend), scores (plan)", WRITE, OUTPUT,
     false, FIELD(grad_out), tool_parse_text},
    {"grad-scores", 0, false, NULL, NULL, NULL,
     "also scores, of the final scores with every term in", ATTEND, OUTPUT, false,
     FIELD(grad_scores), tool_parse_switch},
    {"grad-parameters", 0, false, NULL, NULL, NULL,
     "also temperature, alpha, cap, strength, row_mass, column_mass, sink, alibi, relative_bias",
     WRITE, OUTPUT, false, FIELD(grad_parameters), tool_parse_switch},
    {"advantage", 0, false, "F", NULL, NULL,
     "write u - E_p[u], u = -dL/dP: what every weight gains over its row's mean [...,n,m]", WRITE,
     OUTPUT, false, FIELD(advantage), tool_parse_text},
    {"backward", 0, false, "WORD", "auto implicit unrolled", "auto",
     "differentiate the solution, or the rounds that ran", WRITE, OUTPUT, false, FIELD(backward),
     tool_parse_choice},
    {"force", 'f', false, NULL, NULL, NULL, "write over existing files",
     WRITE | ASSIGN | DEMO | VERIFY | CAPTURE | ANALYZE, OUTPUT, false, FIELD(force),
     tool_parse_switch},
    {"certify", 0, false, NULL, NULL, NULL,
     "compute the certificate above 2^28 pairs too, where it is left out", WRITE | COMPARE, OUTPUT,
     false, FIELD(certify), tool_parse_switch},
    {"per-head", 0, false, NULL, NULL, NULL, "a certificate for every head of every sequence",
     SOLVE, OUTPUT, false, FIELD(per_head), tool_parse_switch},

    {"json", 0, false, NULL, NULL, NULL, "one JSON object on standard output", ALL, OTHER, false,
     FIELD(json), tool_parse_switch},
    {"man", 0, false, NULL, NULL, NULL, "the manual page, for 'man -l -'", HELP, OTHER, false,
     FIELD(man), tool_parse_switch},
    {"help", 'h', false, NULL, NULL, NULL, "this help", ALL, OTHER, false, FIELD(help),
     tool_parse_switch},
};
const int tool_flag_count = (int)(sizeof tool_flags / sizeof tool_flags[0]);

const tool_command *tool_find_command(const char *name) {
    for (int k = 0; k < tool_command_count; k++) {
        if (strcmp(tool_commands[k].name, name) == 0) return &tool_commands[k];
    }
    return NULL;
}
