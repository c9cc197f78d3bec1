#include "cli/cluster/kubernetes_api.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "base/text.h"
#include "dialect/config/kubeconfig.h"
#include "platform/os/unique_fd.h"

namespace divvy::cli {
namespace {

/// Where Kubernetes puts the credentials of a pod (kubernetes.io, "Accessing the Kubernetes API from a Pod").
constexpr const char* kServiceAccount = "/var/run/secrets/kubernetes.io/serviceaccount/";
constexpr std::size_t kMostFile = std::size_t{1} << 20;
constexpr HttpLimits kAnswerLimits{.header_bytes = std::size_t{64} << 10, .body_bytes = kLongestAnswer};
/// The largest number of informational answers (such as "103 Early Hints"; RFC 9110, 15.2) before the final answer.
constexpr int kMostInformational = 10;
/// One attempt ends after this time, so that a server that hangs does not use up the time of all calls.
constexpr Duration kOneAttempt = std::chrono::seconds(30);
constexpr Duration kFirstPause = std::chrono::milliseconds(200);
constexpr Duration kLongestPause = std::chrono::seconds(5);
constexpr std::size_t kLongestMessage = 300;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// Returns `text` without surrounding blanks and line ends.
std::string OneWord(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = std::min(text.find_first_not_of(kBlanks), text.size());
  return std::string(text.substr(first, text.find_last_not_of(kBlanks) + 1 - first));
}

/// Returns the path of a file that a kubeconfig names. A relative path starts at the folder of the kubeconfig.
std::string Beside(const std::string& kubeconfig, const std::string& file) {
  return file.starts_with('/') ? file : kubeconfig.substr(0, kubeconfig.rfind('/') + 1) + file;
}

/// Whether the server asks for the call to be repeated: too many requests, a timeout, or a defect.
bool IsTemporary(int status) { return status == 429 || status >= 500; }

/// Retry-After in seconds (RFC 9110, 10.2.3), but at least `least`; its form as a date is not used by API servers.
Duration PauseOf(const HttpResponse& answer, Duration least) {
  const auto seconds = ParseInteger(Trim(answer.header("retry-after")));
  return seconds && *seconds >= 0 && *seconds <= 3600 ? std::max(Duration(std::chrono::seconds(*seconds)), least)
                                                      : least;
}

}  // namespace

Result<std::string> ReadSmallFile(const std::string& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) return NotFound("cannot read " + path + ": " + std::strerror(errno));
  std::string text;
  std::array<char, 65'536> buffer;
  for (ssize_t size = 0; (size = ::read(fd.get(), buffer.data(), buffer.size())) != 0;) {
    if (size < 0) return NotFound("cannot read " + path + ": " + std::strerror(errno));
    text.append(buffer.data(), static_cast<std::size_t>(size));
    if (text.size() > kMostFile) return InvalidArgument(path + " is longer than 1 MiB");
  }
  return text;
}

Result<KubernetesApi> KubernetesApi::Open(Duration time_limit) {
  KubernetesApi api;
  api.deadline_ = std::chrono::steady_clock::now() + std::chrono::duration_cast<SteadyTime::duration>(time_limit);
  std::string path = Environment("DIVVY_CREDENTIALS");
  if (path.empty()) path = Environment("KUBECONFIG");
  if (!path.empty()) {
    if (const Status read = api.ReadKubeconfig(path); !read)
      return Error{read.error().code, path + ": " + read.error().message};
  } else {
    DIVVY_CHECK(api.ReadServiceAccount());
  }
  if (api.name_space_.empty()) api.name_space_ = "default";
  // The token is sent in an HTTP header, so it must not contain blanks or control characters.
  if (std::ranges::any_of(api.token_, [](char c) { return c <= ' ' || c > '~'; }))
    return InvalidArgument("the token has blanks or control characters, so it is none");
  if (!api.token_.empty()) api.Hide(api.token_);
  return api;
}

Status KubernetesApi::SetServer(const std::string& url) {
  auto parsed = ParseWebUrl(url);
  if (!parsed || !parsed->credentials.empty() || parsed->target.find('?') != std::string::npos)
    return InvalidArgument("its server is no URL such as https://10.0.0.1:6443");
  server_ = *std::move(parsed);
  while (server_.target.ends_with('/')) server_.target.pop_back();
  return {};
}

Status KubernetesApi::ReadKubeconfig(const std::string& path) {
  DIVVY_TRY(const std::string text, ReadSmallFile(path));
  DIVVY_TRY(dialect::Kubeconfig config, dialect::ParseKubeconfig(text));
  DIVVY_CHECK(SetServer(config.server));
  const auto complete = [&path](std::string& data, const std::string& file) -> Status {
    if (!data.empty() || file.empty()) return {};
    DIVVY_TRY(data, ReadSmallFile(Beside(path, file)));
    return {};
  };
  DIVVY_CHECK(complete(config.authorities, config.authorities_file));
  DIVVY_CHECK(complete(config.certificate, config.certificate_file));
  DIVVY_CHECK(complete(config.key, config.key_file));
  DIVVY_CHECK(complete(config.token, config.token_file));
  trust_.only_authorities = std::move(config.authorities);
  trust_.server_name = std::move(config.server_name);
  if (!config.certificate.empty()) trust_.client_identity = config.certificate + "\n" + config.key;
  token_ = OneWord(config.token);
  name_space_ = std::move(config.name_space);
  return {};
}

