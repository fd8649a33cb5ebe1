/* A disk that forgets what was not synced, preloaded into a server: LD_PRELOAD=lossy_disk.so
 *
 * It writes down, in their order, all changes to files below one folder, and the syncs between them. After the server
 * was killed, torture/lossy_disk.rs reads this record and builds the folder that a machine without power would find.
 * Nothing is forgotten here: while the server runs it sees its files as they are.
 *
 *   TAVOLA_LOSSY_ROOT     the folder, as the server names it
 *   TAVOLA_LOSSY_RECORD   the file to which the record is appended
 *   TAVOLA_LOSSY_SYNC_US  how long a sync takes; it does nothing else, because nobody pulls the plug
 *   TAVOLA_LOSSY_DEAF     syncs of files whose names end like this are not written down: a server that forgets to sync
 *                         them, to see whether the test finds it
 *
 * An entry is written after its call has succeeded and before the caller knows. A kill can cut the last entry; then
 * its call is one that never reached the disk. Every entry is a `struct entry` and its payload.
 *
 * Not known to the record, and therefore an entry UNKNOWN that fails the test: links, writable maps of files, copies
 * within the kernel. Not seen: what the C library does for itself (stdio: the engine's text log), and duplicated
 * descriptors.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* The order is known to torture/lossy_disk.rs. */
enum kind {
    CREATE = 1, /* inode; payload: path. A new file, empty */
    MKDIR,      /* inode; payload: path */
    WRITE,      /* inode, at; payload: the bytes */
    RESIZE,     /* inode, at: the new length */
    SYNC_BEGIN, /* inode, at: a ticket */
    SYNC_END,   /* inode, at: the ticket. What was written before the ticket is durable */
    SYNC_FAILED,/* inode. What was written and not synced may be lost although later syncs succeed */
    RENAME,     /* payload: path, NUL, path */
    UNLINK,     /* payload: path */
    UNKNOWN     /* payload: what was called */
};

struct entry {
    uint64_t kind, inode, at, length;
};

#define FDS 65536

static char root[PATH_MAX];
static size_t root_length;
static int record = -1;
static long sync_us;
static const char *deaf;
static _Atomic uint64_t tickets;
static _Atomic uint64_t inode_of_fd[FDS];
static _Atomic char is_deaf_fd[FDS];
/* Held across a change and its entry, so that the order of entries is the order of changes. */
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;

