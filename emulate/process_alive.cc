#include "process_alive.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace divvy::emulation {

std::uint64_t StartOf(std::uint32_t pid, char* state) {
  char text[1024];
  snprintf(text, sizeof(text), "/proc/%u/stat", pid);
  const int fd = open(text, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (length <= 0) return 0;
  text[length] = '\0';
  // The command may contain spaces and brackets, so fields are counted from the last ')'. The state is field 3, the
  // start time field 22.
  const char* at = strrchr(text, ')');
  if (at == nullptr || at[1] == '\0' || at[2] == 'Z' || at[2] == 'X') return 0;
  if (state != nullptr) *state = at[2];
  for (int field = 2; field < 22; ++field) {
    at = strchr(at + 1, ' ');
    if (at == nullptr) return 0;
  }
  return strtoull(at + 1, nullptr, 10);
}

bool IsUsingCuda(const CudaProcess& process) {
  if (process.pid == 0 || !IsRunning(process.pid, process.start_ticks)) return false;
  if (process.service_thread == 0) return true;  // It is just starting.
  char path[64];
  snprintf(path, sizeof(path), "/proc/%u/task/%u", process.pid, process.service_thread);
  return access(path, F_OK) == 0;
}

void ReadBootId(char (&id)[40]) {
  memset(id, 0, sizeof(id));
  const int fd = open(kBootIdFile, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (read(fd, id, kBootIdLength) < 0) id[0] = '\0';
  close(fd);
}

bool IsRunning(std::uint32_t pid, std::uint64_t start_ticks) {
  const std::uint64_t start = StartOf(pid);
  return start != 0 && start == start_ticks;
}

}  // namespace divvy::emulation
