#include "dialect/config/kubeconfig.h"

#include <yaml-cpp/binary.h>
#include <yaml-cpp/yaml.h>

#include <initializer_list>
#include <utility>

namespace divvy::dialect {
namespace {

constexpr std::size_t kMostKubeconfig = std::size_t{1} << 20;

/// The text of a field; empty if it is missing or no text.
std::string TextOf(const YAML::Node& map, const char* key) {
  if (!map.IsMap()) return "";
  const YAML::Node value = map[key];
  return value && value.IsScalar() ? value.Scalar() : std::string();
}

/// Finds the entry with that name in the list `list`, and returns its field `field`, which must be a map.
Result<YAML::Node> EntryNamed(const YAML::Node& root, const char* list, const char* field, const std::string& name) {
  if (root[list] && root[list].IsSequence()) {
    for (const YAML::Node& entry : root[list]) {
      if (TextOf(entry, "name") == name && entry[field] && entry[field].IsMap()) return YAML::Node(entry[field]);
    }
  }
  return InvalidArgument(std::string(list) + " has no entry that the current context names");
}

/// Reads `key`-data, decoded, into `data`, or else the name of the file.
Status ReadDataOrFile(const YAML::Node& map, const std::string& key, std::string& data, std::string& file) {
  const std::string encoded = TextOf(map, (key + "-data").c_str());
  if (encoded.empty()) {
    file = TextOf(map, key.c_str());
    return {};
  }
  const std::vector<unsigned char> bytes = YAML::DecodeBase64(encoded);
  if (bytes.empty()) return InvalidArgument(key + "-data is not Base64");
  data.assign(bytes.begin(), bytes.end());
  return {};
}

Result<Kubeconfig> Read(const YAML::Node& root) {
  if (!root.IsMap()) return InvalidArgument("is no kubeconfig: it must be a map");
  const std::string current = TextOf(root, "current-context");
  if (current.empty()) return InvalidArgument("has no current-context; kubectl config use-context sets it");
  DIVVY_TRY(const YAML::Node context, EntryNamed(root, "contexts", "context", current));
  DIVVY_TRY(const YAML::Node cluster, EntryNamed(root, "clusters", "cluster", TextOf(context, "cluster")));
  DIVVY_TRY(const YAML::Node user, EntryNamed(root, "users", "user", TextOf(context, "user")));
  Kubeconfig config;
  config.name_space = TextOf(context, "namespace");
  config.server = TextOf(cluster, "server");
  if (!config.server.starts_with("https://"))
    return InvalidArgument("its server must begin with https://; credentials are not sent without encryption");
  if (TextOf(cluster, "insecure-skip-tls-verify") == "true")
    return InvalidArgument(
        "insecure-skip-tls-verify is not supported, because anybody could then read the credentials; set "
        "certificate-authority");
  if (!TextOf(cluster, "proxy-url").empty()) return InvalidArgument("proxy-url is not supported");
  config.server_name = TextOf(cluster, "tls-server-name");
  DIVVY_CHECK(ReadDataOrFile(cluster, "certificate-authority", config.authorities, config.authorities_file));
  DIVVY_CHECK(ReadDataOrFile(user, "client-certificate", config.certificate, config.certificate_file));
  DIVVY_CHECK(ReadDataOrFile(user, "client-key", config.key, config.key_file));
  config.token = TextOf(user, "token");
  config.token_file = TextOf(user, "tokenFile");
  const bool has_certificate = !config.certificate.empty() || !config.certificate_file.empty();
  if (has_certificate && config.key.empty() && config.key_file.empty())
    return InvalidArgument("its user has a client-certificate and no client-key");
  if (has_certificate || !config.token.empty() || !config.token_file.empty()) return config;
  for (const char* unsupported : {"exec", "auth-provider", "username"}) {
    if (user[unsupported])
      return InvalidArgument(std::string("its user has ") + unsupported +
                             ", which is not supported; use a service account's token (kubectl create token), "
                             "tokenFile or a client certificate");
  }
  return InvalidArgument("its user has no token, tokenFile or client-certificate");
}

}  // namespace

Result<Kubeconfig> ParseKubeconfig(std::string_view text) {
  if (text.size() > kMostKubeconfig) return InvalidArgument("is longer than 1 MiB");
  try {
    return Read(YAML::Load(std::string(text)));
  } catch (const YAML::Exception& wrong) {
    return InvalidArgument("line " + std::to_string(wrong.mark.line + 1) + ": is not YAML");
  }
}

}  // namespace divvy::dialect
