// Whether a request's Host field names us. A web page whose own name was made to resolve to this
// machine (DNS rebinding) sends that name, and is told apart by it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpuyard::http {

// `host` as in the field, with or without a port. `local_address` is the literal that the client
// connected to; `names` are allowed besides, in any case.
bool host_allowed(std::string_view host, std::string_view local_address,
                  const std::vector<std::string>& names);

}  // namespace gpuyard::http
