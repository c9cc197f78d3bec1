#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/host_port.h"
#include "base/time.h"
#include "platform/steps/step_planner.h"

namespace divvy {

/// How the step process of a job runs (step_server.h).
struct StepServerOptions {
  std::string file;
  std::size_t gpus = 0;  // The number of GPUs of the job.
  int cores = 0;         // The number of cores of the job; 0: not counted.
  StepPlanner planner;
  /// Called when the step process listens, or if another step process of the job already does. `port`: the TCP port
  /// where it listens for other nodes; 0: it does not.
  std::function<void(std::uint16_t port)> on_listening;
  Duration idle_most = std::chrono::minutes(10);  // Exits after this time without work.
  // The following are for a job on several nodes. The server then stays, even if idle, until SIGTERM arrives or `file`
  // is removed. Without `file` the job is over, or its node's run directory is gone and nothing else could stop it.
  Duration look_every = std::chrono::seconds(10);          // How often to check that `file` still exists.
  std::function<void(const std::string& why)> on_failure;  // Called if it cannot listen.
  std::string key;                                         // 64 hexadecimal digits; empty: the job is on one node.
  HostPort listen;                                         // Address on which it listens for other nodes; port 0: any.
  std::string version;  // divvy's version, which must be the same on all nodes of a job.
};

}  // namespace divvy
