/* system_program_windows.c: system_program.h on Windows, from version 10 on. */
#define WIN32_LEAN_AND_MEAN
#define PSAPI_VERSION 2
#include "system_program.h"
#include "src/base/system_wide.h"

#include <fcntl.h>
#include <io.h>
#include <math.h>
#include <psapi.h>
#include <share.h>
#include <shellapi.h>
#include <string.h>
#include <sys/stat.h>

/* ---- errors --------------------------------------------------------------------------------- */

/* The cause of a call of Windows' own as errno; false, for whoever returns it. */
static bool failed(void) {
    static const struct {
        DWORD windows;
        int number;
    } causes[] = {{ERROR_FILE_NOT_FOUND, ENOENT},    {ERROR_PATH_NOT_FOUND, ENOENT},
                  {ERROR_ALREADY_EXISTS, EEXIST},    {ERROR_FILE_EXISTS, EEXIST},
                  {ERROR_ACCESS_DENIED, EACCES},     {ERROR_SHARING_VIOLATION, EACCES},
                  {ERROR_LOCK_VIOLATION, EACCES},    {ERROR_DISK_FULL, ENOSPC},
                  {ERROR_NOT_ENOUGH_MEMORY, ENOMEM}, {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
                  {ERROR_DIRECTORY, ENOTDIR},        {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},
                  {ERROR_INVALID_NAME, ENOENT}};
    const DWORD cause = GetLastError();
    errno = EIO;
    for (size_t k = 0; k < sizeof causes / sizeof *causes; k++)
        if (causes[k].windows == cause) errno = causes[k].number;
    return false;
}

/* free, which leaves errno. */
static void release(void *memory) {
    const int cause = errno;
    free(memory);
    errno = cause;
}

/* ---- the process ---------------------------------------------------------------------------- */

static char **arguments_in_utf8(int argc) {
    int count = 0;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &count);
    char **arguments = calloc((size_t)argc + 1, sizeof *arguments);
    bool whole = wide != NULL && arguments != NULL && count == argc;
    for (int k = 0; whole && k < argc; k++) whole = (arguments[k] = ota_narrow(wide[k])) != NULL;
    (void)LocalFree(wide);
    return whole ? arguments : NULL;
}

char **ota_program_begin(int argc, char **argv) {
    (void)argv;
    static const DWORD streams[] = {STD_OUTPUT_HANDLE, STD_ERROR_HANDLE};
    (void)_set_fmode(_O_BINARY);
    for (int descriptor = 0; descriptor < 3; descriptor++) (void)_setmode(descriptor, _O_BINARY);
    (void)SetConsoleOutputCP(CP_UTF8);
    for (int k = 0; k < 2; k++) {
        const HANDLE stream = GetStdHandle(streams[k]);
        DWORD mode;
        if (GetConsoleMode(stream, &mode) != 0)
            (void)SetConsoleMode(stream, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
    }
    return arguments_in_utf8(argc);
}

/* What the C library knows is in the code page. */
char *ota_program_variable(const char *name) {
    wchar_t *wide = ota_wide(name), *value = NULL;
    const DWORD room = wide == NULL ? 0 : GetEnvironmentVariableW(wide, NULL, 0);
    if (room > 1) value = calloc(room, sizeof *value);
    /* In between another thread may have set a longer one. */
    const bool found = value != NULL && GetEnvironmentVariableW(wide, value, room) == room - 1;
    char *text = found ? ota_narrow(value) : NULL;
    free(value);
    free(wide);
    return text;
}

/* What the handler writes to: it is told nothing else. */
static int *interrupted;

static BOOL WINAPI on_interrupt(DWORD kind) {
    (void)kind;
    /* Not handled the second time: then the process ends. */
    return __atomic_exchange_n(interrupted, 1, __ATOMIC_RELAXED) == 0;
}

void ota_program_catch_interrupts(int *flag) {
    interrupted = flag;
    (void)SetConsoleCtrlHandler(on_interrupt, TRUE);
}

const int *ota_program_interrupts(void) { return interrupted; }

bool ota_program_limit_memory(uint64_t bytes) {
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limit = {.BasicLimitInformation.LimitFlags =
                                                      JOB_OBJECT_LIMIT_PROCESS_MEMORY,
                                                  .ProcessMemoryLimit = (SIZE_T)bytes};
    const HANDLE job = CreateJobObjectW(NULL, NULL); /* stays until the process ends */
    return (job != NULL &&
            SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limit, sizeof limit) !=
                0 &&
            AssignProcessToJobObject(job, GetCurrentProcess()) != 0) ||
           failed();
}

