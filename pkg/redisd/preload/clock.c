// A wall clock that another process sets. Preloaded into redis-server it answers every way of asking for the time of
// day from one shared 64-bit word; monotonic clocks and everything else go to the kernel.
//
// The word: two bits of mode (0 real, 1 frozen at µs, 2 real plus µs) above a signed 62-bit count of microseconds.
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const uint64_t *word;

__attribute__((constructor)) static void attach(void) {
	const char *path = getenv("RLCTL_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *page = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *word, PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		perror("settable clock: RLCTL_CLOCK");
		_exit(1);
	}
	close(fd);
	word = page;
}

static int now(clockid_t id, struct timespec *ts) {
	int rc = syscall(SYS_clock_gettime, id, ts);
	uint64_t w = word ? __atomic_load_n(word, __ATOMIC_RELAXED) : 0;
	if (rc != 0 || w >> 62 == 0 || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE))
		return rc;
	int64_t ns = ((int64_t)(w << 2) >> 2) * 1000;
	if (w >> 62 == 2)
		ns += ts->tv_sec * INT64_C(1000000000) + ts->tv_nsec;
	ts->tv_sec = ns / 1000000000;
	ts->tv_nsec = ns % 1000000000;
	return 0;
}

int clock_gettime(clockid_t id, struct timespec *ts) { return now(id, ts); }

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
	struct timespec ts;
	now(CLOCK_REALTIME, &ts);
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *out) {
	struct timespec ts;
	now(CLOCK_REALTIME, &ts);
	if (out)
		*out = ts.tv_sec;
	return ts.tv_sec;
}
