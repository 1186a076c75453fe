/* system_wide.h: paths in the characters of Windows, for the files of src/base that are for it. */
#ifndef OTA_SYSTEM_WIDE_H
#define OTA_SYSTEM_WIDE_H

#include <errno.h>
#include <stdlib.h>

#include <windows.h>

/* The path, freed by the caller; NULL with errno. */
static inline wchar_t *ota_wide(const char *path) {
    const int length = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    if (length <= 0) {
        errno = EILSEQ;
        return NULL;
    }
    wchar_t *text = malloc((size_t)length * sizeof *text);
    if (text == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    (void)MultiByteToWideChar(CP_UTF8, 0, path, -1, text, length);
    return text;
}

/* The reverse. */
static inline char *ota_narrow(const wchar_t *text) {
    const int length = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *path = length > 0 ? malloc((size_t)length) : NULL;
    if (path == NULL)
        errno = length > 0 ? ENOMEM : EILSEQ;
    else
        (void)WideCharToMultiByte(CP_UTF8, 0, text, -1, path, length, NULL, NULL);
    return path;
}

#endif
