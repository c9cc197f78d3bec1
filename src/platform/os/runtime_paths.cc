#include "platform/os/runtime_paths.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace divvy {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool Exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

RuntimePaths Under(const std::string& state, const std::string& socket, const std::string& config) {
  RuntimePaths places;
  places.state = state;
  places.socket = socket;
  places.config = config;
  places.logs = state + "/logs";
  places.runs = state + "/runs";
  places.emulation = state + "/emulate";
  return places;
}

}  // namespace

RuntimePaths FindPlaces() {
  if (std::string home = Variable("DIVVY_HOME"); !home.empty()) {
    if (home.front() != '/') {
      char here[4096];
      if (::getcwd(here, sizeof here) != nullptr) home = std::string(here) + "/" + home;
    }
    RuntimePaths places = Under(home, home + "/divvy.sock", home + "/divvy.toml");
    places.home = home;
    if (std::string boot_id = Variable("DIVVY_BOOT_ID_FILE"); !boot_id.empty()) places.boot_id = std::move(boot_id);
    return places;
  }
  const std::string machine_socket = "/run/divvy/divvy.sock";
  struct stat folder {};
  const bool is_its_user = ::stat("/run/divvy", &folder) == 0 && folder.st_uid == ::geteuid();
  if (is_its_user || ::geteuid() == 0 || Exists(machine_socket) || Exists("/run/divvy-launcher/launches")) {
    RuntimePaths places = Under("/var/lib/divvy", machine_socket, "/etc/divvy/divvy.toml");
    places.runs = "/var/lib/divvy-launcher/runs";
    places.emulation = "/var/lib/divvy-launcher/emulate";
    places.launcher_key = "/var/lib/divvy-launcher/right.pub";
    places.controllers_key = "/var/lib/divvy-launcher/controller.pub";
    places.is_machine_wide = true;
    return places;
  }
  const std::string user_home = Variable("HOME");
  std::string runtime = Variable("XDG_RUNTIME_DIR"), state = Variable("XDG_STATE_HOME"),
              config = Variable("XDG_CONFIG_HOME");
  if (state.empty()) state = user_home + "/.local/state";
  if (config.empty()) config = user_home + "/.config";
  if (runtime.empty()) runtime = state;
  return Under(state + "/divvy", runtime + "/divvy/divvy.sock", config + "/divvy/divvy.toml");
}

}  // namespace divvy
