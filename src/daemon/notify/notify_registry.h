// The registry of receivers: of administrators (divvy.toml), of users, and those that jobs name (--notify). No I/O:
// data to keep is returned as rows for the store.
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

/// Notifications and the action on waste that a job's labels request.
struct JobWish {
  std::optional<NotifyWish> notify;
  WasteAction on_waste = WasteAction::kNone;  // --on-waste

  bool is_empty() const { return !notify && on_waste == WasteAction::kNone; }
  friend bool operator==(const JobWish&, const JobWish&) = default;
};
/// Invalid values have been rejected at submission.
JobWish WishOf(const JobSpec& spec);

class NotifyRegistry {
 public:
  using Setting = std::pair<std::string, std::string>;  // A row for the store; an empty text removes it.
  static constexpr std::size_t kMostOfAUser = 16;
  static constexpr std::size_t kMostUsers = 10'000;
  static constexpr std::size_t kMostOfAJob = 16;

  explicit NotifyRegistry(NotifySettings settings) : settings_(std::move(settings)) {}

  const NotifySettings& settings() const { return settings_; }

  /// A receiver and its owner; `owner.uid` -1 stands for the administrators.
  struct Known {
    std::string to;  // The receiver's name in the queue.
    Receiver receiver;
    User owner;
  };
  /// With `replaces`, replaces a receiver of the same name if there is one; otherwise that is kAlreadyExists. Fails if
  /// the receiver is invalid or the user has too many.
  Result<Setting> Add(const User& owner, Receiver receiver, bool replaces = false);
  /// Returns the receiver's name in the queue and the row to remove, or kNotFound.
  Result<std::pair<std::string, Setting>> Remove(const User& owner, const std::string& name);
  /// Finds a receiver by its name in the queue; nullopt if it no longer exists.
  std::optional<Known> Find(std::string_view to) const;
  /// A user's own receivers; without `owner`, the administrators'.
  std::vector<Known> Of(const std::optional<User>& owner) const;

  /// Sets the wish of the jobs that run by the specification `spec_of`; an empty wish removes it. Returns the row to
  /// keep, if it changed.
  std::optional<Setting> SetWish(JobId spec_of, const JobWish& wish);
  /// Returns null if the job has no wish.
  const JobWish* WishOf(const JobRecord& record) const;
  WasteAction OnWasteOf(const JobRecord& record) const {
    const JobWish* wish = WishOf(record);
    return wish == nullptr ? WasteAction::kNone : wish->on_waste;
  }

  /// Warnings about receivers in a job's wish that do not exist: "mail to phne: no receiver of yours has this name,
  /// ...", and about mail that cannot be sent. `has_account` returns true for a user of this machine, who may have a
  /// mailbox. `has_sendmail`: settings().sendmail is a program.
  std::vector<std::string> NotesOn(const JobSpec& spec, const User& owner,
                                   const std::function<bool(const std::string&)>& has_account,
                                   bool has_sendmail = true) const;

  /// Returns true if no job event has a receiver.
  bool has_nobody() const {
    return !settings_.is_on || (settings_.receivers.empty() && users_.empty() && wishes_.empty());
  }
  /// Returns true if this job's events may have a receiver. Cheap.
  bool HasAnybodyFor(const JobRecord& record) const;
  /// The receivers of this event of this job, by their names in the queue.
  std::vector<std::string> For(NotifyEvent event, const JobRecord& record) const;
  /// The receivers of an event that concerns a GPU and no job, by their names in the queue.
  std::vector<std::string> For(NotifyEvent event) const;

  /// Loads a row. Returns true if the key is one of ours.
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
