/* text.c: numbers as text, written and read with a decimal point whatever the locale of the calling thread.
 *
 * The locale is changed for the calling thread alone and put back before the call returns. The "C" locale is a constant of
 * the C library: nothing is allocated, and where it cannot be had the thread's own locale serves. */
#define _POSIX_C_SOURCE 200809L
#include "base.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct c_locale {
    locale_t c, before;
} c_locale;

static c_locale enter_c_locale(void) {
    c_locale l = {.c = newlocale(LC_ALL_MASK, "C", (locale_t)0), .before = (locale_t)0};
    if (l.c != (locale_t)0) l.before = uselocale(l.c);
    return l;
}

static void leave_c_locale(c_locale l) {
    if (l.c == (locale_t)0) return;
    (void)uselocale(l.before);
    freelocale(l.c);
}

int ota_vsnprintf(char *text, size_t size, const char *format, va_list arguments) {
    const c_locale l = enter_c_locale();
    const int length = vsnprintf(text, size, format, arguments);
    leave_c_locale(l);
    return length;
}

int ota_snprintf(char *text, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = ota_vsnprintf(text, size, format, arguments);
    va_end(arguments);
    return length;
}

double ota_strtod(const char *text, char **end) {
    const c_locale l = enter_c_locale();
    const double value = strtod(text, end);
    leave_c_locale(l);
    return value;
}
