// Whether a process that was written down still runs.
#pragma once

#include <cstdint>

#include "platform/emulation/emulation_cuda.h"

namespace divvy::emulation {

/// True while the process runs: same pid, same start (field 22 of /proc/PID/stat), not a zombie.
bool IsRunning(std::uint32_t pid, std::uint64_t start_ticks);

/// True while the process of a slot uses CUDA: it runs, and its driver's own thread as well, which is gone when another
/// program was executed in its place.
bool IsUsingCuda(const CudaProcess& process);

/// Start of a running process, in clock ticks since boot; 0 when there is none. `state`: its letter in /proc, if
/// wanted.
std::uint64_t StartOf(std::uint32_t pid, char* state = nullptr);

/// The id of this boot of the machine: kBootIdLength characters and a zero.
void ReadBootId(char (&id)[40]);

}  // namespace divvy::emulation
