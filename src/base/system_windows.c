/* system_windows.c: system.h on Windows, from version 10 on. */
#define WIN32_LEAN_AND_MEAN
#include "system.h"
#include "system_wide.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <limits.h>
#include <locale.h>
#include <malloc.h>
#include <process.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- threads -------------------------------------------------------------------------------- */

_Static_assert(sizeof(SRWLOCK) == sizeof(ota_mutex) &&
                   sizeof(CONDITION_VARIABLE) == sizeof(ota_condition),
               "a lock and a condition are a pointer each");

static SRWLOCK *lock_of(ota_mutex *mutex) { return (SRWLOCK *)(void *)mutex; }

static CONDITION_VARIABLE *variable_of(ota_condition *condition) {
    return (CONDITION_VARIABLE *)(void *)condition;
}

/* By _beginthreadex, not CreateThread: the C library then knows the thread. */
static unsigned __stdcall run(void *argument) {
    const ota_thread *thread = argument;
    thread->body(thread->argument);
    return 0;
}

bool ota_thread_start(ota_thread *thread, size_t stack, void (*body)(void *argument),
                      void *argument) {
    thread->body = body;
    thread->argument = argument;
    thread->handle = (void *)_beginthreadex(NULL, (unsigned)stack, run, thread,
                                            STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
    return thread->handle != NULL;
}

void ota_thread_join(ota_thread *thread) {
    (void)WaitForSingleObject(thread->handle, INFINITE);
    (void)CloseHandle(thread->handle);
}

uintptr_t ota_thread_self(void) { return (uintptr_t)GetCurrentThreadId(); }

void ota_thread_yield(void) { (void)SwitchToThread(); }

long ota_process(void) { return (long)GetCurrentProcessId(); }

void ota_mutex_begin(ota_mutex *mutex) { InitializeSRWLock(lock_of(mutex)); }
void ota_mutex_end(ota_mutex *mutex) { (void)mutex; }
void ota_mutex_lock(ota_mutex *mutex) { AcquireSRWLockExclusive(lock_of(mutex)); }
void ota_mutex_unlock(ota_mutex *mutex) { ReleaseSRWLockExclusive(lock_of(mutex)); }

void ota_condition_begin(ota_condition *condition) {
    InitializeConditionVariable(variable_of(condition));
}
void ota_condition_end(ota_condition *condition) { (void)condition; }
void ota_condition_wait(ota_condition *condition, ota_mutex *mutex) {
    (void)SleepConditionVariableSRW(variable_of(condition), lock_of(mutex), INFINITE, 0);
}
void ota_condition_wake_one(ota_condition *condition) {
    WakeConditionVariable(variable_of(condition));
}
void ota_condition_wake_all(ota_condition *condition) {
    WakeAllConditionVariable(variable_of(condition));
}

/* ---- processors, clock, memory -------------------------------------------------------------- */

int ota_system_processors(void) {
    /* The mask is that of the first 64 processors; a machine with more has them in groups, and no mask until one is set. */
    DWORD_PTR mask = 0, system = 0;
    const DWORD all = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    int count = 0;
    if (all <= 64 && GetProcessAffinityMask(GetCurrentProcess(), &mask, &system) != 0)
        for (; mask != 0; mask &= mask - 1) count++;
    if (count == 0) count = all > 1 << 16 ? 1 << 16 : (int)all;
    return count < 1 ? 1 : count;
}

/* Windows gives them to threads one by one, by a call that this library has never been run with. */
bool ota_system_permits_tiles(void) { return false; }

int64_t ota_now_ns(void) {
    LARGE_INTEGER count, rate;
    (void)QueryPerformanceFrequency(&rate);
    (void)QueryPerformanceCounter(&count);
    const int64_t second = 1000000000, whole = count.QuadPart / rate.QuadPart,
                  rest = count.QuadPart % rate.QuadPart;
    return whole * second + rest * second / rate.QuadPart;
}

void *ota_aligned_allocate(size_t alignment, size_t size) {
    return _aligned_malloc(size, alignment);
}

void ota_aligned_free(void *memory) { _aligned_free(memory); }

void ota_system_advise_large_pages(void *memory, size_t size) { (void)memory, (void)size; }

/* A job may have one; that is for OpenBLAS to find out, which fails there with a message. */
bool ota_system_limits_memory(void) { return false; }

/* ---- files ---------------------------------------------------------------------------------- */

static ota_path_kind kind_of(const struct _stat64 *status) {
    return (status->st_mode & _S_IFMT) == _S_IFREG   ? OTA_PATH_FILE
           : (status->st_mode & _S_IFMT) == _S_IFDIR ? OTA_PATH_FOLDER
           : (status->st_mode & _S_IFMT) == _S_IFIFO ? OTA_PATH_PIPE
                                                     : OTA_PATH_OTHER;
}

static ota_path_kind kind_of_wide(const wchar_t *path) {
    struct _stat64 status;
    return _wstat64(path, &status) == 0 ? kind_of(&status) : OTA_PATH_NONE;
}

ota_path_kind ota_path_kind_of(const char *path) {
    wchar_t *text = ota_wide(path);
    const ota_path_kind kind = text == NULL ? OTA_PATH_NONE : kind_of_wide(text);
    free(text);
    return kind;
}

FILE *ota_file_reader(const char *path) {
    wchar_t *text = ota_wide(path);
    FILE *file = text == NULL ? NULL : _wfopen(text, L"rbN");
    const int cause = errno;
    free(text);
    errno = cause;
    return file;
}

static bool is_link(const wchar_t *path) {
    const DWORD attributes = GetFileAttributesW(path);
    return attributes != INVALID_FILE_ATTRIBUTES &&
           (attributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0;
}

int ota_file_descriptor(const char *path, bool follow_links, ota_path_kind *kind, int64_t *size) {
    *kind = OTA_PATH_NONE;
    *size = 0;
    wchar_t *text = ota_wide(path);
    if (text == NULL) return -1;
    int descriptor = -1;
    if (!follow_links && is_link(text)) {
        errno = ELOOP;
    } else if ((*kind = kind_of_wide(text)) != OTA_PATH_FOLDER) {
        descriptor = _wopen(text, _O_RDONLY | _O_BINARY | _O_NOINHERIT);
        struct _stat64 status;
        if (descriptor >= 0 && _fstat64(descriptor, &status) == 0) {
            *kind = kind_of(&status);
            *size = status.st_size;
        }
    }
    const int cause = errno;
    free(text);
    errno = cause;
    return descriptor;
}

void ota_descriptor_close(int descriptor) { (void)_close(descriptor); }

int64_t ota_descriptor_size(int descriptor) { return _filelengthi64(descriptor); }

int64_t ota_descriptor_read(int descriptor, void *buffer, size_t size, int64_t offset) {
    const size_t most = (size_t)1 << 30;
    OVERLAPPED place = {.Offset = (DWORD)((uint64_t)offset & 0xffffffffu),
                        .OffsetHigh = (DWORD)((uint64_t)offset >> 32)};
    DWORD got = 0;
    if (ReadFile((HANDLE)_get_osfhandle(descriptor), buffer, (DWORD)(size < most ? size : most),
                 &got, &place) != 0 ||
        GetLastError() == ERROR_HANDLE_EOF)
        return (int64_t)got;
    errno = EIO;
    return -1;
}

const void *ota_descriptor_map(int descriptor, size_t size) {
    const HANDLE map =
        CreateFileMappingW((HANDLE)_get_osfhandle(descriptor), NULL, PAGE_READONLY, 0, 0, NULL);
    if (map == NULL) return NULL;
    const void *memory = MapViewOfFile(map, FILE_MAP_READ, 0, 0, size);
    (void)CloseHandle(map); /* the view keeps it */
    return memory;
}

void ota_unmap(const void *memory, size_t size) {
    (void)size;
    (void)UnmapViewOfFile(memory);
}

/* ---- libraries at run time ------------------------------------------------------------------ */

void *ota_library_open(const char *name) {
    wchar_t *text = ota_wide(name);
    HMODULE library = text == NULL ? NULL : LoadLibraryW(text), kept;
    if (library != NULL) (void)GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN, text, &kept);
    free(text);
    return (void *)library;
}

void ota_library_close(void *library) { (void)FreeLibrary((HMODULE)library); }

void ota_library_find(void *library, const char *name, void *function) {
    const FARPROC found = GetProcAddress((HMODULE)library, name);
    memcpy(function, &found, sizeof found);
}

/* ---- locale --------------------------------------------------------------------------------- */

static bool is_c(const char *name) { return name == NULL || strcmp(name, "C") == 0; }

/* The locale of the thread becomes its own while it is changed. Where it is the C locale, as in programs that never chose
 * another, nothing is changed. */
ota_c_locale ota_c_locale_enter(void) {
    ota_c_locale l = {NULL, NULL, 0};
    const char *name = setlocale(LC_ALL, NULL);
    if (is_c(name) || (l.before = _strdup(name)) == NULL) return l;
    l.mode = _configthreadlocale(_ENABLE_PER_THREAD_LOCALE);
    l.c = setlocale(LC_ALL, "C");
    return l;
}

void ota_c_locale_leave(ota_c_locale l) {
    if (l.before == NULL) return;
    (void)setlocale(LC_ALL, l.before);
    (void)_configthreadlocale(l.mode);
    free(l.before);
}
