#include "wire/messages/agent_messages.h"
#include "wire/messages/agent_codec.h"

#include <gtest/gtest.h>

#include <boost/describe/members.hpp>
#include <boost/mp11.hpp>
#include <type_traits>
#include <utility>

#include "wire/messages/agent_messages_describe.h"

namespace divvy {
namespace agent_messages_test {

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

// As in messages_describe_test.cc: checks that the description has every field of its struct.
struct Anything {
  template <typename T>
  requires(!IsOptional<T>::value) operator T() const;
};

template <typename T, std::size_t... I>
constexpr bool TakesFields(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), Anything{})...}; };
}

template <typename T>
constexpr bool IsDescribedFully() {
  constexpr std::size_t kDescribed =
      boost::mp11::mp_size<boost::describe::describe_members<T, boost::describe::mod_public>>::value;
  return TakesFields<T>(std::make_index_sequence<kDescribed>()) &&
         !TakesFields<T>(std::make_index_sequence<kDescribed + 1>());
}

static_assert(IsDescribedFully<wire::RecordMessage>());
static_assert(IsDescribedFully<GpuFacts>());
static_assert(IsDescribedFully<GpuProcess>());
static_assert(IsDescribedFully<GpuObservation>());
static_assert(IsDescribedFully<MachineFacts>());
static_assert(IsDescribedFully<wire::AgentHello>());
static_assert(IsDescribedFully<wire::AgentRun>());
static_assert(IsDescribedFully<wire::AgentWelcome>());
static_assert(IsDescribedFully<wire::AgentCommand>());
static_assert(IsDescribedFully<wire::AgentReport>());
static_assert(IsDescribedFully<wire::ExitedMessage>());
static_assert(IsDescribedFully<wire::LaunchMessage>());
static_assert(IsDescribedFully<wire::GoMessage>());
static_assert(IsDescribedFully<wire::DisplaceMessage>());
static_assert(IsDescribedFully<wire::PresenceMessage>());
static_assert(IsDescribedFully<wire::PreparedMessage>());
static_assert(IsDescribedFully<AllocationAddress>());

