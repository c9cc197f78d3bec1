#include "wire/json/json.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

namespace divvy {
namespace json_test {

enum class Mood : std::uint8_t { kCalm, kTimedOut, kAfterNotOk, kHTTPBusy = 200 };
BOOST_DESCRIBE_ENUM(Mood, kCalm, kTimedOut, kAfterNotOk, kHTTPBusy)

using ThingId = Id<struct ThingTag>;

struct Card {
  std::uint8_t index = 0;
  std::string uuid;
  bool is_good = true;
  friend bool operator==(const Card&, const Card&) = default;
};
BOOST_DESCRIBE_STRUCT(Card, (), (index, uuid, is_good))

struct Everything {
  bool flag = false;
  int number = 7;
  std::int8_t tiny = 0;
  std::int64_t wide = 0;
  std::uint64_t natural = 0;
  double real = 0;
  std::string text = "as it was";
  Mood mood = Mood::kCalm;
  std::optional<int> maybe;
  std::optional<Card> maybe_card;
  std::vector<std::string> words;
  std::vector<Card> gpus;
  std::map<std::string, std::int64_t> limits;
  Card card;
  ThingId id;
  Bytes memory;
  GpuShare share;
  Time begin = kNoTime;
  Duration time_limit = 30s;
  GpuSet set;
  IndexRanges indices;
  std::optional<ThingId> other;
  friend bool operator==(const Everything&, const Everything&) = default;
};
BOOST_DESCRIBE_STRUCT(Everything, (),
                      (flag, number, tiny, wide, natural, real, text, mood, maybe, maybe_card, words, gpus, limits,
                       card, id, memory, share, begin, time_limit, set, indices, other))

struct Renamed {
  std::vector<Card> cards;
  int now = 1;
  friend bool operator==(const Renamed&, const Renamed&) = default;
};
BOOST_DESCRIBE_STRUCT(Renamed, (), (cards, now))
constexpr std::array<RenamedField, 2> RenamedFields(const Renamed*) {
  return {{{"allocations", "cards"}, {"now", "then"}}};
}

struct DerivedFromRenamed : Renamed {
  int own = 0;
};
BOOST_DESCRIBE_STRUCT(DerivedFromRenamed, (Renamed), (own))

struct Tree {
  int value = 0;
  std::vector<Tree> children;
  friend bool operator==(const Tree&, const Tree&) = default;
};
BOOST_DESCRIBE_STRUCT(Tree, (), (value, children))

Everything Full() {
  Everything all;
  all.flag = true;
  all.number = -3;
  all.tiny = -128;
  all.wide = std::numeric_limits<std::int64_t>::min();
  all.natural = std::numeric_limits<std::uint64_t>::max();
  all.real = 0.1;
  all.text = "q\" b\\ n\n t\t \x01 \xC3\xA4 \xF0\x9F\x98\x80";
  all.mood = Mood::kHTTPBusy;
  all.maybe = 0;
  all.maybe_card = Card{255, "GPU-1", false};
  all.words = {"", "a"};
  all.gpus = {{0, "x", true}, {1, "y", false}};
  all.limits = {{"", 0}, {"nofile", -1}};
  all.card.uuid = "c";
  all.id = ThingId(17);
  all.memory = Bytes(80) + 80_GiB;
  all.share = GpuShare(2500);
  all.begin = Time(std::chrono::microseconds(1790000000123456));
  all.time_limit = 90500ms;
  all.set = GpuSet::FromBits(0x8000000000000005u);
  all.indices = IndexRanges(4, 99);
  all.other = ThingId(1);
  return all;
}

std::string ErrorOf(std::string_view text, Unknown unknown = Unknown::kIgnore) {
  Result<Everything> read = FromJson<Everything>(text, unknown);
  return read ? "no error" : read.error().message;
}

template <typename T>
T Read(std::string_view text) {
  Result<T> read = FromJson<T>(text);
  EXPECT_TRUE(read) << text << ": " << (read ? "" : read.error().message);
  return read ? *read : T{};
}

TEST(Json, ReadsBackWhatItWrites) {
  EXPECT_EQ(Read<Everything>(ToJson(Everything())), Everything());
  EXPECT_EQ(Read<Everything>(ToJson(Full())), Full());
  EXPECT_EQ(ToJson(Read<Everything>(ToJson(Full()))), ToJson(Full()));
}

TEST(Json, ChangedFieldsAloneAreReadBackAsTheWhole) {
  EXPECT_EQ(ToJson(Everything(), Fields::kChanged), "{}");
  EXPECT_EQ(Read<Everything>(ToJson(Full(), Fields::kChanged)), Full());
  Everything one;
  one.card.is_good = false;
  one.gpus = {{}, {3, "", true}};
  EXPECT_EQ(ToJson(one, Fields::kChanged), R"({"gpus":[{},{"index":3}],"card":{"is_good":false}})");
  Everything back_to_none;
  back_to_none.text.clear();
  EXPECT_EQ(Read<Everything>(ToJson(back_to_none, Fields::kChanged)), back_to_none);
}

TEST(Json, MatchesTheExpectedText) {
  EXPECT_EQ(ToJson(Full()),
            R"({"flag":true,"number":-3,"tiny":-128,"wide":-9223372036854775808,"natural":18446744073709551615,)"
            R"("real":0.1,"text":"q\" b\\ n\n t\t \u0001 )"
            "\xC3\xA4 \xF0\x9F\x98\x80"
            R"(","mood":"http_busy","maybe":0,"maybe_card":{"index":255,"uuid":"GPU-1","is_good":false},)"
            R"("words":["","a"],"gpus":[{"index":0,"uuid":"x","is_good":true},{"index":1,"uuid":"y","is_good":false}],)"
            R"("limits":{"":0,"nofile":-1},"card":{"index":0,"uuid":"c","is_good":true},"id":17,"memory":85899346000,)"
            R"("share":0.25,"begin":1790000000.123456,"time_limit":90.5,"set":[0,2,63],"indices":"4-99","other":1})");
  EXPECT_NE(ToJson(Everything()).find(R"("begin":null,"time_limit":30,"set":[],"indices":"","other":null)"),
            std::string::npos);
}

TEST(Json, WritesDoublesShortAndPlain) {
  struct Row {
    double value;
    std::string text;
  };
  const Row rows[] = {{0, "0"},
                      {0.5, "0.5"},
                      {-1.25, "-1.25"},
                      {100000, "100000"},
                      {1790000000.123456, "1790000000.123456"},
                      {1e20, "1e+20"},
                      {0.0001, "0.0001"},
                      {1e-9, "1e-09"},
                      {std::nan(""), "null"},
                      {INFINITY, "null"},
                      {0.1 + 0.2, "0.30000000000000004"},
                      {123456789012345.6, "123456789012345.6"}};
  for (const Row& row : rows) EXPECT_EQ(ToJson(row.value), row.text);
}

TEST(Json, DoublesAreReadBackExactly) {
  std::uint64_t bits = 88172645463325252u;
  for (int i = 0; i < 2000; ++i) {
    bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
    double value;
    std::memcpy(&value, &bits, sizeof value);
    if (std::isfinite(value)) {
      EXPECT_EQ(Read<double>(ToJson(value)), value);
    }
    double seconds = 1.7e9 + static_cast<double>(bits % 1'000'000'000) / 1e6;
    EXPECT_EQ(Read<double>(ToJson(seconds)), seconds);
  }
}

TEST(Json, ReplacesInvalidUtf8) {
  struct Row {
    std::string_view bytes;
    std::string_view text;
  };
  const Row rows[] = {{"a\xFFz", "a\xEF\xBF\xBDz"},
                      {"\xC3", "\xEF\xBF\xBD"},
                      {"\xC0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD"},
                      {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
                      {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
                      {"\xE2\x82\xAC", "\xE2\x82\xAC"},
                      {"\xE2\x82"
                       "a",
                       "\xEF\xBF\xBD\xEF\xBF\xBD"
                       "a"}};
  for (const Row& row : rows) EXPECT_EQ(Read<std::string>(ToJson(std::string(row.bytes))), row.text);
}

TEST(Json, MissingFieldsKeepTheirDefaultsAndUnknownOnesAreIgnored) {
  Everything read = Read<Everything>(R"( {"number": 1.0, "later": {"a": [1, {"b": null}]}, "natural": 3e2} )");
  EXPECT_EQ(read.number, 1);
  EXPECT_EQ(read.natural, 300u);
  EXPECT_EQ(read.text, "as it was");
  EXPECT_EQ(read.time_limit, 30s);
}

TEST(Json, NullClearsOptionalFieldsAndTheLastOfRepeatedFieldsCounts) {
  Everything read = Read<Everything>(R"({"maybe":1,"maybe":null,"begin":5,"begin":null,"words":["a"],"words":["b"]})");
  EXPECT_EQ(read.maybe, std::nullopt);
  EXPECT_EQ(read.begin, kNoTime);
  EXPECT_EQ(read.words, std::vector<std::string>{"b"});
  EXPECT_EQ(Read<Everything>(R"({"begin":1e300})").begin, kNever);
  EXPECT_EQ(Read<Everything>(ToJson(Everything{.begin = kNever})).begin, kNever);
}

TEST(Json, ReadsEscapes) {
  EXPECT_EQ(Read<std::string>(R"("a\u00e4\ud83d\ude00\/\n\u0000b")"),
            std::string("a\xC3\xA4\xF0\x9F\x98\x80/\n\0b", 11));
  EXPECT_EQ(Read<Everything>(R"({"n\u0075mber": 5, "limits": {"a\nb": 1}})").number, 5);
  EXPECT_EQ(Read<Everything>(R"({"limits": {"a\nb": 1}})").limits.begin()->first, "a\nb");
}

TEST(Json, ReadsRecursiveTypes) {
  Tree tree{1, {{2, {}}, {3, {{4, {}}}}}};
  EXPECT_EQ(Read<Tree>(ToJson(tree)), tree);
}

TEST(Json, ErrorsNameTheProblemAndThePlace) {
  struct Row {
    std::string_view text;
    std::string_view message;
  };
  const Row rows[] = {
      {R"([])", "expected an object, got an array"},
      {R"(null)", "expected an object, got null"},
      {R"({"flag": 1})", "flag: expected true or false, got a number"},
      {R"({"flag": null})", "flag: expected true or false, got null"},
      {R"({"number": "1"})", "number: expected a number, got a string"},
      {R"({"number": 1.5})", "number: expected a whole number, got 1.5"},
      {R"({"number": 2147483648})", "number: 2147483648 is out of range (-2147483648 to 2147483647)"},
      {R"({"tiny": 128})", "tiny: 128 is out of range (-128 to 127)"},
      {R"({"tiny": -129})", "tiny: -129 is out of range (-128 to 127)"},
      {R"({"wide": 9223372036854775808})",
       "wide: 9223372036854775808 is out of range (-9223372036854775808 to 9223372036854775807)"},
      {R"({"natural": -1})", "natural: -1 is out of range (0 to 18446744073709551615)"},
      {R"({"natural": 18446744073709551616})",
       "natural: 18446744073709551616 is out of range (0 to 18446744073709551615)"},
      {R"({"natural": 1e17})", "natural: 1e+17 is out of range (0 to 18446744073709551615)"},
      {R"({"real": "x"})", "real: expected a number, got a string"},
      {R"({"text": false})", "text: expected a string, got false"},
      {R"({"mood": "timedout"})",
       R"(mood: "timedout" is not one of calm, timed_out, after_not_ok, http_busy (did you mean timed_out?))"},
      {R"({"mood": 1})", "mood: expected a string, got a number"},
      {R"({"maybe": {}})", "maybe: expected a number, got an object"},
      {R"({"maybe_card": {"index": 256}})", "maybe_card.index: 256 is out of range (0 to 255)"},
      {R"({"words": "a"})", "words: expected an array, got a string"},
      {R"({"words": ["a", 2, null]})",
       "words[1]: expected a string, got a number; words[2]: expected a string, got null"},
      {R"({"gpus": [{}, {"index": "0"}], "time_limit": true})",
       "gpus[1].index: expected a number, got a string; time_limit: expected a number, got true"},
      {R"({"limits": []})", "limits: expected an object, got an array"},
      {R"({"limits": {"a": 1, "b c": 1.5}})", R"(limits["b c"]: expected a whole number, got 1.5)"},
      {R"({"card": 3})", "card: expected an object, got a number"},
      {R"({"id": -1})", "id: -1 is out of range (0 to 18446744073709551615)"},
      {R"({"memory": "1G"})", "memory: expected a number, got a string"},
      {R"({"share": 0.00001})", "share: a GPU fraction has at most four decimal places"},
      {R"({"begin": -1})", "begin: a time is in seconds since 1970 and must not be negative"},
      {R"({"set": [1, 64]})", "set: GPU 64 is out of range (0 to 63)"},
      {R"({"set": [1, "x"]})", "set[1]: expected a number, got a string"},
  };
  for (const Row& row : rows) EXPECT_EQ(ErrorOf(row.text), row.message) << row.text;
  EXPECT_NE(ErrorOf(R"({"indices": "9-4x"})").find("indices: "), std::string::npos);
}

TEST(Json, RefusesUnknownFieldsWithTheNearestNameOnRequest) {
  EXPECT_EQ(ErrorOf(R"({"gpu": [], "zzzzzz": 1, "card": {"uid": ""}})", Unknown::kRefuse),
            "gpu: unknown field, did you mean gpus?; zzzzzz: unknown field; "
            "card.uid: unknown field, did you mean uuid?");
}

TEST(Json, ReportsTwentyErrorsAndCountsTheRest) {
  std::string text = R"({"words":[1)";
  for (int i = 0; i < 49; ++i) text += ",1";
  std::string message = ErrorOf(text + "]}");
  EXPECT_NE(message.find("words[19]: "), std::string::npos);
  EXPECT_EQ(message.find("words[20]: "), std::string::npos);
  EXPECT_TRUE(message.ends_with("; and 30 more")) << message;
}

TEST(Json, NamesThePlaceOfASyntaxError) {
  struct Row {
    std::string_view text;
    std::string_view message;
  };
  const Row rows[] = {
      {"", "line 1, column 1: the text ends in the middle of a value"},
      {"{\"a\": 1,\n \"b\": [1, 2", "line 2, column 12: the text ends in the middle of a value"},
      {"{\"a\": 1,\n \"b\" 2}", "line 2, column 6: this is not JSON"},
      {"{} x", "line 1, column 4: something follows the end of the value"},
      {"{'a': 1}", "line 1, column 2: this is not JSON"},
      {"[1,]", "line 1, column 4: this is not JSON"},
      {"01", "line 1, column 2: something follows the end of the value"},
      {"nul", "line 1, column 4: the text ends in the middle of a value"},
      {"\"\\ud800\\u0061\"", "line 1, column 10: a broken \\u escape in a string"},
      {"\"a\nb\"", "line 1, column 3: this is not JSON"},
      {"\"\xFF\"", "line 1, column 2: this is not JSON"},
      {"1e400", "line 1, column 6: the number is too large"},
      {"[NaN]", "line 1, column 2: this is not JSON"},
      {"// x\n1", "line 1, column 1: this is not JSON"},
  };
  for (const Row& row : rows) EXPECT_EQ(ErrorOf(row.text), row.message) << row.text;
}

TEST(Json, LimitsDepthSizeAndNumberOfValues) {
  std::string deep = std::string(32, '[') + std::string(32, ']');
  EXPECT_TRUE(JsonDocument::Parse(deep));
  auto too_deep = JsonDocument::Parse("[" + deep + "]");
  ASSERT_FALSE(too_deep);
  EXPECT_NE(too_deep.error().message.find("nested deeper than 32 levels"), std::string::npos);
  EXPECT_FALSE(JsonDocument::Parse(std::string(1'000'000, '[')));

  auto too_long = JsonDocument::Parse("[1,2,3]", {.bytes = 6});
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().message, "the JSON text has 7 bytes, at most 6 are accepted");
  EXPECT_EQ(too_long.error().code, ErrorCode::kLimitExceeded);

  EXPECT_TRUE(JsonDocument::Parse("[1,2,3]", {.values = 4}));
  auto too_many = JsonDocument::Parse("[1,2,3]", {.values = 3});
  ASSERT_FALSE(too_many);
  EXPECT_NE(too_many.error().message.find("more than 3 values"), std::string::npos);
}

TEST(Json, ValuesCanBeReadWithoutAType) {
  auto document = JsonDocument::Parse(R"({"a": [1, "x", {"b": null, "c": 2.5}], "d": true, "d": false})");
  ASSERT_TRUE(document);
  JsonValue root = document->root();
  EXPECT_EQ(root.size(), 3u);
  EXPECT_EQ(root["a"].size(), 3u);
  EXPECT_EQ(root["a"].At(0).AsInt(), 1);
  EXPECT_EQ(root["a"].At(1).AsString(), "x");
  EXPECT_EQ(root["a"].At(2)["c"].AsNumber(), 2.5);
  EXPECT_EQ(root["a"].At(2)["c"].AsInt(), std::nullopt);
  EXPECT_TRUE(root["a"].At(2)["b"].is_null());
  EXPECT_FALSE(root["a"].At(2)["z"].exists());
  EXPECT_FALSE(root["a"].At(3).exists());
  EXPECT_FALSE(root["z"]["y"].At(4).exists());
  EXPECT_EQ(root["d"].AsBool(), false);
  std::string kinds;
  for (JsonValue value : root["a"]) kinds += std::string(value.KindName()) + ' ';
  EXPECT_EQ(kinds, "a number a string an object ");
  for (JsonValue none : root["d"]) FAIL() << none.key();
}

TEST(Json, AViewSurvivesMovingTheDocument) {
  auto document = JsonDocument::Parse(R"(["short"])");
  ASSERT_TRUE(document);
  JsonValue value = document->root().At(0);
  JsonDocument elsewhere = *std::move(document);
  EXPECT_EQ(value.AsString(), "short");
  EXPECT_EQ(elsewhere.root().size(), 1u);
}

TEST(Json, ManuallyWrittenListsHaveTheirCommas) {
  std::string out;
  JsonWriter writer(out);
  writer.BeginArray();
  for (int i = 0; i < 2; ++i) {
    writer.BeginObject();
    writer.Member("id", i);
    writer.Member("names", std::vector<std::string>{"a", "b"});
    writer.Key("none");
    writer.Null();
    writer.Key("raw");
    writer.Raw("{\"x\":1}");
    writer.EndObject();
  }
  writer.BeginArray();
  writer.EndArray();
  writer.EndArray();
  EXPECT_EQ(out, R"([{"id":0,"names":["a","b"],"none":null,"raw":{"x":1}},)"
                 R"({"id":1,"names":["a","b"],"none":null,"raw":{"x":1}},[]])");
}

TEST(Json, EnumeratorsAreWrittenInSnakeCase) {
  EXPECT_EQ(EnumWord(Mood::kAfterNotOk), "after_not_ok");
  EXPECT_EQ(EnumWord(static_cast<Mood>(9)), "");
  EXPECT_EQ(EnumFromWord<Mood>("timed_out"), Mood::kTimedOut);
  EXPECT_EQ(EnumFromWord<Mood>("kTimedOut"), std::nullopt);
}

TEST(JsonRenamed, WritesBothNamesAndReadsEither) {
  const Renamed value{{{3, "g", true}}, 5};
  EXPECT_EQ(ToJson(value, Fields::kChanged),
            R"({"allocations":[{"index":3,"uuid":"g"}],"cards":[{"index":3,"uuid":"g"}],"now":5,"then":5})");
  EXPECT_EQ(FromJson<Renamed>(ToJson(value)).value(), value);
  EXPECT_EQ(FromJson<Renamed>(R"({"cards":[{"index":3,"uuid":"g"}],"then":5})").value(), value);
  EXPECT_EQ(FromJson<DerivedFromRenamed>(R"({"own":2,"then":5})", Unknown::kRefuse)->now, 5);
  EXPECT_EQ(ToJson(DerivedFromRenamed(), Fields::kAll), R"({"own":0,"allocations":[],"cards":[],"now":1,"then":1})");
}

TEST(JsonRenamed, BothNamesMustHaveTheSameValue) {
  for (const char* text : {R"({"now":5,"then":9})", R"({"then":9,"now":5})"}) {
    EXPECT_EQ(FromJson<Renamed>(text).error().message,
              "then: is the old name of now, which has another value; send only one");
  }
  EXPECT_EQ(FromJson<Renamed>(R"({"cards":[{"index":3}],"allocations":[{"index":4}]})").error().message,
            "cards: is the old name of allocations, which has another value; send only one");
  EXPECT_TRUE(FromJson<Renamed>(R"({"cards":[{"index":3}],"allocations":[{"index":3}]})").has_value());
}

TEST(JsonRenamed, OnlyAFormerNameAloneIsNoted) {
  std::vector<std::string> notes;
  EXPECT_EQ(FromJson<Renamed>(R"({"now":5,"then":5})", Unknown::kRefuse, {}, &notes)->now, 5);
  EXPECT_EQ(notes, std::vector<std::string>());
  EXPECT_EQ(FromJson<Renamed>(R"({"then":9,"then":7})", Unknown::kRefuse, {}, &notes)->now, 7);
  EXPECT_EQ(notes, std::vector<std::string>{"then is now called now; the old name works in this release only"});
  EXPECT_EQ(FromJson<Renamed>(R"({"then":"x"})").error().message, "then: expected a number, got a string");
}

}  // namespace json_test
}  // namespace divvy