/* The call that would have been made without us. Looked up once; two threads that do so find the same. */
#define REAL(name)                                                       \
    static __typeof__(&name) real_##name;                                \
    if (real_##name == NULL)                                             \
    real_##name = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void)
{
    const char *folder = getenv("TAVOLA_LOSSY_ROOT"), *file = getenv("TAVOLA_LOSSY_RECORD");
    const char *us = getenv("TAVOLA_LOSSY_SYNC_US");
    if (folder == NULL || file == NULL || strlen(folder) >= sizeof root)
        return;
    strcpy(root, folder);
    root_length = strlen(root);
    sync_us = us == NULL ? 0 : atol(us);
    deaf = getenv("TAVOLA_LOSSY_DEAF");
    REAL(open);
    record = real_open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (record < 0)
        abort();
}

static void note(enum kind kind, uint64_t inode, uint64_t at, const void *payload, size_t length)
{
    REAL(writev);
    struct entry entry = {kind, inode, at, length};
    struct iovec parts[2] = {{&entry, sizeof entry}, {(void *)payload, length}};
    /* A test without its record proves nothing. */
    if (real_writev(record, parts, 2) != (ssize_t)(sizeof entry + length))
        abort();
}

static void note_path(enum kind kind, uint64_t inode, const char *path)
{
    note(kind, inode, 0, path, strlen(path));
}

static int is_ours(const char *path)
{
    if (record < 0 || path == NULL || strncmp(path, root, root_length) != 0)
        return 0;
    return path[root_length] == '\0' || path[root_length] == '/';
}

/* 0 if it is none of ours. */
static uint64_t inode_of(int fd)
{
    return fd < 0 || fd >= FDS ? 0 : inode_of_fd[fd];
}

static void unknown(const char *what)
{
    pthread_mutex_lock(&order);
    note(UNKNOWN, 0, 0, what, strlen(what));
    pthread_mutex_unlock(&order);
}

/* Calls that write. */

/* Where a write without an offset goes. */
static off_t position(int fd)
{
    struct stat status;
    if ((fcntl(fd, F_GETFL) & O_APPEND) != 0)
        return fstat(fd, &status) == 0 ? status.st_size : 0;
    return lseek(fd, 0, SEEK_CUR);
}

ssize_t write(int fd, const void *bytes, size_t length)
{
    REAL(write);
    uint64_t inode = inode_of(fd);
    if (inode == 0)
        return real_write(fd, bytes, length);
    pthread_mutex_lock(&order);
    off_t at = position(fd);
    ssize_t written = real_write(fd, bytes, length);
    int error = errno;
    if (written > 0)
        note(WRITE, inode, (uint64_t)at, bytes, (size_t)written);
    pthread_mutex_unlock(&order);
    errno = error;
    return written;
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    REAL(writev);
    /* The caller must go on after a short write anyway. */
    return inode_of(fd) == 0 || count < 1 ? real_writev(fd, parts, count)
                                          : write(fd, parts[0].iov_base, parts[0].iov_len);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    REAL(pwrite);
    uint64_t inode = inode_of(fd);
    if (inode == 0)
        return real_pwrite(fd, bytes, length, offset);
    pthread_mutex_lock(&order);
    ssize_t written = real_pwrite(fd, bytes, length, offset);
    int error = errno;
    if (written > 0)
        note(WRITE, inode, (uint64_t)offset, bytes, (size_t)written);
    pthread_mutex_unlock(&order);
    errno = error;
    return written;
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset)
{
    return pwrite(fd, bytes, length, offset);
}

/* Calls that change lengths. */

int ftruncate(int fd, off_t length)
{
    REAL(ftruncate);
    uint64_t inode = inode_of(fd);
    if (inode == 0)
        return real_ftruncate(fd, length);
    pthread_mutex_lock(&order);
    int result = real_ftruncate(fd, length), error = errno;
    if (result == 0)
        note(RESIZE, inode, (uint64_t)length, NULL, 0);
    pthread_mutex_unlock(&order);
    errno = error;
    return result;
}

int ftruncate64(int fd, off64_t length)
{
    return ftruncate(fd, length);
}

/* What is reserved or given back behind the end is nothing that a reader could see; another length or content is. */
static int is_seen(int fd, int mode, off_t offset, off_t length)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return 0;
    if (mode == FALLOC_FL_KEEP_SIZE)
        return 0;
    if (mode == (FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE))
        return offset < status.st_size;
    return mode != 0 || status.st_size < offset + length;
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
    REAL(fallocate);
    if (inode_of(fd) != 0 && is_seen(fd, mode, offset, length))
        unknown("fallocate");
    return real_fallocate(fd, mode, offset, length);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t length)
{
    return fallocate(fd, mode, offset, length);
}

int posix_fallocate(int fd, off_t offset, off_t length)
{
    REAL(posix_fallocate);
    if (inode_of(fd) != 0 && is_seen(fd, 0, offset, length))
        unknown("posix_fallocate");
    return real_posix_fallocate(fd, offset, length);
}

int posix_fallocate64(int fd, off64_t offset, off64_t length)
{
    return posix_fallocate(fd, offset, length);
}

/* Calls that sync. */

static int synced(int fd)
{
    uint64_t inode = inode_of(fd), ticket = ++tickets;
    if (is_deaf_fd[fd])
        return 0;
    pthread_mutex_lock(&order);
    note(SYNC_BEGIN, inode, ticket, NULL, 0);
    pthread_mutex_unlock(&order);
    struct timespec time = {sync_us / 1000000, sync_us % 1000000 * 1000};
    nanosleep(&time, NULL);
    pthread_mutex_lock(&order);
    note(SYNC_END, inode, ticket, NULL, 0);
    pthread_mutex_unlock(&order);
    return 0;
}

int fsync(int fd)
{
    REAL(fsync);
    return inode_of(fd) == 0 ? real_fsync(fd) : synced(fd);
}

int fdatasync(int fd)
{
    REAL(fdatasync);
    return inode_of(fd) == 0 ? real_fdatasync(fd) : synced(fd);
}

