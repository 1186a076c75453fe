/* certify.h: what the two halves of `otattn certify` share. */
#ifndef OTATTN_PROGRAM_CERTIFY_H
#define OTATTN_PROGRAM_CERTIFY_H

#include "program/program.h"

/* `certify --coupling P --scores S`: judges a coupling, or finds the method that made it. */
int cli_certify_coupling(cli_context *context);

#endif
