// The page at /docs from a set of files; docs.cpp binds it to those that were embedded.
#pragma once

#include <string_view>

#include "api/docs_assets.h"
#include "http/message.h"

namespace gpuyard::api {

inline constexpr std::string_view kDocsPage = "docs.html";

// The file of that name; Errc::not_found. Without any files 503, as a page that says why.
http::Response docs_response(const DocsAssets&, std::string_view name);

}  // namespace gpuyard::api
