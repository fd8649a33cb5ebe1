/* A disk that fails on demand, preloaded into a server: LD_PRELOAD=faulty_disk.so
 *
 * It replaces the C library's calls that change files, and acts only on files below one folder:
 *
 *   TAVOLA_DISK_ROOT     the folder, as the server names it
 *   TAVOLA_DISK_CONTROL  a file of CELLS numbers of 8 bytes, which the test made and which is mapped here
 *
 * The cells count the calls, and order one fault; the test reads and writes them while the server runs. All calls are
 * counted from the start of the process, so a run without a fault tells how far n can go. See the enum for the cells.
 *
 * What a fault does is not what a disk does: a call that is to fail is not carried out at all (but see `SHORTEN`), and a
 * sync that is to fail leaves the bytes in the page cache. What a failed sync loses is told to lossy_disk.so, if that is
 * loaded behind this library.
 *
 * Not seen: what the C library does for itself (stdio), files opened before this library was, and duplicated
 * descriptors. The engine and the server use none of these for data.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Calls. The order is known to torture/preload.rs. */
enum call { WRITE, PWRITE, WRITEV, FSYNC, FDATASYNC, SYNC_RANGE, RENAME, TRUNCATE, ALLOCATE, OPEN, UNLINK, CLOSE, CALLS };

/* Kinds of file, by name. The order is known to torture/preload.rs. */
enum file { NOT_OURS, LOG, TABLE, MANIFEST, SMALL, INFO, FOLDER, OTHER, FILES };

enum action {
    FAIL,    /* returns -1 with errno, and does nothing */
    SHORTEN, /* writes a part, and says so; other calls go on unharmed */
    TEAR,    /* writes a part, and fails at the next matching call */
    DELAY    /* waits before it does what was asked */
};

enum cell {
    CALL_MASK,  /* bit n: calls of kind n are meant; 0: no fault is ordered */
    FILE_MASK,  /* bit n: files of kind n are meant */
    PASS,       /* so many matching calls are left alone */
    ACTION,     /* an enum action */
    ERROR,      /* errno of FAIL and TEAR */
    FOR_EVER,   /* 0: one call is hit; 1: that call and every matching one after it */
    DELAY_MS,   /* of DELAY */
    MATCHED,    /* matching calls since the test set this to 0 */
    HITS,       /* calls that were hit */
    HIT_CALL,   /* what was hit last: its call, */
    HIT_FILE,   /* and its kind of file */
    COUNTS = 16 /* then CALLS * FILES counts */
};
#define CELLS 512

#define FDS 65536

static uint64_t *cells;
static char root[PATH_MAX];
static size_t root_length;
static _Atomic unsigned char file_of_fd[FDS];

