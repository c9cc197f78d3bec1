// What a shell says of a command that it could not run, and what we say of a machine that could run none.
#pragma once

#include "model/job.h"

namespace divvy {

/// The machine's own affair: no job would have started there. No shell says so, and no container engine (theirs is
/// 125). A supervisor or a node says it, with a failure; of what a job brings about itself neither ever does
/// (WithoutMachinesFault).
inline constexpr int kMachineCannot = 121;
/// Others are on its GPUs, by the machine's leave, and cannot be moved now.
inline constexpr int kNoRoomMade = 120;
inline constexpr int kCannotRun = 126;
inline constexpr int kCannotFind = 127;

/// The job did not begin, and another machine may well run it.
inline bool IsMachinesFault(const Exit& exit) { return exit.code == kMachineCannot && !exit.failure.empty(); }

/// The job did not begin: it is to wait again. The machine is as good as before for others.
inline bool IsForWantOfRoom(const Exit& exit) { return exit.code == kNoRoomMade && !exit.failure.empty(); }

/// The code of a program, or of what stood in for it, whose failure is told by files that the job's user can write.
inline int WithoutMachinesFault(int code) { return code == kMachineCannot || code == kNoRoomMade ? 1 : code; }

}  // namespace divvy
