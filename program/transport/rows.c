/* Outputs of --shard on their way into files. In a file the lines of a block (batch, head) stand in the order of the
 * processes, so process 0 takes from each in turn what comes next, a piece at a time, and no process ever holds the lines
 * of another:
 *
 *     element e of the file,  T = total * line:   block e / T, line (e mod T) / line, held by the process whose share has it */
#include "rows.h"

#include "program/ranks/ranks.h"

enum { PIECE = 1 << 16 }; /* bytes of a message */

/* What process 0 asks for: elements [first, first + count) of rows[number].mine as `type`; type OTA_NO_TYPE: no more. */
typedef struct request {
    int64_t number, first, count, type;
} request;

static void convert(const cli_rows *rows, const request *wanted, void *to) {
    const ota_array *a = &rows->mine;
    cli_convert((const char *)a->data + wanted->first * (int64_t)ota_type_bytes(a->type), a->type,
                to, (ota_type)wanted->type, (size_t)wanted->count);
}

/* The process that has element `at`, where that is among its own, and how many follow it there. */
static int find(const cli_rows *rows, int64_t at, int64_t *first, int64_t *follow) {
    const int ranks = cli_ranks_size(), k = rows->dimension;
    const ota_array *a = &rows->mine;
    if (k < 0 || ranks == 1) {
        *first = at;
        *follow = a->size[0] * a->size[1] * a->size[2] * a->size[3] - at;
        return 0;
    }
    const int64_t line = k == 2 ? a->size[3] : 1, block = at / (rows->total * line);
    const int64_t inside = at % (rows->total * line), row = inside / line;
    int rank = 0;
    while (cli_share_begin(rows->total, rank + 1, ranks) <= row) rank++;
    const int64_t begin = cli_share_begin(rows->total, rank, ranks);
    const int64_t held = cli_share_begin(rows->total, rank + 1, ranks) - begin;
    *first = block * held * line + inside - begin * line;
    *follow = (begin + held) * line - inside;
    return rank;
}

int cli_rows_next(void *reader, void *to, size_t count, cli_error *error) {
    cli_rows_reader *from = reader;
    const cli_rows *rows = &from->rows[from->number];
    const size_t bytes = ota_type_bytes(from->type);
    (void)error;
    for (size_t done = 0; done < count;) {
        request wanted = {.number = from->number, .type = (int64_t)from->type};
        int64_t follow;
        const int rank = find(rows, from->at, &wanted.first, &follow);
        const int64_t left = (int64_t)(count - done), most = PIECE / (int64_t)bytes;
        wanted.count = follow < left ? follow : left;
        if (wanted.count > most) wanted.count = most;
        char *piece = (char *)to + done * bytes;
        if (rank == 0) {
            convert(rows, &wanted, piece);
        } else {
            cli_ranks_give(rank, &wanted, sizeof wanted);
            cli_ranks_take(rank, piece, (size_t)wanted.count * bytes);
        }
        done += (size_t)wanted.count;
        from->at += wanted.count;
    }
    return 0;
}

void cli_rows_serve(const cli_rows *rows) {
    _Alignas(8) unsigned char piece[PIECE];
    request wanted;
    for (;;) {
        cli_ranks_take(0, &wanted, sizeof wanted);
        if (wanted.type == OTA_NO_TYPE) return;
        convert(&rows[wanted.number], &wanted, piece);
        cli_ranks_give(0, piece, (size_t)wanted.count * ota_type_bytes((ota_type)wanted.type));
    }
}

void cli_rows_end(void) {
    const request none = {.type = OTA_NO_TYPE};
    for (int rank = 1; rank < cli_ranks_size(); rank++) cli_ranks_give(rank, &none, sizeof none);
}
