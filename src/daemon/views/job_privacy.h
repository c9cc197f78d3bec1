// What a caller is shown of other users' jobs. Reasons never disclose their paths: those are in the owner's hands, as
// the directory of a job is. With `[privacy] jobs = "own"` names, comments, commands and reasons are hidden as well;
// who has which GPUs, and since when, stays visible. Administrators and a job's owner are shown all of it.
//
// One of these belongs to each request; Routes::Call::Answer applies it to every message that has an overload here.
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

/// `text` with "..." for each absolute path, up to its closing quote or the next space.
std::string WithoutPaths(std::string_view text);

class JobPrivacy {
 public:
  /// Of a caller who is shown everything.
  JobPrivacy() = default;
  JobPrivacy(const Caller& caller, bool hides_others)
      : user_(caller.user.name), sees_all_(caller.is_admin), hides_others_(hides_others) {}

  bool sees_all() const { return sees_all_; }
  bool hides_others() const { return hides_others_ && !sees_all_; }
  bool IsShown(std::string_view user) const { return sees_all_ || user == user_; }
  /// A text about a job of `user`: why it waits, or how it ended.
  std::string Reason(std::string_view user, std::string text) const;
  /// Jobs by their ids, without the names that are hidden.
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
