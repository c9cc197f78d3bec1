// The messages of the page: how a browser is let in. See messages.h for the conventions.
#pragma once

#include <cstdint>
#include <string>

namespace divvy::wire {

/// POST /v1/ui/links.
struct UiLinkRequest {
  bool is_remote = false;  // For a browser on another machine: a link over TLS.
};
struct UiLinkAnswer {
  std::string url;          // Good for one login: its secret is nowhere else.
  double lives_s = 0;       // So long.
  std::string fingerprint;  // Over TLS: SHA-256 of the certificate that the browser will ask about.
  std::string message;
};

/// POST /ui/login: one of the two.
struct UiLogin {
  std::string link;   // What stands behind #login= in a link.
  std::string token;  // The line that divvy token create printed, or "ID.SECRET".
};
struct UiLoginAnswer {
  std::string page;  // Every request of the page brings it as the header Divvy-Page, besides the cookie.
  std::string user;
  double expires = 0;
};

/// GET /v1/ui/me: who asks.
struct UiMe {
  std::string user;
  std::int64_t uid = -1;
  bool is_admin = false;
  bool may_change = true;  // False: a token that may only look.
  double time = 0;         // The daemon's clock now, which all other times are of.
  std::string host;        // The controller's machine,
  std::string program;     // and where divvy's program lies there.
};

}  // namespace divvy::wire