void *ota_program_allocate(size_t size) { return malloc(size); }

int64_t ota_memory_available(void) {
    MEMORYSTATUSEX status = {.dwLength = sizeof status};
    if (GlobalMemoryStatusEx(&status) == 0) return INT64_MAX;
    return (int64_t)(status.ullAvailPhys < status.ullAvailPageFile ? status.ullAvailPhys
                                                                   : status.ullAvailPageFile);
}

/* Windows counts a thread in ticks of 15.6 ms, as long as what is asked about takes: time goes by for all instead. */
int64_t ota_thread_time_ns(void) { return ota_now_ns(); }

/* A thread that looks at what is resident every millisecond while the work runs. */
typedef struct watch {
    double most;
    int ended;
} watch;

static double resident_bytes(void) {
    PROCESS_MEMORY_COUNTERS counters;
    if (GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters) == 0) return NAN;
    return (double)counters.WorkingSetSize;
}

static void look(void *argument) {
    watch *w = argument;
    while (__atomic_load_n(&w->ended, __ATOMIC_ACQUIRE) == 0) {
        w->most = fmax(w->most, resident_bytes());
        Sleep(1);
    }
}

double ota_resident_growth(bool (*work)(int64_t size), int64_t size) {
    watch w = {0.0, 0};
    ota_thread thread;
    const double before = resident_bytes();
    if (!ota_thread_start(&thread, 0, look, &w)) return NAN;
    const bool done = work(size);
    __atomic_store_n(&w.ended, 1, __ATOMIC_RELEASE);
    ota_thread_join(&thread);
    return done ? fmax(w.most - before, 0.0) : (double)NAN;
}

/* ---- terminals and streams ------------------------------------------------------------------ */

bool ota_is_terminal(FILE *stream) {
    DWORD mode;
    return GetConsoleMode((HANDLE)_get_osfhandle(_fileno(stream)), &mode) != 0;
}

int ota_terminal_columns(FILE *stream) {
    CONSOLE_SCREEN_BUFFER_INFO about;
    if (GetConsoleScreenBufferInfo((HANDLE)_get_osfhandle(_fileno(stream)), &about) == 0) return 0;
    return about.srWindow.Right - about.srWindow.Left + 1;
}

/* ota_program_begin has chosen it. */
bool ota_terminal_reads_utf8(void) { return true; }

/* Windows tells the writer alone. */
bool ota_reader_has_gone(FILE *stream) {
    (void)stream;
    return false;
}

int64_t ota_stream_size(FILE *stream) {
    const int64_t size = _filelengthi64(_fileno(stream));
    return size > 0 ? size : 0;
}

FILE *ota_file_stream(const char *path, const char *mode) {
    wchar_t *text = ota_wide(path), own[8];
    size_t size = 0;
    for (; mode[size] != '\0' && size < 5; size++) own[size] = (wchar_t)mode[size];
    own[size] = L'N';
    own[size + 1] = L'\0';
    FILE *file = text == NULL ? NULL : _wfopen(text, own);
    release(text);
    return file;
}

FILE *ota_text_stream(ota_text_taker *take, void *to) {
    (void)take, (void)to;
    return tmpfile();
}

bool ota_text_stream_end(FILE *stream, ota_text_taker *take, void *to) {
    bool whole = fflush(stream) == 0 && ferror(stream) == 0;
    rewind(stream);
    char piece[4096];
    for (size_t got = sizeof piece; whole && got == sizeof piece;) {
        got = fread(piece, 1, sizeof piece, stream);
        whole = ferror(stream) == 0 && take(to, piece, got) == got;
    }
    return fclose(stream) == 0 && whole;
}

/* ---- descriptors ---------------------------------------------------------------------------- */

enum { PIECE_MOST = 1 << 30 };

static unsigned piece_of(size_t size) {
    return size < PIECE_MOST ? (unsigned)size : (unsigned)PIECE_MOST;
}

int64_t ota_descriptor_next(int descriptor, void *buffer, size_t size) {
    return _read(descriptor, buffer, piece_of(size));
}

int ota_descriptor_copy(int descriptor) { return _dup(descriptor); }

