// Runs that nodes found and that the store does not know (docs/store.md: `divvy adopt`).
#pragma once

#include <map>
#include <string>

#include "model/run_description.h"

namespace divvy {

struct FoundRun {
  RunDescription run;
  bool is_ending = false;
  bool is_id_taken = false;  // The store knows another job with that id.
  bool is_adopted = false;   // Kept in case the adoption cannot be made durable (Controller::Withdraw).
};

class FoundRuns {
 public:
  const std::map<JobId, FoundRun>& all() const { return runs_; }
  std::map<JobId, FoundRun>& all() { return runs_; }
  void ForgetNode(const std::string& node);
  /// Describes the found runs that use this GPU, for display; empty if there are none.
  std::string TextOf(const std::string& node, GpuIndex gpu) const;

 private:
  std::map<JobId, FoundRun> runs_;
};

/// Returns the user's name, or "uid 1000" for a user without a name.
std::string UserText(const User& user);

}  // namespace divvy
