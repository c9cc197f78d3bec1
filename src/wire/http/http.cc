// Boost.Beast's basic_parser parses the syntax. It is fed by put(), and none of Beast's stream algorithms are used. Our
// own sinks build the messages without a Beast container in between.
#include "wire/http/http.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <type_traits>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>

#include "base/text.h"

namespace divvy {
namespace {

namespace http = boost::beast::http;
using ErrorCodeOf = boost::beast::error_code;
using Text = boost::beast::string_view;

/// Buffer capacity that an idle connection keeps; a larger buffer is freed.
constexpr std::size_t kIdleBuffer = 16u << 10;
/// The last chunk has at least this many bytes, and any other chunk is followed by more. Beast 1.81 asserts if it is
/// called again for an unfinished chunk with fewer bytes.
constexpr std::size_t kLeastOfChunk = 5;

template <typename Target>
void AssignQuery(std::string_view query, Target& into, bool& is_good) {
  for (std::string_view pair : Split(query, '&')) {
    if (pair.empty()) continue;
    std::size_t equals = pair.find('=');
    std::string_view value = equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1);
    auto name = PercentDecode(pair.substr(0, equals), true);
    auto decoded = PercentDecode(value, true);
    is_good = is_good && name && decoded;
    if (is_good) into.insert_or_assign(*std::move(name), *std::move(decoded));
  }
}

HttpError Explain(const ErrorCodeOf& ec, const HttpLimits& limits) {
  switch (static_cast<http::error>(ec.value())) {
    case http::error::header_limit:
      return {431, "the request line and headers are longer than " + std::to_string(limits.header_bytes) + " bytes"};
    case http::error::body_limit:
      return {413, "the body is longer than " + std::to_string(limits.body_bytes) + " bytes"};
    case http::error::bad_version:
      return {505, "only HTTP/1.0 and HTTP/1.1 are supported"};
    case http::error::bad_method:
      return {400, "this is not an HTTP request: bad method"};
    case http::error::bad_target:
      return {400, "bad request target"};
    case http::error::bad_status:
    case http::error::bad_reason:
      return {400, "this is not an HTTP answer: bad status line"};
    case http::error::bad_field:
      return {400, "bad header name"};
    case http::error::bad_value:
    case http::error::bad_obs_fold:
      return {400, "bad header value"};
    case http::error::bad_content_length:
    case http::error::multiple_content_length:
      return {400, "bad Content-Length"};
    case http::error::bad_transfer_encoding:
      return {400, "bad Transfer-Encoding"};
    case http::error::bad_chunk:
    case http::error::bad_chunk_extension:
      return {400, "bad chunk in the body"};
    case http::error::partial_message:
      return {400, "the connection ended in the middle of a message"};
    default:
      return {400, "this is not HTTP"};
  }
}

}  // namespace

PassedFds::~PassedFds() {
  for (const int fd : fds_) {
    if (close_ != nullptr) close_(fd);
    else ::close(fd);
  }
}

template <typename Message>
class HttpMessageReader<Message>::Parser final : public http::basic_parser<std::is_same_v<Message, HttpRequest>> {
 public:
  static constexpr bool kIsRequest = std::is_same_v<Message, HttpRequest>;

  explicit Parser(const HttpLimits& limits) {
    this->eager(true);
    this->header_limit(static_cast<std::uint32_t>(limits.header_bytes));
    this->body_limit(limits.body_bytes);
    if constexpr (!kIsRequest) message.content_type.clear();
  }

  Message message;
  const char* end = nullptr;  // The end of the bytes that put() gets.
  HttpError refusal{0, ""};   // Set if the syntax is valid but we refuse the message.
  bool expects_continue = false;

 private:
  void Refuse(int status, std::string text, ErrorCodeOf& ec) {
    refusal = {status, std::move(text)};
    ec = http::error::bad_value;
  }

  void on_request_impl(http::verb, Text method, Text target, int version, ErrorCodeOf& ec) override {
    if constexpr (kIsRequest) {
      message.method.assign(method.data(), method.size());
      message.is_http_1_0 = version == 10;
      std::string_view rest(target.data(), target.size());
      rest = rest.substr(0, rest.find('#'));
      std::size_t mark = rest.find('?');
      auto path = PercentDecode(rest.substr(0, mark), false);
      bool is_good = path.has_value();
      if (is_good) message.path = *std::move(path);
      if (mark != std::string_view::npos) AssignQuery(rest.substr(mark + 1), message.query, is_good);
      if (!is_good) return Refuse(400, "a '%' in the request target is not followed by two hex digits", ec);
      if (message.path.empty() || (message.path[0] != '/' && message.path != "*")) {
        return Refuse(400, "the request target does not begin with '/'", ec);
      }
    }
  }

  void on_response_impl(int code, Text, int, ErrorCodeOf&) override {
    if constexpr (!kIsRequest) message.status = code;
  }

  // A proxy may read a folded line as two headers, and Beast reads it as one. `name` and the line after the value are
  // in the bytes of put().
  bool IsFolded(Text name) const {
    const char* line = std::find(name.data() + name.size(), end, '\n');
    return end - line > 1 && (line[1] == ' ' || line[1] == '\t');
  }