/* The call that would have been made without us. Looked up once; two threads that do so find the same. */
#define REAL(name)                                                       \
    static __typeof__(&name) real_##name;                                \
    if (real_##name == NULL)                                             \
    real_##name = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void)
{
    const char *folder = getenv("TAVOLA_DISK_ROOT"), *control = getenv("TAVOLA_DISK_CONTROL");
    if (folder == NULL || control == NULL || strlen(folder) >= sizeof root)
        return;
    strcpy(root, folder);
    root_length = strlen(root);
    REAL(open);
    int fd = real_open(control, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        abort();
    void *mapped = mmap(NULL, CELLS * sizeof *cells, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        abort();
    cells = mapped;
}

static uint64_t get(enum cell cell)
{
    return __atomic_load_n(&cells[cell], __ATOMIC_SEQ_CST);
}

static enum file file_of_path(const char *path)
{
    if (cells == NULL || path == NULL || strncmp(path, root, root_length) != 0)
        return NOT_OURS;
    if (path[root_length] != '\0' && path[root_length] != '/')
        return NOT_OURS;
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
    const char *dot = strrchr(name, '.'), *extension = dot == NULL ? "" : dot;
    if (strcmp(extension, ".log") == 0)
        return LOG;
    if (strcmp(extension, ".sst") == 0)
        return TABLE;
    if (strncmp(name, "MANIFEST-", 9) == 0)
        return MANIFEST;
    if (strncmp(name, "LOG", 3) == 0)
        return INFO;
    if (strcmp(extension, ".dbtmp") == 0 || strncmp(name, "CURRENT", 7) == 0 || strncmp(name, "OPTIONS", 7) == 0 ||
        strncmp(name, "IDENTITY", 8) == 0 || strncmp(name, "TAVOLA", 6) == 0)
        return SMALL;
    return OTHER;
}

static enum file file_of(int fd)
{
    return fd < 0 || fd >= FDS ? NOT_OURS : (enum file)file_of_fd[fd];
}

/* Counts a call on one of our files, and tells whether it is the one to be hit. */
static int is_hit(enum call call, enum file file)
{
    if (file == NOT_OURS)
        return 0;
    __atomic_fetch_add(&cells[COUNTS + call * FILES + file], 1, __ATOMIC_SEQ_CST);
    if ((get(CALL_MASK) >> call & 1) == 0 || (get(FILE_MASK) >> file & 1) == 0)
        return 0;
    uint64_t before = __atomic_fetch_add(&cells[MATCHED], 1, __ATOMIC_SEQ_CST), pass = get(PASS);
    /* The second half of TEAR is one more call. */
    int is_second = get(ACTION) == TEAR && before == pass + 1;
    if (before != pass && !is_second && !(before > pass && get(FOR_EVER)))
        return 0;
    __atomic_store_n(&cells[HIT_CALL], call, __ATOMIC_SEQ_CST);
    __atomic_store_n(&cells[HIT_FILE], file, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&cells[HITS], 1, __ATOMIC_SEQ_CST);
    return is_second ? 2 : 1;
}

static void delay(void)
{
    uint64_t ms = get(DELAY_MS);
    struct timespec time = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (nanosleep(&time, &time) != 0 && errno == EINTR)
        ;
}

/* True if a call that is no write must fail; errno is set then. */
static int fails(enum call call, enum file file)
{
    int hit = is_hit(call, file);
    if (!hit)
        return 0;
    switch (get(ACTION)) {
    case FAIL:
        errno = (int)get(ERROR);
        return 1;
    case DELAY:
        delay();
        return 0;
    default:
        return 0;
    }
}

/* How many of `length` bytes are to be written; -1 if none, with errno. */
static ssize_t allowed(enum call call, enum file file, size_t length)
{
    int hit = is_hit(call, file);
    if (!hit)
        return (ssize_t)length;
    switch (get(ACTION)) {
    case SHORTEN:
        return (ssize_t)(length / 2 > 0 ? length / 2 : length);
    case TEAR:
        if (hit == 1 && length > 1)
            return (ssize_t)(length / 2);
        errno = (int)get(ERROR);
        return -1;
    case DELAY:
        delay();
        return (ssize_t)length;
    default:
        errno = (int)get(ERROR);
        return -1;
    }
}

/* Calls that write. */

ssize_t write(int fd, const void *bytes, size_t length)
{
    REAL(write);
    enum file file = file_of(fd);
    if (file == NOT_OURS)
        return real_write(fd, bytes, length);
    ssize_t some = allowed(WRITE, file, length);
    return some < 0 ? -1 : real_write(fd, bytes, (size_t)some);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    REAL(pwrite);
    enum file file = file_of(fd);
    if (file == NOT_OURS)
        return real_pwrite(fd, bytes, length, offset);
    ssize_t some = allowed(PWRITE, file, length);
    return some < 0 ? -1 : real_pwrite(fd, bytes, (size_t)some, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset)
{
    return pwrite(fd, bytes, length, offset);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    REAL(writev);
    enum file file = file_of(fd);
    if (file == NOT_OURS || count < 1)
        return real_writev(fd, parts, count);
    ssize_t some = allowed(WRITEV, file, parts[0].iov_len);
    if (some < 0)
        return -1;
    if ((size_t)some == parts[0].iov_len)
        return real_writev(fd, parts, count);
    struct iovec part = {parts[0].iov_base, (size_t)some};
    return real_writev(fd, &part, 1);
}

/* Calls that sync. */

static void tell_lossy_disk(int fd)
{
    void (*lose)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "tavola_lossy_disk_sync_failed");
    if (lose != NULL) {
        int error = errno;
        lose(fd);
        errno = error;
    }
}

int fsync(int fd)
{
    REAL(fsync);
    if (fails(FSYNC, file_of(fd))) {
        tell_lossy_disk(fd);
        return -1;
    }
    return real_fsync(fd);
}

int fdatasync(int fd)
{
    REAL(fdatasync);
    if (fails(FDATASYNC, file_of(fd))) {
        tell_lossy_disk(fd);
        return -1;
    }
    return real_fdatasync(fd);
}

int sync_file_range(int fd, off64_t offset, off64_t length, unsigned int flags)
{
    REAL(sync_file_range);
    return fails(SYNC_RANGE, file_of(fd)) ? -1 : real_sync_file_range(fd, offset, length, flags);
}

/* Calls that change lengths. */

int ftruncate(int fd, off_t length)
{
    REAL(ftruncate);
    return fails(TRUNCATE, file_of(fd)) ? -1 : real_ftruncate(fd, length);
}

int ftruncate64(int fd, off64_t length)
{
    return ftruncate(fd, length);
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
    REAL(fallocate);
    return fails(ALLOCATE, file_of(fd)) ? -1 : real_fallocate(fd, mode, offset, length);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t length)
{
    return fallocate(fd, mode, offset, length);
}

/* Returns its error instead of setting it. */
int posix_fallocate(int fd, off_t offset, off_t length)
{
    REAL(posix_fallocate);
    return fails(ALLOCATE, file_of(fd)) ? errno : real_posix_fallocate(fd, offset, length);
}

int posix_fallocate64(int fd, off64_t offset, off64_t length)
{
    return posix_fallocate(fd, offset, length);
}

/* Calls that change names. */

int rename(const char *from, const char *to)
{
    REAL(rename);
    return fails(RENAME, file_of_path(to)) ? -1 : real_rename(from, to);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    REAL(renameat);
    return fails(RENAME, file_of_path(to)) ? -1 : real_renameat(from_folder, from, to_folder, to);
}

int unlink(const char *path)
{
    REAL(unlink);
    return fails(UNLINK, file_of_path(path)) ? -1 : real_unlink(path);
}

static int remember(int fd, enum file file)
{
    struct stat status;
    if (fd >= 0 && fd < FDS && file != NOT_OURS)
        file_of_fd[fd] = (unsigned char)(fstat(fd, &status) == 0 && S_ISDIR(status.st_mode) ? FOLDER : file);
    return fd;
}

/* Only what makes a file counts: a file that cannot be read is another story. */
static int open_fails(enum file file, int flags)
{
    return (flags & O_CREAT) != 0 && fails(OPEN, file);
}

int open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = va_arg(arguments, mode_t);
    va_end(arguments);
    REAL(open);
    enum file file = file_of_path(path);
    return open_fails(file, flags) ? -1 : remember(real_open(path, flags, mode), file);
}

int open64(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = va_arg(arguments, mode_t);
    va_end(arguments);
    return open(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = va_arg(arguments, mode_t);
    va_end(arguments);
    REAL(openat);
    enum file file = file_of_path(path);
    return open_fails(file, flags) ? -1 : remember(real_openat(folder, path, flags, mode), file);
}

int openat64(int folder, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = va_arg(arguments, mode_t);
    va_end(arguments);
    return openat(folder, path, flags, mode);
}

/* The descriptor is gone even if an error is told, as on Linux. */
int close(int fd)
{
    REAL(close);
    enum file file = file_of(fd);
    if (file != NOT_OURS)
        file_of_fd[fd] = NOT_OURS;
    int failed = fails(CLOSE, file), error = errno, closed = real_close(fd);
    if (failed)
        errno = error;
    return failed ? -1 : closed;
}
