// divvy ui: creates a one-time link that logs a browser in to the daemon's page.
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/shown_answer.h"
#include "wire/messages/codec.h"
#include "wire/messages/ui_messages.h"

extern char** environ;

namespace divvy::cli {
namespace {

using dialect::Option;

struct UiFlags {
  bool opens = true;
  bool is_remote = false;
};

std::vector<Option> UiTable(UiFlags& flags) {
  std::vector<Option> table;
  table.push_back(
      Option::Flag("no-open", "Print the link without opening a browser", dialect::Sets(flags.opens, false)));
  table.push_back(
      Option::Flag("remote", "Make a link for a browser on another machine, over TLS", dialect::Sets(flags.is_remote)));
  return table;
}

bool HasScreen() {
  const auto is_set = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
  };
  return (is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")) && ::isatty(STDOUT_FILENO) == 1;
}

/// Writes a page that only the user can read and that redirects to the link. On a command line, every user on the
/// machine could read the link. Returns "" if the page cannot be written.
std::string WriteWayIn(const std::string& url) {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  std::string path = std::string(runtime != nullptr && *runtime != '\0' ? runtime : "/tmp") + "/divvy-ui-XXXXXX.html";
  constexpr int kSuffix = 5;  // ".html"
  const int fd = ::mkostemps(path.data(), kSuffix, O_CLOEXEC);
  if (fd < 0) return "";
  const std::string text = "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url=" + url + "\">\n";
  const bool is_written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return is_written ? path : "";
}

bool OpenBrowser(const std::string& url) {
  std::string path = WriteWayIn(url);
  if (path.empty()) return false;
  std::string program = "xdg-open";
  char* const argv[] = {program.data(), path.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, program.c_str(), &actions, nullptr, argv, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  return error == 0;
}

}  // namespace

std::vector<Option> UiOptions() {
  static UiFlags scratch;
  return UiTable(scratch);
}

int UiMain(const Words& words) {
  UiFlags flags;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(UiTable(flags), words));
  if (!parsed.positional.empty())
    return Fail(InvalidArgument("divvy ui takes no argument '" + parsed.positional.front() + "'"));
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  wire::UiLinkRequest request;
  request.is_remote = flags.is_remote;
  DIVVY_TRY_OR_FAIL(const auto text, api.Raw("POST", "/v1/ui/links", wire::EncodeChanged(request)));
  DIVVY_TRY_OR_FAIL(const auto answer, DecodeShown<wire::UiLinkAnswer>(text));
  const bool is_opened = flags.opens && HasScreen() && OpenBrowser(answer.url);
  // Print only the link to standard output, so that it can be piped.
  std::fprintf(stderr, "%s (%s):\n",
               is_opened ? "Opening the page in a browser; if none appears, use this link" : "Link to the page",
               answer.message.c_str());
  std::printf("%s\n", answer.url.c_str());
  std::fflush(stdout);
  if (!answer.fingerprint.empty()) {
    std::fprintf(stderr,
                 "The browser will warn about an unknown certificate. Check that its SHA-256 fingerprint is\n%s\n",
                 answer.fingerprint.c_str());
  } else if (!is_opened) {
    const std::size_t port = answer.url.find(':', 8);
    const std::string number = answer.url.substr(port + 1, answer.url.find('/', port) - port - 1);
    std::fprintf(stderr, "From another machine, first forward the port: ssh -L %s:127.0.0.1:%s HOST\n", number.c_str(),
                 number.c_str());
  }
  return 0;
}

}  // namespace divvy::cli
