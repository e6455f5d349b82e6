// The page at /docs: its files, as the build embedded them (web/embed.py writes the other half),
// and what serves them. docs_routes() binds it to the embedded ones.
#pragma once

#include <span>
#include <string_view>

namespace gpuyard::http {
struct Response;
}

namespace gpuyard::api {

struct DocsAsset {
  std::string_view name;          // "swagger-ui.css"
  std::string_view content_type;  // "text/css; charset=utf-8"
  std::string_view etag;          // quoted, weak
  std::string_view gzipped;
};

struct DocsAssets {
  std::span<const DocsAsset> files;  // empty if the build could not get them
  std::string_view why_missing;      // why `files` is empty, for people
};

const DocsAssets& docs_assets();

inline constexpr std::string_view kDocsPage = "docs.html";

// Returns the file of that name; Errc::not_found. Without any files 503, as a page that says why.
http::Response docs_response(const DocsAssets&, std::string_view name);

}  // namespace gpuyard::api
