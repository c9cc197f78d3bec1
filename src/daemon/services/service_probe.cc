#include "daemon/services/service_probe.h"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include "base/text.h"

namespace divvy {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::seconds kProbeLimit{2};
constexpr std::size_t kStatusLine = 12;  // "HTTP/1.1 200"

struct ReplicaProbe {
  explicit ReplicaProbe(asio::io_context& loop) : socket(loop), limit(loop) {}
  void Finish(bool is_ready) {
    limit.cancel();
    boost::system::error_code ignored;
    socket.close(ignored);
    if (auto call = std::exchange(done, nullptr)) call(is_ready);
  }

  asio::ip::tcp::socket socket;
  asio::steady_timer limit;
  std::string request;
  std::string answer = std::string(kStatusLine, '\0');
  std::function<void(bool)> done;
};

bool IsGoodStatus(const std::string& line) { return line.starts_with("HTTP/1.") && (line[9] == '2' || line[9] == '3'); }

}  // namespace

void ProbeReplica(asio::io_context& loop, const std::string& address, std::uint16_t port, const std::string& path,
                  std::function<void(bool)> done) {
  auto probe = std::make_shared<ReplicaProbe>(loop);
  probe->done = std::move(done);
  boost::system::error_code wrong;
  const auto host = asio::ip::make_address(address, wrong);
  if (wrong) return asio::post(loop, [probe] { probe->Finish(false); });
  if (!path.empty()) probe->request = "GET " + path + " HTTP/1.0\r\nHost: " + address + "\r\n\r\n";
  probe->limit.expires_after(kProbeLimit);
  probe->limit.async_wait([probe](const boost::system::error_code& cancelled) {
    if (!cancelled) probe->Finish(false);
  });
  probe->socket.async_connect({host, port}, [probe](const boost::system::error_code& refused) {
    if (refused || probe->request.empty()) return probe->Finish(!refused);
    asio::async_write(probe->socket, asio::buffer(probe->request),
                      [probe](const boost::system::error_code& broken, std::size_t) {
                        if (broken) return probe->Finish(false);
                        asio::async_read(probe->socket, asio::buffer(probe->answer),
                                         [probe](const boost::system::error_code& short_answer, std::size_t) {
                                           probe->Finish(!short_answer && IsGoodStatus(probe->answer));
                                         });
                      });
  });
}

std::optional<bool> IsListenerOf(std::string_view table, std::int64_t uid, std::uint16_t port) {
  char hex[8];
  std::snprintf(hex, sizeof hex, ":%04X", port);
  std::optional<bool> is_own;
  for (const std::string_view line : Split(table, '\n')) {
    // Number, local address, remote address, state (0A: listens), queues, timers, retransmissions, uid.
    const auto words = SplitWords(line);
    if (words.size() < 8 || words[3] != "0A" || !words[1].ends_with(hex)) continue;
    is_own = is_own.value_or(true) && ParseInteger(words[7]) == uid;
  }
  return is_own;
}

bool IsListenerOf(std::int64_t uid, std::uint16_t port) {
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    if (IsListenerOf(text.str(), uid, port) == false) return false;
  }
  return true;
}

}  // namespace divvy
