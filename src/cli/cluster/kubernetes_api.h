// Calls of a Kubernetes API server. For programs that live for seconds: each call has a connection of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "platform/net/web_connection.h"
#include "wire/http/http.h"
#include "wire/json/json.h"

namespace divvy::cli {

/// Limit for the body of an answer, in bytes, and so for its JSON.
inline constexpr std::size_t kLongestAnswer = JsonLimits().bytes;

/// Reads a file of at most 1 MiB. Errors name it.
Result<std::string> ReadSmallFile(const std::string& path);

class KubernetesApi {
 public:
  /// Finds the server and the credentials: the kubeconfig that DIVVY_CREDENTIALS or KUBECONFIG names, else the service
  /// account of the pod in which this program runs. `time_limit` is for all calls together.
  static Result<KubernetesApi> Open(Duration time_limit);

  /// The namespace of the kubeconfig or of the service account; "default" if they name none.
  const std::string& name_space() const { return name_space_; }
  /// Adds a secret that is never shown in errors. The credentials are never shown either.
  void Hide(std::string secret) { secrets_.push_back(std::move(secret)); }

  /// Sends a request and returns the answer of the server, whatever its HTTP status. Repeats the request after a status
  /// of 429 or 5xx and after a lost connection; so it must be a request that may be sent twice. Waits before each
  /// repetition as Retry-After says, and gives up when the time limit would pass. With `repeats` false, sends the
  /// request once. `body`: JSON.
  Result<HttpResponse> Call(std::string_view method, const std::string& target, std::string_view body = {},
                            bool repeats = true);
  /// Waits before a sequence of calls is repeated, longer each time. `before`: the number of pauses before this one.
  void Pause(int before) const;

  /// Returns the error for an answer with an error status: "creating the pod: HTTP status 403: pods is forbidden".
  /// Secrets in it are removed.
  Error ErrorOf(const std::string& doing, const HttpResponse& answer) const;

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;

  Status ReadKubeconfig(const std::string& path);
  Status ReadServiceAccount();
  Status SetServer(const std::string& url);
  Result<HttpResponse> CallOnce(std::string_view method, const std::string& target, std::string_view body) const;
  std::string WithoutSecrets(std::string text) const;
  Duration Left() const;

  WebUrl server_;
  WebTrust trust_;
  std::string token_;
  std::string name_space_;
  std::vector<std::string> secrets_;
  SteadyTime deadline_{};
};

}  // namespace divvy::cli
