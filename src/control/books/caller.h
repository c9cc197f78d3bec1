// Who asks something of the controller.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/job.h"

namespace divvy {

/// Who asks, as the kernel told us.
struct Caller {
  User user;
  bool is_admin = false;
  std::vector<std::string> groups;  // Of the operating system; only those that some team names.
};

std::string CallerName(const Caller& caller);

/// What whoever leads a team may do to its jobs: cancel, hold, release, requeue, and change what is in the queue's
/// hands (priority, limits, size), never what runs as somebody else.
bool CanLead(std::string_view verb);

}  // namespace divvy
