/* OpenBLAS is opened when a session begins. As a linked library it would take memory and start threads in
 * programs that run no model, too. */
#define _POSIX_C_SOURCE 200809L

#include "blas.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>

#include "otattn_model.h"

#ifdef OTATTN_MODEL_BLAS_NAME
static const char *const library_name = OTATTN_MODEL_BLAS_NAME;
#else
static const char *const library_name = NULL;
#endif

/* ISO C has no conversion from a pointer to data to one to a function; its bytes are copied. */
static void find(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
}

/* Where OpenBLAS gets no memory for its buffers, 128 MiB a thread, it asks for it for ever, and where it gets none for a
 * thread it sends the process SIGINT. */
static bool memory_is_limited(void) {
    struct rlimit data, space;
    return (getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur != RLIM_INFINITY) ||
           (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY);
}

ota_blas ota_blas_open(void) {
    ota_blas blas = {NULL, NULL};
    if (library_name == NULL || memory_is_limited()) return blas;
    /* Its threads may outlive the session: the code stays. */
    blas.library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (blas.library == NULL) return blas;
    void (*set_threads)(int) = NULL;
    find(blas.library, "openblas_set_num_threads", &set_threads);
    find(blas.library, "cblas_sgemm", &blas.sgemm);
    /* The session's own threads share the work, so that bits depend on no number of threads. */
    if (set_threads != NULL)
        set_threads(1);
    else
        blas.sgemm = NULL;
    return blas;
}

void ota_blas_close(ota_blas *blas) {
    if (blas->library != NULL) (void)dlclose(blas->library);
    *blas = (ota_blas){NULL, NULL};
}

const char *ota_model_blas(void) {
    ota_blas blas = ota_blas_open();
    const bool found = blas.sgemm != NULL;
    ota_blas_close(&blas);
    return found ? library_name : NULL;
}
