// The messages for the login of the web page. See messages.h for the conventions.
#pragma once

#include <cstdint>
#include <string>

namespace divvy::wire {

/// POST /v1/ui/links.
struct UiLinkRequest {
  bool is_remote = false;  // The browser runs on another machine: returns a TLS link.
};
struct UiLinkAnswer {
  std::string url;          // Valid for one login. The secret is stored nowhere else.
  double lifetime_s = 0;    // Lifetime of the link.
  std::string fingerprint;  // For TLS: SHA-256 of the certificate, which the browser will ask about.
  std::string message;
};

/// POST /ui/login: exactly one of the two is set.
struct UiLogin {
  std::string link;   // The text after #login= in a link.
  std::string token;  // The line that divvy token create printed, or "ID.SECRET".
};
struct UiLoginAnswer {
  std::string page;  // Every request of the page must send it in the header Divvy-Page, in addition to the cookie.
  std::string user;
  double expires = 0;
};

/// GET /v1/ui/me: the logged-in user.
struct UiMe {
  std::string user;
  std::int64_t uid = -1;
  bool is_admin = false;
  bool may_change = true;  // False: the token is read-only.
  double time = 0;         // The daemon's clock now. All other times are by this clock.
  std::string host;        // The controller's host.
  std::string program;     // The path of the divvy program on that host.
};

}  // namespace divvy::wire