Status KubernetesApi::ReadServiceAccount() {
  const std::string folder = kServiceAccount;
  auto token = ReadSmallFile(folder + "token");
  if (!token)
    return FailedPrecondition(
        "no credentials for Kubernetes: set credentials = \"/etc/divvy/kubeconfig\" for the "
        "provider, or run divvy in a pod with a service account (" +
        token.error().message + ")");
  token_ = OneWord(*token);
  DIVVY_TRY(trust_.only_authorities, ReadSmallFile(folder + "ca.crt"));
  name_space_ = OneWord(ReadSmallFile(folder + "namespace").value_or(""));
  const std::string host = Environment("KUBERNETES_SERVICE_HOST"), port = Environment("KUBERNETES_SERVICE_PORT");
  if (host.empty()) return SetServer("https://kubernetes.default.svc");
  return SetServer("https://" + (host.find(':') == std::string::npos ? host : "[" + host + "]") +
                   (port.empty() ? "" : ":" + port));
}

Duration KubernetesApi::Left() const { return deadline_ - std::chrono::steady_clock::now(); }

Result<HttpResponse> KubernetesApi::CallOnce(std::string_view method, const std::string& target,
                                             std::string_view body) const {
  DIVVY_TRY(WebConnection connection, WebConnection::Open(server_, trust_, std::min(Left(), kOneAttempt)));
  std::string text = std::string(method) + " " + server_.target + target + " HTTP/1.1\r\nHost: " + HostHeader(server_) +
                     "\r\nConnection: close\r\nAccept: application/json\r\nUser-Agent: divvy\r\n";
  if (!token_.empty()) text += "Authorization: Bearer " + token_ + "\r\n";
  if (!body.empty())
    text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  text += "\r\n";
  text += body;
  DIVVY_CHECK(connection.Write(text));
  HttpResponseReader reader(kAnswerLimits);
  int informational = 0;
  const auto next = [&reader, &informational] {
    auto answer = reader.Next();
    while (answer && answer->status < 200 && ++informational <= kMostInformational) answer = reader.Next();
    return answer;
  };
  std::array<char, 65'536> room;
  while (true) {
    auto answer = next();
    if (informational > kMostInformational)
      return CorruptData(server_.host + " sends more than " + std::to_string(kMostInformational) +
                         " informational answers");
    if (answer) return *std::move(answer);
    if (reader.error()) return CorruptData(server_.host + " sends no HTTP response: " + reader.error()->message);
    DIVVY_TRY(const std::size_t size, connection.Read(room));
    if (size > 0) {
      reader.Feed({room.data(), size});
      continue;
    }
    reader.FinishInput();
    if (answer = next(); answer && answer->status >= 200) return *std::move(answer);
    return Unreachable(server_.host + " closed the connection before it answered");
  }
}

void KubernetesApi::Pause(int before) const {
  Duration pause = kFirstPause;
  for (int i = 0; i < before && pause < kLongestPause; ++i) pause *= 2;
  std::this_thread::sleep_for(std::clamp(Left(), Duration(0), pause));
}

Result<HttpResponse> KubernetesApi::Call(std::string_view method, const std::string& target, std::string_view body,
                                         bool repeats) {
  Duration pause = kFirstPause;
  while (true) {
    auto answer = CallOnce(method, target, body);
    const bool is_worth_it =
        answer ? IsTemporary(answer->status)
               : answer.error().code == ErrorCode::kUnreachable || answer.error().code == ErrorCode::kTimedOut;
    const Duration wait = answer ? PauseOf(*answer, pause) : pause;
    if (repeats && is_worth_it && wait < Left()) {
      std::this_thread::sleep_for(wait);
      pause = std::min(pause * 2, kLongestPause);
      continue;
    }
    if (answer) return answer;
    return Error{answer.error().code,
                 WithoutSecrets("the API server " + HostHeader(server_) + ": " + answer.error().message)};
  }
}

std::string KubernetesApi::WithoutSecrets(std::string text) const {
  for (const std::string& secret : secrets_) {
    for (std::size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at))
      text.replace(at, secret.size(), "(hidden)");
  }
  return text;
}

Error KubernetesApi::ErrorOf(const std::string& doing, const HttpResponse& answer) const {
  std::string text = doing + ": HTTP status " + std::to_string(answer.status);
  const auto document = JsonDocument::Parse(answer.body);
  const auto message = document ? document->root()["message"].AsString() : std::nullopt;
  // Remove secrets before the text is shortened: a secret that is cut off would not be recognized.
  if (message) text += ": " + OneLine(WithoutSecrets(std::string(*message)).substr(0, kLongestMessage));
  if (answer.status == 401) return PermissionDenied(text + "; the credentials are wrong or have expired");
  if (answer.status == 403) {
    // "User ... cannot create resource ..." is a missing right. Quotas and policies also refuse with this status.
    const bool is_right = message && message->find(" cannot ") != std::string_view::npos;
    return PermissionDenied(
        text + (is_right ? "; packaging/kubernetes/provider.yaml has the rights that the provider needs" : ""));
  }
  return Internal(text);
}

}  // namespace divvy::cli
