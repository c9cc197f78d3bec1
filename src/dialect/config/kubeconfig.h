// A kubeconfig: how to reach the API server of a Kubernetes cluster, as kubectl reads it (kubernetes.io, "Organizing
// Cluster Access Using kubeconfig Files"; fields: client-go, tools/clientcmd/api/v1/types.go). Only its current context
// counts.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy::dialect {

/// The current context of a kubeconfig. Fields that the file does not set are empty. Certificates and keys that are in
/// the file itself are decoded from base64 to PEM.
struct Kubeconfig {
  std::string server;            // "https://10.0.0.1:6443"
  std::string server_name;       // The name in the server's certificate, if it is not the server's.
  std::string authorities;       // Trusted certificate authorities,
  std::string authorities_file;  // or the file that holds them.
  std::string certificate;       // The client's certificate and key, each as text or as a file.
  std::string certificate_file;
  std::string key;
  std::string key_file;
  std::string token;  // A bearer token, or the file that holds it. The text wins if both are given.
  std::string token_file;
  std::string name_space;
};

/// Errors name the wrong field and never quote a value. Refused with a reason: files without a current context, servers
/// without https, insecure-skip-tls-verify, and users with a password or a plug-in (exec, auth-provider) instead of a
/// token or certificate.
Result<Kubeconfig> ParseKubeconfig(std::string_view text);

}  // namespace divvy::dialect
