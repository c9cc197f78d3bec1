// Runs the front: one HAProxy process for the ports of all services, started and replaced by divvy. It outlives the
// daemon, and the next daemon finds it by its runtime socket. A change of the configuration starts a new process, which
// takes over the listening sockets; the old process finishes its requests and ends.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "daemon/services/haproxy_config.h"
#include "platform/os/unique_fd.h"

namespace divvy {

/// Returns the path of HAProxy: `configured` if that is set, else the usual place, else (not for a machine-wide daemon)
/// the first one in PATH; empty if there is none.
std::string FindHaproxy(const std::string& configured, bool is_machine_wide);
/// Returns the IPv6 address at which the front listens, next to the IPv4 address `listen_host` ("::" for "0.0.0.0",
/// "::1" for "127.0.0.1"). Empty for any other address, and if this machine has no IPv6.
std::string FrontHost6(const std::string& listen_host);
/// Returns how many connections the front may have at a time, given this process's limit on open files.
std::int64_t FrontConnections();

class Haproxy {
 public:
  struct Options {
    std::string program;             // Absolute path. Empty: not found.
    bool keeps_environment = false;  // True if HAProxy inherits this process's environment (a private daemon).
    FrontPlace place;
  };
  struct Ports {
    std::function<void(Duration, std::function<void()>)> after;
    std::function<void(bool is_warning, const std::string& line)> log;
    /// Called when another HAProxy process has become the present one. `is_new`: it was just started, so all its
    /// servers are in maintenance. Otherwise it ran before, and the states of its servers are unknown.
    std::function<void(bool is_new)> on_fresh;
  };

  Haproxy(boost::asio::io_context& loop, Options options, Ports ports);
  ~Haproxy();

  /// Takes over the HAProxy process that an earlier daemon has left, if there is one. Call once, before other
  /// functions.
  void Adopt();
  /// Tells all HAProxy processes of an earlier daemon, whose sockets are in this folder, to finish their requests and
  /// end. For a controller that does not lead any more.
  static void EndLeft(const std::string& directory);
  /// Configures the front for these services, which must have passed CheckService. Without services, HAProxy is ended.
  /// Cheap if nothing has changed. A change is applied at the earliest 2 s after the previous one was applied. It also
  /// waits while 100 or more replaced HAProxy processes still finish requests.
  void Serve(const std::vector<FrontService>& services);
  /// Fails with kLimitExceeded while too many HAProxy processes that were replaced because of changes by this user
  /// still finish requests.
  Status CheckChange(std::int64_t uid) const;
  /// Reserves a port for IPv4 and IPv6, so that no other user can take it while no process listens. Fails if another
  /// process has it.
  Status Reserve(std::int64_t port);
  void Release(std::int64_t port);
  /// Sends commands, each ending with ';', and then the command `last` to HAProxy's runtime socket. Calls `done` later
  /// with the answer to `last`. After an error it is unknown which of the commands took effect.
  void Ask(std::vector<std::string> commands, const std::string& last, std::function<void(Result<std::string>)> done);

  bool is_up() const;
  /// Returns how many slots (places for servers) a backend has in the present process; 0 if the process has no such
  /// backend.
  std::int64_t SlotsOf(const std::string& backend) const;
  /// Fails with a remedy if the path of a runtime socket in the front's folder would be too long for HAProxy.
  Status CheckFolder() const;
  std::int64_t pid() const;
  /// Returns true while processes with earlier configurations still finish requests.
  bool has_old() const;
  /// Returns why HAProxy does not run; empty if it runs or is not needed.
  const std::string& trouble() const { return trouble_; }
  const Options& options() const { return options_; }

 private:
  struct Process;

  void StartProcess();
  void Watch(const std::shared_ptr<Process>& process);
  void OnEnd(const std::shared_ptr<Process>& process);
  std::string SocketOf(std::int64_t generation) const;

  boost::asio::io_context& loop_;
  Options options_;
  Ports ports_;
  std::vector<FrontService> services_;
  std::shared_ptr<Process> current_;
  std::vector<std::shared_ptr<Process>> old_;
  std::map<std::int64_t, std::vector<Descriptor>> reserved_;  // By port: sockets that reserve it for IPv4 and IPv6.
  std::int64_t generation_ = 0;
  int quick_ends_ = 0;
  bool is_change_waiting_ = false;  // A change of the configuration waits (see Serve).
  std::string trouble_;
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace divvy
