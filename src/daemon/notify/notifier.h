// Tells people what happens to jobs and GPUs. What is to be told becomes durable with the change that it tells of, so a
// kill loses none; deliveries are processes of their own (courier.h), which the loop never waits for.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "control/controller/controller.h"
#include "daemon/driver/core.h"
#include "daemon/notify/notice_queue.h"
#include "daemon/notify/notify_book.h"
#include "wire/messages/notify_messages.h"

namespace divvy {

class Notifier {
 public:
  struct Options {
    NotifySettings settings;
    std::string host;              // This machine's name.
    bool is_machine_wide = false;  // The daemon is everybody's, not one user's own.
    bool serves_others = false;    // It listens for other machines.
    bool takes_root_commands = false;
    std::int64_t own_uid = -1;
  };
  struct Ports {
    std::function<void(Duration, std::function<void()>)> after;
    std::function<void(const wire::DeliveryOrder&, std::function<void(const wire::DeliveryResult&)>)> deliver;
    std::function<std::string()> new_id;  // Another one each time, unlike any of another daemon.
    std::function<void(const std::string&)> log;
  };

  Notifier(Options options, Ports ports);
  ~Notifier() { *is_alive_ = false; }

  bool LoadSetting(std::string_view key, std::string_view text);
  /// Before the controller is loaded. Requires: `core` outlives this.
  void Join(Core& core) { core_ = &core; }
  /// The controller is loaded: what runs has started before.
  void OnLoaded();
  /// Once what runs is known: from here on what waits is delivered.
  void Open();

  /// Adds what is to be durable with a turn's changes.
  void Complete(Effects& effects);
  /// That is durable now.
  void Carried(const Effects& effects);

  /// A running job wastes its GPUs, or something is done about it. `text`: for people.
  void OnWaste(const JobRecord& record, const std::string& text, const wire::NoticeWaste& lost);

  // For the routes. Changes are durable with the controller's next commit.
  Result<wire::ReceiverAnswer> Add(const User& owner, const wire::ReceiverRequest& request);
  Status Remove(const User& owner, const std::string& name);
  /// Delivers a notice that says that it is a test, at once and past the queue. `owner` nothing: an administrator's.
  void Test(const std::optional<User>& owner, const std::string& name,
            std::function<void(Result<wire::NotifyTestAnswer>)> done);
  /// Whether this user has a receiver of that name.
  bool Has(const User& owner, const std::string& name) const {
    return book_.Find("user/" + std::to_string(owner.uid) + "/" + name).has_value();
  }
  /// A user's receivers, those that their jobs named, and, where `has_admins`, the administrators'.
  wire::NotifyAnswer View(const User& user, bool has_admins) const;

  const NotifyBook& book() const { return book_; }

 private:
  /// What a step ended, by id: such a step may end 100,000.
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
  Result<wire::DeliveryOrder> OrderFor(const NotifyBook::Known& known, const wire::Notice& notice) const;
  Status CheckPolicy(const NotifyBook::Known& known) const;
  bool MayGoInside(const NotifyBook::Known& known) const;
  wire::ReceiverView ViewOf(const NotifyBook::Known& known, Time now) const;

  Options options_;
  Ports ports_;
  NotifyBook book_;
  NoticeQueue queue_;
  Core* core_ = nullptr;
  bool is_open_ = false;
  Time armed_for_ = kNever;
  /// Jobs that somebody hears of, and that hold GPUs or run; whether their start was told.
  std::map<JobId, bool> active_;
  std::vector<wire::ToldGpu> told_gpus_;
  std::size_t tests_ = 0;  // Under way.
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace divvy
