// Browsers as bytes on a socket: which requests are accepted or refused, and the answers.
#include "daemon/api/call/ui_auth.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include "base/text.h"
#include "daemon/api/routes_test_world.h"
#include "daemon/requests/ui_files.h"
#include "platform/net/tcp.h"

namespace divvy {
namespace ui_auth_test {

struct Browser {
  std::string host;
  std::string cookie;
  std::string page;
};

class UiWorld : public World {
 public:
  explicit UiWorld(const UiAuth::Wishes& wishes = {}) {
    server_.reset();
    remote_ = std::make_shared<RemoteAccess>(RemoteAccess{RemoteCallers(tokens_,
                                                                        [](std::string_view name) {
                                                                          return User{7, 7, std::string(name)};
                                                                        }),
                                                          {},
                                                          ""});
    Open(wishes);
  }
  /// Creates the UiAuth as after a restart: only stored data is known.
  void Open(const UiAuth::Wishes& wishes = {}) {
    server_.reset();
    UiAuth::Ports listener;
    listener.host = "gpu1";
    listener.listen = [this](const HostPort&) -> Result<std::uint16_t> {
      DIVVY_TRY(const int fd, ListenTcp("127.0.0.1", 0));
      kept_ = Descriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
      server_->ListenPlain(Descriptor(fd));
      return server_->plain_port();
    };
    listener.listen_again = [this]() -> std::uint16_t {
      if (!kept_.is_open()) return 0;
      server_->ListenPlain(Descriptor(::fcntl(kept_.get(), F_DUPFD_CLOEXEC, 0)));
      return server_->plain_port();
    };
    ui_ = std::make_shared<UiAuth>(*driver_, sessions_, remote_, nullptr, wishes, std::move(listener));
    ApiPorts routing;
    routing.user_name = [](std::int64_t) { return "ada"; };
    routing.remote = remote_;
    routing.agents = listener_;
    routing.ui = ui_;
    Admins admins({}, [](const User&, const std::string&) { return false; });
    routes_ = std::make_unique<Routes>(*driver_, node_, About(), std::move(admins), std::move(routing));
    HttpServerOptions options;
    options.path = directory_ + "/ui-socket";
    server_ = *HttpServer::Listen(loop_, options, [this](const Peer& peer, HttpRequest&& request, Reply reply) {
      if (!ui_->Answers(peer, request, reply)) routes_->Handle(peer, std::move(request), std::move(reply));
    });
  }
  /// The secret of a new link for uid 7; opens the plain TCP listener.
  std::string Link() {
    const auto answer = ui_->MakeLink({7, 7, "ada", "", true});
    EXPECT_TRUE(answer) << answer.error().message;
    Settle();
    return answer->url.substr(answer->url.find('=') + 1);
  }
  /// Sends these bytes over loopback and returns the answer.
  std::string Ask(const std::string& text) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->plain_port());
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::send(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    std::string got;
    EXPECT_TRUE(TurnUntil([&] {
      Settle();
      char buffer[65536];
      const ssize_t count = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
      if (count > 0) got.append(buffer, static_cast<std::size_t>(count));
      return IsWhole(got);
    })) << text;
    ::close(fd);
    return got;
  }
  std::string Get(const std::string& path, const std::string& headers = "") {
    return Ask("GET " + path + " HTTP/1.1\r\n" + (headers.find("Host:") == std::string::npos ? Host() : "") + headers +
               "\r\n");
  }
  std::string Post(const std::string& path, const std::string& headers, const std::string& body) {
    return Ask("POST " + path + " HTTP/1.1\r\n" + (headers.find("Host:") == std::string::npos ? Host() : "") + headers +
               "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  std::string LogIn(const std::string& secret, const std::string& headers = "Divvy-Page: login\r\n") {
    return Post("/ui/login", headers, "{\"link\":\"" + secret + "\"}");
  }
  /// The headers of a logged-in page's requests.
  static std::string HeadersOf(const std::string& answer) {
    const auto between = [&](const std::string& from, char to) {
      const std::size_t at = answer.find(from) + from.size();
      return answer.substr(at, answer.find(to, at) - at);
    };
    return "Cookie: other=1; " + between("Set-Cookie: ", ';') + "\r\nDivvy-Page: " + between("\"page\":\"", '"') +
           "\r\n";
  }
  std::string Host() const { return "Host: 127.0.0.1:" + std::to_string(server_->plain_port()) + "\r\n"; }

  std::shared_ptr<RemoteAccess> remote_;
  UiSessions sessions_;
  std::shared_ptr<UiAuth> ui_;
  Descriptor kept_;  // The descriptor that a service manager would keep over a restart.

 private:
  static bool IsWhole(const std::string& got) {
    const std::size_t end = got.find("\r\n\r\n"), length = got.find("Content-Length: ");
    if (end != std::string::npos && got.starts_with("HTTP/1.1 304")) return true;
    if (end == std::string::npos || length == std::string::npos) return false;
    return got.size() >= end + 4 + std::stoul(got.substr(length + 16));
  }
};

int StatusOf(const std::string& answer) { return answer.size() < 12 ? 0 : std::stoi(answer.substr(9, 3)); }

TEST(UiAuth, ShowsOnlyThePageAndItsHeadersWithoutALogin) {
  UiWorld world;
  world.Link();
  const std::string page = world.Get("/");
  EXPECT_EQ(StatusOf(page), 200);
  for (const char* header : {"Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'",
                             "frame-ancestors 'none'", "X-Content-Type-Options: nosniff", "X-Frame-Options: DENY",
                             "Referrer-Policy: no-referrer", "Cross-Origin-Resource-Policy: same-origin"})
    EXPECT_NE(page.find(header), std::string::npos) << header;
  EXPECT_EQ(page.find("'unsafe"), std::string::npos);
  EXPECT_EQ(page.find("<script>"), std::string::npos) << "a script in the page itself would not run";
  for (const char* path :
       {"/v1/status", "/v1/jobs", "/v1/openapi.json", "/v1/agents/connect", "/nothing", "/index.html"})
    EXPECT_EQ(StatusOf(world.Get(path)), 401) << path;
}

TEST(UiAuth, SendsFilesCompressedAndOnlyIfTheyChanged) {
  UiWorld world;
  world.Link();
  const std::string plain = world.Get("/app.js"), packed = world.Get("/app.js", "Accept-Encoding: br, gzip\r\n");
  EXPECT_EQ(plain.find("Content-Encoding"), std::string::npos);
  EXPECT_NE(packed.find("Content-Encoding: gzip"), std::string::npos);
  EXPECT_LT(packed.size(), plain.size() / 2);
  const std::string etag = FindUiFile("/app.js")->etag;
  EXPECT_EQ(StatusOf(world.Get("/app.js", "If-None-Match: " + etag + "\r\n")), 304);
  EXPECT_EQ(FindUiFile("/app.js/"), nullptr);
}

TEST(UiAuth, ALoginLinkWorksOnce) {
  UiWorld world;
  const std::string secret = world.Link();
  const std::string first = world.LogIn(secret);
  ASSERT_EQ(StatusOf(first), 200) << first;
  for (const char* mark : {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=604800"})
    EXPECT_NE(first.find(mark), std::string::npos) << mark;
  EXPECT_EQ(StatusOf(world.Get("/v1/status", UiWorld::HeadersOf(first))), 200);
  const std::string second = world.LogIn(secret);
  EXPECT_EQ(StatusOf(second), 401);
  EXPECT_NE(second.find("was already used"), std::string::npos);
  EXPECT_EQ(StatusOf(world.LogIn(std::string(64, '0'))), 401);
  for (const char* nothing : {"{}", "[]", "", "{\"link\":7}"})
    EXPECT_EQ(StatusOf(world.Post("/ui/login", "Divvy-Page: login\r\n", nothing)), 401) << nothing;
}

TEST(UiAuth, ALoginBeginsWhenItCanBeStored) {
  UiWorld world;
  const std::string secret = world.Link();
  int looks = 0;
  world.may_act_ = false;
  world.after_ = [&](Duration delay, std::function<void()> task) {
    if (++looks == 3) world.may_act_ = true;
    world.clock_.Advance(delay);
    world.posted_.push_back(std::move(task));
  };
  const std::string in = world.LogIn(secret);
  EXPECT_EQ(StatusOf(in), 200) << in;
  EXPECT_GE(looks, 3);
  EXPECT_EQ(StatusOf(world.Get("/v1/status", UiWorld::HeadersOf(in))), 200);

  // It may be long until then.
  const std::string second = world.Link();
  world.may_act_ = false;
  looks = 10;
  const std::string refused = world.LogIn(second);
  EXPECT_EQ(StatusOf(refused), 503) << refused;
  EXPECT_NE(refused.find("nothing was changed"), std::string::npos) << refused;
  world.may_act_ = true;
  EXPECT_EQ(StatusOf(world.LogIn(second)), 200) << "the link was not used up";
}

TEST(UiAuth, ALinkAndASessionExpire) {
  UiWorld world;
  const std::string late = world.Link();
  world.clock_.Advance(UiSessions::kLinkLives);
  EXPECT_NE(world.LogIn(late).find("this link has expired"), std::string::npos);
  const std::string in = world.LogIn(world.Link());
  world.clock_.Advance(UiSessions::kSessionLives - 1s);
  EXPECT_EQ(StatusOf(world.Get("/v1/status", UiWorld::HeadersOf(in))), 200);
  world.clock_.Advance(1s);
  EXPECT_EQ(StatusOf(world.Get("/v1/status", UiWorld::HeadersOf(in))), 401);
}

TEST(UiAuth, BothTheCookieAndThePageSecretAreNeeded) {
  UiWorld world;
  const std::string a = UiWorld::HeadersOf(world.LogIn(world.Link())),
                    b = UiWorld::HeadersOf(world.LogIn(world.Link()));
  const auto cookie = [](const std::string& headers) { return headers.substr(0, headers.find("\r\n") + 2); };
  const auto page = [](const std::string& headers) { return headers.substr(headers.find("Divvy-Page")); };
  EXPECT_EQ(StatusOf(world.Get("/v1/status", cookie(a) + page(a))), 200);
  EXPECT_EQ(StatusOf(world.Get("/v1/status", cookie(a))), 401) << "as a form or a link of another page would send it";
  EXPECT_EQ(StatusOf(world.Get("/v1/status", page(a))), 401);
  EXPECT_EQ(StatusOf(world.Get("/v1/status", cookie(a) + page(b))), 401);
  EXPECT_EQ(StatusOf(world.Post("/v1/jobs/cancel", cookie(a), "{}")), 401);
}

TEST(UiAuth, CrossSiteRequestsAreRefused) {
  UiWorld world;
  const std::string in = UiWorld::HeadersOf(world.LogIn(world.Link()));
  const std::string port = std::to_string(world.server_->plain_port());
  for (const std::string& header : {std::string("Origin: http://evil.example"), std::string("Origin: null"),
                                    std::string("Origin: http://127.0.0.1:1"), "Origin: https://127.0.0.1:" + port,
                                    "Origin: http://localhost:" + port, std::string("Sec-Fetch-Site: cross-site"),
                                    std::string("Sec-Fetch-Site: same-site")}) {
    EXPECT_EQ(StatusOf(world.Get("/v1/status", in + header + "\r\n")), 403) << header;
    EXPECT_EQ(StatusOf(world.LogIn(world.Link(), "Divvy-Page: login\r\n" + header + "\r\n")), 403) << header;
  }
  EXPECT_EQ(StatusOf(world.Get("/v1/status", in + "Origin: http://127.0.0.1:" + port + "\r\n")), 200);
  EXPECT_EQ(StatusOf(world.Get("/v1/status", in + "Sec-Fetch-Site: same-origin\r\n")), 200);
  // A link from another site to the page itself is harmless.
  EXPECT_EQ(StatusOf(world.Get("/", "Sec-Fetch-Site: cross-site\r\n")), 200);
  EXPECT_EQ(StatusOf(world.LogIn(world.Link(), "")), 401) << "without the header that only a script of ours sends";
}

TEST(UiAuth, AForeignHostHeaderIsRefusedEverywhere) {
  UiWorld world;
  const std::string in = UiWorld::HeadersOf(world.LogIn(world.Link()));
  for (const char* host : {"evil.example", "evil.example:8642", "127.0.0.1.evil.example", "localhost.evil.example", "",
                           "10.0.0.1", "[::2]:80", "gpu1", "[::1].evil.example", "[::1]evil:80", "[::1", "[localhost]",
                           "::1", "localhost:80:evil", "localhost:evil", "localhost@evil.example"}) {
    const std::string header = "Host: " + std::string(host) + "\r\n";
    EXPECT_EQ(StatusOf(world.Get("/", header)), 403) << host;
    EXPECT_EQ(StatusOf(world.Get("/v1/status", header + in)), 403) << host;
    EXPECT_EQ(StatusOf(world.LogIn("x", header + "Divvy-Page: login\r\n")), 403) << host;
  }
  // Also with another port, as at the end of a tunnel.
  for (const char* host : {"localhost:9999", "127.0.0.1", "[::1]:8642", "LOCALHOST"})
    EXPECT_EQ(StatusOf(world.Get("/", "Host: " + std::string(host) + "\r\n")), 200) << host;
}

TEST(UiAuth, LogOutEndsTheSession) {
  UiWorld world;
  const std::string in = UiWorld::HeadersOf(world.LogIn(world.Link()));
  const std::string out = world.Post("/ui/logout", in, "{}");
  EXPECT_EQ(StatusOf(out), 200);
  EXPECT_NE(out.find("Max-Age=0"), std::string::npos);
  EXPECT_EQ(StatusOf(world.Get("/v1/status", in)), 401);
}

TEST(UiAuth, SessionsSurviveARestartOnTheSamePortButSecretsAreNeverStored) {
  UiWorld world;
  const std::string in = UiWorld::HeadersOf(world.LogIn(world.Link()));
  const std::uint16_t port = world.server_->plain_port();
  const auto restart = [&] {
    world.Settle();
    world.sessions_ = UiSessions();
    const auto kept = world.store_.Load();
    for (const auto& [key, text] : kept->settings) {
      world.sessions_.LoadSetting(key, text);
      EXPECT_EQ(text.find(in.substr(in.find('.') + 1, 64)), std::string::npos);
    }
    world.Open();
    ASSERT_TRUE(world.ui_->Open());
  };
  restart();
  EXPECT_EQ(world.server_->plain_port(), port);
  EXPECT_EQ(StatusOf(world.Get("/v1/status", in)), 200);

  // The port was free for a while.
  world.kept_.Reset();
  restart();
  EXPECT_EQ(StatusOf(world.Get("/v1/status", in)), 401);
  // A listener that was kept later does not bring the session back.
  restart();
  EXPECT_EQ(StatusOf(world.Get("/v1/status", in)), 401);
}

TEST(UiAuth, ATokenLogsInWithItsRightsAndUntilItExpires) {
  UiWorld world;
  TokenRow row;
  row.user = "ada";
  row.role = TokenRole::kViewer;
  Caller admin;
  admin.is_admin = true;
  const auto made = world.remote_->callers.Make(row, admin);
  ASSERT_TRUE(made);
  world.Link();
  const std::string bearer = made->id + "." + made->secret;
  const std::string answer = world.Post("/ui/login", "Divvy-Page: login\r\n", "{\"token\":\"" + bearer + "\"}");
  ASSERT_EQ(StatusOf(answer), 200) << answer;
  const std::string in = UiWorld::HeadersOf(answer);
  EXPECT_NE(world.Get("/v1/ui/me", in).find("\"may_change\":false"), std::string::npos);
  EXPECT_EQ(StatusOf(world.Get("/v1/status", in)), 200);
  const std::string refused = world.Post("/v1/jobs/cancel", in, "{\"select\":{\"ids\":[\"1\"]}}");
  EXPECT_NE(refused.find("is read-only"), std::string::npos) << refused;
  ASSERT_TRUE(world.remote_->callers.Remove(made->id, admin));
  EXPECT_NE(world.Get("/v1/status", in).find("has been removed"), std::string::npos);
  EXPECT_EQ(StatusOf(world.Post("/ui/login", "Divvy-Page: login\r\n", "{\"token\":\"" + bearer + "\"}")), 401);
  EXPECT_EQ(StatusOf(world.Post("/ui/login", "Divvy-Page: login\r\n", "{\"token\":\"nonsense\"}")), 401);
}

TEST(UiAuth, ThePageCannotCreateLinksOrTokens) {
  UiWorld world;
  const std::string in = UiWorld::HeadersOf(world.LogIn(world.Link()));
  EXPECT_EQ(StatusOf(world.Post("/v1/ui/links", in, "{}")), 403);
  EXPECT_EQ(StatusOf(world.Post("/v1/tokens", in, "{}")), 403);
}

TEST(UiAuth, CanBeSwitchedOff) {
  UiAuth::Wishes wishes;
  wishes.is_off = true;
  UiWorld world(wishes);
  const auto link = world.ui_->MakeLink({7, 7, "ada", "", true});
  ASSERT_FALSE(link);
  EXPECT_NE(link.error().message.find("the page is off"), std::string::npos);
  const auto remote = UiWorld().ui_->MakeLink({7, 7, "ada", "", false});
  ASSERT_FALSE(remote);
  EXPECT_NE(remote.error().message.find("remote = true in [ui]"), std::string::npos);
}

TEST(UiSessions, TheOldestAreDroppedWhenThereAreTooMany) {
  UiSessions sessions;
  const UiIdentity ada{7, 7, "ada", "", true};
  const Time begin(std::chrono::hours(500'000));
  const std::string first = *sessions.MakeLink(ada, begin);
  for (std::size_t i = 0; i < UiSessions::kMostLinksOfAUser; ++i)
    ASSERT_TRUE(sessions.MakeLink(ada, begin + std::chrono::seconds(1 + i)));
  EXPECT_FALSE(sessions.UseLink(first, true, begin + 30s));
  const auto oldest = sessions.Begin(ada, begin);
  for (std::size_t i = 1; i < UiSessions::kMostSessionsOfAUser; ++i)
    ASSERT_TRUE(sessions.Begin(ada, begin + std::chrono::seconds(i)));
  EXPECT_TRUE(sessions.Find(oldest->cookie, oldest->page, true, begin + 1h));
  const auto more = sessions.Begin(ada, begin + 1h);
  EXPECT_EQ(more->settings.size(), 2u) << "one row goes and one comes";
  EXPECT_FALSE(sessions.Find(oldest->cookie, oldest->page, true, begin + 1h));
  EXPECT_TRUE(sessions.Find(more->cookie, more->page, true, begin + 1h));
  EXPECT_FALSE(sessions.Find(more->cookie, more->page, false, begin + 1h)) << "by the other door";
}

}  // namespace ui_auth_test
}  // namespace divvy
