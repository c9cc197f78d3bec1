#include "daemon/notify/notify_registry.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace divvy {
namespace notify_registry_test {

class NotifyRegistryTest : public testing::Test {
 protected:
  static Receiver Webhook(const std::string& name, const std::string& events) {
    Receiver receiver;
    receiver.name = name;
    receiver.events = ParseNotifyEvents(events, true).value();
    receiver.target = "https://hooks.example.org/" + name;
    return receiver;
  }
  static JobRecord Job(std::uint64_t id = 17) {
    JobRecord record;
    record.id = record.spec_of = JobId(id);
    record.user = {1000, 1000, "ada"};
    return record;
  }
  static JobSpec Spec(std::map<std::string, std::string> labels) {
    JobSpec spec;
    spec.labels = std::move(labels);
    return spec;
  }
  std::string For(NotifyEvent event, const JobRecord& record) const { return Join(registry_.For(event, record), " "); }

  User ada_{1000, 1000, "ada"};
  NotifyRegistry registry_{NotifySettings()};
};

TEST_F(NotifyRegistryTest, AUsersReceiversGetNoticesOfTheirOwnJobsOnly) {
  ASSERT_TRUE(registry_.Add(ada_, Webhook("phone", "end,waste")));
  EXPECT_EQ(For(NotifyEvent::kEnd, Job()), "user/1000/phone");
  EXPECT_EQ(For(NotifyEvent::kFail, Job()), "user/1000/phone") << "a failure is an end";
  EXPECT_EQ(For(NotifyEvent::kStart, Job()), "");
  JobRecord other = Job();
  other.user = {1001, 1001, "grace"};
  EXPECT_EQ(For(NotifyEvent::kEnd, other), "");
  EXPECT_FALSE(registry_.HasAnybodyFor(other));
  ASSERT_TRUE(registry_.Remove(ada_, "phone"));
  EXPECT_FALSE(registry_.HasAnybodyFor(Job()));
  EXPECT_FALSE(registry_.Remove(ada_, "phone"));
}

TEST_F(NotifyRegistryTest, AJobsOwnSettingsOverrideTheReceivers) {
  ASSERT_TRUE(registry_.Add(ada_, Webhook("phone", "end")));
  ASSERT_TRUE(registry_.Add(ada_, Webhook("chat", "fail")));
  registry_.SetWish(JobId(17), WishOf(Spec({{"notify", "start"}})));
  EXPECT_EQ(For(NotifyEvent::kStart, Job()), "user/1000/chat user/1000/phone");
  EXPECT_EQ(For(NotifyEvent::kEnd, Job()), "");
  registry_.SetWish(JobId(17), WishOf(Spec({{"notify", "end"}, {"notify-to", "chat,grace@example.org"}})));
  EXPECT_EQ(For(NotifyEvent::kFail, Job()), "user/1000/chat mail/1000/grace@example.org");
  registry_.SetWish(JobId(17), WishOf(Spec({{"notify", "none"}})));
  EXPECT_EQ(For(NotifyEvent::kFail, Job()), "");
  EXPECT_EQ(For(NotifyEvent::kFail, Job(18)), "user/1000/chat user/1000/phone") << "others are as they were";
}

TEST_F(NotifyRegistryTest, ASettingWithoutEffectIsNoted) {
  const auto nobody = [](const std::string&) { return false; };
  JobSpec spec = Spec({{"on-waste", "park"}});
  spec.request.gpus = 1;
  ASSERT_EQ(registry_.NotesOn(spec, ada_, nobody).size(), 1U);
  EXPECT_TRUE(registry_.NotesOn(spec, ada_, nobody)[0].starts_with("--on-waste park: only jobs with a GPU fraction"));
  spec.request.portion.request = GpuShare(2'500);
  EXPECT_TRUE(registry_.NotesOn(spec, ada_, nobody).empty()) << "a part of a GPU is parked";
  spec = Spec({{"on-waste", "stop"}});
  spec.request.gpus = 1;
  EXPECT_TRUE(registry_.NotesOn(spec, ada_, nobody).empty());
}

TEST_F(NotifyRegistryTest, UnknownReceiverNamesAreNoted) {
  ASSERT_TRUE(registry_.Add(ada_, Webhook("phone", "end")));
  const auto has_account = [](const std::string& name) { return name == "grace"; };
  const auto notes = [&](std::map<std::string, std::string> labels, const User& owner) {
    return Join(registry_.NotesOn(Spec(std::move(labels)), owner, has_account), "; ");
  };
  EXPECT_EQ(notes({{"notify", "end"}, {"notify-to", "phone,grace,x@y.org"}}, ada_), "");
  EXPECT_EQ(notes({{"notify", "end"}, {"notify-to", "phone,phne"}}, ada_),
            "mail to phne: no receiver of yours has this name (divvy notify list), and there is no such user here");
  EXPECT_TRUE(notes({{"notify", "end"}, {"notify-to", "phone"}}, {1001, 1001, "grace"}).starts_with("mail to phone: "))
      << "it is another's receiver";
  EXPECT_EQ(notes({{"slurm.mail-type", "END"}, {"slurm.mail-user", "grace,nobdy"}}, ada_),
            "mail to nobdy: there is no such user here");
  EXPECT_EQ(notes({{"notify", "end"}}, ada_), "");
}

TEST_F(NotifyRegistryTest, MailWithoutSendmailIsNoted) {
  const auto has_account = [](const std::string&) { return true; };
  const auto notes = [&](std::map<std::string, std::string> labels) {
    return Join(registry_.NotesOn(Spec(std::move(labels)), ada_, has_account, false), "; ");
  };
  const std::string note =
      "mail about this job cannot be sent now: the controller has no /usr/sbin/sendmail (sendmail in [notify] of "
      "divvy.toml)";
  EXPECT_EQ(notes({{"slurm.mail-type", "END"}}), note);
  EXPECT_EQ(notes({{"slurm.mail-type", "NONE"}}), "");
  EXPECT_EQ(notes({{"notify", "end"}}), note) << "a user without a receiver gets mail";
  ASSERT_TRUE(registry_.Add(ada_, Webhook("phone", "end")));
  EXPECT_EQ(notes({{"notify", "end"}}), "");
  EXPECT_EQ(notes({{"notify", "end"}, {"notify-to", "phone"}}), "");
  EXPECT_EQ(notes({{"notify", "end"}, {"notify-to", "x@y.org"}}), note);
}

TEST_F(NotifyRegistryTest, AUserWithoutAReceiverGetsMail) {
  registry_.SetWish(JobId(17), WishOf(Spec({{"notify", "end"}})));
  EXPECT_EQ(For(NotifyEvent::kEnd, Job()), "mail/1000/ada");
  const auto known = registry_.Find("mail/1000/ada");
  ASSERT_TRUE(known);
  EXPECT_EQ(known->receiver.channel, NotifyChannel::kMail);
  EXPECT_EQ(known->receiver.target, "ada");
}

TEST_F(NotifyRegistryTest, ReadsSlurmsMailTypes) {
  registry_.SetWish(JobId(17),
                    WishOf(Spec({{"slurm.mail-type", "BEGIN,fail"}, {"slurm.mail-user", "a@b.org,c@d.org"}})));
  EXPECT_EQ(For(NotifyEvent::kStart, Job()), "mail/1000/a@b.org mail/1000/c@d.org");
  EXPECT_EQ(For(NotifyEvent::kFail, Job()), "mail/1000/a@b.org mail/1000/c@d.org");
  EXPECT_EQ(For(NotifyEvent::kEnd, Job()), "");
  registry_.SetWish(JobId(17), WishOf(Spec({{"slurm.mail-type", "ALL"}})));
  EXPECT_EQ(For(NotifyEvent::kRequeue, Job()), "mail/1000/ada");
  EXPECT_EQ(For(NotifyEvent::kWaste, Job()), "") << "which Slurm has not";
  registry_.SetWish(JobId(17), WishOf(Spec({{"slurm.mail-type", "NONE"}})));
  EXPECT_EQ(For(NotifyEvent::kEnd, Job()), "");
}

TEST_F(NotifyRegistryTest, ReadsGflowsNotifySettings) {
  registry_.SetWish(JobId(17), WishOf(Spec({{"gflow.notify_email", "a@b.org"}, {"gflow.notify_on", "job_failed"}})));
  EXPECT_EQ(For(NotifyEvent::kFail, Job()), "mail/1000/a@b.org");
  EXPECT_EQ(For(NotifyEvent::kEnd, Job()), "");
}

TEST_F(NotifyRegistryTest, AnArrayIsReportedAsAWhole) {
  ASSERT_TRUE(registry_.Add(ada_, Webhook("phone", "all")));
  JobRecord array = Job(20);
  array.array_count = 100;
  JobRecord element = Job(21);
  element.spec_of = element.array = JobId(20);
  EXPECT_EQ(For(NotifyEvent::kEnd, array), "user/1000/phone");
  EXPECT_EQ(For(NotifyEvent::kEnd, element), "");
  EXPECT_EQ(For(NotifyEvent::kWaste, element), "user/1000/phone") << "what an element wastes is its own";
  registry_.SetWish(JobId(20), WishOf(Spec({{"notify", "end,elements"}})));
  EXPECT_EQ(For(NotifyEvent::kEnd, array), "");
  EXPECT_EQ(For(NotifyEvent::kEnd, element), "user/1000/phone");
}

TEST_F(NotifyRegistryTest, AdministratorReceiversAreFilteredByTeam) {
  NotifySettings settings;
  settings.receivers = {Webhook("ops", "fail,gpu_fenced"), Webhook("vision", "fail")};
  settings.receivers[1].teams = {"vision"};
  const NotifyRegistry registry(settings);
  EXPECT_EQ(Join(registry.For(NotifyEvent::kFail, Job()), " "), "admin/ops");
  JobRecord of_team = Job();
  of_team.team = "vision";
  EXPECT_EQ(Join(registry.For(NotifyEvent::kFail, of_team), " "), "admin/ops admin/vision");
  EXPECT_EQ(Join(registry.For(NotifyEvent::kGpuFenced), " "), "admin/ops");
  EXPECT_EQ(Join(registry.For(NotifyEvent::kGpuUnmanaged), " "), "");
  settings.is_on = false;
  EXPECT_TRUE(NotifyRegistry(settings).For(NotifyEvent::kFail, Job()).empty());
}

TEST_F(NotifyRegistryTest, IsRestoredFromTheStore) {
  Receiver receiver = Webhook("phone", "start,end");
  receiver.secret = "whsec_c2VjcmV0IG9mIDMyIGJ5dGVzIGluIGJhc2U2NA==";
  std::vector<NotifyRegistry::Setting> rows = {registry_.Add(ada_, receiver).value()};
  rows.push_back(
      registry_.SetWish(JobId(17), WishOf(Spec({{"notify", "fail"}, {"notify-to", "phone"}, {"on-waste", "stop"}})))
          .value());
  NotifyRegistry next{NotifySettings()};
  for (const auto& [key, text] : rows) EXPECT_TRUE(next.LoadSetting(key, text)) << key;
  const auto known = next.Find("user/1000/phone");
  ASSERT_TRUE(known);
  EXPECT_EQ(known->receiver, receiver);
  EXPECT_EQ(known->owner, ada_);
  EXPECT_EQ(*next.WishOf(Job()), *registry_.WishOf(Job()));
  EXPECT_EQ(next.OnWasteOf(Job()), WasteAction::kStop);
  EXPECT_EQ(next.SetWish(JobId(17), JobWish()), (NotifyRegistry::Setting{rows[1].first, ""}));
  EXPECT_FALSE(next.LoadSetting("token.4f1c22aa", "x"));
}

TEST_F(NotifyRegistryTest, ReplacingAReceiverNeedsAnOption) {
  ASSERT_TRUE(registry_.Add(ada_, Webhook("phone", "end")));
  const auto again = registry_.Add(ada_, Webhook("phone", "start"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kAlreadyExists);
  EXPECT_NE(again.error().message.find("you have a receiver phone already (webhook http"), std::string::npos);
  EXPECT_NE(again.error().message.find("divvy notify add --replace"), std::string::npos);
  EXPECT_EQ(For(NotifyEvent::kStart, Job()), "") << "it is as it was";
  ASSERT_TRUE(registry_.Add(ada_, Webhook("phone", "start"), true));
  EXPECT_EQ(For(NotifyEvent::kStart, Job()), "user/1000/phone");
  EXPECT_TRUE(registry_.Add({1001, 1001, "grace"}, Webhook("phone", "end"))) << "another's";
  EXPECT_TRUE(registry_.Add(ada_, Webhook("new", "end"), true));
}

TEST_F(NotifyRegistryTest, InvalidReceiversAreRefused) {
  const auto error = [&](auto change) {
    Receiver receiver = Webhook("phone", "end");
    change(receiver);
    const auto added = registry_.Add(ada_, receiver);
    return added ? std::string("taken") : added.error().message;
  };
  EXPECT_NE(error([](Receiver& r) { r.name = "a/b"; }).find("is not a valid receiver name"), std::string::npos);
  EXPECT_NE(error([](Receiver& r) { r.target = "ftp://x"; }).find("is a URL"), std::string::npos);
  EXPECT_NE(error([](Receiver& r) { r.target = "http://x/\r\nHost: y"; }).find("is a URL"), std::string::npos);
  for (const std::string url : {"http://", "https:///x", "http://:80/x", "http://ada@/x", "http://?x"})
    EXPECT_NE(error([&](Receiver& r) { r.target = url; }).find("has no host"), std::string::npos) << url;
  EXPECT_NE(error([](Receiver& r) { r.secret = "short"; }).find("fewer than"), std::string::npos);
  EXPECT_NE(error([](Receiver& r) {
              r.channel = NotifyChannel::kMail;
              r.target = "-oQ/tmp@x";
            }).find("is not a mail address"),
            std::string::npos);
  for (std::size_t i = 0; i < NotifyRegistry::kMostOfAUser; ++i)
    EXPECT_TRUE(registry_.Add(ada_, Webhook("n" + std::to_string(i), "end")));
  EXPECT_NE(error([](Receiver&) {}).find("receivers, which is the limit"), std::string::npos);
}

TEST(NotifyEvents, AreReadAndWritten) {
  EXPECT_EQ(ToText(ParseNotifyEvents("waste, start", false).value()), "start,waste");
  EXPECT_EQ(ToText(ParseNotifyEvents("none", false).value()), "none");
  EXPECT_EQ(ToText(ParseNotifyEvents("all", false).value()), "start,end,requeue,waste");
  EXPECT_FALSE(ParseNotifyEvents("gpu_fenced", false)) << "which is for administrators";
  EXPECT_TRUE(ParseNotifyEvents("gpu_fenced", true));
  EXPECT_FALSE(ParseNotifyEvents("end,none", false));
  EXPECT_FALSE(ParseNotifyEvents("", false));
}

TEST(ShownTarget, HidesPossibleSecrets) {
  EXPECT_EQ(ShownTarget(NotifyChannel::kWebhook, "https://ada:pw@hooks.example.org:8443/T0/B1?x=2"),
            "https://hooks.example.org:8443/...");
  EXPECT_EQ(ShownTarget(NotifyChannel::kWebhook, "http://h#secret"), "http://h/...");
  EXPECT_EQ(ShownTarget(NotifyChannel::kCommand, "curl -H token"), "curl ...");
  EXPECT_EQ(ShownTarget(NotifyChannel::kMail, "a@b"), "a@b");
}

}  // namespace notify_registry_test
}  // namespace divvy
