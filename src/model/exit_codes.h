// What a shell says of a command that it could not run, and what we say of a machine that could run none.
#pragma once

#include "model/job.h"

namespace divvy {

/// The machine's own affair: no job would have started there. No shell says so, and no container engine (theirs is
/// 125).
inline constexpr int kMachineCannot = 121;
inline constexpr int kCannotRun = 126;
inline constexpr int kCannotFind = 127;

/// The job never ran, and another machine may well run it.
inline bool IsMachinesFault(const Exit& exit) { return exit.code == kMachineCannot && !exit.failure.empty(); }

}  // namespace divvy
