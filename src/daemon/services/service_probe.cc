#include "daemon/services/service_probe.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <charconv>
#include <fstream>
#include <memory>
#include <utility>

#include "base/text.h"
#include "platform/os/unique_fd.h"

namespace divvy {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::seconds kProbeLimit{2};
constexpr std::size_t kStatusLine = 12;  // "HTTP/1.1 200"

// The local addresses that get connections to 127.0.0.1, as the tables write them (x86 and ARM: little-endian).
constexpr std::array<std::pair<std::string_view, int>, 4> kNearest = {{{"0100007F", 0},
                                                                       {"0000000000000000FFFF00000100007F", 0},
                                                                       {"00000000", 1},
                                                                       {"00000000000000000000000000000000", 2}}};

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

bool IsPortFree(std::uint16_t port) {
  const Descriptor end(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  return end.is_open() && ::bind(end.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

void AddListeners(std::istream& table, PortListeners& listeners) {
  std::string line;
  std::getline(table, line);  // Titles.
  while (std::getline(table, line)) {
    // Number, local address, remote address, state (0A: listens), queues, timers, retransmissions, uid.
    const auto words = SplitWords(line);
    if (words.size() < 8) continue;
    if (words[3] != "0A") return;
    const std::string_view local = words[1];
    const std::size_t colon = local.find(':');
    if (colon == std::string_view::npos) continue;
    const auto nearest = std::ranges::find(kNearest, local.substr(0, colon), &std::pair<std::string_view, int>::first);
    if (nearest == kNearest.end()) continue;
    std::uint16_t port = 0;
    std::from_chars(local.data() + colon + 1, local.data() + local.size(), port, 16);
    const std::int64_t uid = ParseInteger(words[7]).value_or(-1);
    const int rank = nearest->second;
    const auto [known, is_new] = listeners.try_emplace(port, PortListener{rank, uid});
    if (is_new || rank > known->second.nearness) continue;
    if (rank < known->second.nearness) known->second = {rank, uid};
    else if (known->second.uid != uid) known->second.uid = -1;
  }
}

PortListeners ReadListeners() {
  PortListeners listeners;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(path);
    AddListeners(file, listeners);
  }
  return listeners;
}

bool IsListenerOf(const PortListeners& listeners, std::int64_t uid, std::uint16_t port) {
  const auto found = listeners.find(port);
  return found != listeners.end() && uid >= 0 && found->second.uid == uid;
}

}  // namespace divvy
