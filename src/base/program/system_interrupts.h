/* system_interrupts.h: Ctrl-C in a process whose handler is another's, which the Python package's is: one file a system, beside
 * system_program_*.c. The extension of the package holds it, the library does not. */
#ifndef OTA_SYSTEM_INTERRUPTS_H
#define OTA_SYSTEM_INTERRUPTS_H

#include <stdbool.h>

/* From now on Ctrl-C calls `on`, which may set a variable and no more; what handled it before is told by ota_interrupts_pass.
 * Nothing is changed where nothing did. False then. */
bool ota_interrupts_begin(void (*on)(void));
/* Tells what handled it before of a Ctrl-C that it was not told of, if there was one. */
void ota_interrupts_pass(void);
/* What handled it before does so again. */
void ota_interrupts_end(void);
/* `in_child` is called in every child that forks from now on. */
bool ota_forks_tell(void (*in_child)(void));
void ota_sleep_ms(int milliseconds);

#endif
