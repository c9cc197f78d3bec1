#include "cli/client/login.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace divvy::cli {
namespace {

constexpr std::size_t kMostBytes = 4096;
constexpr int kSecretDigits = 64;

std::string FolderOfConfigs() {
  const char* xdg = std::getenv("XDG_CONFIG_HOME");
  if (xdg != nullptr && *xdg == '/') return std::string(xdg) + "/divvy";
  const char* home = std::getenv("HOME");
  return (home == nullptr || *home != '/' ? std::string() : std::string(home)) + "/.config/divvy";
}

std::string LoginPath() { return FolderOfConfigs() + "/controller"; }

/// Returns a path as a message may show it. Hides text that is not a path, because a user may have given a token
/// instead.
std::string Shown(const std::string& path) {
  int digits = 0;
  for (const char c : path) {
    digits = std::isxdigit(static_cast<unsigned char>(c)) != 0 ? digits + 1 : 0;
    if (digits == kSecretDigits) return "the value (not shown: it may be a token)";
  }
  return path;
}

Result<std::optional<TokenLine>> ReadLogin(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::optional<TokenLine>();
    return PermissionDenied("opening " + Shown(path) + ": " + std::strerror(errno));
  }
  struct stat about {};
  std::string text(kMostBytes, '\0');
  const bool is_known = ::fstat(fd, &about) == 0;
  const ssize_t size = ::read(fd, text.data(), text.size());
  ::close(fd);
  if (!is_known || size < 0) return CorruptData("reading " + path + ": " + std::strerror(errno));
  // A pipe or a descriptor from the shell cannot be read by other users.
  if (S_ISREG(about.st_mode) && (about.st_mode & 077) != 0)
    return PermissionDenied("other users can read the token in " + path + "; run chmod 600 on it");
  text.resize(static_cast<std::size_t>(size));
  auto line = ParseTokenLine(text);
  if (!line) return Error{line.error().code, path + ": " + line.error().message};
  return std::optional<TokenLine>(*std::move(line));
}

Status MakeFolder(const std::string& path) {
  for (std::size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    const std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST)
      return PermissionDenied("making the folder " + part + ": " + std::strerror(errno));
    if (at == std::string::npos) return {};
  }
}

}  // namespace

std::string ChosenAgentSocket() {
  constexpr std::string_view kUnixPrefix = "unix:";
  const char* chosen = std::getenv("DIVVY_CONTROLLER");
  if (chosen == nullptr || !std::string_view(chosen).starts_with(kUnixPrefix)) return "";
  return std::string(chosen).substr(kUnixPrefix.size());
}

Result<std::optional<TokenLine>> ChosenLogin() {
  const char* chosen = std::getenv("DIVVY_CONTROLLER");
  if (chosen == nullptr || *chosen == '\0' || !ChosenAgentSocket().empty()) return std::optional<TokenLine>();
  if (std::strchr(chosen, '#') != nullptr) {
    auto line = ParseTokenLine(chosen);
    if (!line) return Error{line.error().code, "DIVVY_CONTROLLER: " + line.error().message};
    return std::optional<TokenLine>(*std::move(line));
  }
  DIVVY_TRY(std::optional<TokenLine> line, ReadLogin(chosen));
  if (!line) return NotFound("DIVVY_CONTROLLER is not a token line, and " + Shown(chosen) + " is not a file");
  return line;
}

Result<std::optional<TokenLine>> KeptLogin() { return ReadLogin(LoginPath()); }

Status KeepLogin(const TokenLine& line) {
  DIVVY_CHECK(MakeFolder(FolderOfConfigs()));
  const std::string path = LoginPath(), fresh = path + "~", text = ToString(line) + "\n";
  ::unlink(fresh.c_str());
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return PermissionDenied("making " + path + ": " + std::strerror(errno));
  const bool is_written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  if (is_written && ::rename(fresh.c_str(), path.c_str()) == 0) return {};
  const Error failed = Internal("writing " + path + ": " + std::strerror(errno));
  ::unlink(fresh.c_str());
  return failed;
}

Result<bool> ForgetLogin() {
  if (::unlink(LoginPath().c_str()) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return PermissionDenied("removing " + LoginPath() + ": " + std::strerror(errno));
}

}  // namespace divvy::cli