/* Called by faulty_disk.so, if that is loaded before this library. */
void tavola_lossy_disk_sync_failed(int fd)
{
    uint64_t inode = inode_of(fd);
    if (inode == 0)
        return;
    pthread_mutex_lock(&order);
    note(SYNC_FAILED, inode, 0, NULL, 0);
    pthread_mutex_unlock(&order);
}

/* Calls that change names. */

int rename(const char *from, const char *to)
{
    REAL(rename);
    if (!is_ours(from) && !is_ours(to))
        return real_rename(from, to);
    if (!is_ours(from) || !is_ours(to))
        unknown("rename across the folder's border");
    pthread_mutex_lock(&order);
    int result = real_rename(from, to), error = errno;
    char paths[2 * PATH_MAX];
    int length = snprintf(paths, sizeof paths, "%s%c%s", from, 0, to);
    if (result == 0)
        note(RENAME, 0, 0, paths, (size_t)length);
    pthread_mutex_unlock(&order);
    errno = error;
    return result;
}

int unlink(const char *path)
{
    REAL(unlink);
    if (!is_ours(path))
        return real_unlink(path);
    pthread_mutex_lock(&order);
    int result = real_unlink(path), error = errno;
    if (result == 0)
        note_path(UNLINK, 0, path);
    pthread_mutex_unlock(&order);
    errno = error;
    return result;
}

int rmdir(const char *path)
{
    REAL(rmdir);
    if (is_ours(path))
        unknown("rmdir");
    return real_rmdir(path);
}

int mkdir(const char *path, mode_t mode)
{
    REAL(mkdir);
    if (!is_ours(path))
        return real_mkdir(path, mode);
    pthread_mutex_lock(&order);
    int result = real_mkdir(path, mode), error = errno;
    struct stat status;
    if (result == 0 && stat(path, &status) == 0)
        note_path(MKDIR, status.st_ino, path);
    pthread_mutex_unlock(&order);
    errno = error;
    return result;
}

int open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = va_arg(arguments, mode_t);
    va_end(arguments);
    REAL(open);
    if (!is_ours(path))
        return real_open(path, flags, mode);
    pthread_mutex_lock(&order);
    struct stat status;
    int is_new = stat(path, &status) != 0, fd = real_open(path, flags, mode), error = errno;
    if (fd >= 0 && fstat(fd, &status) == 0) {
        if (fd >= FDS)
            abort();
        if (is_new)
            note_path(CREATE, status.st_ino, path);
        else if ((flags & O_TRUNC) != 0)
            note(RESIZE, status.st_ino, 0, NULL, 0);
        inode_of_fd[fd] = status.st_ino;
        size_t length = strlen(path), end = deaf == NULL ? 0 : strlen(deaf);
        is_deaf_fd[fd] = deaf != NULL && length > end && strcmp(path + length - end, deaf) == 0;
    }
    pthread_mutex_unlock(&order);
    errno = error;
    return fd;
}

int open64(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = va_arg(arguments, mode_t);
    va_end(arguments);
    return open(path, flags, mode);
}

int close(int fd)
{
    REAL(close);
    if (fd >= 0 && fd < FDS)
        inode_of_fd[fd] = 0;
    return real_close(fd);
}

/* What the record does not know. */

int link(const char *from, const char *to)
{
    REAL(link);
    if (is_ours(to))
        unknown("link");
    return real_link(from, to);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    REAL(renameat);
    if (is_ours(from) || is_ours(to))
        unknown("renameat");
    return real_renameat(from_folder, from, to_folder, to);
}

int openat(int folder, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = va_arg(arguments, mode_t);
    va_end(arguments);
    REAL(openat);
    if (is_ours(path) && (flags & (O_WRONLY | O_RDWR)) != 0)
        unknown("openat");
    return real_openat(folder, path, flags, mode);
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    REAL(mmap);
    if (inode_of(fd) != 0 && (protection & PROT_WRITE) != 0 && (flags & MAP_SHARED) != 0)
        unknown("mmap");
    return real_mmap(address, length, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t offset)
{
    return mmap(address, length, protection, flags, fd, offset);
}

ssize_t copy_file_range(int from, off64_t *from_offset, int to, off64_t *to_offset, size_t length, unsigned int flags)
{
    REAL(copy_file_range);
    if (inode_of(to) != 0)
        unknown("copy_file_range");
    return real_copy_file_range(from, from_offset, to, to_offset, length, flags);
}
