// Serves the page at /docs from a set of files; docs_routes() binds it to the embedded ones.
#pragma once

#include <string_view>

#include "api/docs_assets.h"
#include "http/message.h"

namespace gpuyard::api {

inline constexpr std::string_view kDocsPage = "docs.html";

// Returns the file of that name; Errc::not_found. Without any files 503, as a page that says why.
http::Response docs_response(const DocsAssets&, std::string_view name);

}  // namespace gpuyard::api
