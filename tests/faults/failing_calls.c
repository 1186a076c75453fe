/* The counting part of failing_calls.h: a table of sites, a table of blocks held, the log. A block's place in its table is
 * its address hashed, with linear probing; blocks given back close the gap they leave. */
#define _GNU_SOURCE
#include "failing_calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

enum { FRAMES = 16, SITES = 1 << 15, BLOCKS = 1 << 20, MODULES = 64, SHOWN = 14 };

static const char *const kind_words[CALL_KINDS] = {"memory", "open",   "read", "input",
                                                   "write",  "output", "sync", "close",
                                                   "name",   "look",   "map",  "thread"};

typedef struct module_range {
    uintptr_t begin, end;
    char name[128];
} module_range;

typedef struct site {
    uint64_t hash; /* 0: free */
    int64_t calls, held, held_bytes;
    call_kind kind;
    int depth;
    int modules[SHOWN];
    uintptr_t offsets[SHOWN];
} site;

typedef struct block {
    const void *address; /* NULL: free */
    size_t size;
    int site;
} block;

static module_range modules[MODULES];
static int module_count;
static site sites[SITES];
static block blocks[BLOCKS];
static int64_t block_count;
static atomic_flag lock = ATOMIC_FLAG_INIT;
static _Atomic bool active;
static bool logged;
static pid_t process;

static uint64_t wanted_site;
static int64_t wanted_occurrence;
static int wanted_errno, wanted_signal;
static bool wanted_short, fired;

/* What this library itself calls is not the program's; the last site is that of the block now handed out. */
static _Thread_local __attribute__((tls_model("initial-exec"))) int inside;
static _Thread_local __attribute__((tls_model("initial-exec"))) int last_site;

static void enter(void) {
    while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire)) {
    }
}

static void leave(void) { atomic_flag_clear_explicit(&lock, memory_order_release); }

void *failing_next(const char *name, void **kept) {
    if (*kept == NULL) *kept = dlsym(RTLD_NEXT, name);
    return *kept;
}

/* ---- sites ---------------------------------------------------------------------------------- */

static int add_module(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size, (void)context;
    if (module_count == MODULES) return 1;
    uintptr_t end = 0;
    for (int k = 0; k < info->dlpi_phnum; k++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[k];
        if (part->p_type != PT_LOAD) continue;
        const uintptr_t last = info->dlpi_addr + part->p_vaddr + part->p_memsz;
        if (last > end) end = last;
    }
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash != NULL ? slash + 1 : info->dlpi_name;
    module_range *next = &modules[module_count++];
    *next = (module_range){.begin = info->dlpi_addr, .end = end};
    (void)snprintf(next->name, sizeof next->name, "%s", name[0] != '\0' ? name : "program");
    return 0;
}

static int module_of(uintptr_t address) {
    for (int attempt = 0; attempt < 2; attempt++) {
        for (int k = 0; k < module_count; k++)
            if (address >= modules[k].begin && address < modules[k].end) return k;
        /* Libraries come later too. */
        if (attempt == 0) {
            module_count = 0;
            (void)dl_iterate_phdr(add_module, NULL);
        }
    }
    return -1;
}

typedef struct stack {
    uintptr_t frames[FRAMES];
    int depth;
} stack;

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *argument) {
    stack *found = argument;
    if (found->depth == FRAMES) return _URC_END_OF_STACK;
    found->frames[found->depth++] = (uintptr_t)_Unwind_GetIP(context);
    return _URC_NO_REASON;
}

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

static uint64_t name_hash(const char *name) {
    uint64_t hash = 1;
    for (; *name != '\0'; name++) hash = mix(hash, (unsigned char)*name);
    return hash;
}

/* Finds or makes the site of this stack; -1 where the table is full. Called with the lock held. */
static int find_site(call_kind kind, const stack *at) {
    site made = {.kind = kind};
    uint64_t hash = mix(7, (uint64_t)kind);
    const int own = module_of((uintptr_t)(void *)&modules);
    for (int k = 0; k < at->depth; k++) {
        const int module = module_of(at->frames[k]);
        if (module < 0 || module == own) continue;
        const uintptr_t offset = at->frames[k] - modules[module].begin;
        hash = mix(mix(hash, name_hash(modules[module].name)), offset);
        if (made.depth == SHOWN) continue;
        made.modules[made.depth] = module;
        made.offsets[made.depth++] = offset;
    }
    made.hash = hash | 1;
    for (uint64_t k = 0; k < SITES; k++) {
        const int place = (int)((made.hash / 2 + k) % SITES);
        if (sites[place].hash == 0) sites[place] = made;
        if (sites[place].hash == made.hash) return place;
    }
    return -1;
}

call_verdict failing_call(call_kind kind) {
    if (!atomic_load(&active) || inside > 0) return CALL_RUNS;
    const int before = errno;
    inside++;
    stack at = {.depth = 0};
    (void)_Unwind_Backtrace(add_frame, &at);
    enter();
    const int place = find_site(kind, &at);
    bool chosen = false;
    if (place >= 0) {
        site *found = &sites[place];
        found->calls++;
        chosen = !fired && found->hash == wanted_site && found->calls == wanted_occurrence;
        if (chosen) fired = true;
    }
    leave();
    last_site = place;
    inside--;
    errno = before;
    if (!chosen) return CALL_RUNS;
    if (wanted_signal != 0) {
        (void)kill(process, wanted_signal);
        return CALL_RUNS;
    }
    if (wanted_short) return CALL_IS_SHORT;
    errno = wanted_errno;
    return CALL_FAILS;
}

/* ---- blocks --------------------------------------------------------------------------------- */

