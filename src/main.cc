// One executable: the command line, the daemon, the launcher, a job's step process and others. The first words select
// one.
#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "cli/client/commands.h"
#include "cli/steps/steps.h"
#include "daemon/agent/agent.h"
#include "daemon/daemon.h"
#include "daemon/node/container.h"
#include "daemon/node/launcher_main.h"
#include "daemon/node/node_allocation_main.h"
#include "daemon/notify/deliver.h"
#include "daemon/providers/provider_program.h"
#include "keeper/keeper.h"
#include "platform/supervisor/launch.h"
#include "platform/supervisor/launcher.h"

namespace {

/// Opens closed standard streams on /dev/null. Otherwise the next opened file or socket would get such a number, and a
/// job would inherit it.
void OpenClosedStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", O_RDWR);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto seat = [](const std::vector<std::string>& own) {
    return divvy::NodeAllocationMain(own, divvy::cli::StepsMain);
  };
  if (argc > 2 && std::string_view(argv[1]) == "internal-launcher") {
    const auto fd = divvy::ParseInteger(argv[2]);
    return fd ? divvy::LauncherMain(static_cast<int>(*fd), seat) : 2;
  }
  const std::vector<std::string> words(argv, argv + argc);
  if (argc > 1 && words[1] == "internal-steps") return divvy::cli::StepsMain({words.begin() + 2, words.end()});
  if (argc > 1 && words[1] == "internal-inside") return divvy::cli::InsideMain({words.begin() + 2, words.end()});
  if (argc > 1 && words[1] == "internal-daemon") return divvy::DaemonMain({words.begin() + 2, words.end()});
  if (argc > 1 && words[1] == "internal-launcher-service")
    return divvy::LauncherServiceMain({words.begin() + 2, words.end()}, seat);
  if (argc > 1 && words[1] == "internal-container") return divvy::ContainerMain({words.begin() + 2, words.end()});
  if (argc > 1 && words[1] == "internal-container-remove")
    return divvy::ContainerRemoveMain({words.begin() + 2, words.end()});
  if (argc > 1 && words[1] == "internal-agent") return divvy::AgentMain({words.begin() + 2, words.end()});
  if (argc > 1 && words[1] == "internal-deliver") return divvy::DeliverMain({words.begin() + 2, words.end()});
  if (argc > 1 && words[1] == "internal-provider") return divvy::ProviderMain({words.begin() + 2, words.end()});
  if (argc > 1 && words[1] == "keeper") return divvy::keeper::KeeperMain({words.begin() + 2, words.end()});
  OpenClosedStreams();
  return divvy::cli::Main(words);
}
