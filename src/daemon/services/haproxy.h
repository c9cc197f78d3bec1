// The front's process: one HAProxy, started and replaced by divvy. It outlives the daemon, and the next daemon adopts
// it by its runtime socket. Changes of the configuration start a new process, which takes the
// listening sockets over and lets the old one finish its requests.
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

/// The program of the front: `configured`, or the usual place, or for a private daemon also PATH; empty if there is
/// none.
std::string FindHaproxy(const std::string& configured, bool is_machine_wide);
/// Returns the IPv6 address at which the front listens next to an IPv4 address; empty: it has none, or this machine
/// does not have it.
std::string FrontHost6(const std::string& listen_host);
/// Connections that the front may have at a time, by the limit on open files.
std::int64_t FrontConnections();

class Haproxy {
 public:
  struct Options {
    std::string program;             // Absolute path. Empty: not found.
    bool keeps_environment = false;  // Of this process, for a private daemon.
    FrontPlace place;
  };
  struct Ports {
    std::function<void(Duration, std::function<void()>)> after;
    std::function<void(bool is_warning, const std::string& line)> log;
    /// Another process is the present one. `is_new`: all its servers are in maintenance; else their state is unknown.
    std::function<void(bool is_new)> on_fresh;
  };

  Haproxy(boost::asio::io_context& loop, Options options, Ports ports);
  ~Haproxy();

  /// Takes over the process that a daemon before has left. Call once, before the others.
  void Adopt();
  /// Tells the processes that were left in this folder to finish their requests: for a daemon that does not lead.
  static void EndLeft(const std::string& directory);
  /// Runs these services, which have passed CheckService; none: no process is needed. Cheap if nothing has changed.
  /// A change waits until 2 s after the one before, and while 100 earlier processes still finish requests.
  void Serve(const std::vector<FrontService>& services);
  /// Fails while too many processes, which changes of this user have replaced, still finish requests.
  Status CheckChange(std::int64_t uid) const;
  /// Reserves a port for IPv4 and IPv6, so that no other user can take it while no process listens. Fails if another
  /// process has it.
  Status Reserve(std::int64_t port);
  void Release(std::int64_t port);
  /// Sends commands, each ending with ';', and then `last`. Calls back with the answer to `last`. An error: it is
  /// unknown which commands took effect.
  void Ask(std::vector<std::string> commands, const std::string& last, std::function<void(Result<std::string>)> done);

  bool is_up() const;
  /// Slots of the backend in the present process; 0: it does not have it.
  std::int64_t SlotsOf(const std::string& backend) const;
  /// Whether HAProxy can use a runtime socket in the front's folder.
  Status CheckFolder() const;
  std::int64_t pid() const;
  /// Processes of earlier configurations that still finish requests.
  bool has_old() const;
  /// Why it does not run; empty: it does, or need not.
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
  std::map<std::int64_t, std::vector<Descriptor>> reserved_;  // By port: for IPv4 and IPv6.
  std::int64_t generation_ = 0;
  int quick_ends_ = 0;
  bool is_change_waiting_ = false;  // For earlier processes to end.
  std::string trouble_;
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace divvy
