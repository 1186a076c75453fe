/* What the model is, so that a replaced one is noticed: the SHA-256 of each of its files, and of the list.
 *
 * Of a folder: configuration, weights and tokenizer (*.json, *.safetensors, *.txt, *.bpe), in order of name. Of a .gguf
 * file: its parts. Files are hashed side by side on threads that begin when the model is open; whoever asks for the hashes
 * takes what is left. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "program/files/files_formats.h"
#include "analyze.h"
#include "src/base/program/system_program.h"
#include "src/base/system.h"

enum { PIECE = 1 << 16, PATH_SIZE = 4096, MOST_THREADS = 16 };

typedef struct hashed {
    char *path, *name;
    int64_t bytes;
    int cause; /* errno of a file that cannot be read */
    char text[SHA256_DIGEST_STRING_LENGTH];
} hashed;

struct run_hash {
    cli_context *context;
    hashed *files;
    int64_t count;
    ota_mutex lock; /* of what follows */
    ota_condition moved;
    int64_t next, ended; /* files that somebody has taken, that are done */
    int64_t done, size;  /* bytes of all */
    bool stopped;
    ota_thread threads[MOST_THREADS];
    int started;
};

/* Also when nobody waits for the hashes any more, or after Ctrl-C. */
static bool moves_on(run_hash *h, int64_t bytes) {
    ota_mutex_lock(&h->lock);
    h->done += bytes;
    const bool on = !h->stopped && *h->context->cancel == 0;
    ota_condition_wake_all(&h->moved);
    ota_mutex_unlock(&h->lock);
    return on;
}

/* told: NULL, or who is told of every piece. */
static void hash_file(hashed *file, run_hash *told) {
    unsigned char *piece = malloc(PIECE);
    FILE *stream = ota_file_reader(file->path);
    SHA2_CTX hash;
    SHA256Init(&hash);
    file->bytes = 0;
    errno = piece == NULL ? ENOMEM : errno;
    for (size_t got = 1; piece != NULL && stream != NULL && got > 0;) {
        got = fread(piece, 1, PIECE, stream);
        SHA256Update(&hash, piece, got);
        file->bytes += (int64_t)got;
        if (told != NULL && !moves_on(told, (int64_t)got)) break;
    }
    const int cause = errno;
    const bool failed = piece == NULL || stream == NULL || ferror(stream);
    file->cause = !failed ? 0 : cause != 0 ? cause : EIO;
    if (stream != NULL) (void)fclose(stream);
    free(piece);
    (void)SHA256End(&hash, file->text);
}

static int refuse_unread(cli_context *context, const hashed *file) {
    return cli_fail(&context->error, CLI_EXIT_IO, "%s: cannot be read: %s",
                    cli_short_path(file->path), strerror(file->cause));
}

int run_file_hash(cli_context *context, const char *path, int64_t *bytes,
                  char text[SHA256_DIGEST_STRING_LENGTH]) {
    hashed file = {.path = (char *)(uintptr_t)path};
    hash_file(&file, NULL);
    if (file.cause != 0) return refuse_unread(context, &file);
    *bytes = file.bytes;
    memcpy(text, file.text, sizeof file.text);
    return 0;
}

/* Takes files until none is left. */
static void hash_files(void *argument) {
    run_hash *h = argument;
    ota_mutex_lock(&h->lock);
    while (h->next < h->count) {
        hashed *file = &h->files[h->next++];
        const bool stopped = h->stopped;
        ota_mutex_unlock(&h->lock);
        if (!stopped) hash_file(file, h);
        ota_mutex_lock(&h->lock);
        h->ended++;
        ota_condition_wake_all(&h->moved);
    }
    ota_mutex_unlock(&h->lock);
}

/* ---- which files ---- */

/* A file of which only the size is known yet. */
static int add_file(run_hash *h, const char *path, const char *name) {
    hashed *grown = realloc(h->files, (size_t)(h->count + 1) * sizeof *grown);
    if (grown != NULL) h->files = grown;
    hashed file = {.path = malloc(strlen(path) + 1), .name = malloc(strlen(name) + 1)};
    if (grown == NULL || file.path == NULL || file.name == NULL) {
        free(file.path);
        free(file.name);
        return cli_fail(&h->context->error, CLI_EXIT_LIMIT, "there is no memory left");
    }
    (void)strcpy(file.path, path);
    (void)strcpy(file.name, name);
    h->files[h->count++] = file;
    /* Refused now, not when a window has been measured. */
    FILE *stream = ota_file_reader(path);
    if (stream == NULL) {
        h->files[h->count - 1].cause = errno;
        return refuse_unread(h->context, &h->files[h->count - 1]);
    }
    h->size += ota_stream_size(stream);
    (void)fclose(stream);
    return 0;
}

