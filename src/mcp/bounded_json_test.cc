#include "mcp/bounded_json.h"

#include <gtest/gtest.h>

#include "wire/json/json.h"

namespace divvy::mcp {
namespace bounded_json_test {

std::string Of(std::string_view json, std::size_t most = 1000) {
  const auto bounded = BoundedJson(json, most);
  return bounded ? *bounded : bounded.error().message;
}

TEST(BoundedJson, LeavesOutWhatSaysNothing) {
  EXPECT_EQ(Of(R"({"a":null,"b":"","c":[],"d":{},"e":0,"f":false,"g":[0,""]})"), R"({"e":0,"f":false,"g":[0,""]})");
  EXPECT_EQ(Of(R"({"request":{"gpus":2,"cpus":0,"any":false,"fraction":{"limit":0,"request":0.5}}})"),
            R"({"request":{"gpus":2,"fraction":{"request":0.5}}})");
}

TEST(BoundedJson, ShowsControlCharacters) {
  EXPECT_EQ(Of("{\"name\":\"a\\u001b[31m\\n\\tb\\u202e\"}"), "{\"name\":\"a\\\\x1b[31m\\n\\tb\\\\u202e\"}");
  EXPECT_EQ(Of("{\"a\\u001b[31m\":1}"), "{\"a\\\\x1b[31m\":1}");
}

TEST(BoundedJson, CutsListsAndTextsThatAreTooLong) {
  std::string json = "[";
  for (int i = 0; i < 500; ++i) json += (i > 0 ? "," : "") + std::string(R"({"id":)") + std::to_string(i) + "}";
  json += "]";
  const std::string cut = Of(json, 400);
  EXPECT_LE(cut.size(), 400u);
  EXPECT_NE(cut.find(R"({"id":19},"... 480 more are left out"])"), std::string::npos) << cut;
  const std::string text = Of("\"" + std::string(5000, 'x') + "\"", 600);
  EXPECT_LE(text.size(), 600u);
  EXPECT_NE(text.find("xxx ... 4500 more bytes are left out"), std::string::npos) << text;
}

TEST(BoundedJson, CutsNoCharacterInItsMiddle) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "\u20ac";
  const std::string cut = Of("\"a" + text + "\"", 600);
  EXPECT_EQ(cut.find("\ufffd"), std::string::npos) << cut;
}

TEST(BoundedJson, NeverExceedsItsLimit) {
  for (const std::size_t most : {100u, 150u, 1000u, 5000u}) {
    std::string wide = "{";
    for (int i = 0; i < 3000; ++i)
      wide += (i > 0 ? "," : "") + ("\"k" + std::to_string(i) + "\":[\"" + std::string(60, '\x7f') + "\"]");
    EXPECT_LE(Of(wide + "}", most).size(), most);
  }
  EXPECT_NE(Of("{").find("line 1"), std::string::npos);
}

TEST(BoundedText, KeepsTheBeginning) {
  EXPECT_EQ(BoundedText("a\x1b[0m\nb", 100), "a\\x1b[0m\nb");
  const std::string cut = BoundedText("first " + std::string(1000, '\x7f'), 200);
  EXPECT_LE(cut.size(), 200u);
  EXPECT_TRUE(cut.starts_with("first \\x7f")) << cut;
  EXPECT_TRUE(cut.ends_with(" ... the rest is left out")) << cut;
}

TEST(BoundedTail, KeepsTheLastWholeLines) {
  EXPECT_EQ(BoundedTail("one\ntwo\n", 100, false), "one\ntwo\n");
  EXPECT_EQ(BoundedTail("two\n", 100, true), "[earlier output is left out]\ntwo\n");
  std::string log;
  for (int i = 0; i < 1000; ++i) log += "line " + std::to_string(i) + "\n";
  const std::string tail = BoundedTail(log, 200, false);
  EXPECT_LE(tail.size(), 200u);
  EXPECT_TRUE(tail.starts_with("[earlier output is left out]\nline ")) << tail;
  EXPECT_TRUE(tail.ends_with("line 999\n")) << tail;
  EXPECT_LE(BoundedTail(std::string(1000, 'x'), 200, false).size(), 200u) << "one long line";
  EXPECT_EQ(BoundedTail("a\x1b[0m\rb\xff", 100, false), "a\\x1b[0m\\x0db\ufffd");
  EXPECT_LE(BoundedTail(std::string(200, 'x'), 200, true).size(), 200u) << "the note counts too";
}

}  // namespace bounded_json_test
}  // namespace divvy::mcp
