#include "cli/shims/slurm_json.h"

namespace divvy::cli::slurm {

void AddMeta(JsonWriter& json, std::string_view command) {
  JsonFields fields(json);
  json.Key("meta");
  json.BeginObject();
  json.Key("plugin");
  json.BeginObject();
  fields.Text("type", "openapi/v0.0.38");
  fields.Text("name", "divvy, as " + std::string(command));
  json.EndObject();
  json.Key("Slurm");
  json.BeginObject();
  json.Key("version");
  json.BeginObject();
  fields.Number("major", 22);
  fields.Number("minor", 5);
  fields.Number("micro", 0);
  json.EndObject();
  fields.Text("release", "22.05");
  json.EndObject();
  json.EndObject();
  json.Key("errors");
  json.BeginArray();
  json.EndArray();
}

}  // namespace divvy::cli::slurm