static bool is_part(const char *name) {
    static const char *const tails[] = {".json", ".safetensors", ".txt", ".bpe"};
    const size_t length = strlen(name);
    for (size_t k = 0; k < sizeof tails / sizeof *tails; k++) {
        const size_t size = strlen(tails[k]);
        if (name[0] != '.' && length > size && strcmp(name + length - size, tails[k]) == 0)
            return true;
    }
    return false;
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The parts of the folder in order, allocated one by one; how many, or -1 with errno. */
static int list_parts(const char *path, char ***names) {
    ota_folder *folder = ota_folder_open(path);
    int count = 0;
    *names = NULL;
    if (folder == NULL) return -1;
    const char *name;
    while ((name = ota_folder_next(folder)) != NULL) {
        if (!is_part(name)) continue;
        char **grown = realloc(*names, ((size_t)count + 1) * sizeof *grown);
        if (grown != NULL) *names = grown;
        char *own = grown == NULL ? NULL : malloc(strlen(name) + 1);
        if (own == NULL) break;
        (*names)[count++] = strcpy(own, name);
    }
    const int cause = errno;
    ota_folder_close(folder);
    if (count > 0) qsort(*names, (size_t)count, sizeof **names, by_bytes);
    errno = cause;
    if (name == NULL && cause == 0) return count;
    while (count > 0) free((*names)[--count]);
    free(*names);
    return -1;
}

static int add_folder(run_hash *h, const char *folder) {
    cli_context *context = h->context;
    char **names;
    int code = 0;
    const int count = list_parts(folder, &names);
    if (count < 0)
        return cli_fail(&context->error, CLI_EXIT_IO, "%s: cannot be listed: %s",
                        cli_short_path(folder), strerror(errno));
    for (int k = 0; k < count; k++) {
        char path[PATH_SIZE];
        ota_path_facts facts;
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[k]);
        /* A link that leads nowhere is no file. */
        const bool found = ota_path_look(path, true, &facts);
        if (code == 0 && facts.kind == OTA_PATH_FILE)
            code = add_file(h, path, names[k]);
        else if (code == 0 && !found && errno != ENOENT)
            code = cli_fail(&context->error, CLI_EXIT_IO, "%s: cannot be looked at: %s",
                            cli_short_path(path), strerror(errno));
        free(names[k]);
    }
    free(names);
    return code;
}

/* The parts of a .gguf file. */
static int add_parts(run_hash *h, const ota_model *model) {
    int code = 0;
    for (int64_t k = 0; code == 0 && ota_model_file(model, k) != NULL; k++) {
        const char *path = ota_model_file(model, k);
        code = add_file(h, path, ota_path_name(path));
    }
    return code;
}

/* ---- the hashes ---- */

/* One thread is the one that asks for them. */
static void start_threads(run_hash *h) {
    const cli_whole *given = &h->context->settings.machine.threads;
    int64_t wanted = given->given ? given->value : ota_processors();
    if (wanted == 1) wanted = 0;
    if (wanted > h->count) wanted = h->count;
    if (wanted > MOST_THREADS) wanted = MOST_THREADS;
    while (h->started < wanted && ota_thread_start(&h->threads[h->started], 0, hash_files, h))
        h->started++;
}

int run_hash_begin(cli_context *context, const ota_model *model, run_hash **hash) {
    ota_model_facts facts = {.size = sizeof facts};
    ota_error error = {0};
    *hash = calloc(1, sizeof **hash);
    if (*hash == NULL) return cli_fail(&context->error, CLI_EXIT_LIMIT, "there is no memory left");
    run_hash *h = *hash;
    h->context = context;
    ota_mutex_begin(&h->lock);
    ota_condition_begin(&h->moved);
    const ota_status status = ota_model_describe(model, &facts, &error);
    if (status < 0) return cli_fail_status(context, status, &error);
    const int code =
        strcmp(facts.format, "gguf") == 0 ? add_parts(h, model) : add_folder(h, facts.path);
    if (code == 0) start_threads(h);
    return code;
}

/* Shows how far they are while others work. */
static void wait_for_files(run_hash *h) {
    cli_progress progress;
    cli_progress_begin(&progress, h->context, "hash of the model");
    hash_files(h);
    ota_mutex_lock(&h->lock);
    while (h->ended < h->count) {
        ota_condition_wait(&h->moved, &h->lock);
        cli_progress_update(&progress, (double)h->done / 1e6, (double)h->size / 1e6, "MB");
    }
    ota_mutex_unlock(&h->lock);
    cli_progress_end(&progress);
}

int run_hash_end(run_hash *h, json_t **files, char text[SHA256_DIGEST_STRING_LENGTH]) {
    SHA2_CTX all;
    SHA256Init(&all);
    *files = json_array();
    wait_for_files(h);
    for (int64_t k = 0; k < h->count; k++) {
        const hashed *file = &h->files[k];
        if (file->cause != 0) return refuse_unread(h->context, file);
        SHA256Update(&all, (const uint8_t *)file->name, strlen(file->name) + 1);
        SHA256Update(&all, (const uint8_t *)file->text, sizeof file->text);
        (void)json_array_append_new(*files,
                                    json_pack("{s:s, s:I, s:s}", "name", file->name, "bytes",
                                              (json_int_t)file->bytes, "sha256", file->text));
    }
    (void)SHA256End(&all, text);
    return 0;
}

void run_hash_free(run_hash *h) {
    if (h == NULL) return;
    ota_mutex_lock(&h->lock);
    h->stopped = true;
    ota_mutex_unlock(&h->lock);
    for (int k = 0; k < h->started; k++) ota_thread_join(&h->threads[k]);
    ota_condition_end(&h->moved);
    ota_mutex_end(&h->lock);
    for (int64_t k = 0; k < h->count; k++) {
        free(h->files[k].path);
        free(h->files[k].name);
    }
    free(h->files);
    free(h);
}
