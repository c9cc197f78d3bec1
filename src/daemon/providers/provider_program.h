// Runs the program of a provider of nodes: JSON on its standard input and output (docs/providers.md).
//
// A guard process runs the program in a process group of its own, without the daemon's environment and descriptors, and
// without the chance to gain rights (no_new_privs). The guard kills the whole group at the deadline, when the program
// prints too much, and when the daemon dies. The daemon's event loop never waits for the program.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "base/result.h"
#include "base/time.h"

namespace divvy {

/// Runs the guard process: "divvy internal-provider PARENT SECONDS PROGRAM ARGUMENT...". Returns its exit code.
int ProviderMain(const std::vector<std::string>& words);

struct ProviderProgram {
  std::vector<std::string> words;        // An absolute path, and arguments.
  std::vector<std::string> environment;  // "NAME=value".
  std::string input;
  Duration timeout{0};
};

class ProviderRunner {
 public:
  static constexpr std::size_t kMostOutput = std::size_t{1} << 20;
  static constexpr std::size_t kMostComplaint = 4096;  // Bytes of standard error; the rest is dropped.

  /// `divvy`: the path of this program.
  ProviderRunner(boost::asio::io_context& loop, std::string divvy) : loop_(loop), divvy_(std::move(divvy)) {}
  /// Ends the programs that still run; their results are lost.
  ~ProviderRunner();

  /// Receives the program's standard output if it ended with exit code 0 in time, otherwise an error with the reason
  /// and the first line of the program's standard error. Called once, after Run has returned.
  using Done = std::function<void(const Result<std::string>&)>;
  void Run(const ProviderProgram& program, Done done);

 private:
  struct Child;
  void Read(const std::shared_ptr<Child>& child, bool is_output);
  void Finish(const std::shared_ptr<Child>& child);

  boost::asio::io_context& loop_;
  std::string divvy_;
  std::map<int, std::shared_ptr<Child>> children_;  // By process id.
};

}  // namespace divvy
