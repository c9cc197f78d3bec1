// Decides what a caller sees of other users' jobs. Reasons never disclose paths: a path is chosen by the job's owner,
// as the job's directory is. With `[privacy] jobs = "own"`, names, comments, commands and reasons are hidden as well.
// Which user holds which GPUs, and since when, stays visible. Administrators and a job's owner see everything.
//
// Each request has one such object; ApiCall::Answer applies it to every message that has an overload here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "control/books/caller.h"
#include "control/controller/controller.h"
#include "wire/messages/messages.h"

namespace divvy {

namespace wire {
struct FoundView;
struct JobInFull;
struct WasteAnswer;
}  // namespace wire

/// Replaces each absolute path in `text` by "...". A quoted path ends at the last quote of the same kind in the text,
/// since users may choose paths with quotes in them. A path without quotes ends at the next space.
std::string WithoutPaths(std::string_view text);

class JobPrivacy {
 public:
  /// For a caller who sees everything.
  JobPrivacy() = default;
  JobPrivacy(const Caller& caller, bool hides_others)
      : user_(caller.user.name), sees_all_(caller.is_admin), hides_others_(hides_others) {}

  bool sees_all() const { return sees_all_; }
  bool hides_others() const { return hides_others_ && !sees_all_; }
  bool IsShown(std::string_view user) const { return sees_all_ || user == user_; }
  /// Returns what the caller may see of a text about a job of `user`, such as why it waits or how it ended.
  std::string Reason(std::string_view user, std::string text) const;
  /// Wraps `find` so that hidden names are left out.
  FindOutcome Names(FindOutcome find) const;

  void Conceal(wire::JobView& view) const;
  void Conceal(std::vector<wire::JobView>& views) const;
  void Conceal(wire::JobInFull& view) const;
  void Conceal(wire::WhyView& view) const;
  void Conceal(std::vector<wire::GpuView>& views) const;
  void Conceal(std::vector<wire::FoundView>& views) const;
  void Conceal(wire::WasteAnswer& answer) const;

 private:
  template <typename View>
  void ConcealJob(View& view) const;

  std::string user_;
  bool sees_all_ = true;
  bool hides_others_ = false;
};

}  // namespace divvy
