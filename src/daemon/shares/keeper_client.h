// The connection to the keeper of this node's shared GPUs. Starts a keeper if none answers, and reconnects when the
// keeper is replaced. Used on the loop's thread only.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/shares/keeper_port.h"
#include "platform/os/clock.h"

namespace boost::asio {
class io_context;
}

namespace divvy {

class KeeperClient final : public KeeperPort {
 public:
  struct Options {
    std::string directory;  // The folder of the keeper's socket and of its tenants' folders.
    std::string log;        // Standard error of the last keeper that was started.
    // Starts a keeper, which outlives this process. Empty if another process starts it.
    std::vector<std::string> command;
    std::function<Result<std::int64_t>()>
        start;  // Used instead of `command` when starting a keeper takes root's rights; returns the keeper's pid.
    std::function<void(const std::string& line)> note;
  };
  /// A keeper that runs answers within milliseconds; one that must be started, within some tenths of a second.
  static constexpr std::chrono::milliseconds kTriesEvery{50};
  static constexpr std::chrono::milliseconds kStartsEvery{2000};

  KeeperClient(boost::asio::io_context& loop, Options options);
  ~KeeperClient() override;

  /// Must be called before Open.
  void SetListener(KeeperListener& listener) { listener_ = &listener; }

  // KeeperPort
  void Open() override;
  void Ask(wire::KeeperRequest request, Answered answered) override;
  std::string Trouble() const override { return trouble_; }
  bool is_connected() const;

 private:
  struct Connection;
  void Try();
  void TryLater();
  void StartOne();
  void Reap();
  void OnConnected(std::unique_ptr<Connection> connection);
  void Read();
  void OnLine(std::string_view line);
  void Flush();
  void OnLost(const std::string& why);

  boost::asio::io_context& loop_;
  Options options_;
  KeeperListener* listener_ = nullptr;
  std::unique_ptr<Connection> connection_;
  std::map<std::uint64_t, Answered> asked_;
  std::uint64_t next_id_ = 1;
  bool is_open_ = false;
  std::int64_t child_ = 0;
  std::string trouble_;
  std::chrono::steady_clock::time_point started_at_{};
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace divvy
