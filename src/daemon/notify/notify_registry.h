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

/// The requests in a job's labels: for notifications, and for an action if the job wastes its GPUs.
struct JobWish {
  std::optional<NotifyWish> notify;
  WasteAction on_waste = WasteAction::kNone;  // --on-waste

  bool is_empty() const { return !notify && on_waste == WasteAction::kNone; }
  friend bool operator==(const JobWish&, const JobWish&) = default;
};
/// Reads the wish from a job's labels. Invalid values have been rejected when the job was submitted.
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
  /// Adds a receiver of a user and returns the row to store. If the user has a receiver of that name, it is replaced if
  /// `replaces` is true; otherwise fails with kAlreadyExists. Fails too if the receiver is invalid or the user has too
  /// many.
  Result<Setting> Add(const User& owner, Receiver receiver, bool replaces = false);
  /// Returns the receiver's name in the queue and the row to remove, or kNotFound.
  Result<std::pair<std::string, Setting>> Remove(const User& owner, const std::string& name);
  /// Finds a receiver by its name in the queue; nullopt if it no longer exists.
  std::optional<Known> Find(std::string_view to) const;
  /// Returns the receivers that this user has added; without `owner`, those of the administrators.
  std::vector<Known> Of(const std::optional<User>& owner) const;

  /// Sets the wish of all jobs that share the specification of job `spec_of`; an empty wish removes it. Returns the row
  /// to store if the wish has changed.
  std::optional<Setting> SetWish(JobId spec_of, const JobWish& wish);
  /// Returns null if the job has no wish.
  const JobWish* WishOf(const JobRecord& record) const;
  WasteAction OnWasteOf(const JobRecord& record) const {
    const JobWish* wish = WishOf(record);
    return wish == nullptr ? WasteAction::kNone : wish->on_waste;
  }

  /// Returns warnings about receivers in a job's wish that do not exist ("mail to phne: no receiver of yours has this
  /// name, ...") and about mail that cannot be sent. `has_account` returns true for the name of a user of this machine,
  /// who may have a mailbox. `has_sendmail`: the program settings().sendmail exists.
  std::vector<std::string> NotesOn(const JobSpec& spec, const User& owner,
                                   const std::function<bool(const std::string&)>& has_account,
                                   bool has_sendmail = true) const;

  /// Returns true if no job event has a receiver.
  bool has_nobody() const {
    return !settings_.is_on || (settings_.receivers.empty() && users_.empty() && wishes_.empty());
  }
  /// Returns false if this job's events certainly have no receiver. Much cheaper than For.
  bool HasAnybodyFor(const JobRecord& record) const;
  /// Returns the receivers of this event of this job, by their names in the queue of notifications.
  std::vector<std::string> For(NotifyEvent event, const JobRecord& record) const;
  /// Returns the receivers of an event of a GPU that concerns no job, by their names in the queue of notifications.
  std::vector<std::string> For(NotifyEvent event) const;

  /// Loads a row of the store. Returns true if the key belongs to this class.
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
