// Steps of a job from outside of it.
#include <unistd.h>

#include <cstdio>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/steps/steps.h"
#include "platform/os/runtime_paths.h"
#include "platform/records/step_list_file.h"
#include "platform/steps/step_client.h"
#include "platform/steps/step_inside.h"

extern char** environ;

namespace divvy::cli {

int RunInStepOf(const std::string& job, std::string_view command, const std::vector<std::string>& words,
                bool wants_terminal) {
  const std::string program = command == "srun" ? "srun" : "divvy";
  const std::string name(command);
  std::vector<const char*> all = {name.c_str()};
  for (const std::string& word : words) all.push_back(word.c_str());
  StepCaller caller{.words = all, .environment = environ, .program = program, .asks_interrupts = program == "srun"};
  const auto number = ParseInteger(job);
  const RuntimePaths places = FindPlaces();
  for (const std::string& runs : {places.runs, places.state + "/agent/runs"}) {
    if (!number || *number <= 0) break;
    const std::string file = StepListPath(runs, ::geteuid(), static_cast<std::uint64_t>(*number));
    caller.socket = StepSocketOf(file);
    if (const auto code = CallStep(caller)) return *code;
  }
  const auto far = ReachSteps(job, false);
  if (!far) {
    std::fprintf(stderr, "%s: error: %s\n", program.c_str(), far.error().message.c_str());
    return 1;
  }
  caller.far = far->get();
  caller.has_terminal = wants_terminal && ::isatty(STDIN_FILENO) == 1;
  return CallStep(caller).value_or(1);
}

Result<Descriptor> ReachSteps(const std::string& id, bool stops_only) {
  DIVVY_TRY(Api api, Api::Connect());
  return Api::ReachSteps(std::move(api), id, stops_only);
}

int InsideMain(const std::vector<std::string>& words) {
  if (words.empty() || !words.front().starts_with('/')) return 2;
  InsideOptions options;
  options.file = words.front();
  options.stops_only = words.size() > 1 && words[1] == "--stops-only";
  options.move_inside = [](std::vector<std::string>& environment) { TakeJobsWords(environment, OwnEnvironment()); };
  return RunInside(options);
}

}  // namespace divvy::cli
