#include <charconv>

#include "wire/http/http.h"

namespace divvy {
namespace {

void AppendDigits(std::string& out, std::uint64_t value, int base = 10) {
  char text[24];
  auto end = std::to_chars(text, text + sizeof text, value, base).ptr;
  out.append(text, static_cast<std::size_t>(end - text));
}

/// Writes a header as one line, whatever its value: a line break could inject another header.
void AppendHeader(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  for (char c : value) out.push_back(c == '\r' || c == '\n' || c == '\0' ? ' ' : c);
  out.append("\r\n");
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool IsUnreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

}  // namespace

std::string_view FindHeader(const HttpHeaders& headers, std::string_view name) {
  for (const auto& [known, value] : headers) {
    if (known == name) return value;
  }
  return {};
}

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    case 507:
      return "Insufficient Storage";
    default:
      return status < 400 ? "OK" : "Error";
  }
}

void Serialise(const HttpResponse& response, const SerialiseOptions& options, std::string& out) {
  bool has_no_body = response.status == 204 || response.status == 304;
  out.reserve(out.size() + response.body.size() + 128);
  out.append("HTTP/1.1 ");
  AppendDigits(out, static_cast<std::uint64_t>(response.status));
  out.append(" ").append(ReasonPhrase(response.status)).append("\r\n");
  if (!has_no_body) {
    AppendHeader(out, "Content-Type", response.content_type);
    if (options.is_chunked) {
      out.append("Transfer-Encoding: chunked\r\n");
    } else {
      out.append("Content-Length: ");
      AppendDigits(out, response.body.size());
      out.append("\r\n");
    }
  }
  for (const auto& [name, value] : response.headers) AppendHeader(out, name, value);
  if (!options.keeps_alive) out.append("Connection: close\r\n");
  out.append("\r\n");
  if (has_no_body || options.is_head) return;
  if (!options.is_chunked) {
    out.append(response.body);
  } else if (!response.body.empty()) {
    SerialiseChunk(response.body, out);
  }
}

std::string Serialise(const HttpResponse& response) {
  std::string out;
  Serialise(response, {}, out);
  return out;
}

void SerialiseChunk(std::string_view chunk, std::string& out) {
  AppendDigits(out, chunk.size(), 16);
  out.append("\r\n").append(chunk).append("\r\n");
}

void SerialiseRequest(std::string_view method, std::string_view target, std::string_view body, std::string& out,
                      std::string_view authorization) {
  out.reserve(out.size() + target.size() + body.size() + authorization.size() + 128);
  out.append(method).append(" ").append(target).append(" HTTP/1.1\r\nHost: divvy\r\n");
  if (!authorization.empty()) out.append("Authorization: ").append(authorization).append("\r\n");
  if (!body.empty()) out.append("Content-Type: application/json\r\n");
  if (!body.empty() || (method != "GET" && method != "HEAD")) {
    out.append("Content-Length: ");
    AppendDigits(out, body.size());
    out.append("\r\n");
  }
  out.append("\r\n").append(body);
}

std::string PercentEncode(std::string_view text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (char c : text) {
    if (IsUnreserved(c)) {
      out.push_back(c);
    } else {
      auto byte = static_cast<unsigned char>(c);
      out.push_back('%');
      out.push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 15]);
    }
  }
  return out;
}

std::optional<std::string> PercentDecode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      out.push_back(' ');
    } else if (text[i] != '%') {
      out.push_back(text[i]);
    } else {
      int high = i + 2 < text.size() ? HexValue(text[i + 1]) : -1;
      int low = i + 2 < text.size() ? HexValue(text[i + 2]) : -1;
      if (high < 0 || low < 0) return std::nullopt;
      out.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    }
  }
  return out;
}

}  // namespace divvy
