#include "wire/openapi/openapi.h"

#include <gtest/gtest.h>
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

#include "wire/json/json.h"

namespace divvy {
namespace openapi_test {

enum class Colour { kRed, kDeepBlue };
BOOST_DESCRIBE_ENUM(Colour, kRed, kDeepBlue)

struct Part {
  Colour colour = Colour::kRed;
  Bytes size;
  std::vector<Part> parts;
};
BOOST_DESCRIBE_STRUCT(Part, (), (colour, size, parts))

struct Filter {
  std::string user;
  std::optional<int> limit;
};
BOOST_DESCRIBE_STRUCT(Filter, (), (user, limit))

struct Wrong {
  std::string message;
};
BOOST_DESCRIBE_STRUCT(Wrong, (), (message))

namespace other {
struct Part {
  bool is_other = true;
};
BOOST_DESCRIBE_STRUCT(Part, (), (is_other))
}  // namespace other

std::string Text(JsonValue value) { return value.AsString() ? std::string(*value.AsString()) : "no string"; }

JsonDocument Document() {
  OpenApi api("things", "1.2.3");
  api.SetErrorType(kJsonType<Wrong>);
  api.AddRoute({"GET", "/v1/parts", "Lists parts", &kJsonType<Filter>, &kJsonType<std::vector<Part>>});
  api.AddRoute({"POST", "/v1/parts", "Makes a part", &kJsonType<Part>, &kJsonType<Part>, 201});
  api.AddRoute({"DELETE", "/v1/parts/{id}", "Removes a part"});
  api.AddRoute({"GET", "/v1/events", "Streams changes", nullptr, nullptr, 200, "text/event-stream"});
  api.AddSchema<other::Part>();
  auto document = JsonDocument::Parse(api.Text());
  EXPECT_TRUE(document) << api.Text();
  return *std::move(document);
}

TEST(OpenApi, SchemasAreDerivedFromTheTypes) {
  JsonDocument document = Document();
  EXPECT_EQ(Text(document.root()["openapi"]), "3.1.0");
  JsonValue schemas = document.root()["components"]["schemas"];
  EXPECT_EQ(schemas.size(), 4u);
  EXPECT_EQ(Text(schemas["Colour"]["enum"].At(1)), "deep_blue");
  JsonValue part = schemas["Part"]["properties"];
  EXPECT_EQ(Text(part["colour"]["$ref"]), "#/components/schemas/Colour");
  EXPECT_EQ(Text(part["size"]["description"]), "bytes");
  EXPECT_EQ(Text(part["size"]["type"]), "integer");
  EXPECT_EQ(Text(part["parts"]["items"]["$ref"]), "#/components/schemas/Part");
  EXPECT_EQ(Text(schemas["Part2"]["properties"]["is_other"]["type"]), "boolean");
}

TEST(OpenApi, RoutesNameTheirParametersBodiesAndAnswers) {
  JsonDocument document = Document();
  JsonValue paths = document.root()["paths"];
  EXPECT_EQ(paths.size(), 3u);
  JsonValue list = paths["/v1/parts"]["get"];
  EXPECT_EQ(Text(list["operationId"]), "getParts");
  EXPECT_EQ(list["parameters"].size(), 2u);
  EXPECT_EQ(Text(list["parameters"].At(1)["name"]), "limit");
  EXPECT_EQ(Text(list["responses"]["200"]["content"]["application/json"]["schema"]["type"]), "array");
  EXPECT_EQ(Text(list["responses"]["default"]["content"]["application/json"]["schema"]["$ref"]),
            "#/components/schemas/Wrong");
  JsonValue make = paths["/v1/parts"]["post"];
  EXPECT_EQ(Text(make["requestBody"]["content"]["application/json"]["schema"]["$ref"]), "#/components/schemas/Part");
  EXPECT_TRUE(make["responses"]["201"].exists());
  JsonValue remove = paths["/v1/parts/{id}"]["delete"];
  EXPECT_EQ(Text(remove["operationId"]), "deletePartsById");
  EXPECT_EQ(remove["parameters"].At(0)["required"].AsBool(), true);
  EXPECT_FALSE(remove["responses"]["200"]["content"].exists());
  EXPECT_TRUE(paths["/v1/events"]["get"]["responses"]["200"]["content"]["text/event-stream"].exists());
}

}  // namespace openapi_test
}  // namespace divvy
