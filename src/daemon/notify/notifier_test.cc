#include "daemon/notify/notifier.h"

#include <gtest/gtest.h>

#include <deque>

#include "daemon/notify/notice_text.h"
#include "driver/notify_rows.h"
#include "platform/os/clock.h"
#include "store/store_fake.h"
#include "wire/messages/codec.h"

namespace divvy {
namespace notifier_test {

/// A daemon without threads and processes: a commit finishes at once, deliveries wait for the test.
class NotifierTest : public testing::Test, public NodeCommandPort {
 protected:
  NotifierTest() {
    options_.own_uid = 1000;
    options_.settings.receivers.resize(1);
    Receiver& ops = options_.settings.receivers.front();
    ops.name = "ops";
    ops.events = ParseNotifyEvents("gpu_fenced,gpu_unmanaged", true).value();
    ops.target = "http://hooks.lab/";
    NodeCapacity capacity;
    for (int i = 0; i < 2; ++i) {
      GpuFacts facts;
      facts.index = static_cast<GpuIndex>(i);
      facts.uuid = "GPU-" + std::to_string(i);
      capacity.gpus.push_back(facts);
    }
    capacity.cpus = 8;
    controller_.SetCapacity(capacity);
    Begin();
  }
  void Execute(const NodeCommand&, std::shared_ptr<const JobSpec>) override {}

  /// Starts a daemon; of the previous one, which has died, only the store's content is left.
  void Begin() {
    ControllerDriver::Ports ports;
    ports.post = [this](std::function<void()> task) { posted_.push_back(std::move(task)); };
    ports.commit = [this](std::vector<Batch> batches, std::function<void(Status)> done) {
      for (const Batch& batch : batches) {
        for (const auto& [key, text] : batch.settings) {
          if (text.empty()) rows_.erase(key);
          else rows_[key] = text;
        }
      }
      done(store_->Commit(batches));
    };
    ports.after = [](Duration, std::function<void()>) {};
    ports.give_up = [](const Error& error) { ADD_FAILURE() << error.message; };
    ports.complete = [this](Effects& effects) { notifier_->Complete(effects); };
    ports.on_durable = [this](const Effects& effects) { notifier_->Carried(effects); };
    Notifier::Ports own;
    own.after = [this](Duration wait, std::function<void()> task) {
      if (wait <= Duration(0)) posted_.push_back(std::move(task));
    };
    own.deliver = [this](const wire::DeliveryOrder& order, std::function<void(const wire::DeliveryResult&)> done) {
      orders_.push_back(order);
      dones_.push_back(std::move(done));
    };
    own.new_id = [this] { return "ntc_" + std::to_string(++ids_); };
    own.log = [](const std::string&) {};
    notifier_ = std::make_unique<Notifier>(options_, std::move(own));
    for (const auto& [key, text] : rows_) notifier_->LoadSetting(key, text);
    driver_ = std::make_unique<ControllerDriver>(controller_, *store_, clock_, *this, std::move(ports));
    notifier_->Join(*driver_);
    notifier_->OnLoaded();
    notifier_->Open();
  }
  void AddPhone(const std::string& events = "start,end,requeue,waste") {
    const auto added = notifier_->Add(ada_.user, {"phone", events, "http://hooks.lab/x", "", "", ""});
    ASSERT_TRUE(added) << added.error().message;
    Turn();
  }
  JobId Submit(std::map<std::string, std::string> labels = {}, std::uint64_t elements = 0) {
    JobSpec spec;
    spec.command = {"true"};
    spec.name = "train";
    spec.request.gpus = 1;
    spec.labels = std::move(labels);
    if (elements > 0) {
      spec.array.emplace();
      spec.array->indices = IndexRanges::Parse("0-" + std::to_string(elements - 1), "").value();
    }
    const auto made = controller_.Submit(std::move(spec), elements, ada_, clock_.Now(), driver_->Outcomes());
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    driver_->Touch();
    Turn();
    return made->id;
  }
  void Run(JobId id) {
    controller_.OnStarted(id, controller_.Find(id)->attempt, clock_.Now());
    driver_->Touch();
  }
  void End(JobId id, int code = 0) {
    Exit exit;
    exit.code = code;
    controller_.OnExited(id, controller_.Find(id)->attempt, exit, clock_.Now(), clock_.Now());
    driver_->Touch();
  }
  void Turn() {
    while (!posted_.empty()) {
      const auto task = std::move(posted_.front());
      posted_.pop_front();
      task();
    }
  }
  /// Delivers everything that is due, including later notices, and returns the events.
  std::string Told() {
    std::string events;
    for (Turn(); !orders_.empty(); Turn()) {
      events += (events.empty() ? "" : " ") + orders_.front().event;
      last_ = orders_.front();
      const auto done = std::move(dones_.front());
      orders_.pop_front();
      dones_.pop_front();
      done({true, false, 0, "fine"});
    }
    return events;
  }
  std::size_t NoticesKept() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(rows_, [](const auto& row) { return row.first.starts_with(kNoticeRow); }));
  }