int ota_writer_open(const char *path, ota_writer_kind kind) {
    wchar_t *text = ota_wide(path);
    const int flags =
        _O_WRONLY | _O_BINARY | _O_NOINHERIT | (kind == OTA_WRITER_NEW ? _O_CREAT | _O_EXCL : 0);
    const int descriptor = text == NULL ? -1 : _wopen(text, flags, _S_IREAD | _S_IWRITE);
    release(text);
    return descriptor;
}

int ota_writer_open_nameless(const char *folder) {
    (void)folder;
    return -1;
}

bool ota_writer_name(int descriptor, const char *path) {
    (void)descriptor, (void)path;
    errno = ENOSYS;
    return false;
}

bool ota_writer_write(int descriptor, const void *bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        const int wrote = _write(descriptor, (const char *)bytes + done, piece_of(size - done));
        if (wrote < 0) return false;
        done += (size_t)wrote;
    }
    return true;
}

bool ota_writer_patch(int descriptor, const void *bytes, size_t size, int64_t offset) {
    return _lseeki64(descriptor, offset, SEEK_SET) >= 0 &&
           ota_writer_write(descriptor, bytes, size) && _lseeki64(descriptor, 0, SEEK_END) >= 0;
}

/* A new file has the permissions of its folder here, as the old one had. */
bool ota_writer_permit(int descriptor, int mode) {
    (void)descriptor, (void)mode;
    return true;
}

bool ota_writer_flush(int descriptor) { return _commit(descriptor) == 0; }
bool ota_writer_close(int descriptor) { return _close(descriptor) == 0; }

/* ---- paths ---------------------------------------------------------------------------------- */

static HANDLE open_to_look(const wchar_t *path, bool follow_links) {
    return CreateFileW(
        path, FILE_READ_ATTRIBUTES, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
        OPEN_EXISTING,
        FILE_FLAG_BACKUP_SEMANTICS | (follow_links ? 0 : FILE_FLAG_OPEN_REPARSE_POINT), NULL);
}

