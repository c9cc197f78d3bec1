// What the machines of one job know of each other, on each of them: files beside the list of its steps (DIVVY_STEPS,
// platform/records/step_list_file.h), in a folder that only the job's user can enter, each with mode 0600 and the
// user's own.
//
//   STEPS.key    the job's key, 64 hexadecimal digits: who knows it is a machine of this job. Written before the step
//                process is started; that it is there makes a step process listen for other machines at all.
//   STEPS.go     who is who (model/steps/gang_file.h), and the word to go (platform/supervisor/supervisor_seat.h).
//   STEPS.hosts  the machines and their tasks for OpenMPI, STEPS.machines the same for Hydra; STEPS.rsh is a link to
//                this executable: what MPI calls to start its daemons on another machine.
//
// How a part's first process (as the job's user, in the job's cgroup and surroundings) uses this:
//   1. WriteGangKey(), StartGangSteps(): the step process listens, its port goes to the other machines.
//   2. When all have prepared: WriteMpiFiles(). Then it becomes the job's program, on the first machine alone.
//   3. RemoveStepList() (platform/records/step_list_file.h) removes them with the list.
// A step process that dies is started again by the next step on that machine, at the port that STEPS.go names.
//
// The key is in a file, and not in a descriptor, so that a step process can be started again without whoever prepared
// the job. It is never on a command line or in an environment.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/steps/gang_file.h"

namespace divvy {

inline std::string GangKeyPath(const std::string& steps) { return steps + ".key"; }
inline std::string GangFilePath(const std::string& steps) { return steps + ".go"; }

/// `key`: 64 hexadecimal digits. To be called with the rights of the job's user alone: the folder is the user's.
Status WriteGangKey(const std::string& steps, const std::string& key);
/// Fails with kNotFound where the job is on one machine, with kCorruptData on what is no key or not private.
Result<std::string> ReadGangKey(const std::string& steps);

/// What MPI needs. `divvy`: the executable, absolute. Rights as above.
Status WriteMpiFiles(const std::string& steps, const GangFile& gang, const std::string& divvy);
/// kNotFound: not written yet.
Result<GangFile> ReadGangFile(const std::string& steps);

/// What becomes the step process. `words`: "--listen=HOST:PORT" ("0.0.0.0:0" is any port of every address), "--stay"
/// and STEPS. It prints its TCP port and a line feed on standard output when it hears both its own machine and the
/// others; else one line on standard error, and returns 1.
using GangStepsMain = std::function<int(const std::vector<std::string>& words)>;

struct GangSteps {
  pid_t pid = -1;  // Of the step process. It stays until SIGTERM comes and no step is left.
  std::uint16_t port = 0;
};
/// Starts it and waits until it listens, `patience` at most. As the job's user, in its cgroup and session. It is this
/// very program, not executed again (that costs more than all else here), and the child of our own parent, so that
/// whatever we become has no child that it does not know. Where it fails no process is left. Requires: one thread.
Result<GangSteps> StartGangSteps(const GangStepsMain& main, const std::string& steps, const std::string& listen,
                                 Duration patience);

}  // namespace divvy
