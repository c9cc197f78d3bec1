// Who is told of what: the receivers of administrators (divvy.toml) and of users, and what jobs say of their own
// (--notify). No I/O; what is to be kept is handed out as rows for the store.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/job_record.h"
#include "model/notify.h"
#include "model/waste_rules.h"

namespace divvy {

/// What a job says in its labels of what is to be told of it, and done about it.
struct JobWish {
  std::optional<NotifyWish> notify;
  WasteAction on_waste = WasteAction::kNone;  // --on-waste

  bool is_empty() const { return !notify && on_waste == WasteAction::kNone; }
  friend bool operator==(const JobWish&, const JobWish&) = default;
};
/// A word that is none was refused long before.
JobWish WishOf(const JobSpec& spec);

class NotifyBook {
 public:
  using Setting = std::pair<std::string, std::string>;  // A row for the store; an empty text removes it.
  static constexpr std::size_t kMostOfAUser = 16;
  static constexpr std::size_t kMostUsers = 10'000;
  static constexpr std::size_t kMostOfAJob = 16;

  explicit NotifyBook(NotifySettings settings) : settings_(std::move(settings)) {}

  const NotifySettings& settings() const { return settings_; }

  /// A receiver, and whose it is; `owner.uid` -1: the administrators'.
  struct Known {
    std::string to;  // As the queue names it.
    Receiver receiver;
    User owner;
  };
  /// `replaces`: in place of one of the same name, if there is one; else that is kAlreadyExists. Fails where it is no
  /// good one, or the user has too many.
  Result<Setting> Add(const User& owner, Receiver receiver, bool replaces = false);
  /// The receiver's name for the queue, and the row; kNotFound.
  Result<std::pair<std::string, Setting>> Remove(const User& owner, const std::string& name);
  /// By the queue's name; nothing: it is gone.
  std::optional<Known> Find(std::string_view to) const;
  /// A user's own; with `owner` nothing: the administrators'.
  std::vector<Known> Of(const std::optional<User>& owner) const;

  /// A job's own wish, by whose specification it runs; an empty one takes it back. The row to keep, if any is needed.
  std::optional<Setting> SetWish(JobId spec_of, const JobWish& wish);
  /// Null: it has none.
  const JobWish* WishOf(const JobRecord& record) const;
  WasteAction OnWasteOf(const JobRecord& record) const {
    const JobWish* wish = WishOf(record);
    return wish == nullptr ? WasteAction::kNone : wish->on_waste;
  }

  /// Whom a job of this user names that is nobody: "mail to phne: no receiver of yours has this name, ...".
  /// `has_account`: there is such a user of this machine, who may have a mailbox.
  std::vector<std::string> NotesOn(const JobSpec& spec, const User& owner,
                                   const std::function<bool(const std::string&)>& has_account) const;

  /// Nobody hears of any job.
  bool has_nobody() const {
    return !settings_.is_on || (settings_.receivers.empty() && users_.empty() && wishes_.empty());
  }
  /// Whether anybody might hear of this job: cheap.
  bool HasAnybodyFor(const JobRecord& record) const;
  /// Whom this event of this job is for, by their names for the queue.
  std::vector<std::string> For(NotifyEvent event, const JobRecord& record) const;
  /// Whom an event of a GPU is for.
  std::vector<std::string> For(NotifyEvent event) const;

  /// True if the key is one of ours.
  bool LoadSetting(std::string_view key, std::string_view text);

 private:
  struct Owned {
    User owner;
    std::map<std::string, Receiver> receivers;
  };
  static bool IsFor(const Receiver& receiver, const JobRecord& record);
  void AddOwn(const NotifyWish* wish, NotifyEvent event, const JobRecord& record, std::vector<std::string>& to) const;

  NotifySettings settings_;
  std::map<std::int64_t, Owned> users_;  // By uid.
  std::map<JobId, JobWish> wishes_;
};

}  // namespace divvy
