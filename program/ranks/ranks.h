/* program/ranks/: The processes of mpirun: ten calls in ranks.h, answered by MPI (ranks_mpi.c, option OTATTN_MPI) or
 * for one process (ranks_one.c). It may call nothing else of the program.
 *
 * The processes of `mpirun -n N otattn ...`, each with a rank 0 ... N - 1: all that the program asks of a
 * message-passing library is here. ranks_mpi.c answers with MPI (build option OTATTN_MPI), ranks_one.c for a
 * single process. Started without mpirun, both are one process. */
#ifndef OTATTN_PROGRAM_RANKS_H
#define OTATTN_PROGRAM_RANKS_H

#include <stddef.h>

#include "otattn.h"

/* What was built in, "Open MPI v4.1.4", or NULL: for doctor, before and after anything else. */
const char *cli_ranks_library(char *text, size_t size);

/* Before the others, once, by one thread. Returns 0, or an exit code, of which cli_ranks_reason says why. */
int cli_ranks_begin(void);
const char *cli_ranks_reason(void);
int cli_ranks_rank(void);
int cli_ranks_size(void);
/* Waits for every rank; the largest of their codes, so that all go on or all end. */
int cli_ranks_agree(int code);
/* `size` bytes of rank 0 for all: the same size on every rank. */
void cli_ranks_share(void *bytes, size_t size);
/* `size` bytes from one rank to another, which both make the call for and both wait for. */
void cli_ranks_give(int to, const void *bytes, size_t size);
void cli_ranks_take(int from, void *bytes, size_t size);
/* The communicator of this process and its like, rows in order; it lives until end. Where mpirun started nothing, one
 * process. `error` is filled where the status is negative. */
ota_status cli_ranks_communicator(ota_communicator *to, ota_error *error);
ota_communicator cli_ranks_alone(void);
/* After the others; nothing where begin was not called. */
void cli_ranks_end(void);

#endif
