#include "wire/http/http.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include <gtest/gtest.h>

namespace divvy {
namespace http_test {

/// "METHOD path body;" for each message, and the error if there is one.
std::string ReadAll(HttpReader& reader) {
  std::string seen;
  while (auto request = reader.Next()) seen += request->method + ' ' + request->path + ' ' + request->body + ';';
  if (reader.error()) seen += std::to_string(reader.error()->status) + ' ' + reader.error()->message;
  return seen;
}

std::string ReadText(std::string_view bytes, const HttpLimits& limits = {}) {
  HttpReader reader(limits);
  reader.Feed(bytes);
  return ReadAll(reader);
}

constexpr std::string_view kThree =
    "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
    "GET /b?q=1 HTTP/1.1\r\n\r\n"
    "POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n4;x=y\r\nfghi\r\n0\r\n\r\n";
constexpr std::string_view kThreeRead = "POST /a abc;GET /b ;POST /c defghi;";

TEST(Http, ReadsPipelinedRequests) {
  EXPECT_EQ(ReadText(kThree), kThreeRead);
  HttpReader reader;
  reader.Feed(kThree);
  reader.Feed(kThree);
  EXPECT_EQ(ReadAll(reader), std::string(kThreeRead) + std::string(kThreeRead));
  EXPECT_TRUE(reader.is_idle());
}

TEST(Http, PiecesOfAnySizeGiveTheSameResult) {
  for (std::size_t split = 0; split <= kThree.size(); ++split) {
    HttpReader reader;
    reader.Feed(kThree.substr(0, split));
    std::string seen = ReadAll(reader);
    reader.Feed(kThree.substr(split));
    EXPECT_EQ(seen + ReadAll(reader), kThreeRead) << split;
  }
  HttpReader reader;
  std::string seen;
  for (char c : kThree) {
    reader.Feed({&c, 1});
    seen += ReadAll(reader);
  }
  EXPECT_EQ(seen, kThreeRead);
}

TEST(Http, AShortLastPieceCompletesARequest) {
  // Wherever a message is split, its end is not held back until later bytes arrive.
  for (std::string_view text : {"GET / HTTP/1.1\r\nA: b\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde",
                                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}) {
    for (std::size_t split = 0; split <= text.size(); ++split) {
      for (std::size_t second = split; second <= text.size(); ++second) {
        HttpReader reader;
        reader.Feed(text.substr(0, split));
        std::string seen = ReadAll(reader);
        reader.Feed(text.substr(split, second - split));
        seen += ReadAll(reader);
        reader.Feed(text.substr(second));
        seen += ReadAll(reader);
        EXPECT_EQ(seen, ReadText(text)) << text << ' ' << split << ' ' << second;
      }
    }
  }
}

TEST(Http, ReadsTargetAndHeaders) {
  HttpReader reader;
  reader.Feed(
      "GET /v1/jobs/a%2Fb%20c?user=J%C3%BCrgen+K&all&x=1&x=2#top HTTP/1.1\r\nX-Thing:  two words \r\nx-thing: "
      "2\r\n\r\n");
  auto request = reader.Next();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->path, "/v1/jobs/a/b c");
  EXPECT_EQ(request->query.at("user"), "J\xC3\xBCrgen K");
  EXPECT_EQ(request->query.at("all"), "");
  EXPECT_EQ(request->query.at("x"), "2");
  EXPECT_EQ(request->header("x-thing"), "two words");
  EXPECT_EQ(request->header("none"), "");
  EXPECT_TRUE(request->keeps_alive);
}

TEST(Http, DetectsThatTheConnectionIsToClose) {
  struct Row {
    std::string_view text;
    bool keeps_alive;
    bool is_old;
  };
  const Row rows[] = {{"GET / HTTP/1.1\r\n\r\n", true, false},
                      {"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", false, false},
                      {"GET / HTTP/1.0\r\n\r\n", false, true},
                      {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true, true}};
  for (const Row& row : rows) {
    HttpReader reader;
    reader.Feed(row.text);
    auto request = reader.Next();
    ASSERT_TRUE(request) << row.text;
    EXPECT_EQ(request->keeps_alive, row.keeps_alive) << row.text;
    EXPECT_EQ(request->is_http_1_0, row.is_old) << row.text;
  }
}

TEST(Http, RefusesInvalidRequestsWithOneClearLine) {
  struct Row {
    std::string_view text;
    std::string_view error;
  };
  const Row rows[] = {
      {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400 this is not an HTTP request: bad method"},
      {"hello\r\n\r\n", "400 this is not an HTTP request: bad method"},
      {"GET /\r\n\r\n", "400 bad request target"},
      {"GET / HTTP/2.0\r\n\r\n", "505 only HTTP/1.0 and HTTP/1.1 are supported"},
      {"GET jobs HTTP/1.1\r\n\r\n", "400 the request target does not begin with '/'"},
      {"GET /%4 HTTP/1.1\r\n\r\n", "400 a '%' in the request target is not followed by two hex digits"},
      {"GET /?a=%xx HTTP/1.1\r\n\r\n", "400 a '%' in the request target is not followed by two hex digits"},
      {"GET / HTTP/1.1\r\nno colon\r\n\r\n", "400 bad header name"},
      {"GET / HTTP/1.1\r\nA: b\x01\r\n\r\n", "400 bad header value"},
      {"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", "400 a header is continued on the next line; write it in one line"},
      {"GET / HTTP/1.1\r\nA:\r\n\tb\r\n\r\n", "400 a header is continued on the next line; write it in one line"},
      {"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", "400 there are several Host headers; send one"},
      {"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "400 bad Content-Length"},
      {"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "400 bad Content-Length"},
      {"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", "501 Transfer-Encoding: gzip is not supported"},
      {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400 bad chunk in the body"},
      {"GET / HTTP/1.1\r\n\r\nGARBAGE\r\n\r\n", "GET / ;400 this is not an HTTP request: bad method"},
  };
  for (const Row& row : rows) {
    std::string seen = ReadText(row.text);
    EXPECT_EQ(seen, row.error) << row.text;
  }
  std::string both = ReadText("POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  EXPECT_TRUE(both.starts_with("400 ")) << both;
}

TEST(Http, DropsTrailers) {
  HttpReader reader;
  reader.Feed("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nHost: a\r\nCookie: b\r\n\r\n");
  const auto request = reader.Next();
  ASSERT_TRUE(request) << reader.error()->message;
  EXPECT_EQ(request->header("host"), "");
  EXPECT_EQ(request->header("cookie"), "");
}

TEST(Http, LimitsHeadersAndBodies) {
  HttpLimits limits{.header_bytes = 200, .body_bytes = 10};
  std::string long_header = "GET / HTTP/1.1\r\nA: " + std::string(300, 'a');
  EXPECT_EQ(ReadText(long_header, limits), "431 the request line and headers are longer than 200 bytes");
  EXPECT_EQ(ReadText(long_header + "\r\n\r\n", limits), "431 the request line and headers are longer than 200 bytes");
  EXPECT_EQ(ReadText("GET /" + std::string(300, 'a'), limits),
            "431 the request line and headers are longer than 200 bytes");
  EXPECT_EQ(ReadText("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n0123456789", limits), "POST / 0123456789;");
  EXPECT_EQ(ReadText("POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n", limits), "413 the body is longer than 10 bytes");
  EXPECT_EQ(ReadText("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n01234567\r\n8\r\n01234567\r\n", limits),
            "413 the body is longer than 10 bytes");
  std::string endless = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n8;" + std::string(300, 'x');
  EXPECT_NE(ReadText(endless, limits), "");
}

TEST(Http, GarbageIsNeverAccepted) {
  std::uint64_t bits = 88172645463325252u;
  auto next = [&] { return bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17; };
  for (int i = 0; i < 2000; ++i) {
    std::string text(kThree);
    for (int j = 0; j < 3; ++j) text[next() % text.size()] = static_cast<char>(next());
    HttpReader reader({.header_bytes = 512, .body_bytes = 64});
    std::size_t split = next() % text.size();
    reader.Feed(std::string_view(text).substr(0, split));
    std::string seen = ReadAll(reader);
    if (!reader.error()) {
      reader.Feed(std::string_view(text).substr(split));
      seen += ReadAll(reader);
    }
    EXPECT_LE(reader.consumed(), text.size());
    EXPECT_EQ(seen, ReadText(text, {.header_bytes = 512, .body_bytes = 64})) << split << ' ' << text;
  }
}

TEST(Http, CountsTheBytesOfEachRequest) {
  HttpReader reader;
  reader.Feed(kThree);
  std::vector<std::uint64_t> ends;
  while (reader.Next()) ends.push_back(reader.consumed());
  EXPECT_EQ(ends, (std::vector<std::uint64_t>{kThree.find("GET"), kThree.find("POST /c"), kThree.size()}));
  EXPECT_EQ(reader.fed(), kThree.size());
}

TEST(Http, DetectsThatAClientWaitsForContinue) {
  HttpReader reader;
  reader.Feed("POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
  EXPECT_FALSE(reader.Next());
  EXPECT_TRUE(reader.TakeExpectsContinue());
  EXPECT_FALSE(reader.TakeExpectsContinue());
  reader.Feed("x");
  EXPECT_EQ(ReadAll(reader), "POST / x;");
}

TEST(Http, AnswersAreReadBack) {
  HttpResponse response;
  response.status = 404;
  response.body = R"({"message":"no such job"})";
  response.headers = {{"X-Line", "a\r\nEvil: b"}};
  std::string text = Serialise(response);
  EXPECT_TRUE(text.starts_with("HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 25\r\n"));
  for (std::size_t split = 0; split <= text.size(); ++split) {
    HttpResponseReader reader;
    reader.Feed(std::string_view(text).substr(0, split));
    auto answer = reader.Next();
    EXPECT_EQ(answer.has_value(), split == text.size());
    reader.Feed(std::string_view(text).substr(split));
    if (!answer) answer = reader.Next();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 404);
    EXPECT_EQ(answer->content_type, "application/json");
    EXPECT_EQ(answer->body, response.body);
    EXPECT_EQ(answer->header("x-line"), "a  Evil: b");
    EXPECT_EQ(answer->header("evil"), "");
  }
}

TEST(Http, ChunkedAnswersCanBeReadAsTheyArrive) {
  std::string text;
  Serialise({.content_type = "text/event-stream"}, {.is_chunked = true}, text);
  HttpResponseReader reader;
  reader.Feed(text);
  EXPECT_FALSE(reader.Next());
  ASSERT_NE(reader.Partial(), nullptr);
  EXPECT_EQ(reader.Partial()->content_type, "text/event-stream");
  text.clear();
  SerialiseChunk("data: 1\n\n", text);
  reader.Feed(text);
  EXPECT_FALSE(reader.Next());
  EXPECT_EQ(reader.TakePartialBody(), "data: 1\n\n");
  EXPECT_EQ(reader.TakePartialBody(), "");
  text.clear();
  SerialiseChunk("", text);
  reader.Feed(text);
  auto end = reader.Next();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->body, "");
}

TEST(Http, AnInterruptedAnswerIsAnError) {
  HttpResponseReader reader;
  reader.Feed("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
  EXPECT_FALSE(reader.Next());
  reader.FinishInput();
  EXPECT_FALSE(reader.Next());
  ASSERT_TRUE(reader.error());
  EXPECT_EQ(reader.error()->message, "the connection ended in the middle of a message");
}

TEST(Http, AnAnswerWithoutALengthEndsWithTheConnection) {
  HttpResponseReader reader;
  reader.Feed("HTTP/1.1 200 OK\r\n\r\nab");
  EXPECT_FALSE(reader.Next());
  reader.FinishInput();
  auto answer = reader.Next();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, "ab");
}

TEST(Http, PercentEncodingWorksBothWays) {
  std::string all;
  for (int c = 0; c < 256; ++c) all.push_back(static_cast<char>(c));
  EXPECT_EQ(PercentDecode(PercentEncode(all), true), all);
  EXPECT_EQ(PercentEncode("a b/c~@"), "a%20b%2Fc~%40");
  EXPECT_EQ(PercentDecode("a+b", false), "a+b");
  EXPECT_EQ(PercentDecode("%", false), std::nullopt);
  EXPECT_EQ(PercentDecode("%4", false), std::nullopt);
}

TEST(Http, RequestsAreReadBack) {
  std::string text;
  SerialiseRequest("POST", "/v1/jobs?x=1", "{}", text);
  SerialiseRequest("GET", "/v1/status", "", text);
  SerialiseRequest("POST", "/v1/stop", "", text);
  EXPECT_EQ(ReadText(text), "POST /v1/jobs {};GET /v1/status ;POST /v1/stop ;");
}

TEST(Http, PassedDescriptorsAreClosedUnlessTaken) {
  int kept = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  int dropped = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  {
    HttpRequest request;
    request.fds.Add(dropped);
    HttpRequest moved = std::move(request);
    EXPECT_EQ(moved.fds.size(), 1u);
    PassedFds other;
    other.Add(kept);
    EXPECT_EQ(other.Take(), std::vector<int>{kept});
  }
  EXPECT_EQ(::fcntl(dropped, F_GETFD), -1);
  EXPECT_NE(::fcntl(kept, F_GETFD), -1);
  ::close(kept);
}

}  // namespace http_test
}  // namespace divvy