bool ota_path_look(const char *path, bool follow_links, ota_path_facts *facts) {
    *facts = (ota_path_facts){.kind = OTA_PATH_NONE, .mode = 0666};
    wchar_t *text = ota_wide(path);
    if (text == NULL) return false;
    const HANDLE file = open_to_look(text, follow_links);
    const bool found = file != INVALID_HANDLE_VALUE || failed();
    if (found) {
        BY_HANDLE_FILE_INFORMATION about = {.dwFileAttributes = 0};
        const DWORD type = GetFileType(file);
        (void)GetFileInformationByHandle(file, &about);
        facts->link = !follow_links && (about.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0;
        facts->streams = type == FILE_TYPE_CHAR || type == FILE_TYPE_PIPE;
        facts->kind = type == FILE_TYPE_PIPE                                     ? OTA_PATH_PIPE
                      : type != FILE_TYPE_DISK                                   ? OTA_PATH_OTHER
                      : (about.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0 ? OTA_PATH_FOLDER
                                                                                 : OTA_PATH_FILE;
        (void)CloseHandle(file);
    }
    release(text);
    return found;
}

const char *ota_path_name(const char *path) {
    const char *name = path;
    for (const char *at = path; *at != '\0'; at++)
        if (*at == '/' || *at == '\\' || (*at == ':' && at == path + 1)) name = at + 1;
    return name;
}

char *ota_path_resolve(const char *path) {
    wchar_t *text = ota_wide(path), *found = malloc(OTA_PATH_ROOM * sizeof *found);
    const HANDLE file =
        text != NULL && found != NULL ? open_to_look(text, true) : INVALID_HANDLE_VALUE;
    char *resolved = NULL;
    if (file != INVALID_HANDLE_VALUE) {
        static const wchar_t device[] = L"\\\\?\\";
        const DWORD length = GetFinalPathNameByHandleW(file, found, OTA_PATH_ROOM, 0);
        const bool prefixed = wcsncmp(found, device, 4) == 0 && found[5] == L':';
        if (length > 0 && length < OTA_PATH_ROOM) resolved = ota_narrow(found + (prefixed ? 4 : 0));
        (void)CloseHandle(file);
    } else {
        (void)failed();
    }
    release(found);
    release(text);
    return resolved;
}

bool ota_path_remove(const char *path) {
    wchar_t *text = ota_wide(path);
    const bool done = text != NULL && (DeleteFileW(text) != 0 || failed());
    release(text);
    return done;
}

static bool move(const char *from, const char *to, DWORD flags) {
    wchar_t *old = ota_wide(from), *new = ota_wide(to);
    const bool done = old != NULL && new != NULL &&
                      (MoveFileExW(old, new, flags | MOVEFILE_WRITE_THROUGH) != 0 || failed());
    release(old);
    release(new);
    return done;
}

bool ota_path_place(const char *from, const char *to) { return move(from, to, 0); }

/* No call of Windows lets two files change places. */
bool ota_path_place_over(const char *from, const char *to, bool *exchanged) {
    *exchanged = false;
    return move(from, to, MOVEFILE_REPLACE_EXISTING);
}

bool ota_path_resize(const char *path, int64_t size) {
    FILE *file = ota_file_stream(path, "r+b");
    if (file == NULL) return false;
    const bool done = _chsize_s(_fileno(file), size) == 0;
    return fclose(file) == 0 && done;
}

/* ---- folders -------------------------------------------------------------------------------- */

bool ota_folder_make(const char *path) {
    wchar_t *text = ota_wide(path);
    const bool done = text != NULL && (CreateDirectoryW(text, NULL) != 0 || failed());
    release(text);
    return done;
}

bool ota_folder_make_temporary(const char *prefix, char path[OTA_PATH_ROOM]) {
    wchar_t wide[MAX_PATH + 2];
    const DWORD length = GetTempPathW(MAX_PATH + 2, wide);
    char *base = length > 0 && length < MAX_PATH + 2 ? ota_narrow(wide) : NULL;
    bool made = false;
    for (unsigned attempt = 0; base != NULL && !made && attempt < 100; attempt++) {
        (void)snprintf(path, OTA_PATH_ROOM, "%.3800s%.64s%lx-%x%u", base, prefix,
                       GetCurrentProcessId(), (unsigned)(ota_now_ns() & 0xffffff), attempt);
        made = ota_folder_make(path);
        if (!made && errno != EEXIST) break;
    }
    release(base);
    return made;
}

bool ota_folder_remove(const char *path) {
    wchar_t *text = ota_wide(path);
    const bool done = text != NULL && (RemoveDirectoryW(text) != 0 || failed());
    release(text);
    return done;
}

void ota_folder_flush(const char *path) { (void)path; }

struct ota_folder {
    HANDLE search;
    WIN32_FIND_DATAW found;
    bool first;
    char *name;
};

ota_folder *ota_folder_open(const char *path) {
    char pattern[OTA_PATH_ROOM + 3];
    (void)snprintf(pattern, sizeof pattern, "%.4095s/*", path);
    wchar_t *text = ota_wide(pattern);
    ota_folder *folder = calloc(1, sizeof *folder);
    if (text == NULL || folder == NULL) {
        free(text);
        free(folder);
        return NULL;
    }
    folder->search = FindFirstFileW(text, &folder->found);
    folder->first = true;
    const bool open = folder->search != INVALID_HANDLE_VALUE || failed();
    release(text);
    if (open) return folder;
    release(folder);
    return NULL;
}

const char *ota_folder_next(ota_folder *folder) {
    if (!folder->first && FindNextFileW(folder->search, &folder->found) == 0) {
        if (GetLastError() == ERROR_NO_MORE_FILES)
            errno = 0;
        else
            (void)failed();
        return NULL;
    }
    folder->first = false;
    free(folder->name);
    folder->name = ota_narrow(folder->found.cFileName);
    return folder->name;
}

void ota_folder_close(ota_folder *folder) {
    (void)FindClose(folder->search);
    free(folder->name);
    free(folder);
}

/* ---- locks ---------------------------------------------------------------------------------- */

int ota_lock_open(const char *path, bool *made) {
    wchar_t *text = ota_wide(path);
    const int flags = _O_RDWR | _O_CREAT | _O_BINARY | _O_NOINHERIT;
    int descriptor = text == NULL ? -1 : _wopen(text, flags | _O_EXCL, _S_IREAD | _S_IWRITE);
    *made = descriptor >= 0;
    if (text != NULL && !*made) descriptor = _wopen(text, flags, _S_IREAD | _S_IWRITE);
    release(text);
    return descriptor;
}

bool ota_lock_take(int descriptor) {
    OVERLAPPED place = {.Offset = 0};
    return LockFileEx((HANDLE)_get_osfhandle(descriptor),
                      LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &place) != 0 ||
           failed();
}
