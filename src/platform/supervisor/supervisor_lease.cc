#include "platform/supervisor/supervisor_lease.h"

#include <algorithm>

#include "platform/os/lease_file.h"
#include "platform/os/process_tree.h"
#include "platform/users/user_identity.h"

namespace divvy {

// The file is in the folder of an agent that is not root, so it is read with that agent's rights.
Result<LeaseNote> SupervisorLease::Read() const {
  if (!setup_.serves_another()) return ReadLeaseFile(place_.file);
  const std::vector<gid_t> groups = {static_cast<gid_t>(setup_.daemon_gid)};
  Result<LeaseNote> note = Internal("no process can switch to the agent's user");
  RunAs({static_cast<uid_t>(setup_.daemon_uid), groups.front(), &groups}, [&] { note = ReadLeaseFile(place_.file); });
  return note;
}

// If the file cannot be read now, the last known end stays valid: the end of a lease must not disappear because a disk
// fails.
bool SupervisorLease::HasEnded(Duration now) {
  if (!place_.is_set()) return false;
  if (const auto note = Read()) {
    // A note from an earlier boot is void: that boot's jobs ended with it.
    watch_.lease_end = note->boot_id == place_.boot_id ? note->jobs_end() : kNeverDue;
  } else if (note.error().code == ErrorCode::kNotFound) {
    watch_.lease_end = kNeverDue;
  }
  return now >= watch_.lease_end;
}

void SupervisorLease::Look(const std::function<void(int signal, Duration grace)>& begin_stop) {
  const Duration now = BootNow();
  if (watch_.was_cut_off || HasEnded(now)) {
    CutOff(now, begin_stop);
    watch_.lease_look_at = DueAfter(MonotonicNow(), kLeaseLook);
  } else {
    watch_.lease_look_at = DueAfter(MonotonicNow(), std::min(kLeaseLook, watch_.lease_end - now));
  }
}

// Stops the job because its lease has ended. Called again after the stop has begun: if the machine was suspended
// meanwhile, no time is left.
void SupervisorLease::CutOff(Duration now, const std::function<void(int signal, Duration grace)>& begin_stop) {
  if (!watch_.was_cut_off && !watch_.is_stopping) {
    watch_.lease_kill_at = now + FenceGraceLeft(watch_.lease_end, now, watch_.grace);
    begin_stop(watch_.stop_signal, watch_.lease_kill_at - now);
    watch_.was_cut_off = true;
  } else if (!watch_.was_cut_off) {
    // The job is already being stopped for another reason and got its signal. The lease can only make the time until
    // SIGKILL shorter.
    watch_.lease_kill_at = std::min(watch_.lease_kill_at, watch_.lease_end + kFenceGrace);
  }
  watch_.kill_at = std::min(watch_.kill_at, DueAfter(MonotonicNow(), watch_.lease_kill_at - now));
}

}  // namespace divvy
