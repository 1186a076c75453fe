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
    PATCH = 1 << 20,
    LENS = 1 << 21,
    ALL = (1 << 22) - 1,
    READ = CAPTURE | PERPLEXITY | GENERATE | ANALYZE | LENS, /* a text */
    RUN = READ | PATCH,
    SOLVE = ATTEND | PLAN | COMPARE | CERTIFY,
    WRITE = ATTEND | PLAN
};

const cli_command cli_commands[] = {
    {"attend", "QUERY KEY VALUE", 3, 3, "attention by any method: out = P V",
     "Reads queries [n,d], keys [m,d] and values [m,w], each with heads and a batch in front if "
     "there are any, forms the scores S = scale * Q K^T with the given biases and masks, solves "
     "for the coupling P by the method, and writes out = P V. Q may have more heads than K and V "
     "(grouped heads). The certificate in the summary is computed afresh from the outputs by code "
     "that shares nothing with the solvers.",
     "otattn attend Q.npy K.npy V.npy --method softmax/capped:2 --causal -o out.npy", cli_attend,
     ATTEND},
    {"plan", "SCORES", 1, 1, "the coupling of a matrix of scores (or costs)",
     "Reads scores [n,m], with heads and a batch in front if there are any, and solves for the "
     "coupling P. With --cost the matrix is a cost to be minimised; +inf in a cost, or -inf in a "
     "score, forbids the pair.",
     "otattn plan cost.npy --cost --method softmax/exact --temperature 0.05 -o P.npy", cli_plan,
     PLAN},
    {"compare", "QUERY [KEY [VALUE]]", 1, 3, "several methods on the same input, side by side",
     "Solves the same problem by each method of --methods and prints, for each, the largest mass a "
     "key receives, Delta, entropy, support, the distances to softmax and to the doubly stochastic "
     "plan, the certificate's errors and the time. One operand alone is a matrix of scores. A "
     "method that fails is a row of the table and does not stop the others.",
     "otattn compare Q.npy K.npy --methods softmax,sparsemax,softmax/capped:2,elastic:.5,4",
     cli_compare, COMPARE},
    {"assign", "COST", 1, 1, "the cheapest matching of rows with columns",
     "Matches min(n,m) pairs of the cost matrix [n,m] at the least total cost and prints the "
     "column of each row, -1 for a row left over. +inf forbids a pair. The dual value proves the "
     "optimum: gap = value - dual.",
     "otattn assign cost.npy --json", cli_assign, ASSIGN},
    {"hamming", "P Q", 2, 2, "entropic transport between two distributions, Hamming cost",
     "Transport between the distributions p and q over the same V symbols at cost 1 for every "
     "change of symbol, with entropy weight --epsilon, in time and memory O(V). Prints the cost, "
     "the objective <P,C> - epsilon H(P), the debiased divergence and the total variation.",
     "otattn hamming p.npy q.npy --epsilon 0.1 --json", cli_hamming, HAMMING},
    {"align", "A [B]", 1, 2, "row and column shifts that bring one matrix nearest to another",
     "Finds the shifts that minimise max |A_ij - B_ij - row_i - column_j| (without B: of A alone) "
     "and prints that residual with a lower bound that proves it: the mean of one closed walk "
     "through the matrix. --solver howard solves exactly, midrange by alternating sweeps, ls takes "
     "the means (least squares), fast reads the matrix once and is at most twice too high.",
     "otattn align after.npy before.npy --json", cli_align, ALIGN},
    {"certify", "", 0, 0, "how far a plan can move, and whose plan a coupling is",
     "With --perturbed, the plans of the scores S and T are solved and their distance ||P - Q||_1 "
     "is held against what the theory allows: the printed bound, (n / temperature) max |S - T|, "
     "and the sharp one, which uses only the part of S - T that no row and column shifts explain. "
     "With --values also for the outputs P V and Q W. Pairs that take no part are -inf in both. "
     "With --coupling, anyone's plan P of the scores is judged: errors of rows and columns, and "
     "the gap for --method; without a method, those that explain P best are found with their "
     "parameters.",
     "otattn certify --coupling P.npy --scores S.npy --json", cli_certify, CERTIFY},
    {"demo", "", 0, 0, "what each method does to a trained model's attention, in a second",
     "Shows attention as transport on queries, keys and values of a small trained model that come "
     "with the program: heat maps, the mass every word receives, certificates. ./dev playground "
     "makes a page of it with sliders.",
     "otattn demo --json", cli_demo, DEMO},
    {"bench", "", 0, 0, "speed with errors checked, or (--random) a search for wrong answers",
     "Times methods on random queries, keys and values and compares every timed result with plain "
     "double loops; the row fma-ceiling is what this machine's vector units reach in the same run. "
     "With --random N it solves N random problems over temperatures from 1e-6 to 1e6 of the score "
     "range, all methods, masks and masses, has each answer judged in double precision, and fails "
     "with exit 3 if one answer with status ok violates its tolerance.",
     "otattn bench --random 10000 --seed 1", cli_bench, BENCH},
    {"verify", "", 0, 0, "every statement about attention as transport, measured",
     "Runs the checks of every requirement id: each calls the library and compares with a formula "
     "of its own, or tests a law, on random problems drawn from --seed. Forms printed in the "
     "sources that do not hold are run too and are expected to fail. Statements about models are "
     "checked on a small GPT-2 of random weights, or, with --model, they alone on that one. Fails "
     "with exit 3 if one check does not come out as expected. --self-test perturbs the library's "
     "outputs by ten times the tolerance; every id must detect it.",
     "otattn verify --only 'CETA-*' --seed 2", cli_verify, VERIFY},
    {"tokenize", "MODEL [TEXT]", 1, 2, "a text as the token ids of a model, and back",
     "MODEL is a folder with tokenizer.json, with vocab.json and merges.txt (or encoder.json and "
     "vocab.bpe), with vocab.txt, tokenizer.model (spiece.model, sentencepiece.bpe.model) or "
     "tekken.json; one file of these but for vocab.json; a .gguf file; or the name of a model in "
     "the local hub cache. TEXT is a file, - for standard input, which is also read when neither "
     "it nor --text is given. Prints the ids on one line, with the special ones that the model's "
     "configuration sets around a text. --decode goes back: for byte-level BPE every byte comes "
     "back, whatever the text was.",
     "otattn tokenize gpt2/ --text 'Hello world' --json", cli_tokenize, TOKENIZE},
    {"info", "MODEL", 1, 1, "what a checkpoint is",
     "Prints architecture, sizes, parameters, types of elements and, with --json, every file and "
     "tensor of a model, from its headers alone. MODEL is a folder with config.json and "
     "model.safetensors or its shards, a .gguf file, of several parts the first, or the name of a "
     "model in the local hub cache; 'otattn help models' lists the architectures.",
     "otattn info ./gpt2 --json", cli_info, INFO},
    {"capture", "MODEL [TEXT]", 1, 2, "arrays from inside a run of a model",
     "Runs a text, or the tokens of --ids, through the model, with any attention method in any "
     "layer or head, and writes the requested arrays under TransformerLens names. They are "
     "streamed to the file: memory holds one at a time. `logits` are those of the model's head; "
     "`all` leaves them out. With --residual the run begins at --start-at-layer with a residual "
     "stream of the caller's, such as a hook_resid_pre captured before, as it was or edited.",
     "otattn capture ./gpt2 text.txt --points attn.hook_pattern -o run.safetensors", cli_capture,
     CAPTURE},
    {"perplexity", "MODEL [TEXT]", 1, 2, "how well a causal model predicts its text",
     "Cuts the text, or the tokens of --ids, into windows and prints the mean negative "
     "log-likelihood of each token given those before it in its window, and its exponential. The "
     "protocol (context, stride, tokens) is printed with the number.",
     "otattn perplexity ./gpt2 wiki.txt --context 1024 --method softmax/online:4@3-11",
     cli_perplexity, PERPLEXITY},
    {"generate", "MODEL [TEXT]", 1, 2, "the continuation of a prompt",
     "Continues the prompt, or the tokens of --ids, by --tokens more on a KV cache; greedy unless "
     "--sample. Only methods whose rows do not depend on later tokens can run so: free and online "
     "columns.",
     "otattn generate ./gpt2 --prompt 'Once upon a time' --tokens 50", cli_generate, GENERATE},
    {"patch", "MODEL", 1, 1, "activation patching between two prompts",
     "Runs a clean and a corrupt prompt of as many tokens, then the corrupt one again for every "
     "layer and position (or head), with the clean run's numbers of one point there. Prints the "
     "share of the difference of logits between two tokens behind the last position that comes "
     "back: 0 as corrupt, 1 as clean. Without --answer and --other each prompt's own prediction is "
     "taken.",
     "otattn patch ./gpt2 --clean 'Paris is in' --corrupt 'Tokyo is in' -o p.html", cli_patch,
     PATCH},
    {"lens", "MODEL [TEXT]", 1, 2, "the likeliest token at every layer and position",
     "Shows the residual stream in front of every block, and behind the last one, to the model's "
     "head (the logit lens): the likeliest token and its probability. Rows are called by the layer "
     "that the stream leaves; emb, in tables and JSON -1, is the embedding.",
     "otattn lens ./gpt2 --text 'Paris is in' -o lens.html", cli_lens, LENS},
    {"analyze", "MODEL [TEXT]", 1, 2, "how a model's states and predictions evolve over its layers",
     "Cuts the text, or the tokens of --ids, into windows, runs each through the model, and "
     "measures every state, transition and head. Writes a folder: metrics.json, tables/*.csv, "
     "figures/, report.html, and one record a window, so that --resume continues an interrupted "
     "run and gives the same bytes as an uninterrupted one.",
     "otattn analyze ./gpt2 wiki.txt --windows 64x512 -o run", cli_analyze, ANALYZE},
    {"report", "RUN", 1, 1, "the page, figures and tables of an analysed run",
     "Reads metrics.json, manifest.json and tables/ of a folder that 'otattn analyze' wrote. "
     "Writes report.html (one page that needs no network), figures/NAME.vl.json (Vega-Lite with "
     "its data inside) and tables/NAME.tex. With --compare the page shows two runs beside each "
     "other and their differences with intervals.",
     "otattn report run/ --compare run2/ -o both.html", cli_report_command, REPORT},
    {"doctor", "", 0, 0, "what this build and this machine can do",
     "Lists the version, processor features, backends, kernels, solvers and methods, and solves "
     "one small problem with each kernel to see that they agree.",
     "otattn doctor --json", cli_doctor, DOCTOR},
    {"help", "[COMMAND|TOPIC]", 0, 1, "help on a command or a topic",
     "Without an operand, the overview. --man prints the manual page.", "otattn help methods",
     cli_help, HELP},
    {"completions", "SHELL", 1, 1, "completion script for bash, zsh or fish",
     "Prints the script on standard output.",
     "otattn completions bash > ~/.local/share/bash-completion/completions/otattn", cli_completions,
     COMPLETIONS},
};
const int cli_command_count = (int)(sizeof cli_commands / sizeof cli_commands[0]);