  void on_field_impl(http::field field, Text name, Text value, ErrorCodeOf& ec) override {
    if (IsFolded(name)) return Refuse(400, "a header is continued on the next line; write it in one line", ec);
    // A trailer, which arrives after everything that depends on headers was decided.
    if (this->is_header_done()) return;
    std::string text(value.data(), value.size());
    if constexpr (kIsRequest) {
      if (field == http::field::expect) expects_continue = EqualsIgnoringCase(text, "100-continue");
    } else if (field == http::field::content_type) {
      message.content_type = std::move(text);
      return;
    }
    message.headers.emplace_back(ToLower({name.data(), name.size()}), std::move(text));
  }

  void on_header_impl(ErrorCodeOf& ec) override {
    if constexpr (kIsRequest) {
      message.keeps_alive = this->keep_alive();
      if (std::ranges::count(message.headers, "host", &HttpHeaders::value_type::first) > 1)
        return Refuse(400, "there are several Host headers; send one", ec);
      std::string_view encoding = message.header("transfer-encoding");
      if (!encoding.empty() && !EqualsIgnoringCase(encoding, "chunked")) {
        Refuse(501, "Transfer-Encoding: " + std::string(encoding.substr(0, 40)) + " is not supported", ec);
      }
    }
  }

  void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCodeOf&) override {}

  std::size_t on_body_impl(Text body, ErrorCodeOf&) override {
    message.body.append(body.data(), body.size());
    return body.size();
  }

  void on_chunk_header_impl(std::uint64_t, Text, ErrorCodeOf&) override {}

  std::size_t on_chunk_body_impl(std::uint64_t, Text body, ErrorCodeOf&) override {
    message.body.append(body.data(), body.size());
    return body.size();
  }

  void on_finish_impl(ErrorCodeOf&) override {}
};

template <typename Message>
HttpMessageReader<Message>::HttpMessageReader(const HttpLimits& limits) : limits_(limits) {}
template <typename Message>
HttpMessageReader<Message>::HttpMessageReader(HttpMessageReader&&) noexcept = default;
template <typename Message>
HttpMessageReader<Message>& HttpMessageReader<Message>::operator=(HttpMessageReader&&) noexcept = default;
template <typename Message>
HttpMessageReader<Message>::~HttpMessageReader() = default;

template <typename Message>
void HttpMessageReader<Message>::Feed(std::string_view bytes) {
  if (error_) return;
  fed_ += bytes.size();
  buffer_.append(bytes);
}

template <typename Message>
bool HttpMessageReader<Message>::Advance() {
  if (parser_ == nullptr) {
    if (used_ == buffer_.size()) return false;
    parser_ = std::make_unique<Parser>(limits_);
  }
  while (!parser_->is_done() && used_ < buffer_.size()) {
    if (waits_for_more_ && buffer_.size() - used_ < kLeastOfChunk) break;
    ErrorCodeOf ec;
    std::size_t n = 0;
    parser_->end = buffer_.data() + buffer_.size();
    try {
      n = parser_->put(boost::asio::const_buffer(buffer_.data() + used_, buffer_.size() - used_), ec);
    } catch (const std::exception& thrown) {
      error_ = HttpError{400, std::string("this is not HTTP: ") + thrown.what()};
      return false;
    }
    used_ += n;
    waits_for_more_ =
        ec == http::error::need_more && used_ < buffer_.size() && parser_->is_header_done() && parser_->chunked();
    if (ec == http::error::need_more) {
      // Bytes of a body are consumed as they arrive. So bytes that are still unused belong to a header, a chunk header
      // or a trailer, for which the limit holds.
      if (buffer_.size() - used_ > limits_.header_bytes) error_ = Explain(http::error::header_limit, limits_);
      break;
    }
    if (ec) {
      error_ = parser_->refusal.status != 0 ? parser_->refusal : Explain(ec, limits_);
      return false;
    }
  }
  if (is_finished_ && !parser_->is_done() && !error_) {
    ErrorCodeOf ec;
    parser_->put_eof(ec);
    if (ec) error_ = Explain(ec, limits_);
  }
  return !error_ && parser_->is_done();
}

template <typename Message>
std::optional<Message> HttpMessageReader<Message>::Next() {
  if (error_) return std::nullopt;
  bool is_complete = Advance();
  if (used_ == buffer_.size()) {
    buffer_.clear();
    if (buffer_.capacity() > kIdleBuffer) buffer_ = std::string();
    used_ = 0;
  } else if (used_ > (64u << 10) && used_ > buffer_.size() / 2) {
    buffer_.erase(0, used_);
    used_ = 0;
  }
  if (!is_complete) return std::nullopt;
  consumed_ = fed_ - (buffer_.size() - used_);
  std::optional<Message> message(std::move(parser_->message));
  parser_.reset();
  return message;
}

template <typename Message>
void HttpMessageReader<Message>::FinishInput() {
  is_finished_ = true;
}

template <typename Message>
bool HttpMessageReader<Message>::is_idle() const {
  return parser_ == nullptr && used_ == buffer_.size();
}

template <typename Message>
bool HttpMessageReader<Message>::TakeExpectsContinue() {
  if (parser_ == nullptr || !parser_->is_header_done() || parser_->is_done()) return false;
  return std::exchange(parser_->expects_continue, false);
}

template <typename Message>
const Message* HttpMessageReader<Message>::Partial() const {
  return parser_ != nullptr && parser_->is_header_done() ? &parser_->message : nullptr;
}

template <typename Message>
std::string HttpMessageReader<Message>::TakePartialBody() {
  return parser_ == nullptr ? std::string() : std::exchange(parser_->message.body, {});
}

template class HttpMessageReader<HttpRequest>;
template class HttpMessageReader<HttpResponse>;

}  // namespace divvy
