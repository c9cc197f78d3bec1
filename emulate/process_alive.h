// Checks whether a recorded process still runs.
#pragma once

#include <cstdint>

#include "platform/emulation/emulation_cuda.h"

namespace divvy::emulation {

/// Returns true while the process runs: same pid, same start time (field 22 of /proc/PID/stat), not a zombie.
bool IsRunning(std::uint32_t pid, std::uint64_t start_ticks);

/// Returns true while the recorded process uses the emulated CUDA driver: the process runs, and so does the thread that
/// the driver started in it. That thread ends when the process executes another program.
bool IsUsingCuda(const CudaProcess& process);

/// Returns the start time of a running process in clock ticks since boot; 0 if no such process runs. `state`: optional
/// output, the process's state letter from /proc.
std::uint64_t StartOf(std::uint32_t pid, char* state = nullptr);

/// Reads the id of the current boot: kBootIdLength characters and a terminating zero.
void ReadBootId(char (&id)[40]);

}  // namespace divvy::emulation
