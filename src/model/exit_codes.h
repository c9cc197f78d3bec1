// Exit codes of commands that could not be run: those of shells, and divvy's own for nodes that could not run a job.
#pragma once

#include "model/job.h"

namespace divvy {

/// The node is at fault: no job could have started there. Shells do not use this code, and container engines use 125.
/// Only a supervisor or a node reports it, together with a failure text. They never report it for an error that the job
/// itself caused (WithoutMachinesFault).
inline constexpr int kMachineCannot = 121;
/// Tenants use the job's GPUs, as the node allowed, and cannot be moved now.
inline constexpr int kNoRoomMade = 120;
inline constexpr int kCannotRun = 126;
inline constexpr int kCannotFind = 127;

/// The job did not start, and another node may be able to run it.
inline bool IsMachinesFault(const Exit& exit) { return exit.code == kMachineCannot && !exit.failure.empty(); }

/// The job did not start and must wait again. The node is healthy and can run other jobs.
inline bool IsForWantOfRoom(const Exit& exit) { return exit.code == kNoRoomMade && !exit.failure.empty(); }

/// Makes `code` safe if it comes from a program, or from files that the job's user can write: it can then not claim
/// that the node is at fault.
inline int WithoutMachinesFault(int code) { return code == kMachineCannot || code == kNoRoomMade ? 1 : code; }

}  // namespace divvy
