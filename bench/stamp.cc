// The job that the benchmarks run. It writes the time at which its process began, and the time at which it is about to
// end. Each stamp is one line of 32 bytes, appended to FILE with one write. So any number of jobs can share the file
// (or a pipe), and its size tells how many jobs began.
//
//   stamp FILE [MILLISECONDS]
//
// A line contains 'S' or 'E', nanoseconds since 1970, and the GPU that the job got. 'E' is written only with
// MILLISECONDS, the time to sleep in between. The program is linked statically and does not use iostreams, so that it
// costs little more than the process itself.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace {

bool Stamp(int fd, char kind) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const char* gpu = std::getenv("CUDA_VISIBLE_DEVICES");
  char line[48];
  std::snprintf(line, sizeof line, "%c %010lld%09ld %-9.9s\n", kind, static_cast<long long>(now.tv_sec), now.tv_nsec,
                gpu != nullptr ? gpu : "-");
  return ::write(fd, line, 32) == 32;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const int fd = ::open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0666);
  if (fd < 0 || !Stamp(fd, 'S')) return 3;
  if (argc < 3) return 0;
  const long milliseconds = std::atol(argv[2]);
  const timespec nap = {milliseconds / 1000, milliseconds % 1000 * 1'000'000};
  ::nanosleep(&nap, nullptr);
  return Stamp(fd, 'E') ? 0 : 3;
}
