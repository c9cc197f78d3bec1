// Checks the description of every message: all fields are described, and all of them round-trip.
#include "wire/messages/messages_describe.h"

#include <gtest/gtest.h>
#include <boost/describe/bases.hpp>
#include <boost/describe/members.hpp>
#include <boost/mp11.hpp>

#include <type_traits>
#include <utility>

#include "wire/messages/codec.h"
#include "wire/messages/messages_remote_describe.h"
#include "wire/messages/messages_reports_describe.h"
#include "wire/messages/messages_teams_describe.h"
#include "wire/messages/page_messages_describe.h"
#include "wire/messages/spec_json.h"
#include "wire/messages/submit_messages_describe.h"
#include "wire/messages/waste_messages_describe.h"

namespace divvy {
namespace messages_describe_test {

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

// Converts to any field type. An optional is built from its value type, because two conversions would be ambiguous.
struct Anything {
  template <typename T>
  requires(!IsOptional<T>::value) operator T() const;
};

template <typename T, std::size_t... I>
constexpr bool TakesFields(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), Anything{})...}; };
}

// A base class counts as one, as it does in aggregate initialisation.
template <typename T>
constexpr std::size_t kDescribed =
    boost::mp11::mp_size<boost::describe::describe_members<T, boost::describe::mod_public>>::value +
    boost::mp11::mp_size<boost::describe::describe_bases<T, boost::describe::mod_public>>::value;

/// Whether the description of T has all fields, except `kLeftOut` fields that are in no message.
template <typename T, std::size_t kLeftOut = 0>
constexpr bool IsDescribedFully() {
  constexpr std::size_t kFields = kDescribed<T> + kLeftOut;
  return TakesFields<T>(std::make_index_sequence<kFields>()) &&
         !TakesFields<T>(std::make_index_sequence<kFields + 1>());
}

struct Forgetful {
  int described = 0;
  bool forgotten = false;
};
BOOST_DESCRIBE_STRUCT(Forgetful, (), (described))
static_assert(!IsDescribedFully<Forgetful>());

