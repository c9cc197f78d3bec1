#include "daemon/services/service_probe.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <utility>

#include "platform/os/unique_fd.h"

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

bool IsPortFree(std::uint16_t port) {
  const Descriptor end(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  return end.is_open() && ::bind(end.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

std::int64_t KernelPort() {
  const Descriptor end(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof address;
  if (!end.is_open() || ::bind(end.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::getsockname(end.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return 0;
  return ntohs(address.sin_port);
}

std::int64_t ListenerAtPort(std::uint16_t port) {
  const Descriptor end(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  struct {
    nlmsghdr head;
    inet_diag_req_v2 wanted;
  } request{};
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.head.nlmsg_flags = NLM_F_REQUEST;
  request.wanted.sdiag_family = AF_INET;
  request.wanted.sdiag_protocol = IPPROTO_TCP;
  request.wanted.idiag_states = 1U << TCP_LISTEN;
  // The kernel looks for the socket of a connection to this address from 0.0.0.0:0, as it does for a new connection.
  request.wanted.id.idiag_sport = htons(port);
  request.wanted.id.idiag_src[0] = htonl(INADDR_LOOPBACK);
  request.wanted.id.idiag_cookie[0] = request.wanted.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (!end.is_open() || ::send(end.get(), &request, sizeof request, 0) != static_cast<ssize_t>(sizeof request))
    return -1;
  alignas(nlmsghdr) char answer[1024];
  const ssize_t got = ::recv(end.get(), answer, sizeof answer, MSG_DONTWAIT);  // It was made while `send` ran.
  const auto* head = reinterpret_cast<const nlmsghdr*>(answer);
  if (got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg))) || head->nlmsg_type != SOCK_DIAG_BY_FAMILY)
    return -1;
  const auto* socket = reinterpret_cast<const inet_diag_msg*>(answer + NLMSG_LENGTH(0));
  return socket->idiag_state == TCP_LISTEN ? std::int64_t{socket->idiag_uid} : -1;
}

}  // namespace divvy
