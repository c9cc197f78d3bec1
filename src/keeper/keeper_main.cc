#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>

#include "base/text.h"
#include "keeper/keeper.h"
#include "platform/gpu/share_library.h"

namespace divvy::keeper {
namespace {

struct Arguments {
  KeeperOptions options;
  bool is_helper = false;
};

Result<Arguments> Read(const std::vector<std::string>& words) {
  Arguments read;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--checkpoint-helper") {
      read.is_helper = true;
      continue;
    }
    if (word != "--directory" && word != "--served-by" && word != "--emulate-library")
      return InvalidArgument("unknown option '" + word +
                             "'; divvy starts its keeper itself, with --directory, --served-by and --emulate-library");
    if (i + 1 == words.size()) return InvalidArgument(word + " needs a value");
    const std::string& value = words[++i];
    if (word == "--directory") {
      read.options.directory = value;
    } else if (word == "--served-by") {
      read.options.node_uid = ParseInteger(value).value_or(-1);
    } else {
      const std::string name = std::filesystem::path(value).filename().native();
      (name.starts_with("libnvidia-ml") ? read.options.nvml : read.options.cuda) = value;
    }
  }
  if (!read.is_helper && read.options.directory.empty()) return InvalidArgument("--directory DIR is missing");
  return read;
}

int Refuse(const Error& error) {
  std::fprintf(stderr, "divvy keeper: error: %s\n", error.message.c_str());
  return error.code == ErrorCode::kInvalidArgument ? 2 : 1;
}

}  // namespace

int KeeperMain(const std::vector<std::string>& words) {
  auto read = Read(words);
  if (!read) return Refuse(read.error());
  if (read->is_helper) return CheckpointHelperMain(STDIN_FILENO, read->options.cuda);
  std::signal(SIGPIPE, SIG_IGN);
  // The keeper needs one socket and one pidfd for each process of each tenant, so it raises its limit of open files.
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    [[maybe_unused]] const int allowed = ::setrlimit(RLIMIT_NOFILE, &files);
  }
  // Turns depend on the keeper's latency. Without permission it runs at normal priority.
  [[maybe_unused]] const int raised = ::setpriority(PRIO_PROCESS, 0, -10);
  ::umask(0);  // Files are created with exactly the mode that they shall have.
  KeeperOptions options = std::move(read->options);
  if (::mkdir(options.directory.c_str(), 0711) != 0 && errno != EEXIST)
    return Refuse(Internal("making " + options.directory));
  // Jobs of other users reach their own folders through it. The node's group may list the tenants.
  if (::chmod(options.directory.c_str(), options.node_uid < 0 ? 0711 : 02751) != 0)
    return Refuse(Internal("opening " + options.directory));
  auto library = WriteShareLibrary(options.directory);
  if (!library) return Refuse(library.error());
  options.interposer = *std::move(library);
  options.helper = CheckpointHelperCommand(options.cuda);
  options.mps_program = FindMpsProgram();
  options.rules.growth = Bytes(static_cast<std::int64_t>(options.first_residual));
  auto keeper = Keeper::Make(std::move(options));
  if (!keeper) return Refuse(keeper.error());
  (*keeper)->Run();
  return 0;
}

}  // namespace divvy::keeper