#define DIVVY_DESCRIBED(T) static_assert(IsDescribedFully<T>(), "a field of " #T " is missing in messages_describe.h")
DIVVY_DESCRIBED(wire::WasteFinding);
DIVVY_DESCRIBED(wire::WastefulJob);
DIVVY_DESCRIBED(wire::WasteAnswer);
DIVVY_DESCRIBED(wire::WasteRow);
DIVVY_DESCRIBED(wire::JobWaste);
DIVVY_DESCRIBED(wire::RowJob);
DIVVY_DESCRIBED(wire::WasteReport);
DIVVY_DESCRIBED(wire::KeptWaste);
DIVVY_DESCRIBED(wire::KeptFindings);
DIVVY_DESCRIBED(wire::EfficiencyRow);
DIVVY_DESCRIBED(wire::EfficiencyReport);
DIVVY_DESCRIBED(wire::StartView);
DIVVY_DESCRIBED(wire::StartsAnswer);
DIVVY_DESCRIBED(Request);
static_assert(IsDescribedFully<Dependency, 1>(), "only the status of a dependency is in no message: it is stored");
DIVVY_DESCRIBED(ArraySpec);
DIVVY_DESCRIBED(Parameter);
DIVVY_DESCRIBED(WarnSignal);
DIVVY_DESCRIBED(Capture);
DIVVY_DESCRIBED(JobSpec);
DIVVY_DESCRIBED(User);
DIVVY_DESCRIBED(Exit);
DIVVY_DESCRIBED(wire::StatusView);
DIVVY_DESCRIBED(CapsChange);
DIVVY_DESCRIBED(TeamChange);
DIVVY_DESCRIBED(UserChange);
DIVVY_DESCRIBED(wire::TeamView);
DIVVY_DESCRIBED(wire::TeamMemberView);
DIVVY_DESCRIBED(wire::TeamsView);
DIVVY_DESCRIBED(wire::ReservationRequest);
DIVVY_DESCRIBED(wire::ReservedPlace);
DIVVY_DESCRIBED(wire::OccurrenceView);
DIVVY_DESCRIBED(wire::ReservationView);
DIVVY_DESCRIBED(wire::TokenRequest);
DIVVY_DESCRIBED(wire::TokenAnswer);
DIVVY_DESCRIBED(wire::TokenView);
DIVVY_DESCRIBED(wire::LeaderView);
DIVVY_DESCRIBED(wire::ControllerView);
DIVVY_DESCRIBED(wire::PredictionRow);
DIVVY_DESCRIBED(wire::PredictionsReport);
DIVVY_DESCRIBED(wire::SpeedRow);
DIVVY_DESCRIBED(wire::SpeedsReport);
DIVVY_DESCRIBED(wire::UsageRow);
DIVVY_DESCRIBED(wire::UsageReport);
DIVVY_DESCRIBED(wire::FairnessRow);
DIVVY_DESCRIBED(wire::FairnessReport);
DIVVY_DESCRIBED(wire::GpuProcessView);
DIVVY_DESCRIBED(wire::GpuView);
DIVVY_DESCRIBED(wire::RequestView);
DIVVY_DESCRIBED(wire::JobView);
DIVVY_DESCRIBED(wire::JobDetail);
DIVVY_DESCRIBED(wire::HolderView);
DIVVY_DESCRIBED(wire::BlockerView);
DIVVY_DESCRIBED(wire::WhyView);
DIVVY_DESCRIBED(wire::SubmitRequest);
DIVVY_DESCRIBED(wire::SubmitAnswer);
DIVVY_DESCRIBED(wire::JobSelector);
DIVVY_DESCRIBED(wire::ActionRequest);
DIVVY_DESCRIBED(wire::ActionResult);
DIVVY_DESCRIBED(wire::ActionAnswer);
DIVVY_DESCRIBED(wire::JobUpdate);
DIVVY_DESCRIBED(wire::RestrictRequest);
DIVVY_DESCRIBED(wire::RestrictAnswer);
DIVVY_DESCRIBED(wire::IgnoreRequest);
DIVVY_DESCRIBED(wire::IgnoreRule);
DIVVY_DESCRIBED(wire::IgnoreAnswer);
DIVVY_DESCRIBED(wire::GroupLimitRequest);
DIVVY_DESCRIBED(wire::WinsizeRequest);
DIVVY_DESCRIBED(wire::CheckpointRequest);
DIVVY_DESCRIBED(wire::CheckpointAnswer);
DIVVY_DESCRIBED(wire::ProgressView);
DIVVY_DESCRIBED(wire::ProgressRequest);
DIVVY_DESCRIBED(wire::ProgressAnswer);
DIVVY_DESCRIBED(wire::JobOutlook);
DIVVY_DESCRIBED(wire::WaitAnswer);
DIVVY_DESCRIBED(wire::ErrorView);
DIVVY_DESCRIBED(wire::TimelineLine);
DIVVY_DESCRIBED(wire::JobInFull);
DIVVY_DESCRIBED(wire::ListedJob);
DIVVY_DESCRIBED(wire::ForecastAnswer);
DIVVY_DESCRIBED(wire::EnvironmentView);
DIVVY_DESCRIBED(wire::ElementView);
DIVVY_DESCRIBED(wire::ElementsView);
DIVVY_DESCRIBED(wire::HistoryEvent);
DIVVY_DESCRIBED(wire::VariableView);
DIVVY_DESCRIBED(wire::AgainView);
DIVVY_DESCRIBED(wire::WordsQuestion);
DIVVY_DESCRIBED(wire::WordView);
DIVVY_DESCRIBED(wire::WordsAnswer);
DIVVY_DESCRIBED(wire::ScriptQuestion);
DIVVY_DESCRIBED(wire::ScriptAnswer);
DIVVY_DESCRIBED(wire::ValohaiQuestion);
DIVVY_DESCRIBED(wire::ValohaiProblemView);
DIVVY_DESCRIBED(wire::ValohaiParameterView);
DIVVY_DESCRIBED(wire::ValohaiInputView);
DIVVY_DESCRIBED(wire::ValohaiVariableView);
DIVVY_DESCRIBED(wire::ValohaiStepView);
DIVVY_DESCRIBED(wire::ValohaiAnswer);
DIVVY_DESCRIBED(wire::SharesRow);
DIVVY_DESCRIBED(wire::SharesReport);
DIVVY_DESCRIBED(wire::ChangeEvent);
#undef DIVVY_DESCRIBED

