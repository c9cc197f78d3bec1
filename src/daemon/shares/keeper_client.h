// The connection to the keeper of this node's shared GPUs: starts one where none answers, and stays joined to whichever
// there is. Belongs to the loop's thread.
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
    std::string directory;             // Where the keeper keeps its tenants' folders, and listens.
    std::string log;                   // What the last one that was started says on standard error.
    std::vector<std::string> command;  // Starts one, which goes on without us. Empty: somebody else does.
    std::function<Result<std::int64_t>()>
        start;  // In place of `command`, where it takes root's rights; returns its pid.
    std::function<void(const std::string& line)> note;
  };
  /// A keeper that is to be there answers within milliseconds; one that must be started, within some tenths of a
  /// second.
  static constexpr std::chrono::milliseconds kTriesEvery{50};
  static constexpr std::chrono::milliseconds kStartsEvery{2000};

  KeeperClient(boost::asio::io_context& loop, Options options);
  ~KeeperClient() override;

  /// Before Open.
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
