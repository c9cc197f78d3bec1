// A supervisor's part in the lease of its machine: when it has ended the job is stopped, whether or not an agent lives,
// because the controller may start it elsewhere from then on. Costs a job one read of a small file a second.
#include <signal.h>

#include <algorithm>

#include "platform/os/lease_file.h"
#include "platform/os/process_tree.h"
#include "platform/supervisor/supervisor_life.h"

namespace divvy {

// It is in the folder of an agent that is not root, so it is read with that agent's rights.
Result<LeaseNote> Supervisor::ReadLease() const {
  const SupervisorSetup& setup = station_.setup;
  if (!setup.serves_another()) return ReadLeaseFile(record_.lease.file);
  const std::vector<gid_t> groups = {static_cast<gid_t>(setup.daemon_gid)};
  Result<LeaseNote> note = Internal("no process can become the agent's user");
  RunAs({static_cast<uid_t>(setup.daemon_uid), groups.front(), &groups},
        [&] { note = ReadLeaseFile(record_.lease.file); });
  return note;
}

// What was known before holds where nothing can be learned now: the end that an agent once named does not go away
// because a disk does.
bool Supervisor::HasLeaseEnded(Duration now) {
  if (!record_.lease.is_set()) return false;
  if (const auto note = ReadLease()) {
    // A machine's earlier boot ended its jobs by itself.
    watch_.lease_end = note->boot_id == record_.lease.boot_id ? note->jobs_end() : kNeverDue;
  } else if (note.error().code == ErrorCode::kNotFound) {
    watch_.lease_end = kNeverDue;
  }
  return now >= watch_.lease_end;
}

void Supervisor::LookAtLease() {
  const Duration now = BootNow();
  if (watch_.was_cut_off || HasLeaseEnded(now)) {
    CutOff(now);
    watch_.lease_look_at = DueAfter(MonotonicNow(), kLeaseLook);
  } else {
    watch_.lease_look_at = DueAfter(MonotonicNow(), std::min(kLeaseLook, watch_.lease_end - now));
  }
}

// Also when it was begun: a machine that sleeps meanwhile wakes up when there is no time left.
void Supervisor::CutOff(Duration now) {
  if (!watch_.was_cut_off && !watch_.is_stopping) {
    watch_.lease_kill_at = now + FenceGraceLeft(watch_.lease_end, now, watch_.grace);
    BeginStop(watch_.stop_signal, watch_.lease_kill_at - now);
    watch_.was_cut_off = true;
  } else if (!watch_.was_cut_off) {
    // It is being stopped for another reason, and was told; only that there may be less time for it.
    watch_.lease_kill_at = std::min(watch_.lease_kill_at, watch_.lease_end + kFenceGrace);
  }
  watch_.kill_at = std::min(watch_.kill_at, DueAfter(MonotonicNow(), watch_.lease_kill_at - now));
}

}  // namespace divvy