JobSpec SpecWithEverything() {
  JobSpec spec;
  spec.command = {"python", "train.py", "a b"};
  spec.arguments = {"--lr"};
  spec.name = "train";
  spec.request = {.gpus = 2,
                  .gpu_type = "h100&80gb",
                  .gpu_memory = 40_GiB,
                  .cpus = 8,
                  .memory = 64_GiB,
                  .tasks = 2,
                  .max_gpus = 8,
                  .topology = TopologyNeed::kNvlink,
                  .requires_topology = true};
  spec.placement = PlacementStrategy::kBest;
  spec.team = "vision";
  spec.preemptible = Preemptible::kRequeue;
  spec.is_preemptible_set = true;
  spec.is_placement_set = true;
  spec.priority = -3;
  spec.is_held = true;
  spec.begin = TimeFromSeconds(1'790'000'000);
  spec.time_limit = 90min;
  spec.warn = {.signal = 10, .before = 60s, .batch_only = true};
  spec.stop_signal = 2;
  spec.resize_signal = 12;
  spec.grace = 5s;
  spec.dependencies = {{DependencyKind::kAfterNotOk, JobId(12), 3, 0s}, {DependencyKind::kSingleton, JobId(), {}, 0s}};
  spec.needs_any_dependency = true;
  spec.array = ArraySpec{IndexRanges(0, 99), 8};
  spec.parameters = {{"lr", {"1e-3", "1e-4"}, -1}, {"seed", {"0", "1"}, 2}};
  spec.retries = 3;
  spec.retry_delay = 1500ms;
  spec.directory = "/home/ada";
  spec.capture = {{"HOME=/home/ada", "PATH=/bin"}, {{"nofile", -1}}, 077};
  spec.dialect = Dialect::kSlurm;
  spec.labels = {{"slurm.qos", "normal"}};
  spec.notes = {"--mail-type does not apply on one server"};
  spec.queues_anyway = true;
  return spec;
}

TEST(SpecJson, IsReadBackUnchanged) {
  const JobSpec spec = SpecWithEverything();
  const auto back = SpecFromJson(SpecToJson(spec, true));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, spec);
}

TEST(SpecJson, OmitsTheCaptureAndDefaults) {
  JobSpec spec = SpecWithEverything();
  const std::string text = SpecToJson(spec, false);
  EXPECT_EQ(text.find("HOME="), std::string::npos) << text;
  const auto back = SpecFromJson(text);
  ASSERT_TRUE(back) << back.error().message;
  spec.capture = Capture();
  EXPECT_EQ(*back, spec);
  EXPECT_EQ(SpecToJson(JobSpec(), true), "{}");
}

TEST(SpecJson, AnInvalidFieldIsNamed) {
  const auto back = SpecFromJson(R"({"request":{"gpus":"two"}})");
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(back.error().message.find("request.gpus"), std::string::npos) << back.error().message;
}

TEST(SpecJson, CaptureIsReadBack) {
  const Capture capture = SpecWithEverything().capture;
  const auto back = CaptureFromJson(CaptureToJson(capture));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, capture);
}

TEST(Codec, AnswersContainEveryFieldAndRequestsOnlyChanges) {
  wire::JobSelector selector;
  selector.ids = {"17_[1-3]"};
  EXPECT_EQ(wire::EncodeChanged(selector), R"({"ids":["17_[1-3]"]})");
  EXPECT_NE(wire::Encode(selector).find(R"("includes_final":false)"), std::string::npos);
  const auto back = wire::Decode<wire::JobSelector>(wire::EncodeChanged(selector));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->ids, selector.ids);
}

TEST(Codec, ListsOfJobsAreReadBack) {
  wire::JobView job;
  job.id = JobId(17);
  job.start_time = 1'790'000'000.125;
  job.gpus = {0, 3};
  const auto back = wire::Decode<std::vector<wire::JobView>>(wire::Encode(std::vector<wire::JobView>{job, {}}));
  ASSERT_TRUE(back) << back.error().message;
  ASSERT_EQ(back->size(), 2u);
  EXPECT_EQ(back->front().id, JobId(17));
  EXPECT_EQ(back->front().start_time, job.start_time);
  EXPECT_EQ(back->front().gpus, job.gpus);
  EXPECT_FALSE(back->back().start_time);
}

}  // namespace messages_describe_test
}  // namespace divvy
