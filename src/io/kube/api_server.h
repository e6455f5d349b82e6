// Where the API server of a cluster is, and the credentials by which both ends prove who they are.
// Knows no request. No proxy variable of the environment counts.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "io/http/origin.h"

namespace gpuyard::kube {

// A text, or a file that has it. Kubelets and administrators replace such files, so they are read
// for each connection. Neither: there is none.
struct Credential {
  std::string text = {};
  std::string file = {};  // counts more than the text

  bool empty() const { return text.empty() && file.empty(); }
  friend bool operator==(const Credential&, const Credential&) = default;
};

struct ApiServer {
  http::Origin origin;           // ca_pem stays empty: read_credentials() returns it
  std::string path_prefix = {};  // "/k8s/clusters/c-x7", of a gateway; no slash at its end
  Credential ca = {};            // PEM; empty: the system's certificates are trusted
  Credential token = {};         // empty: none is sent
};

inline constexpr const char* kServiceAccountDirectory =
    "/var/run/secrets/kubernetes.io/serviceaccount";

// The part of a pod's environment that names the API server; a test makes its own.
struct PodEnvironment {
  std::string host;  // KUBERNETES_SERVICE_HOST: a literal address or a name
  std::string port;  // KUBERNETES_SERVICE_PORT
  std::string directory = kServiceAccountDirectory;  // with the files "ca.crt" and "token"

  static PodEnvironment current();
};

// The API server of the pod's own cluster. Errc::not_found outside a pod, invalid for a bad
// address. Reads no file yet: a kubelet may write them late.
Result<ApiServer> api_server_of_pod(const PodEnvironment& = PodEnvironment::current());

// The credentials of one connection.
struct CurrentCredentials {
  std::optional<std::string> ca_pem;  // nothing: the system's certificates are trusted
  std::string token;                  // "": none is sent
};

// Reads the files anew. Errc::invalid if a file is empty, or a token is not one word; the error of
// read_file() if it cannot be read. No error repeats a token.
Result<CurrentCredentials> read_credentials(const ApiServer&);

}  // namespace gpuyard::kube