  RealClock clock_;
  std::unique_ptr<MemoryStore> store_ = MakeMemoryStore();
  Controller controller_{Policy(), Limits(), 1};
  Notifier::Options options_;
  Caller ada_{{1000, 1000, "ada"}, false, {}};
  std::map<std::string, std::string> rows_;
  std::deque<std::function<void()>> posted_;
  std::deque<wire::DeliveryOrder> orders_;
  std::deque<std::function<void(const wire::DeliveryResult&)>> dones_;
  wire::DeliveryOrder last_;
  int ids_ = 0;
  std::unique_ptr<Notifier> notifier_;
  std::unique_ptr<ControllerDriver> driver_;
};

TEST_F(NotifierTest, StartAndEndAreSentOnce) {
  AddPhone();
  const JobId job = Submit();
  EXPECT_EQ(Told(), "") << "it has not started";
  Run(job);
  EXPECT_EQ(Told(), "start");
  controller_.OnShareEvent(job, controller_.Find(job)->attempt, "something in its history", clock_.Now());
  driver_->Touch();
  EXPECT_EQ(Told(), "");
  End(job, 3);
  EXPECT_EQ(Told(), "fail");
  const auto notice = wire::Decode<wire::Notice>(last_.body).value();
  EXPECT_EQ(notice.job->id, job);
  EXPECT_EQ(notice.job->exit_code, 3);
  EXPECT_EQ(notice.id, last_.id);
  EXPECT_EQ(NoticesKept(), 0U);
}

TEST_F(NotifierTest, AJobThatStartsAndEndsInOneStepSendsBothNotices) {
  AddPhone();
  const JobId job = Submit();
  Run(job);
  End(job);
  EXPECT_EQ(Told(), "start end");
}

TEST_F(NotifierTest, AKillLosesNothingAndRepeatsHaveTheSameId) {
  AddPhone();
  const JobId job = Submit();
  Run(job);
  End(job);
  Turn();
  ASSERT_EQ(orders_.size(), 1U) << "one at a time";
  const std::string id = orders_.front().id;
  EXPECT_EQ(NoticesKept(), 2U);
  orders_.clear();
  dones_.clear();
  Begin();
  ASSERT_EQ(orders_.size(), 1U);
  EXPECT_EQ(orders_.front().id, id);
  EXPECT_EQ(Told(), "start end");
  Begin();
  EXPECT_EQ(Told(), "") << "what was delivered is not told again";
}

TEST_F(NotifierTest, JobsThatRunAtARestartAreNotReportedAsStarted) {
  AddPhone();
  const JobId job = Submit();
  Run(job);
  EXPECT_EQ(Told(), "start");
  Begin();
  controller_.OnShareEvent(job, controller_.Find(job)->attempt, "something", clock_.Now());
  driver_->Touch();
  EXPECT_EQ(Told(), "");
  ASSERT_TRUE(controller_.Requeue(job, RequeueAs::kHeld, ada_, clock_.Now()));
  driver_->Touch();
  End(job);
  EXPECT_EQ(Told(), "requeue");
}

TEST_F(NotifierTest, ARequeuedJobsOwnerIsToldWhy) {
  AddPhone();
  const JobId job = Submit();
  Run(job);
  EXPECT_EQ(Told(), "start");
  Caller divvy;
  divvy.is_admin = true;
  divvy.user.name = "divvy, because it wastes its GPUs";
  ASSERT_TRUE(controller_.Requeue(job, RequeueAs::kQueued, divvy, clock_.Now()));
  driver_->Touch();
  End(job);
  EXPECT_EQ(Told(), "requeue");
  const auto notice = wire::Decode<wire::Notice>(last_.body).value();
  EXPECT_TRUE(notice.text.ends_with(" is queued again: queued again by divvy, because it wastes its GPUs"))
      << notice.text;
  EXPECT_EQ(notice.job->reason, "queued again by divvy, because it wastes its GPUs");
}

TEST_F(NotifierTest, AJobsNotificationSettingsAreStoredUntilItsEnd) {
  const JobId job = Submit({{"notify", "end"}, {"notify-to", "grace@example.org"}});
  EXPECT_TRUE(rows_.contains(std::string(kWishRow) + ToString(job)));
  Begin();
  Run(job);
  End(job);
  EXPECT_EQ(Told(), "end");
  EXPECT_EQ(last_.channel, "mail");
  EXPECT_EQ(last_.target, "grace@example.org");
  EXPECT_FALSE(rows_.contains(std::string(kWishRow) + ToString(job)));
}

