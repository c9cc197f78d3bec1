// A supervisor's handling of its node's lease. When the lease has ended, the job is stopped, whether or not an agent
// lives, because the controller may then start the job elsewhere. Costs a job one read of a small file per second.
#pragma once

#include <functional>

#include "base/result.h"
#include "model/lease_note.h"
#include "platform/supervisor/run_record.h"
#include "platform/supervisor/supervisor_setup.h"
#include "platform/supervisor/supervisor_watch.h"

namespace divvy {

class SupervisorLease {
 public:
  /// `place`: where the job's lease is; not set for a job without one. All three must outlive this object.
  SupervisorLease(const SupervisorSetup& setup, const LeasePlace& place, SupervisorWatch& watch)
      : setup_(setup), place_(place), watch_(watch) {}

  /// Reads the lease file and returns true if the lease has ended. `now`: the value of BootNow().
  bool HasEnded(Duration now);
  /// Reads the lease, and sets when to do so next. If it has ended, stops the job: `begin_stop` is called once, with a
  /// signal and a grace period, unless the job is being stopped already.
  void Look(const std::function<void(int signal, Duration grace)>& begin_stop);

 private:
  Result<LeaseNote> Read() const;
  void CutOff(Duration now, const std::function<void(int signal, Duration grace)>& begin_stop);

  const SupervisorSetup& setup_;
  const LeasePlace& place_;
  SupervisorWatch& watch_;
};

}  // namespace divvy
