// An agent's note about its lease, in one line. The next agent on the same boot reads it, and so do the supervisors of
// its jobs. They enforce the end of the lease if no agent does (platform/os/lease_file.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "model/lease_terms.h"

namespace divvy {

struct LeaseNote {
  std::string boot_id;  // A single word.
  Duration renewed{0};  // Time since boot, including suspension. Only valid for that boot.
  LeaseTerms terms;

  /// The time after which no job may run. Duration::max(): no limit.
  Duration jobs_end() const { return terms.stops_jobs ? renewed + terms.lease : Duration::max(); }

  friend bool operator==(const LeaseNote&, const LeaseNote&) = default;
};

std::string LeaseNoteText(const LeaseNote& note);
/// Parses the first line of `text`. Returns nothing if it is not a complete note. A reader may see half an old and half
/// a new note while the file is being overwritten.
std::optional<LeaseNote> ParseLeaseNote(std::string_view text);

}  // namespace divvy
