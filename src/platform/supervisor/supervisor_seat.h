// A job's part on one of its machines, from its preparation to its end. Its first process is a fork of the supervisor
// (internal-seat), which is started like any job's program: as the user, in the job's session, cgroup and mounts, named
// in the run record, and with nothing of the supervisor's open. It is not executed, because that and the libraries'
// setting themselves up cost more than all else that a part needs; the launcher sees to it that nothing of another
// user's is in its memory, and where it has changed user the kernel lets nobody of the job's look at that. It starts
// the job's step process, says at which port that hears the other machines, and waits. When all machines are ready it
// becomes the job's program on the first of them; on the others it stays with the step process and ends after it.
//
// What passes between it and whoever supervises it lies beside the list of the job's steps, in the user's own folder:
//
//   STEPS.seat   by the seat: "port=N", or "failure=why".
//   STEPS.going  by the node: who is who (model/steps/gang_file.h).
//   STEPS.go     the same, renamed: the word to go. Once it is there the job's program may run.
//
// Files, so that any of daemon, launcher, supervisor and guard may be killed in between, and a word said twice is one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/steps/gang_file.h"
#include "platform/records/gang_files.h"
#include "platform/supervisor/launch.h"
#include "platform/supervisor/supervisor_job.h"

namespace divvy {

/// Where the first process of a part reads the job's key; the key and the end of the file are all there is. It closes
/// it when it has written its report.
constexpr int kSeatKeyDescriptor = 3;

/// What the supervisor starts: `program`, which has no argv where nothing of the user's is to be started here, wrapped.
JobProgram SeatProgram(const LaunchSeat& seat, const std::string& steps, int stop_signal, JobProgram program);

struct SeatReport {
  std::uint16_t port = 0;
  std::string failure;  // Not empty: its part is over, or will be at once.
};
/// Nothing: it has not said anything yet.
std::optional<SeatReport> ReadSeatReport(const std::string& steps);

/// Lays the word to go ready: `gang`, as GangFileText() has it. `gid`, `uid`: whose it will be, where we may choose.
Status StageGo(const std::string& steps, std::string_view gang, std::int64_t uid, std::int64_t gid);
/// Says it. Nothing to do where it was said; false: it was not laid ready.
bool SayGo(const std::string& steps);
/// When it was said; nothing: it was not.
std::optional<Time> WentAt(const std::string& steps);
/// Of an earlier attempt, or one that is over.
void RemoveSeatFiles(const std::string& steps);

/// NAME=value that the job's processes find besides, now that all machines are known. Called as the user; may write
/// files. Names that are there already stay as they are.
using SeatSurroundings = std::function<std::vector<std::string>(const GangFile& gang, const std::string& steps)>;
/// The whole life of a part's first process. `words` as SeatProgram has them, from argv[0] on; `steps`
/// is what becomes the job's step process.
int RunSeat(const std::vector<std::string>& words, const SeatSurroundings& surroundings, const GangStepsMain& steps);

}  // namespace divvy
