// The address of a database in PostgreSQL: checked without connecting, and shown without its secrets.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy {

/// Whether `text` is a URL of PostgreSQL ("postgresql://" or "postgres://"), as opposed to the path of a file.
bool IsPostgresUrl(std::string_view text);

/// Whether the URL contains a password, or the password of a TLS key.
bool HasPassword(std::string_view url);

/// `url` for messages: every password is "***". Works for malformed URLs too: what might be a password is masked.
std::string WithoutPassword(std::string_view url);

/// Removes every password of `url` from `text`, which may quote parts of it (an error of libpq).
std::string WithoutPasswordOf(std::string_view url, std::string text);

}  // namespace divvy
