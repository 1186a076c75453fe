/* cpu_count.c: how many CPUs this process may use:
 *
 *     max(1, min(size of the affinity mask, ceil(quota / period) of every enclosing control group)) */
#include "base.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

static bool read_line(const char *path, char *line, int size) {
    FILE *file = ota_file_reader(path);
    if (file == NULL) return false;
    bool found = fgets(line, size, file) != NULL;
    fclose(file);
    return found;
}

static bool read_number(const char *folder, const char *name, long long *number) {
    char path[PATH_BYTES];
    char line[64];
    if (ota_snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return false;
    return read_line(path, line, sizeof line) && sscanf(line, "%lld", number) == 1;
}

/* quota / period of one group, rounded up; 0 = no limit here. */
static int group_cpus(const char *folder) {
    char path[PATH_BYTES];
    char line[64];
    long long quota = 0, period = 0;
    if (ota_snprintf(path, sizeof path, "%s/cpu.max", folder) >= (int)sizeof path) return 0;
    if (read_line(path, line, sizeof line)) {
        if (sscanf(line, "%lld %lld", &quota, &period) != 2) return 0; /* "max 100000" */
    } else if (!read_number(folder, "cpu.cfs_quota_us", &quota) ||
               !read_number(folder, "cpu.cfs_period_us", &period)) {
        return 0;
    }
    if (quota <= 0 || period <= 0) return 0;
    long long cpus = (quota - 1) / period + 1;
    return cpus > INT_MAX ? INT_MAX : (int)cpus;
}

static int smaller_limit(int a, int b) {
    if (a == 0) return b;
    return b == 0 || a < b ? a : b;
}

/* The group, then each parent, up to and including the root of the mount. */
static int chain_cpus(const char *mount, const char *group) {
    char folder[PATH_BYTES];
    int length = ota_snprintf(folder, sizeof folder, "%s%s", mount, group);
    if (length < 0 || length >= (int)sizeof folder) return 0;
    size_t mount_length = strlen(mount);
    int limit = 0;
    for (;;) {
        limit = smaller_limit(limit, group_cpus(folder));
        char *slash = strrchr(folder, '/');
        if (slash == NULL || strlen(folder) <= mount_length) return limit;
        *slash = '\0';
        if (strlen(folder) < mount_length) return limit;
    }
}

int ota_cgroup_cpus(const char *membership, const char *root) {
    FILE *file = ota_file_reader(membership);
    if (file == NULL) return 0;
    char line[PATH_BYTES + 128];
    char mount[PATH_BYTES];
    int limit = 0;
    /* Lines are "0::/group" (version 2) or "4:cpu,cpuacct:/group" (version 1). */
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (group == NULL) continue;
        *controllers++ = '\0';
        *group++ = '\0';
        if (strcmp(group, "/") == 0) group[0] = '\0';
        if (controllers[0] == '\0') {
            limit = smaller_limit(limit, chain_cpus(root, group));
        } else if (strcmp(controllers, "cpu") == 0 || strncmp(controllers, "cpu,", 4) == 0 ||
                   strstr(controllers, ",cpu,") != NULL) {
            if (ota_snprintf(mount, sizeof mount, "%s/%s", root, controllers) < (int)sizeof mount) {
                limit = smaller_limit(limit, chain_cpus(mount, group));
            }
        }
    }
    fclose(file);
    return limit;
}

int ota_processors(void) {
    return smaller_limit(ota_system_processors(),
                         ota_cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup"));
}
