// Builds the OpenAPI 3.1 document of the API. It uses the same tables that read and write the messages, so it always
// matches the daemon. The daemon adds its routes; their types determine the schemas.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "wire/json/json_type.h"

namespace divvy {

/// `path` has its parameters in braces: "/v1/jobs/{id}". Types are null if there is no body. For a method without a
/// body (GET, DELETE) the fields of `request` are the query parameters.
struct OpenApiRoute {
  std::string method;  // "GET".
  std::string path;
  std::string summary;
  const JsonType* request = nullptr;
  const JsonType* response = nullptr;
  int status = 200;
  std::string response_content_type = "application/json";
};

class OpenApi {
 public:
  OpenApi(std::string title, std::string version) : title_(std::move(title)), version_(std::move(version)) {}

  /// Sets the type of the body that every route may return for an error.
  void SetErrorType(const JsonType& type);
  /// Adds the route and the schemas of its types. A schema has the unqualified name of its type. If two types in
  /// different namespaces share a name, the later one gets a number.
  void AddRoute(OpenApiRoute route);
  void AddSchema(const JsonType& type);
  template <typename T>
  void AddSchema() {
    AddSchema(kJsonType<T>);
  }

  std::string Text() const;

 private:
  std::string title_;
  std::string version_;
  const JsonType* error_type_ = nullptr;
  std::vector<OpenApiRoute> routes_;
  std::map<std::string, const JsonType*> schemas_;
  std::map<const JsonType*, std::string> names_;

  friend class OpenApiText;
};

}  // namespace divvy
