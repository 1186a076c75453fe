/* system_interrupts_posix.c: system_interrupts.h on Linux, macOS and BSD. */
#define _XOPEN_SOURCE 700 /* SA_ONSTACK */
#include "system_interrupts.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

/* A handler is told nothing but the signal. */
static struct sigaction before;
static void (*told)(void);
static int came;

/* POSIX has an int there; some systems' names of its bits are unsigned. */
static unsigned flags_before(void) { return (unsigned)before.sa_flags; }

static void on_interrupt(int number) {
    (void)number;
    __atomic_store_n(&came, 1, __ATOMIC_RELAXED);
    told();
}

bool ota_interrupts_begin(void (*on)(void)) {
    if (sigaction(SIGINT, NULL, &before) != 0) return false;
    const bool handled = (flags_before() & (unsigned)SA_SIGINFO) != 0 ||
                         (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN);
    if (!handled) return false;
    const unsigned kept = flags_before() & (unsigned)(SA_ONSTACK | SA_RESTART);
    struct sigaction own = {.sa_handler = on_interrupt, .sa_flags = (int)kept};
    told = on;
    __atomic_store_n(&came, 0, __ATOMIC_RELAXED);
    (void)sigemptyset(&own.sa_mask);
    return sigaction(SIGINT, &own, NULL) == 0;
}

void ota_interrupts_pass(void) {
    struct sigaction now;
    if (__atomic_exchange_n(&came, 0, __ATOMIC_RELAXED) == 0) return;
    if (sigaction(SIGINT, &before, &now) != 0) return;
    (void)raise(SIGINT);
    (void)sigaction(SIGINT, &now, NULL);
}

void ota_interrupts_end(void) { (void)sigaction(SIGINT, &before, NULL); }

bool ota_forks_tell(void (*in_child)(void)) { return pthread_atfork(NULL, NULL, in_child) == 0; }

void ota_sleep_ms(int milliseconds) {
    const struct timespec time = {.tv_sec = milliseconds / 1000,
                                  .tv_nsec = (long)(milliseconds % 1000) * 1000000};
    (void)nanosleep(&time, NULL);
}
