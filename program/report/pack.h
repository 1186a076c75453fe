/* Bytes as text that a page can carry: gzip, then base64. */
#ifndef OTATTN_PROGRAM_REPORT_PACK_H
#define OTATTN_PROGRAM_REPORT_PACK_H

#include <stddef.h>

/* The packed text, NUL at its end, freed by the caller; NULL when memory is short. */
char *cli_pack(const unsigned char *bytes, size_t size, size_t *length);

#endif
