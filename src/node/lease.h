// The agent's end of the lease on its node: when to give a sign of life, and when it has been silent around it for so
// long that the controller may give its jobs to others.
//
// `now` is the time since boot, suspension included, so that a machine that slept knows that it did; it starts anew
// with each boot, when nothing of before runs any more.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "model/lease_terms.h"

namespace divvy {

class Lease {
 public:
  /// What the controller said when the two met, in answer to what was sent at `asked`: the lease counts from there.
  void Begin(const LeaseTerms& terms, Duration asked);
  const LeaseTerms& terms() const { return terms_; }

  bool IsBeatDue(Duration now) const { return is_begun_ && now >= next_beat_; }
  /// The number to send now.
  std::uint64_t Beat(Duration now);
  /// The controller has answered that one.
  void OnAnswer(std::uint64_t beat);

  bool is_begun() const { return is_begun_; }
  /// When it ends, if nothing more is heard.
  Duration ends() const { return renewed_ + terms_.lease; }
  bool has_ended(Duration now) const { return is_begun_ && now >= ends(); }
  /// The jobs here are to be stopped.
  bool is_fenced(Duration now) const { return terms_.stops_jobs && has_ended(now); }

  /// For an agent that is started again on the same boot, and for the supervisors of its jobs: one line
  /// (model/lease_note.h).
  std::string ToText(std::string_view boot_id) const;
  /// Nothing if the text is none, or of another boot.
  static std::optional<Lease> FromText(std::string_view text, std::string_view boot_id);

 private:
  LeaseTerms terms_;
  bool is_begun_ = false;
  Duration renewed_{0};
  Duration next_beat_{0};
  std::uint64_t last_beat_ = 0;
  std::map<std::uint64_t, Duration> sent_;  // Not answered yet; a few.
};

}  // namespace divvy