enum { METHOD, SCORES, PAIRS, MASSES, SOLVING, MACHINE, TEXTS, OUTPUT, OTHER };

const char *const cli_groups[] = {
    "Method", "Scores and biases", "Which pairs may carry weight",
    "Masses", "How it is solved",  "Machine",
    "Text",   "Input and output",  "General",
};
const int cli_group_count = (int)(sizeof cli_groups / sizeof cli_groups[0]);

/* A row: how its value is parsed, name, field of cli_settings, who takes it, group, help and, where it takes a
 * value, its form; then the members that are not 0. */
#define FLAG(parser, flag, field, owners, part, ...)                                               \
    {                                                                                              \
        .name = flag, .parse = cli_parse_##parser, .offset = offsetof(cli_settings, field),        \
        .commands = owners, .group = part, __VA_ARGS__                                             \
    }

const cli_flag cli_flags[] = {
    FLAG(text, "method", method.name, WRITE, METHOD,
         "REGULARISER[/COLUMNS][{option=value,...}] or an alias; see 'otattn help methods'", "M",
         .letter = 'm', .standard = "softmax"),
    FLAG(text, "method", method.name, CERTIFY, METHOD, "the method of the plans", "M",
         .letter = 'm', .standard = "softmax/exact with --perturbed, else the one that fits best"),
    FLAG(text, "methods", method.list, COMPARE | BENCH, METHOD,
         "the methods to run; a comma before a digit belongs to the method", "M,M,...",
         .letter = 'm', .standard = "one of each kind"),
    FLAG(text, "methods", method.list, ANALYZE, METHOD,
         "run the same windows under these as well and compare (methods.csv)", "M,M,...",
         .standard = "none"),
    FLAG(text, "temperatures", analyze.temperatures, ANALYZE, METHOD,
         "run the same windows at these attention temperatures as well (temperatures.csv)",
         "T,T,...", .standard = "none"),
    FLAG(text, "probe-temperatures", analyze.probe_temperatures, ANALYZE, METHOD,
         "read the same states with the probe's logits divided by these as well "
         "(probe_temperatures.csv)",
         "T,T,...", .standard = "none"),
    FLAG(natural, "bounds", analyze.bounds, ANALYZE, METHOD,
         "hold layers of the first N windows against the bounds on them (bounds.csv, ranks.csv)",
         "N", .standard = "none"),
    FLAG(text, "layers", analyze.layers, ANALYZE, METHOD, "measure layers A to B, counted from 0",
         "A-B", .standard = "all"),
    FLAG(text, "saturation", analyze.saturation, ANALYZE, METHOD,
         "an event: both largest probabilities above P, total variation below TV", "P,TV",
         .standard = "0.9999,1e-10"),
    FLAG(choice, "store", analyze.store, ANALYZE, METHOD,
         "f16 rounds states as if they had been stored so", "TYPE", .choices = "f16 f32",
         .standard = "f32"),
    FLAG(choice, "measure", analyze.measure, ANALYZE, METHOD,
         "alignment: R of transitions alone, with tables 1 to 3 and no report, in a quarter of the "
         "time",
         "WHAT", .choices = "all alignment", .standard = "all"),
    FLAG(list, "method", model.methods, RUN, METHOD,
         "attention of all layers, or of PLACE = layer L, A-B, or head L.H, A-B.H; @FILE: a JSON "
         "file of methods and places; repeatable, the last wins",
         "M[@PLACE,...]|@FILE", .letter = 'm', .standard = "softmax"),
    FLAG(text, "temperature", method.temperature, RUN, METHOD,
         "a factor on the model's own temperature", "T", .letter = 't', .standard = "1"),
    FLAG(switch, "allow-nonfinite", model.allow_nonfinite, RUN, MACHINE,
         "run a checkpoint although weights are NaN or infinite"),
    FLAG(text, "rows", method.rows, SOLVE, METHOD,
         "row masses exact, or relaxed with strength RHO (with relaxed columns: unbalanced "
         "transport)",
         "hard|relaxed:RHO", .standard = "hard", .in_method = true,
         .sets = "hard=rows|relaxed=rows:row_strength"),
    FLAG(choice, "axis", method.axis, SOLVE, METHOD,
         "columns solves the transposed problem: P = (plan of S^T)^T", "WORD", .sets = "axis",
         .standard = "rows", .in_method = true),
    FLAG(choice, "start", method.start, SOLVE, METHOD,
         "the side the first update belongs to; columns is the order printed for CETA", "WORD",
         .sets = "start", .standard = "rows", .in_method = true),
    FLAG(choice, "end", method.end, SOLVE, METHOD,
         "the side of the last update; after columns the rows are not exact, and a warning says so",
         "WORD", .sets = "end", .standard = "rows", .in_method = true),
    FLAG(text, "temperature", method.temperature, SOLVE, METHOD,
         "scores are divided by T; one, or one per head", "T[,T...]", .letter = 't',
         .standard = "1", .in_method = true, .sets = "temperature|temperatures"),

    FLAG(positive, "scale", scores.scale, SOLVE, SCORES, "multiplies Q K^T or the matrix", "S",
         .standard = "attend, compare 1/sqrt(d), plan 1", .in_method = true, .sets = "scale"),
    FLAG(switch, "cost", scores.cost, SOLVE, SCORES,
         "the matrix, or scale * Q K^T, is a cost to be minimised", .in_method = true,
         .sets = "cost"),
    FLAG(list, "bias", scores.biases, SOLVE, SCORES,
         "array added to the scores, broadcast from the right (repeatable)", "F"),
    FLAG(text, "relative-bias", scores.relative_bias, SOLVE, SCORES,
         "array [n+m-1] or [heads,n+m-1]: entry i-j+m-1 is added to pair (i,j); inside: before the "
         "scale",
         "F[:inside]"),
    FLAG(text, "rope", scores.rope, ATTEND | COMPARE, SCORES,
         "rotates queries and keys by their positions", "BASE", .optional = true,
         .standard = "base 10000", .in_method = true),
    FLAG(text, "alibi", scores.alibi, SOLVE, SCORES,
         "subtracts SLOPE * |i-j|; one, or one per head; auto: 2^(-8h/H)", "SLOPE[,SLOPE...]|auto",
         .in_method = true),
    FLAG(positive, "softcap", scores.softcap, SOLVE, SCORES, "scores become C tanh(S/C)", "C",
         .in_method = true),
    FLAG(text, "sink", scores.sink, SOLVE, SCORES,
         "one more key with this logit and no value, -inf: none; one, or one per head",
         "LOGIT[,LOGIT...]", .in_method = true),

    FLAG(text, "sink", scores.sink, RUN, SCORES,
         "one more key with this logit and no value, -inf: none", "LOGIT"),
    FLAG(text, "windows", analyze.windows, ANALYZE, TEXTS, "N windows of L tokens", "NxL",
         .standard = "64x512, or what there is"),
    FLAG(choice, "sample", analyze.sampling, ANALYZE, TEXTS,
         "the windows at the beginning, or drawn by --seed without overlap", "WORD",
         .choices = "first random", .standard = "first"),
    FLAG(text, "window", pairs.window, RUN, PAIRS, "keys i-L to i+R only; -1 = no limit", "L,R",
         .letter = 'w'),
    FLAG(text, "lengths", pairs.lengths, CAPTURE, PAIRS,
         "int64 [batch]: tokens of each sequence, the rest padding", "F"),

    FLAG(choice, "causal", pairs.causal, SOLVE, PAIRS,
         "key j for query i only if j <= i (+ m-n at the bottom-right corner)", "CORNER",
         .letter = 'c', .optional = true, .choices = "top-left bottom-right",
         .standard = "top-left if n = m"),
    FLAG(text, "window", pairs.window, SOLVE, PAIRS, "keys i-L to i+R only; -1 = no limit", "L,R",
         .letter = 'w'),
    FLAG(natural, "strided", pairs.strided, SOLVE, PAIRS,
         "every S-th key before and after the query's own place", "S"),
    FLAG(text, "block", pairs.block, SOLVE, PAIRS,
         "pairs inside one block only: blocks of W, or an array of block sizes", "W|F"),
    FLAG(list, "mask", pairs.masks, SOLVE, PAIRS,
         "bool (true takes part) or float (added), broadcast from the right (repeatable)", "F"),
    FLAG(text, "lengths", pairs.lengths, SOLVE, PAIRS,
         "int64 [batch]: how many keys each sequence has", "F"),
    FLAG(choice, "corner", pairs.corner, SOLVE, PAIRS,
         "where query 0 stands for windows, strides, blocks and ALiBi when n and m differ",
         "CORNER", .choices = "top-left bottom-right",
         .standard = "that of --causal, else top-left"),

    FLAG(text, "row-mass", masses.row, SOLVE, MASSES, "array [n] of row masses", "F",
         .standard = "1 per row", .sets = "@row_mass"),
    FLAG(text, "column-mass", masses.column, SOLVE, MASSES,
         "array [m]: the columns' target, or a factor per key of CAP", "F",
         .standard = "total / usable keys", .sets = "@column_mass"),
    FLAG(text, "entry-cap", masses.entry_cap, SOLVE, MASSES,
         "no weight above C, or above its entry of an array that broadcasts to [...,n,m]", "C|F",
         .standard = "none", .in_method = true),

    FLAG(positive, "tolerance", solver.tolerance, SOLVE | RUN, SOLVING,
         "on the larger of row_error and column_error", "E", .standard = "1e-5, 1e-9 for f64",
         .in_method = true, .sets = "tolerance"),
    FLAG(positive, "tolerance", solver.tolerance, HAMMING, SOLVING,
         "sinkhorn: on sum |column sum - q|; newton goes on to the last bit", "E",
         .standard = "1e-10"),
    FLAG(positive, "tolerance", solver.tolerance, ALIGN, SOLVING,
         "midrange: stop at a residual of at most 1 + E times its lower bound", "E",
         .standard = "1e-6"),
    FLAG(natural, "max-rounds", solver.max_rounds, SOLVE | RUN, SOLVING, "give up after N rounds",
         "N", .standard = "1000", .in_method = true, .sets = "max_rounds"),
    FLAG(natural, "max-rounds", solver.max_rounds, HAMMING, SOLVING,
         "sinkhorn: give up after N rounds", "N", .standard = "1000"),
    FLAG(natural, "max-rounds", solver.max_rounds, ALIGN, SOLVING,
         "give up after N passes of howard or midrange", "N", .standard = "1000, midrange 100"),
    FLAG(count, "rounds", solver.rounds, SOLVE | RUN, SOLVING,
         "exactly K rounds, whatever the error (status fixed_iters); 0 is softmax", "K",
         .in_method = true, .sets = "rounds"),
    FLAG(text, "anneal", solver.anneal, SOLVE, SOLVING,
         "begin at temperature START and multiply it by FACTOR every ROUNDS rounds",
         "START:FACTOR[:ROUNDS][,keep-v]", .in_method = true,
         .sets = "anneal_start:anneal_factor[:anneal_rounds][,keep-v=anneal_keep_scaling]"),
    FLAG(text, "relaxation", solver.relaxation, SOLVE, SOLVING,
         "over-relaxation of the column update, 0 < W < 2", "W|auto", .standard = "1",
         .in_method = true, .sets = "relaxation|auto=relaxation_auto"),
    FLAG(text, "elastic-lambda", solver.elastic_lambda, SOLVE, SOLVING,
         "array [m]: a lambda per key for elastic", "F", .standard = "the method's",
         .sets = "@lambdas"),
    FLAG(text, "start-potential", solver.start_potential, WRITE, SOLVING,
         "array [m] (heads and batch in front): warm start", "F", .standard = "zeros"),
    FLAG(choice, "center", solver.center, SOLVE, SOLVING,
         "shifts the scores before the linear domain; the plan stays the same", "WORD",
         .sets = "center", .standard = "none", .in_method = true),
    FLAG(choice, "precision", solver.precision, SOLVE, SOLVING, "of potentials and stored scores",
         "WORD", .sets = "precision", .standard = "auto", .in_method = true),
    FLAG(positive, "tolerance-scaling", solver.tolerance_scaling, SOLVE, SOLVING,
         "also go on until the column potential moves by at most E", "E", .in_method = true,
         .sets = "tolerance_scaling"),
    FLAG(switch, "prune", solver.prune, SOLVE, SOLVING,
         "exact columns: give weight 0 to pairs that no plan can use, and solve the rest",
         .in_method = true, .sets = "prune"),
    FLAG(text, "solver", solver.name, SOLVE, SOLVING, "one of those that 'otattn doctor' lists",
         "NAME", .standard = "auto", .in_method = true, .sets = "solver"),
    FLAG(text, "solver", solver.name, HAMMING, SOLVING, "newton or sinkhorn", "NAME",
         .standard = "newton"),
    FLAG(text, "solver", solver.name, ALIGN, SOLVING, "howard, midrange, ls or fast", "NAME",
         .standard = "howard"),
    FLAG(switch, "allow-partial", solver.allow_partial, WRITE, SOLVING,
         "write the result although the tolerance was not met (status partial, exit 0)",
         .in_method = true),
    FLAG(switch, "allow-partial", solver.allow_partial, COMPARE | CERTIFY, SOLVING,
         "go on with a plan that did not meet the tolerance (status partial, exit 0)",
         .in_method = true),
    FLAG(switch, "strict", solver.strict, SOLVE, SOLVING,
         "rows that meet NaN or infinity are an error", .in_method = true, .sets = "strict"),

    FLAG(positive, "dropout", solver.dropout, ATTEND, SOLVING,
         "after the solve each weight is dropped with this probability, by --seed, and the others "
         "are divided by 1 - P; certificates and --coupling are of the plan before",
         "P", .standard = "0", .sets = "dropout"),

    FLAG(choice, "shard", machine.shard, WRITE, MACHINE,
         "share the rows out over the processes of mpirun; a program built without MPI refuses it",
         "rows", .choices = "rows"),
    FLAG(natural, "threads", machine.threads, SOLVE | ASSIGN | DEMO | BENCH | RUN, MACHINE,
         "how many threads; no result depends on it", "N", .letter = 'j',
         .standard = "OMP_NUM_THREADS, else all processors", .sets = "threads"),
    FLAG(choice, "cpu", machine.cpu, SOLVE | ASSIGN | DEMO | BENCH | RUN, MACHINE,
         "use no newer instructions", "LEVEL",
         .choices = "portable avx2 avx512 avx512bf16 amx neon", .standard = "the newest here",
         .sets = "cpu"),
    FLAG(choice, "backend", machine.backend, SOLVE | ASSIGN, MACHINE,
         "what computes; plain: loops that are slow and easy to read", "NAME",
         .choices = "cpu plain", .standard = "cpu", .sets = "backend"),
    FLAG(natural, "memory", machine.memory, SOLVE, MACHINE,
         "refuse a plan that takes more workspace", "BYTES", .standard = "no limit",
         .sets = "workspace_limit"),
    FLAG(natural, "limit-memory", machine.limit_memory, ALL, MACHINE,
         "end with exit 5 rather than let memory grow beyond this; mapped files are not counted",
         "BYTES", .standard = "no limit"),
    FLAG(count, "seed", machine.seed, SOLVE | BENCH | VERIFY | GENERATE | ANALYZE, MACHINE,
         "seed of whatever is drawn at random", "S", .standard = "1"),

    FLAG(positive, "epsilon", solver.epsilon, HAMMING, METHOD, "weight of the entropy", "E",
         .letter = 'e', .standard = "must be given"),
    FLAG(text, "scores", certify.scores, CERTIFY, SCORES, "scores S [...,n,m] (with --cost, costs)",
         "F", .letter = 's', .standard = "must be given"),
    FLAG(text, "perturbed", certify.perturbed, CERTIFY, SCORES, "scores T of the same shape", "F",
         .letter = 'p'),
    FLAG(text, "values", certify.values, CERTIFY, SCORES,
         "values V [m,w] or [...,m,w] of the first plan", "F"),
    FLAG(text, "perturbed-values", certify.perturbed_values, CERTIFY, SCORES,
         "values W of the second plan", "F", .standard = "V"),
    FLAG(text, "coupling", certify.coupling, CERTIFY, SCORES, "the coupling [...,n,m] to judge",
         "F"),
    FLAG(natural, "random", bench.random, BENCH, METHOD,
         "solve and judge N random problems instead of timing, on 2 threads if --threads does not "
         "say",
         "N"),
    FLAG(count, "first", bench.first, BENCH, METHOD,
         "number of the first random problem, to repeat one", "I", .standard = "0"),
    FLAG(text, "only", verify.only, VERIFY, METHOD, "the ids to check, such as 'CETA-*'", "GLOB",
         .standard = "all"),
    FLAG(text, "model", verify.model, VERIFY, METHOD,
         "only the checks on a model, on this one; those of a GPT-2's weights where it is one",
         "FOLDER", .standard = "a small one of random weights"),
    FLAG(natural, "repeat", verify.repeat, VERIFY, METHOD, "run each check on N different draws",
         "N", .standard = "1"),
    FLAG(natural, "size", verify.size, VERIFY, METHOD,
         "with -o: queries and keys, or the vocabulary, of the studies", "N",
         .standard = "each study's own"),
    FLAG(natural, "samples", verify.samples, VERIFY, METHOD,
         "with -o: how many kernels, epsilons, shifts or pairs a study tries", "N",
         .standard = "each study's own"),
    FLAG(natural, "rounds", verify.rounds, VERIFY, METHOD,
         "with -o: elastic rounds, most Sinkhorn rounds, or pairs of vectors a kernel", "N",
         .standard = "each study's own"),
    FLAG(switch, "self-test", verify.self_test, VERIFY, METHOD,
         "put outputs of the library off by ten times the tolerance: every id must notice"),
    FLAG(text, "shapes", bench.shapes, BENCH, METHOD, "queries x keys x width, timed in turn",
         "NxMxD,...", .standard = "1024x1024x64"),
    FLAG(switch, "small", bench.small, BENCH, METHOD,
         "time plans, small calls and decoding instead"),
    FLAG(switch, "scaling", bench.scaling, BENCH, METHOD,
         "compare two threads with one, beside the fma-ceiling's own"),
    FLAG(switch, "gradients", bench.gradients, BENCH, METHOD,
         "time the gradients of queries, keys and values instead, of softmax if --methods does not "
         "say"),
    FLAG(choice, "masked", bench.masked, BENCH, METHOD,
         "with a mask: a fifth of the keys hidden by flags or by a length, numbers added, "
         "-1e9 added to all but an eighth of the pairs, or j <= i",
         "MASK", .choices = "padding lengths numbers far causal", .standard = "no mask"),
    FLAG(natural, "repeat", bench.repeat, BENCH, METHOD,
         "timings per row, of which the fastest counts", "N", .standard = "5"),

    FLAG(text, "ids", text.ids, READ, TEXTS, "int64 [count] or [batch,count]: the tokens to run",
         "F"),
    FLAG(text, "points", model.points, CAPTURE, OUTPUT,
         "what to capture: names, names without blocks.L. for every layer, logits, or all", "LIST",
         .standard = "embedding, residual stream, patterns, last norm"),
    FLAG(text, "ids", text.ids, PATCH, TEXTS,
         "int64 [2,count]: the tokens of the clean and of the corrupt prompt", "F"),
    FLAG(words, "clean", model.clean, PATCH, TEXTS, "the clean prompt", "TEXT"),
    FLAG(words, "corrupt", model.corrupt, PATCH, TEXTS, "the corrupt prompt, of as many tokens",
         "TEXT"),
    FLAG(words, "answer", model.answer, PATCH, TEXTS,
         "the token whose logit counts, as a text, blanks included; with --ids its number", "TEXT",
         .standard = "what the clean prompt predicts"),
    FLAG(words, "other", model.other, PATCH, TEXTS, "the token whose logit is taken off", "TEXT",
         .standard = "what the corrupt prompt predicts"),
    FLAG(text, "point", model.points, PATCH, METHOD,
         "what is patched: a point of blocks, without blocks.L.", "POINT",
         .standard = "hook_resid_pre"),
    FLAG(choice, "by", model.by, PATCH, METHOD, "patch position by position or head by head",
         "WORD", .choices = "position head", .standard = "head where the point has heads"),
    FLAG(text, "out", output.out, PATCH | LENS, OUTPUT,
         "page F.html, table F.csv or figure F.vl.json", "F", .letter = 'o'),
    FLAG(text, "weights", model.weights, CAPTURE, OUTPUT,
         "weights of these heads, streamed: LAYER:HEAD, LAYER, FIRST-LAST:HEAD or all", "L:H,..."),
    FLAG(text, "scores", model.scores, CAPTURE, OUTPUT,
         "scores of these heads before softmax, -inf where a mask forbids", "L:H,..."),
    FLAG(switch, "receiver", model.receiver, CAPTURE, OUTPUT,
         "the mass that every key receives, of all layers and heads"),
    FLAG(list, "edit", model.edits, CAPTURE | PERPLEXITY | GENERATE | LENS, METHOD,
         "change a point in the run: *= scales, = replaces, += adds; see 'otattn help edits'",
         "POINT[head=H,token=T]*=0"),
    FLAG(text, "pixels", model.pixels, CAPTURE, TEXTS,
         "[channels,height,width] or [batch,...]: images for a model that sees them, scaled as it "
         "was "
         "trained with them",
         "F"),
    FLAG(text, "residual", model.residual, CAPTURE, TEXTS,
         "[batch,count,width]: the residual stream to begin with, in the place of the embedding",
         "F"),
    FLAG(count, "start-at-layer", model.start_layer, CAPTURE, TEXTS,
         "the layer that --residual goes into", "L", .standard = "0"),
    FLAG(natural, "context", model.context, PERPLEXITY, TEXTS, "tokens of a window", "N",
         .standard = "the model's positions"),
    FLAG(natural, "stride", model.stride, PERPLEXITY, TEXTS,
         "tokens between the beginnings of windows", "N", .standard = "the context: no overlap"),
    FLAG(text, "exit", model.exit, PERPLEXITY | GENERATE, TEXTS,
         "a token stops at the layer where its largest probability has been above THETA for K (1) "
         "layers; with `oracle`, where it has predicted what the whole model predicts",
         "THETA[,K]|oracle[,K]"),
    FLAG(words, "prompt", text.prompt, GENERATE, TEXTS, "what to continue", "TEXT",
         .standard = "the operand, else standard input"),
    FLAG(natural, "tokens", model.tokens, GENERATE, TEXTS, "how many tokens to add", "N",
         .letter = 'n', .standard = "32"),
    FLAG(switch, "sample", model.sample, GENERATE, TEXTS,
         "draw from the model's distribution by --seed"),
    FLAG(switch, "echo", model.echo, GENERATE, TEXTS, "print the prompt too"),
    FLAG(words, "text", text.words, TOKENIZE | READ, TEXTS, "the text itself", "TEXT",
         .standard = "the operand, else standard input"),
    FLAG(
        switch, "no-special", text.no_special, TOKENIZE | RUN, TEXTS,
        "leave out the ids around a text ([CLS], [SEP], BOS); tokenize --decode: every special id"),
    FLAG(switch, "plain", text.plain, TOKENIZE | RUN, TEXTS,
         "spellings of special tokens in the text, such as <|endoftext|>, are plain characters"),
    FLAG(switch, "decode", tokenize.decode, TOKENIZE, TEXTS,
         "the text holds ids separated by white space: print what they stand for"),
    FLAG(switch, "count", tokenize.count, TOKENIZE, TEXTS,
         "print how many ids there are, and nothing else"),
    FLAG(switch, "pieces", tokenize.pieces, TOKENIZE, TEXTS,
         "print an id and its piece on every line"),
    FLAG(choice, "dtype", output.dtype, SOLVE, OUTPUT,
         "round the inputs to this type first and compute on them", "TYPE",
         .choices = "f64 f32 f16 bf16", .standard = "that of the files"),
    FLAG(choice, "dtype", output.dtype, BENCH, OUTPUT, "type of the inputs that are timed", "TYPE",
         .choices = "f64 f32 f16 bf16", .standard = "f32"),
    FLAG(choice, "out-dtype", output.out_dtype, WRITE | CAPTURE, OUTPUT, "type of the outputs",
         "TYPE", .choices = "f64 f32 f16 bf16", .standard = "that of the files"),
    FLAG(text, "out", output.out, WRITE | ASSIGN | CAPTURE, OUTPUT,
         "where the result goes (.npy, .npz, .safetensors, - for npy on standard output)", "F",
         .letter = 'o'),
    FLAG(text, "out", output.out, VERIFY, OUTPUT,
         "page F.html, checks F.csv, or a folder for both and every study's table and figure", "F",
         .letter = 'o'),
    FLAG(text, "out", output.out, ANALYZE, OUTPUT, "the folder to write", "RUN", .letter = 'o',
         .standard = "run"),
    FLAG(switch, "resume", analyze.resume, ANALYZE, OUTPUT,
         "go on with the folder of a run that ended early"),
    FLAG(text, "out", output.out, REPORT, OUTPUT, "where the page goes", "F.html", .letter = 'o',
         .standard = "report.html in the folder"),
    FLAG(text, "compare", output.compared, REPORT, OUTPUT, "the folder of a second run", "RUN2"),
    FLAG(text, "coupling", output.coupling, WRITE, OUTPUT, "write the coupling [...,n,m]", "F"),
    FLAG(text, "row-potential", output.row_potential, WRITE, OUTPUT,
         "write the row potential f [...,n]", "F"),
    FLAG(text, "column-potential", output.column_potential, WRITE, OUTPUT,
         "write the column potential g [...,m]", "F"),
    FLAG(text, "receiver", output.receiver, WRITE, OUTPUT,
         "write the mass every key receives [...,m]", "F"),
    FLAG(text, "grad", gradients.of, WRITE, OUTPUT,
         "dL/dout (attend) or dL/dP (plan) of a number L: its derivatives go to --grad-out",
         "DOUT"),
    FLAG(text, "grad-out", gradients.out, WRITE, OUTPUT,
         "write the gradients: query, key, value and bias (attend), scores (plan)", "G.npz"),
    FLAG(switch, "grad-scores", gradients.scores, ATTEND, OUTPUT,
         "also scores, of the final scores with every term in"),
    FLAG(switch, "grad-parameters", gradients.parameters, WRITE, OUTPUT,
         "also temperature, alpha, cap, strength, row_mass, column_mass, sink, alibi, "
         "relative_bias"),
    FLAG(text, "advantage", gradients.advantage, WRITE, OUTPUT,
         "write u - E_p[u], u = -dL/dP: what every weight gains over its row's mean [...,n,m]",
         "F"),
    FLAG(choice, "backward", gradients.backward, WRITE, OUTPUT,
         "differentiate the solution, or the rounds that ran", "WORD", .sets = "backward",
         .standard = "auto"),
    FLAG(switch, "force", output.force, WRITE | ASSIGN | VERIFY | CAPTURE | ANALYZE | PATCH | LENS,
         OUTPUT, "write over existing files", .letter = 'f'),
    FLAG(switch, "certify", output.certify, WRITE | COMPARE, OUTPUT,
         "compute the certificate above 2^28 pairs too, where it is left out"),
    FLAG(switch, "per-head", output.per_head, SOLVE, OUTPUT,
         "a certificate for every head of every sequence"),

    FLAG(switch, "json", output.json, ALL, OTHER, "one JSON object on standard output"),
    FLAG(switch, "man", help.man, HELP, OTHER,
         "the manual page, of a command its own, for 'man -l -'"),
    FLAG(switch, "help", help.asked, ALL, OTHER, "this help", .letter = 'h'),
};
const int cli_flag_count = (int)(sizeof cli_flags / sizeof cli_flags[0]);
_Static_assert(sizeof cli_flags / sizeof cli_flags[0] <= 8 * sizeof(cli_flag_set),
               "a bit for every flag");

const cli_command *cli_find_command(const char *name) {
    for (int k = 0; k < cli_command_count; k++) {
        if (strcmp(cli_commands[k].name, name) == 0) return &cli_commands[k];
    }
    return NULL;
}