JobRecord Record() {
  JobRecord record;
  record.id = JobId(17);
  record.spec_of = JobId(12);
  record.state = JobState::kPaused;
  record.user = {1000, 1000, "ada"};
  record.name = "train";
  record.request.gpus = 2;
  record.request.memory = Bytes(1 << 30);
  record.submitted = Time(std::chrono::seconds(1'790'000'000));
  record.started = Time(std::chrono::seconds(1'790'000'100));
  record.time_limit = std::chrono::hours(2);
  record.gpus = GpuSet::Of({1, 3});
  record.gpus_used = GpuSet::Of({1});
  record.attempt = 4;
  record.stop_intent = StopIntent::kRequeue;
  record.dialect = Dialect::kSlurm;
  record.array = JobId(12);
  record.array_index = 5;
  record.array_ordinal = 4;
  return record;
}

JobRecord GangRecord() {
  JobRecord record = Record();
  record.node = "n1";
  record.pool = "long";
  record.request.nodes = 2;
  record.request.constraint = "ib&nvme";
  record.request.node_list = {"n1", "n2"};
  record.gang = {{"n1", GpuSet::Of({1, 3}), 2, 40000, {}}, {"", GpuSet::Of({0, 1}), 3, 0, Exit{.code = 7}}};
  record.was_let_go = true;
  return record;
}

TEST(AgentMessages, ARunIsReadBackUnchanged) {
  wire::AgentWelcome welcome;
  welcome.version = 1;
  welcome.epoch = 7;
  welcome.lease = std::chrono::seconds(90);
  welcome.stops_when_lost = true;
  wire::AgentRun run;
  run.record = Record();
  run.stop_signal = 2;
  run.grace = std::chrono::seconds(5);
  welcome.runs.push_back(run);
  welcome.controllers = {"a.lab:7433", "b.lab:7433"};
  const auto back = wire::DecodeAgent<wire::AgentWelcome>(wire::EncodeAgent(welcome));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->epoch, 7u);
  EXPECT_EQ(back->lease, welcome.lease);
  EXPECT_TRUE(back->stops_when_lost);
  ASSERT_EQ(back->runs.size(), 1u);
  EXPECT_EQ(back->runs[0].record, Record());
  EXPECT_EQ(back->runs[0].stop_signal, 2);
  EXPECT_EQ(back->runs[0].grace, run.grace);
  EXPECT_EQ(back->controllers, welcome.controllers);
}

TEST(AgentMessages, ADisplacementAndItsResultArriveAsTheyWereSent) {
  wire::AgentCommand command;
  command.displace = wire::DisplaceMessage{JobId(7), 2, false, GpuSet::Of({1, 3})};
  const auto there = wire::DecodeAgent<wire::AgentCommand>(wire::EncodeAgent(command));
  ASSERT_TRUE(there && there->displace);
  EXPECT_EQ(there->displace->attempt, 2U);
  EXPECT_FALSE(there->displace->is_displaced);
  EXPECT_EQ(there->displace->gpus, GpuSet::Of({1, 3}));
  wire::AgentReport report;
  report.presence = wire::PresenceMessage{JobId(7), 2, 3, GpuSet::Of({1, 3}), true, "it uses NCCL"};
  const auto back = wire::DecodeAgent<wire::AgentReport>(wire::EncodeAgent(report));
  ASSERT_TRUE(back && back->presence);
  EXPECT_EQ(back->presence->presence, 3);
  EXPECT_EQ(back->presence->gpus, GpuSet::Of({1, 3}));
  EXPECT_TRUE(back->presence->can_park);
  EXPECT_EQ(back->presence->why, "it uses NCCL");
}

TEST(AgentMessages, ALaunchContainsTheWholeJob) {
  wire::AgentCommand command;
  command.epoch = 3;
  command.launch.emplace();
  command.launch->is_parkable = true;
  command.launch->record = Record();
  command.launch->spec.command = {"python", "train.py"};
  command.launch->spec.capture.environment = {"A=1", "B=two words"};
  const auto back = wire::DecodeAgent<wire::AgentCommand>(wire::EncodeAgent(command));
  ASSERT_TRUE(back) << back.error().message;
  ASSERT_TRUE(back->launch);
  EXPECT_FALSE(back->stop);
  EXPECT_TRUE(back->launch->is_parkable);
  EXPECT_EQ(back->launch->record, Record());
  EXPECT_EQ(back->launch->spec, command.launch->spec);
}

TEST(AgentMessages, AGangLaunchContainsAllNodes) {
  wire::AgentCommand command;
  command.launch.emplace();
  command.launch->record = GangRecord();
  command.launch->spec.script = "srun train";
  command.launch->seat = 1;
  command.launch->gang_key = "00ff";
  auto back = wire::DecodeAgent<wire::AgentCommand>(wire::EncodeAgent(command));
  ASSERT_TRUE(back && back->launch) << back.error().message;
  EXPECT_EQ(back->launch->record, GangRecord());
  EXPECT_EQ(back->launch->seat, 1u);
  EXPECT_EQ(back->launch->gang_key, "00ff");

  command = {};
  command.go = wire::GoMessage{JobId(17), 4, {{"10.0.0.1", 40000}, {"fe80::1", 65535}}};
  back = wire::DecodeAgent<wire::AgentCommand>(wire::EncodeAgent(command));
  ASSERT_TRUE(back && back->go) << back.error().message;
  EXPECT_FALSE(back->launch);
  EXPECT_EQ(back->go->job, JobId(17));
  EXPECT_EQ(back->go->attempt, 4u);
  EXPECT_EQ(back->go->addresses, command.go->addresses);
}

TEST(AgentMessages, ReportsAreReadBackUnchanged) {
  wire::AgentReport report;
  report.prepared = wire::PreparedMessage{JobId(17), 4, 50123};
  const auto prepared = wire::DecodeAgent<wire::AgentReport>(wire::EncodeAgent(report));
  ASSERT_TRUE(prepared && prepared->prepared);
  EXPECT_EQ(prepared->prepared->job, JobId(17));
  EXPECT_EQ(prepared->prepared->attempt, 4u);
  EXPECT_EQ(prepared->prepared->port, 50123);

  report = {};
  report.exited = wire::ExitedMessage{JobId(9), 2, {}, Time(std::chrono::seconds(1'790'000'000))};
  report.exited->exit.code = 137;
  report.exited->exit.signal = 9;
  report.exited->exit.was_oom_killed = true;
  auto back = wire::DecodeAgent<wire::AgentReport>(wire::EncodeAgent(report));
  ASSERT_TRUE(back && back->exited);
  EXPECT_EQ(back->exited->exit, report.exited->exit);
  EXPECT_EQ(back->exited->at, report.exited->at);

  report = {};
  report.gpus.emplace();
  GpuObservation seen;
  seen.index = 3;
  seen.is_present = false;
  seen.fault = "XID 79";
  seen.processes.push_back({{42, 1234}, 1000, "bob", "python", Bytes(5), kNoTime, false, 0});
  report.gpus->gpus = {seen};
  back = wire::DecodeAgent<wire::AgentReport>(wire::EncodeAgent(report));
  ASSERT_TRUE(back && back->gpus);
  EXPECT_EQ(back->gpus->gpus, report.gpus->gpus);
}

TEST(AgentMessages, TheNewestCommonVersionIsChosen) {
  EXPECT_EQ(*wire::ChooseAgentVersion({99, wire::kAgentVersion, 0}), wire::kAgentVersion);
  const auto none = wire::ChooseAgentVersion({98, 99});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message,
            "the agent uses protocol version 98, 99, this controller 1 to 1; bring both to releases at most one "
            "apart");
  EXPECT_FALSE(wire::ChooseAgentVersion({}));
}

TEST(AgentMessages, ErrorsNameThePlace) {
  const auto hello = wire::DecodeAgent<wire::AgentHello>(R"({"facts":{"gpus":[{"index":"x"}]}})");
  ASSERT_FALSE(hello);
  EXPECT_EQ(hello.error().message, "facts.gpus[0].index: expected a number, got a string");
}

TEST(AgentMessages, QuestionsAndAnswersKeepTheirNumbersAndBytes) {
  wire::NumberedQuestion ask{7, {}};
  ask.question.record.id = JobId(5);
  ask.question.output = "out-%j";
  ask.question.at = 300'000;
  const auto asked = wire::DecodeAsk(wire::EncodeAsk(ask));
  ASSERT_TRUE(asked) << asked.error().message;
  EXPECT_EQ(asked->number, 7u);
  EXPECT_EQ(asked->question.record.id, JobId(5));
  EXPECT_EQ(asked->question.output, "out-%j");
  EXPECT_EQ(asked->question.at, 300'000);
  wire::NumberedAnswer answer{8, {"/logs/5.log", 12, 40, 0, true}, std::string("\0\xff{}", 4)};
  const auto answered = wire::DecodeAnswer(wire::EncodeAnswer(answer));
  ASSERT_TRUE(answered) << answered.error().message;
  EXPECT_EQ(answered->number, 8u);
  EXPECT_EQ(answered->answer.path, "/logs/5.log");
  EXPECT_TRUE(answered->answer.is_running);
  EXPECT_EQ(answered->bytes, answer.bytes);
  for (const std::string& broken : {std::string(), std::string(8, '\0'), std::string(16, '\xff') + "{}"}) {
    EXPECT_FALSE(wire::DecodeAsk(broken));
    EXPECT_FALSE(wire::DecodeAnswer(broken));
  }
}

}  // namespace agent_messages_test
}  // namespace divvy
