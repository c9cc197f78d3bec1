// The identity of a caller of the controller.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/job.h"

namespace divvy {

/// The caller as the kernel authenticated it.
struct Caller {
  User user;
  bool is_admin = false;
  std::vector<std::string> groups;  // Operating system groups; only those that some team names.
};

std::string CallerName(const Caller& caller);

/// Returns true if a team lead may do this (`verb`) to the team's jobs: cancel, hold, release, requeue, and change
/// queue settings (priority, limits, size). Leads may never change what runs under another user's account.
bool CanLead(std::string_view verb);

}  // namespace divvy
