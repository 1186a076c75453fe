/* system_interrupts_windows.c: system_interrupts.h on Windows, where the C library calls a handler once, in a thread of its own,
 * and there are no forks. */
#define WIN32_LEAN_AND_MEAN
#include "system_interrupts.h"

#include <signal.h>

#include <windows.h>

typedef void handler(int number);

static handler *before;
static void (*told)(void);
static LONG came;

static void on_interrupt(int number) {
    (void)signal(number, on_interrupt);
    (void)InterlockedExchange(&came, 1);
    told();
}

bool ota_interrupts_begin(void (*on)(void)) {
    told = on;
    (void)InterlockedExchange(&came, 0);
    before = signal(SIGINT, on_interrupt);
    if (before != SIG_DFL && before != SIG_IGN && before != SIG_ERR) return true;
    if (before != SIG_ERR) (void)signal(SIGINT, before);
    return false;
}

/* What was there before makes itself the handler again, as Python's does. */
void ota_interrupts_pass(void) {
    if (InterlockedExchange(&came, 0) == 0) return;
    handler *const now = signal(SIGINT, before);
    before(SIGINT);
    (void)signal(SIGINT, now);
}

void ota_interrupts_end(void) { (void)signal(SIGINT, before); }

bool ota_forks_tell(void (*in_child)(void)) {
    (void)in_child;
    return true;
}

void ota_sleep_ms(int milliseconds) { Sleep((DWORD)milliseconds); }
