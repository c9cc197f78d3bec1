// Notifies people of events of jobs and GPUs. A notification becomes durable with the change that caused it, so a crash
// loses none. Deliveries run in their own processes (courier.h), and the loop never waits for them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "control/controller/controller.h"
#include "daemon/notify/notice_queue.h"
#include "daemon/notify/notify_registry.h"
#include "driver/controller_driver.h"
#include "wire/messages/notify_messages.h"

namespace divvy {

class Notifier {
 public:
  struct Options {
    NotifySettings settings;
    std::string host;              // The name of this machine.
    bool is_machine_wide = false;  // True for a daemon of all users, false for one user's own.
    bool serves_others = false;    // The daemon listens for other machines.
    bool takes_root_commands = false;
    std::int64_t own_uid = -1;
  };
  struct Ports {
    std::function<void(Duration, std::function<void()>)> after;
    std::function<void(const wire::DeliveryOrder&, std::function<void(const wire::DeliveryResult&)>)> deliver;
    std::function<std::string()> new_id;  // Returns an id that is unique across daemons.
    std::function<void(const std::string&)> log;
  };

  Notifier(Options options, Ports ports);
  ~Notifier() { *is_alive_ = false; }

  bool LoadSetting(std::string_view key, std::string_view text);
  /// Must be called before the controller is loaded. Requires: `driver` outlives this.
  void Join(ControllerDriver& driver) { driver_ = &driver; }
  /// Call when the controller is loaded. Jobs that run then started earlier, so their starts are not notified.
  void OnLoaded();
  /// Starts delivering. Call once the runs on this node are known.
  void Open();

  /// Adds the notifications of the changes in `effects` to them, as rows that become durable together with the changes.
  void Complete(Effects& effects);
  /// Call when the `effects` that were passed to Complete have become durable. Queues and delivers the notifications
  /// that Complete added to them.
  void Carried(const Effects& effects);

  /// Notifies that a running job wastes its GPUs, or that an action was taken because of this. `text` is the message.
  void OnWaste(const JobRecord& record, const std::string& text, const wire::NoticeWaste& lost);

  // For the routes. Changes become durable with the controller's next commit.
  Result<wire::ReceiverAnswer> Add(const User& owner, const wire::ReceiverRequest& request);
  Status Remove(const User& owner, const std::string& name);
  /// Delivers a test notice at once, bypassing the queue. Without `owner`, the receiver is an administrator's.
  void Test(const std::optional<User>& owner, const std::string& name,
            std::function<void(Result<wire::NotifyTestAnswer>)> done);
  /// Returns true if this user has a receiver of that name.
  bool Has(const User& owner, const std::string& name) const {
    return registry_.Find("user/" + std::to_string(owner.uid) + "/" + name).has_value();
  }
  /// Returns a user's receivers and those that the user's jobs named; with `has_admins` also those of the
  /// administrators.
  wire::NotifyAnswer View(const User& user, bool has_admins) const;

  const NotifyRegistry& registry() const { return registry_; }

 private:
  /// Jobs that a step ended, by id. A step may end 100,000 jobs.
  using Ended = std::unordered_map<JobId, const JobRecord*>;
  void LearnWishes(Batch& batch);
  void LearnAgain(const Change& change, Batch& batch);
  void OnJob(const Change& change, const Ended& ended, Batch& batch);
  void OnFinal(const JobRecord& record, Batch& batch);
  void OnGpus(Effects& effects);
  const JobRecord* RecordOf(const Change& change, const Ended& ended) const;
  void Tell(NotifyEvent event, const JobRecord& record, std::string text, Batch& batch);
  void Tell(NotifyEvent event, const wire::NoticeGpu& gpu, std::string text, Batch& batch);
  void Enqueue(const std::vector<std::string>& to, const wire::Notice& notice, Batch& batch);
  wire::Notice NoticeOf(std::string event, std::string text) const;
  void Keep(std::vector<NoticeQueue::Setting> rows);
  void Deliver();
  void Arm();
  Result<wire::DeliveryOrder> OrderFor(const NotifyRegistry::Known& known, const wire::Notice& notice) const;
  Status CheckPolicy(const NotifyRegistry::Known& known) const;
  bool MayGoInside(const NotifyRegistry::Known& known) const;
  wire::ReceiverView ViewOf(const NotifyRegistry::Known& known, Time now) const;

  Options options_;
  Ports ports_;
  NotifyRegistry registry_;
  NoticeQueue queue_;
  ControllerDriver* driver_ = nullptr;
  bool is_open_ = false;
  Time armed_for_ = kNever;
  /// Jobs that hold GPUs or run and that have a receiver; the value tells whether their start was reported.
  std::map<JobId, bool> active_;
  std::vector<wire::ToldGpu> told_gpus_;
  std::size_t tests_ = 0;  // Tests that are under way.
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace divvy
