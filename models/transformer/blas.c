/* OpenBLAS is opened when a session begins. As a linked library it would take memory and start threads in
 * programs that run no model, too. */
#include "blas.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/system.h"
#include "otattn_model.h"

#ifdef OTATTN_MODEL_BLAS_NAME
static const char *const library_name = OTATTN_MODEL_BLAS_NAME;
#else
static const char *const library_name = NULL;
#endif

ota_blas ota_blas_open(void) {
    ota_blas blas = {NULL, NULL};
    /* Where OpenBLAS gets no memory for its buffers, 128 MiB a thread, it asks for it for ever, and where it gets none for a
     * thread it sends the process SIGINT. */
    if (library_name == NULL || ota_system_limits_memory()) return blas;
    blas.library = ota_library_open(library_name);
    if (blas.library == NULL) return blas;
    void (*set_threads)(int) = NULL;
    ota_library_find(blas.library, "openblas_set_num_threads", &set_threads);
    ota_library_find(blas.library, "cblas_sgemm", &blas.sgemm);
    /* The session's own threads share the work, so that bits depend on no number of threads. */
    if (set_threads != NULL)
        set_threads(1);
    else
        blas.sgemm = NULL;
    return blas;
}

void ota_blas_close(ota_blas *blas) {
    if (blas->library != NULL) ota_library_close(blas->library);
    *blas = (ota_blas){NULL, NULL};
}

const char *ota_model_blas(void) {
    ota_blas blas = ota_blas_open();
    const bool found = blas.sgemm != NULL;
    ota_blas_close(&blas);
    return found ? library_name : NULL;
}