static uint64_t place_of(const void *address) {
    return mix(3, (uint64_t)(uintptr_t)address) % BLOCKS;
}

void failing_held(const void *address, size_t size) {
    if (!atomic_load(&active) || inside > 0 || address == NULL || last_site < 0) return;
    enter();
    if (block_count < BLOCKS / 2) {
        uint64_t place = place_of(address);
        while (blocks[place].address != NULL) place = (place + 1) % BLOCKS;
        blocks[place] = (block){address, size, last_site};
        block_count++;
        sites[last_site].held++;
        sites[last_site].held_bytes += (int64_t)size;
    }
    leave();
}

void failing_given_back(const void *address) {
    if (!atomic_load(&active) || inside > 0 || address == NULL) return;
    enter();
    uint64_t place = place_of(address);
    while (blocks[place].address != NULL && blocks[place].address != address)
        place = (place + 1) % BLOCKS;
    if (blocks[place].address != NULL) {
        sites[blocks[place].site].held--;
        sites[blocks[place].site].held_bytes -= (int64_t)blocks[place].size;
        block_count--;
        uint64_t gap = place;
        for (uint64_t next = (gap + 1) % BLOCKS; blocks[next].address != NULL;
             next = (next + 1) % BLOCKS) {
            const uint64_t home = place_of(blocks[next].address);
            /* Whoever lives between the gap and here stays. */
            if ((next - home) % BLOCKS < (next - gap) % BLOCKS) continue;
            blocks[gap] = blocks[next];
            gap = next;
        }
        blocks[gap].address = NULL;
    }
    leave();
}

/* ---- begin and end -------------------------------------------------------------------------- */

static void log_site(int file, const site *s) {
    (void)dprintf(file, "site %s %016llx %lld %lld %lld", kind_words[s->kind],
                  (unsigned long long)s->hash, (long long)s->calls, (long long)s->held,
                  (long long)s->held_bytes);
    for (int k = 0; k < s->depth; k++)
        (void)dprintf(file, " %s+%llx", modules[s->modules[k]].name,
                      (unsigned long long)s->offsets[k]);
    (void)dprintf(file, "\n");
}

static int open_descriptors(void) {
    int count = 0;
    for (int k = 0; k < 256; k++) count += syscall(SYS_fcntl, k, F_GETFD) >= 0 ? 1 : 0;
    return count;
}

static void write_log(void) {
    const char *path = getenv("OTATTN_FAULT_LOG");
    if (logged || getpid() != process) return;
    logged = true;
    atomic_store(&active, false);
    const int descriptors = open_descriptors();
    const int file =
        path == NULL ? -1 : (int)syscall(SYS_open, path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (file < 0) return;
    inside++;
    for (int k = 0; k < SITES; k++)
        if (sites[k].hash != 0) log_site(file, &sites[k]);
    (void)dprintf(file, "descriptors %d\nfired %d\n", descriptors, fired ? 1 : 0);
    (void)syscall(SYS_close, file);
    inside--;
}

static void leave_child_alone(void) { atomic_store(&active, false); }

static void read_wish(void) {
    const char *wish = getenv("OTATTN_FAULT");
    char *end = NULL;
    if (wish == NULL) return;
    wanted_site = strtoull(wish, &end, 16);
    if (*end == ':') wanted_occurrence = strtoll(end + 1, &end, 10);
    if (*end != ':') return;
    end++;
    wanted_short = strcmp(end, "short") == 0;
    if (strncmp(end, "signal ", 7) == 0)
        wanted_signal = (int)strtol(end + 7, NULL, 10);
    else
        wanted_errno = (int)strtol(end, NULL, 10);
}

/* The other tests of a program of cmocka's do not run. */
static void choose_test(void) {
    const char *name = getenv("OTATTN_FAULT_TEST");
    void (*filter)(const char *pattern);
    *(void **)(void *)&filter = dlsym(RTLD_DEFAULT, "cmocka_set_test_filter");
    if (name != NULL && filter != NULL) filter(name);
}

typedef int main_function(int argc, char **argv, char **environment);
typedef int start_function(main_function *body, int argc, char **argv, void (*init)(void),
                           void (*fini)(void), void (*loader_fini)(void), void *stack_end);

static main_function *program_main;
static char output_buffer[BUFSIZ];

static int counted_main(int argc, char **argv, char **environment) {
    process = getpid();
    read_wish();
    choose_test();
    (void)dl_iterate_phdr(add_module, NULL);
    (void)pthread_atfork(NULL, NULL, leave_child_alone);
    /* The unwinder's own first steps are not the program's. */
    stack first = {.depth = 0};
    (void)_Unwind_Backtrace(add_frame, &first);
    /* Which print gives the stream its buffer is chance. */
    if (isatty(STDOUT_FILENO) == 0) (void)setvbuf(stdout, output_buffer, _IOFBF, BUFSIZ);
    atomic_store(&active, true);
    const int code = program_main(argc, argv, environment);
    write_log();
    return code;
}

/* Who ends by exit() comes here. */
static __attribute__((destructor)) void end(void) {
    if (process != 0) write_log();
}

int __libc_start_main(main_function *body, int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*loader_fini)(void), void *stack_end);

__attribute__((visibility("default"))) int __libc_start_main(main_function *body, int argc,
                                                             char **argv, void (*init)(void),
                                                             void (*fini)(void),
                                                             void (*loader_fini)(void),
                                                             void *stack_end) {
    start_function *start;
    *(void **)(void *)&start = dlsym(RTLD_NEXT, "__libc_start_main");
    program_main = body;
    return start(counted_main, argc, argv, init, fini, loader_fini, stack_end);
}
