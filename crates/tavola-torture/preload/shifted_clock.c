/* A clock that somebody else sets, preloaded into a server: LD_PRELOAD=shifted_clock.so
 *
 *   TAVOLA_CLOCK_SHIFT  a file of one signed number of 8 bytes, nanoseconds, which is added to the time of day
 *
 * The file is mapped: a write to it changes the time of the running process. The monotonic clock stays as it is, as
 * when an administrator sets a machine's clock. A wait until a time of day ends at the shifted one, also if it is
 * shifted while he waits.
 *
 * Not shifted: times of files, and what asks the kernel directly.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
/* Between two looks at the clock while waiting for a time of day. */
#define SLICE (20 * 1000000LL)

static int64_t *shift;

/* The call that would have been made without us. Looked up once; two threads that do so find the same. */
#define REAL(name)                                                       \
    static __typeof__(&name) real_##name;                                \
    if (real_##name == NULL)                                             \
    real_##name = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void)
{
    const char *file = getenv("TAVOLA_CLOCK_SHIFT");
    if (file == NULL)
        return;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    void *mapped = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        abort();
    shift = mapped;
}

static int64_t shifted_by(void)
{
    return shift == NULL ? 0 : __atomic_load_n(shift, __ATOMIC_SEQ_CST);
}

static int64_t nanoseconds(const struct timespec *time)
{
    return time->tv_sec * SECOND + time->tv_nsec;
}

static struct timespec timespec(int64_t nanoseconds)
{
    /* The part of a second is never negative. */
    int64_t part = (nanoseconds % SECOND + SECOND) % SECOND;
    return (struct timespec){(nanoseconds - part) / SECOND, part};
}

static int is_time_of_day(clockid_t clock)
{
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    REAL(clock_gettime);
    int result = real_clock_gettime(clock, time);
    if (result == 0 && is_time_of_day(clock))
        *time = timespec(nanoseconds(time) + shifted_by());
    return result;
}

int gettimeofday(struct timeval *time, void *zone)
{
    (void)zone;
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    if (result == 0 && time != NULL)
        *time = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return result;
}

time_t time(time_t *time)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (time != NULL)
        *time = now.tv_sec;
    return now.tv_sec;
}

static int64_t real_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return nanoseconds(&now) - shifted_by();
}

/* Waits in slices, because the kernel knows nothing of our clock. A slice that ends looks like a wake-up without
 * reason only to us: the caller is told of neither. */
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (real == NULL) /* An unversioned look-up would find the oldest of several. */
        real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (real == NULL)
        real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    /* Before 2001: a deadline on the monotonic clock. */
    if (shift == NULL || nanoseconds(until) < 1000000000 * SECOND)
        return real(condition, mutex, until);
    for (;;) {
        int64_t left = nanoseconds(until) - shifted_by() - real_now();
        struct timespec slice = timespec(real_now() + (left < SLICE ? left : SLICE));
        int result = real(condition, mutex, &slice);
        if (result != ETIMEDOUT || left <= SLICE)
            return result;
    }
}
