// What an agent notes of its lease, in one line: for the next agent on the same boot, and for the supervisors of its
// jobs, which see to the end of the lease when no agent does (platform/os/lease_file.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "model/lease_terms.h"

namespace divvy {

struct LeaseNote {
  std::string boot_id;  // One word.
  Duration renewed{0};  // Since boot, suspension included: a time of that boot alone.
  LeaseTerms terms;

  /// From when on no job may run; Duration::max(): they may for ever.
  Duration jobs_end() const { return terms.stops_jobs ? renewed + terms.lease : Duration::max(); }

  friend bool operator==(const LeaseNote&, const LeaseNote&) = default;
};

std::string LeaseNoteText(const LeaseNote& note);
/// The first line of `text`; nothing if it is no such note, or not a whole one: half an old and half a new one, as who
/// reads while it is written over may see it.
std::optional<LeaseNote> ParseLeaseNote(std::string_view text);

}  // namespace divvy
