// Reads the API server and its credentials from a kubeconfig, for a machine outside any pod.
// A kubeconfig is YAML, and this program reads none: JSON, which is YAML too, is what
// `kubectl config view --raw --minify --flatten -o json` prints.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "io/kube/api_server.h"

namespace gpuyard::kube {

// The server, the CA and the token of the current context. Credentials that need a program or a key
// (exec, auth-provider, client certificates), another way to the server (proxy-url) and less trust
// (insecure-skip-tls-verify) are refused by name: Errc::invalid, with what to do instead. A server
// without TLS must be of this machine, as `kubectl proxy` is, and is sent no token.
Result<ApiServer> read_kubeconfig(const std::string& path);

// The same from a text. Relative paths in it begin at the directory of `path`.
Result<ApiServer> parse_kubeconfig(std::string_view text, const std::string& path);

}  // namespace gpuyard::kube
