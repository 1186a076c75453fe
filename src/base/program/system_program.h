/* system_program.h: what the program and its statements ask of the operating system beyond system.h: outputs that appear whole
 * or not at all, folders, locks, the terminal, Ctrl-C. One file a system defines it, and nothing above asks which system that
 * is:
 *
 *     system_program_posix.c     Linux, macOS, BSD, with system_program_linux.c or system_program_bsd.c for what POSIX does not say
 *     system_program_windows.c   Windows, from version 10 on
 *
 * Calls that can fail leave the cause in errno. Paths are UTF-8; both separators of Windows are understood there. The library
 * holds none of this. */
#ifndef OTA_SYSTEM_PROGRAM_H
#define OTA_SYSTEM_PROGRAM_H

#include "src/base/system.h"

/* Room for any path that is worked with, its zero included. */
enum { OTA_PATH_ROOM = 4096 };

enum { OTA_STANDARD_INPUT = 0, OTA_STANDARD_OUTPUT = 1 };

/* ---- the process ---------------------------------------------------------------------------- */

/* Before all else: standard streams carry bytes as they are, and a closed pipe is a write error like any other. The arguments
 * in UTF-8, `argv` itself where they are so already; NULL without memory. */
char **ota_program_begin(int argc, char **argv);
/* A variable of the environment, in UTF-8, allocated; NULL where it is not set or empty, or without memory. */
char *ota_program_variable(const char *name);
/* The first Ctrl-C, or request to end, sets the flag; the second ends the process. */
void ota_program_catch_interrupts(int *flag);
/* That flag, for steps that only files know of; NULL where none was given. */
const int *ota_program_interrupts(void);
/* What the process may write to, stacks of threads included and mapped files not. A lower limit of the caller stays. */
bool ota_program_limit_memory(uint64_t bytes);
/* `size` bytes, at least one, that free takes back: at a multiple of 64 where the system has such, else of 16. */
void *ota_program_allocate(size_t size);
/* What the machine and the container can still give; INT64_MAX where nobody says. */
int64_t ota_memory_available(void);
/* Nanoseconds of a processor that the calling thread has had; on Windows those that went by. */
int64_t ota_thread_time_ns(void);
/* Bytes that `work(size)` adds to the peak of resident memory, where the system lets a process of its own run it; elsewhere to
 * what is resident while it runs. NaN where the work or the measure failed. */
double ota_resident_growth(bool (*work)(int64_t size), int64_t size);

/* ---- terminals and streams ------------------------------------------------------------------ */

bool ota_is_terminal(FILE *stream);
/* 0 where that cannot be had. */
int ota_terminal_columns(FILE *stream);
/* Whether what is printed may be UTF-8. */
bool ota_terminal_reads_utf8(void);
/* Whether the reader of a pipe that was written to has closed it. */
bool ota_reader_has_gone(FILE *stream);
/* Bytes of the file that it reads, 0 where it has no such number. */
int64_t ota_stream_size(FILE *stream);
/* fopen, in bytes. No child inherits the stream. */
FILE *ota_file_stream(const char *path, const char *mode);
/* A stream whose bytes go to take(to, bytes, size), which says how many it took: all, or less where there is no memory. Where
 * the system has no such streams they go there at the end. */
typedef size_t ota_text_taker(void *to, const char *bytes, size_t size);
FILE *ota_text_stream(ota_text_taker *take, void *to);
/* Closes it; false where something was not taken. */
bool ota_text_stream_end(FILE *stream, ota_text_taker *take, void *to);

/* ---- descriptors ---------------------------------------------------------------------------- */

/* What comes next of a stream, waiting for it; 0 at the end, -1 with errno. */
int64_t ota_descriptor_next(int descriptor, void *buffer, size_t size);
int ota_descriptor_copy(int descriptor);

typedef enum ota_writer_kind {
    OTA_WRITER_NEW,   /* a file that is not there yet */
    OTA_WRITER_STREAM /* a pipe or device */
} ota_writer_kind;

/* A descriptor that writes, or -1 with errno; EEXIST where a new file is there. */
int ota_writer_open(const char *path, ota_writer_kind kind);
/* A file of the folder that no name leads to, so that a killed process leaves nothing; -1 where there is none such. */
int ota_writer_open_nameless(const char *folder);
/* Gives it one. */
bool ota_writer_name(int descriptor, const char *path);
bool ota_writer_write(int descriptor, const void *bytes, size_t size);
/* Over what was written at `offset`; what is written next follows the end as before. */
bool ota_writer_patch(int descriptor, const void *bytes, size_t size, int64_t offset);
/* Who may do what with the file, as ota_path_look says it. */
bool ota_writer_permit(int descriptor, int mode);
/* To the disk. */
bool ota_writer_flush(int descriptor);
bool ota_writer_close(int descriptor);

/* ---- paths ---------------------------------------------------------------------------------- */

typedef struct ota_path_facts {
    ota_path_kind kind;
    bool link, streams; /* streams: a pipe, or a device that takes bytes one behind the other */
    int mode;
} ota_path_facts;

bool ota_path_look(const char *path, bool follow_links, ota_path_facts *facts);
/* Behind the last separator. */
const char *ota_path_name(const char *path);
/* Where links lead, allocated; NULL with errno. */
char *ota_path_resolve(const char *path);
bool ota_path_remove(const char *path);
/* The file `from` becomes `to` where nothing has that name; EEXIST. */
bool ota_path_place(const char *from, const char *to);
/* `from` becomes `to`, whatever that was. *exchanged: the old one is `from` now, and the same call takes it back. ENOENT where
 * there was none, if the system can tell. */
bool ota_path_place_over(const char *from, const char *to, bool *exchanged);
/* A file of `size` bytes, holes where it had fewer. */
bool ota_path_resize(const char *path, int64_t size);

/* ---- folders -------------------------------------------------------------------------------- */

/* EEXIST where something has the name. */
bool ota_folder_make(const char *path);
/* PREFIX and some letters, in the system's folder for what is temporary. */
bool ota_folder_make_temporary(const char *prefix, char path[OTA_PATH_ROOM]);
bool ota_folder_remove(const char *path);
/* The names in it to the disk, where the system can. */
void ota_folder_flush(const char *path);

typedef struct ota_folder ota_folder;
ota_folder *ota_folder_open(const char *path);
/* The next name, in no order; NULL at the end with errno 0, or with the cause. */
const char *ota_folder_next(ota_folder *folder);
void ota_folder_close(ota_folder *folder);

/* ---- locks ---------------------------------------------------------------------------------- */

/* The file of a lock, made where it is not there; closed with ota_descriptor_close, which ends the lock. */
int ota_lock_open(const char *path, bool *made);
/* False where another process has it. */
bool ota_lock_take(int descriptor);

#endif
