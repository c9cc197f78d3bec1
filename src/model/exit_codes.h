// Exit codes of commands that could not be run: those of shells, and divvy's own for nodes that could not run a job.
#pragma once

#include "model/job.h"

namespace divvy {

/// Exit code of a job that could not start because of its node: no job could have started there. Shells do not use this
/// code, and container engines use 125. Only a supervisor or a node reports it, together with a failure text. They
/// never report it for an error that the job itself caused (WithoutMachinesFault).
inline constexpr int kMachineCannot = 121;
/// Exit code of a job that could not start because jobs with GPU fractions (tenants) use its GPUs and cannot be moved
/// away now. The node had allowed them to use these GPUs until they are needed.
inline constexpr int kNoRoomMade = 120;
inline constexpr int kCannotRun = 126;
inline constexpr int kCannotFind = 127;

/// Returns true if the job did not start because of its node. Another node may be able to run it.
inline bool IsMachinesFault(const Exit& exit) { return exit.code == kMachineCannot && !exit.failure.empty(); }

/// Returns true if the job did not start because other jobs still use its GPUs (kNoRoomMade). It must wait again. The
/// node is healthy and can run other jobs.
inline bool IsForWantOfRoom(const Exit& exit) { return exit.code == kNoRoomMade && !exit.failure.empty(); }

/// Use this for a code that comes from a program, or from files that the job's user can write. Such a code must not
/// claim that the node is at fault, so kMachineCannot and kNoRoomMade become 1.
inline int WithoutMachinesFault(int code) { return code == kMachineCannot || code == kNoRoomMade ? 1 : code; }

}  // namespace divvy
