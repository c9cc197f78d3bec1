// The commands' entry points, one line each; cli/entry/registry.cc has their texts.
#pragma once

#include <string>
#include <vector>

#include "cli/client/command.h"

namespace divvy::cli {

using Words = std::vector<std::string>;

// cli/jobs/submit.cc
int SubmitMain(const Words& words);
int RunMain(const Words& words);
int ExplainMain(const Words& words);
std::vector<dialect::Option> SubmitOptions();
std::vector<dialect::Option> RunOptions();

// cli/jobs/listing.cc
int QueueMain(const Words& words);
int ShowMain(const Words& words);
int WhyMain(const Words& words);
std::vector<dialect::Option> QueueOptions();
std::vector<dialect::Option> ShowOptions();

// cli/cluster/gpus.cc
int GpusMain(const Words& words);
std::vector<dialect::Option> GpusOptions();

// cli/cluster/teams.cc
int TeamsMain(const Words& words);
std::vector<dialect::Option> TeamsOptions();

// cli/jobs/sweep.cc
int SweepMain(const Words& words);
std::vector<dialect::Option> SweepOptions();

// cli/cluster/reserve.cc
int ReserveMain(const Words& words);
std::vector<dialect::Option> ReserveOptions();

// cli/cluster/providers.cc
int ProvidersMain(const Words& words);
std::vector<dialect::Option> ProvidersOptions();

// cli/cluster/provider.cc
int ProviderMain(const Words& words);

// cli/cluster/tokens.cc
int TokenMain(const Words& words);
std::vector<dialect::Option> TokenOptions();
int LoginMain(const Words& words);
int LogoutMain(const Words& words);

// cli/cluster/ui.cc
int UiMain(const Words& words);
std::vector<dialect::Option> UiOptions();

// cli/mcp/mcp.cc
int McpMain(const Words& words);
std::vector<dialect::Option> McpOptions();

// cli/cluster/adopt.cc
int AdoptMain(const Words& words);
std::vector<dialect::Option> AdoptOptions();

// cli/cluster/store.cc
int StoreMain(const Words& words);
std::vector<dialect::Option> StoreOptions();

// cli/cluster/pools.cc
int PoolsMain(const Words& words);
// cli/cluster/controllers.cc
int ControllersMain(const Words& words);
std::vector<dialect::Option> ControllersOptions();
int TopMain(const Words& words);
std::vector<dialect::Option> PoolsOptions();
std::vector<dialect::Option> TopOptions();

// cli/cluster/nodes.cc
int NodesMain(const Words& words);
int NodeMain(const Words& words);
std::vector<dialect::Option> NodesOptions();
std::vector<dialect::Option> NodeOptions();

// cli/cluster/agent.cc
int AgentMain(const Words& words);
std::vector<dialect::Option> AgentOptions();

// cli/reports/report.cc
int ReportMain(const Words& words);
std::vector<dialect::Option> ReportOptions();

// cli/cluster/emulate.cc
int EmulateMain(const Words& words);

// cli/entry/telemetry_commands.cc
Command MetricsCommand();
Command ReportCommand();
Command NotifyCommand();

// cli/cluster/notify.cc
int NotifyMain(const Words& words);
std::vector<dialect::Option> NotifyOptions();

// cli/cluster/metrics.cc
int MetricsMain(const Words& words);
std::vector<dialect::Option> MetricsOptions();

// cli/client/actions.cc
int CancelMain(const Words& words);
int HoldMain(const Words& words);
int ReleaseMain(const Words& words);
int RequeueMain(const Words& words);
std::vector<dialect::Option> ResizeOptions();
int ResizeMain(const Words& words);
int ParkMain(const Words& words);
int WakeMain(const Words& words);
std::vector<dialect::Option> MoveOptions();
int MoveMain(const Words& words);
int PauseMain(const Words& words);
int ResumeMain(const Words& words);
int SignalMain(const Words& words);
int AuditMain(const Words& words);
int CheckpointMain(const Words& words);
int ProgressMain(const Words& words);
int GroupMain(const Words& words);
std::vector<dialect::Option> CancelOptions();
std::vector<dialect::Option> RequeueOptions();
std::vector<dialect::Option> SelectOptions();

// cli/jobs/update.cc
int UpdateMain(const Words& words);
std::vector<dialect::Option> UpdateOptions();

// cli/jobs/logs.cc
int LogsMain(const Words& words);
int WaitMain(const Words& words);
int AttachMain(const Words& words);
std::vector<dialect::Option> LogsOptions();

// cli/cluster/daemon_commands.cc
int UpMain(const Words& words);
int DownMain(const Words& words);
std::vector<dialect::Option> DownOptions();
int StatusMain(const Words& words);
std::vector<dialect::Option> UpOptions();
std::vector<dialect::Option> StatusOptions();

// cli/simulate/simulate.cc
int SimulateMain(const Words& words);
std::vector<dialect::Option> SimulateOptions();

// cli/entry/help.cc
int HelpMain(const Words& words);
int CompletionMain(const Words& words);
int CompleteMain(const Words& words);  // Hidden: answers a shell's completion request.
int ManMain(const Words& words);       // Hidden: writes the man pages.
/// `shows_all`: describes every option, even of a command whose plain --help describes the most used ones only.
std::string HelpText(const Command& command, bool shows_all = false);
std::vector<dialect::Option> HelpOptions();

// cli/entry/shim_links.cc
int ShimsMain(const Words& words);
/// The entry point of the tool `name` ("sbatch") that divvy stands in for; null if it stands in for no such tool.
int (*FindShim(std::string_view name))(const Words& words);
const std::vector<std::string_view>& ShimNames();

/// Runs the whole program: divvy, or the tool whose name argv[0] has. `words` is the command line with argv[0]. Returns
/// the exit code.
int Main(const Words& words);

}  // namespace divvy::cli