TEST_F(NotifierTest, ARequeuedEndedJobSendsNoticesAgain) {
  const JobId job = Submit({{"notify", "end"}, {"notify-to", "grace@example.org"}});
  Run(job);
  End(job);
  EXPECT_EQ(Told(), "end");
  const JobRecord ended = driver_->FindJob(job).value();
  const auto spec = driver_->SpecOf(ended).value();
  ASSERT_TRUE(controller_.RequeueEnded(ended, *spec, std::nullopt, {}, RequeueAs::kQueued, ada_, clock_.Now()));
  driver_->Touch();
  Turn();
  Run(job);
  End(job, 1);
  EXPECT_EQ(Told(), "fail");
}

TEST_F(NotifierTest, AnArrayIsReportedAsAWhole) {
  AddPhone();
  const JobId array = Submit({}, 2);
  for (const JobId element : {ElementId(array, 0), ElementId(array, 1)}) Run(element);
  EXPECT_EQ(Told(), "start");
  End(ElementId(array, 0));
  EXPECT_EQ(Told(), "");
  End(ElementId(array, 1), 1);
  EXPECT_EQ(Told(), "fail");
  const auto notice = wire::Decode<wire::Notice>(last_.body).value();
  EXPECT_NE(notice.text.find("1 element succeeded, 1 failed"), std::string::npos) << notice.text;
}

TEST_F(NotifierTest, AdministratorsGetOneNoticePerFencedGpu) {
  const auto observe = [&](const std::string& fault) {
    std::vector<GpuObservation> seen(2);
    seen[1].index = 1;
    seen[1].fault = fault;
    controller_.OnGpusObserved(seen);
    driver_->Touch();
  };
  observe("");
  EXPECT_EQ(Told(), "");
  observe("XID 79: fell off the bus");
  EXPECT_EQ(Told(), "gpu_fenced");
  EXPECT_NE(last_.body.find("GPU 1 is fenced and takes no new jobs: XID 79"), std::string::npos) << last_.body;
  Begin();
  observe("XID 79: fell off the bus, again");
  EXPECT_EQ(Told(), "") << "also not after a restart";
  observe("");
  EXPECT_EQ(Told(), "");
  observe("XID 48: double-bit error");
  EXPECT_EQ(Told(), "gpu_fenced");
}

TEST_F(NotifierTest, UsersMayOnlyUsePermittedTargets) {
  options_.is_machine_wide = true;
  options_.serves_others = true;
  options_.own_uid = 0;
  options_.settings.webhook_hosts = {"*.lab"};
  options_.settings.mail_domains = {"example.org"};
  Begin();
  const auto add = [&](const User& user, const std::string& webhook, const std::string& command,
                       const std::string& mail) {
    const auto added = notifier_->Add(user, {"x", "end", webhook, command, mail, "", true});
    return added ? std::string() : added.error().message;
  };
  EXPECT_EQ(add(ada_.user, "http://hooks.lab/x", "", ""), "");
  EXPECT_NE(add(ada_.user, "", "true", "").find("commands of users are off here"), std::string::npos);
  EXPECT_NE(add(ada_.user, "", "", "a@other.org").find("mail is limited to addresses of example.org"),
            std::string::npos);
  EXPECT_EQ(add(ada_.user, "", "", "a@example.org"), "");
  EXPECT_NE(add(ada_.user, "http://a/", "true", "").find("one of webhook, command and mail"), std::string::npos);
  options_.settings.user_commands = true;
  Begin();
  EXPECT_EQ(add(ada_.user, "", "true", ""), "");
  EXPECT_NE(add({0, 0, "root"}, "", "true", "").find("commands of root are off"), std::string::npos);
  // The user and target of the delivery.
  ASSERT_EQ(add(ada_.user, "https://example.org/x", "", ""), "");
  notifier_->Test(ada_.user, "x", [](const Result<wire::NotifyTestAnswer>&) {});
  ASSERT_FALSE(orders_.empty());
  EXPECT_EQ(orders_.back().run_as, "ada");
  EXPECT_EQ(orders_.back().uid, 1000);
  EXPECT_FALSE(orders_.back().may_go_inside);
  ASSERT_EQ(add(ada_.user, "https://hooks.lab/x", "", ""), "");
  notifier_->Test(ada_.user, "x", [](const Result<wire::NotifyTestAnswer>&) {});
  EXPECT_TRUE(orders_.back().may_go_inside) << "a host that is named";
}

TEST_F(NotifierTest, ARemovedReceiverGetsNoNotice) {
  AddPhone();
  const JobId job = Submit();
  Run(job);
  Turn();
  ASSERT_EQ(orders_.size(), 1U);
  ASSERT_TRUE(notifier_->Remove(ada_.user, "phone"));
  End(job);
  EXPECT_EQ(Told(), "start") << "that was under way";
  EXPECT_EQ(NoticesKept(), 0U);
  EXPECT_FALSE(notifier_->Remove(ada_.user, "phone"));
}

}  // namespace notifier_test
}  // namespace divvy
