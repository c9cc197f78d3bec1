#include "wire/messages/codec.h"

#include "wire/json/json.h"
#include "wire/messages/messages_describe.h"
#include "wire/messages/messages_nodes_describe.h"
#include "wire/messages/messages_remote_describe.h"
#include "wire/messages/messages_reports_describe.h"
#include "wire/messages/messages_teams_describe.h"
#include "wire/messages/notify_messages_describe.h"
#include "wire/messages/page_messages_describe.h"
#include "wire/messages/provider_messages_describe.h"
#include "wire/messages/series_messages.h"
#include "wire/messages/series_messages_describe.h"
#include "wire/messages/submit_messages_describe.h"
#include "wire/messages/sweep_messages_describe.h"
#include "wire/messages/ui_messages_describe.h"
#include "wire/messages/waste_messages_describe.h"
#include "wire/services/service_messages_describe.h"

namespace divvy::wire {
namespace {

/// The daemon reads untrusted text, so its memory is limited: 32 bytes per value. A request names jobs, or words of a
/// command, as many as fit on a command line (2 MiB with 8 bytes for each word's pointer). A sweep may have 100,000
/// values in each of ten columns. Lists of jobs are the daemon's own answers and as long as the queue: 100,000 jobs are
/// 60 MB and more values than a request may have.
template <typename Message>
constexpr JsonLimits kLimitsOf = {std::size_t{32} << 20, 32, std::size_t{1} << 18};
constexpr JsonLimits kLimitsOfSweeps = {std::size_t{32} << 20, 32, std::size_t{1} << 20};
template <>
constexpr JsonLimits kLimitsOf<SubmitRequest> = kLimitsOfSweeps;
template <>
constexpr JsonLimits kLimitsOf<JobSpec> = kLimitsOfSweeps;
template <>
constexpr JsonLimits kLimitsOf<WordsQuestion> = kLimitsOfSweeps;
template <>
constexpr JsonLimits kLimitsOf<AgainView> = kLimitsOfSweeps;
constexpr JsonLimits kLimitsOfLists = {std::size_t{4} << 30, 32, std::size_t{1} << 30};
template <>
constexpr JsonLimits kLimitsOf<std::vector<JobView>> = kLimitsOfLists;
template <>
constexpr JsonLimits kLimitsOf<JobDetail> = kLimitsOfLists;
template <>
constexpr JsonLimits kLimitsOf<JobInFull> = kLimitsOfLists;
template <>
constexpr JsonLimits kLimitsOf<ForecastAnswer> = kLimitsOfLists;
template <>
constexpr JsonLimits kLimitsOf<std::vector<StepView>> = kLimitsOfLists;
template <>
constexpr JsonLimits kLimitsOf<ActionAnswer> = kLimitsOfLists;
template <>
constexpr JsonLimits kLimitsOf<SeriesAnswer> = kLimitsOfLists;
template <>
constexpr JsonLimits kLimitsOf<WasteAnswer> = kLimitsOfLists;
template <>
constexpr JsonLimits kLimitsOf<StartsAnswer> = kLimitsOfLists;
template <>
constexpr JsonLimits kLimitsOf<SweepDetail> = kLimitsOfLists;
template <>
constexpr JsonLimits kLimitsOf<SharesReport> = kLimitsOfLists;
template <>
constexpr JsonLimits kLimitsOf<WasteReport> = kLimitsOfLists;

}  // namespace

template <typename Message>
std::string Encode(const Message& message) {
  return ToJson(message, Fields::kAll);
}

template <typename Message>
std::string EncodeChanged(const Message& message) {
  return ToJson(message, Fields::kChanged);
}

template <typename Message>
Result<Message> Decode(std::string_view text, std::vector<std::string>* notes) {
  return FromJson<Message>(text, Unknown::kIgnore, kLimitsOf<Message>, notes);
}

template <typename Message>
Result<Message> Decode(std::string_view text) {
  return Decode<Message>(text, nullptr);
}

template <typename Message>
const JsonType& TypeOf() {
  return kJsonType<Message>;
}

#define DIVVY_MESSAGE(...)                                                                       \
  template std::string Encode(const __VA_ARGS__& message);                                       \
  template std::string EncodeChanged(const __VA_ARGS__& message);                                \
  template Result<__VA_ARGS__> Decode<__VA_ARGS__>(std::string_view);                            \
  template Result<__VA_ARGS__> Decode<__VA_ARGS__>(std::string_view, std::vector<std::string>*); \
  template const JsonType& TypeOf<__VA_ARGS__>();

DIVVY_MESSAGE(StatusView)
DIVVY_MESSAGE(std::vector<SweepView>)
DIVVY_MESSAGE(SweepDetail)
DIVVY_MESSAGE(SweepTell)
DIVVY_MESSAGE(SweepTold)
DIVVY_MESSAGE(GpuProcessView)
DIVVY_MESSAGE(GpuView)
DIVVY_MESSAGE(RequestView)
DIVVY_MESSAGE(JobView)
DIVVY_MESSAGE(JobDetail)
DIVVY_MESSAGE(BlockerView)
DIVVY_MESSAGE(WhyView)
DIVVY_MESSAGE(SubmitRequest)
DIVVY_MESSAGE(SubmitAnswer)
DIVVY_MESSAGE(JobSelector)
DIVVY_MESSAGE(ActionRequest)
DIVVY_MESSAGE(PortionRequest)
DIVVY_MESSAGE(ActionResult)
DIVVY_MESSAGE(ActionAnswer)
DIVVY_MESSAGE(JobUpdate)
DIVVY_MESSAGE(RestrictRequest)
DIVVY_MESSAGE(RestrictAnswer)
DIVVY_MESSAGE(IgnoreRequest)
DIVVY_MESSAGE(IgnoreRule)
DIVVY_MESSAGE(IgnoreAnswer)
DIVVY_MESSAGE(GroupLimitRequest)
DIVVY_MESSAGE(WinsizeRequest)
DIVVY_MESSAGE(CheckpointRequest)
DIVVY_MESSAGE(CheckpointAnswer)
DIVVY_MESSAGE(ProgressRequest)
DIVVY_MESSAGE(ProgressAnswer)
DIVVY_MESSAGE(WaitAnswer)
DIVVY_MESSAGE(ErrorView)
DIVVY_MESSAGE(ChangeEvent)
DIVVY_MESSAGE(std::vector<GpuView>)
DIVVY_MESSAGE(std::vector<JobView>)
DIVVY_MESSAGE(std::vector<StepView>)
DIVVY_MESSAGE(JobSpec)
DIVVY_MESSAGE(TeamChange)
DIVVY_MESSAGE(UserChange)
DIVVY_MESSAGE(TeamView)
DIVVY_MESSAGE(TeamsView)
DIVVY_MESSAGE(TeamName)
DIVVY_MESSAGE(QuotasRequest)
DIVVY_MESSAGE(MessageAnswer)
DIVVY_MESSAGE(ReservationRequest)
DIVVY_MESSAGE(ReservationView)
DIVVY_MESSAGE(std::vector<ReservationView>)
DIVVY_MESSAGE(ReservationName)
DIVVY_MESSAGE(TokenRequest)
DIVVY_MESSAGE(TokenAnswer)
DIVVY_MESSAGE(std::vector<TokenView>)
DIVVY_MESSAGE(TokenName)
DIVVY_MESSAGE(LeaderView)
DIVVY_MESSAGE(std::vector<ControllerView>)
DIVVY_MESSAGE(RejoinRequest)
DIVVY_MESSAGE(std::vector<NodeView>)
DIVVY_MESSAGE(std::vector<PoolView>)
DIVVY_MESSAGE(NodeRequest)
DIVVY_MESSAGE(std::vector<FoundView>)
DIVVY_MESSAGE(FoundRequest)
DIVVY_MESSAGE(PredictionsReport)
DIVVY_MESSAGE(UiLinkRequest)
DIVVY_MESSAGE(UiLinkAnswer)
DIVVY_MESSAGE(UiLogin)
DIVVY_MESSAGE(UiLoginAnswer)
DIVVY_MESSAGE(UiMe)
DIVVY_MESSAGE(SpeedsReport)
DIVVY_MESSAGE(UsageReport)
DIVVY_MESSAGE(FairnessReport)
DIVVY_MESSAGE(SeriesAnswer)
DIVVY_MESSAGE(WasteAnswer)
DIVVY_MESSAGE(JobWaste)
DIVVY_MESSAGE(WasteReport)
DIVVY_MESSAGE(EfficiencyReport)
DIVVY_MESSAGE(LatestAnswer)
DIVVY_MESSAGE(OwnMetricsRequest)
DIVVY_MESSAGE(JobInFull)
DIVVY_MESSAGE(std::vector<ListedJob>)
DIVVY_MESSAGE(ForecastAnswer)
DIVVY_MESSAGE(EnvironmentView)
DIVVY_MESSAGE(ElementsView)
DIVVY_MESSAGE(StartsAnswer)
DIVVY_MESSAGE(std::vector<HistoryEvent>)
DIVVY_MESSAGE(ValohaiQuestion)
DIVVY_MESSAGE(ValohaiAnswer)
DIVVY_MESSAGE(AgainView)
DIVVY_MESSAGE(WordsQuestion)
DIVVY_MESSAGE(WordsAnswer)
DIVVY_MESSAGE(ScriptQuestion)
DIVVY_MESSAGE(ScriptAnswer)
DIVVY_MESSAGE(SharesReport)
DIVVY_MESSAGE(Notice)
DIVVY_MESSAGE(QueuedNotice)
DIVVY_MESSAGE(ReceiverRequest)
DIVVY_MESSAGE(ReceiverAnswer)
DIVVY_MESSAGE(NotifyAnswer)
DIVVY_MESSAGE(ReceiverName)
DIVVY_MESSAGE(NotifyTestAnswer)
DIVVY_MESSAGE(KeptReceiver)
DIVVY_MESSAGE(KeptDeliveries)
DIVVY_MESSAGE(KeptWaste)
DIVVY_MESSAGE(KeptFindings)
DIVVY_MESSAGE(KeptWish)
DIVVY_MESSAGE(std::vector<ToldGpu>)
DIVVY_MESSAGE(DeliveryOrder)
DIVVY_MESSAGE(DeliveryResult)
DIVVY_MESSAGE(ServiceDefinition)
DIVVY_MESSAGE(KeptService)
DIVVY_MESSAGE(std::vector<ServiceView>)
DIVVY_MESSAGE(ServiceDetail)
DIVVY_MESSAGE(ServiceScale)
DIVVY_MESSAGE(ServiceRollback)
DIVVY_MESSAGE(ProviderOrder)
DIVVY_MESSAGE(ProviderCreated)
DIVVY_MESSAGE(ProviderList)
DIVVY_MESSAGE(std::vector<ProviderView>)
DIVVY_MESSAGE(ProviderRequest)

#undef DIVVY_MESSAGE

}  // namespace divvy::wire
