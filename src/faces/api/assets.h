// The files of the pages, as the build embedded them (web/embed.py writes the other half), and what
// serves them.
#pragma once

#include <span>
#include <string_view>

namespace gpuyard::http {
struct Response;
}

namespace gpuyard::api {

struct Asset {
  std::string_view name;          // "swagger-ui.css"
  std::string_view content_type;  // "text/css; charset=utf-8"
  std::string_view etag;          // quoted, weak
  std::string_view gzipped;
};

struct Assets {
  std::span<const Asset> files;  // empty if the build could not get them
  std::string_view why_missing;  // why `files` is empty, for people
};

const Assets& docs_assets();  // of the page at /docs
const Assets& page_assets();  // of all other pages

inline constexpr std::string_view kDocsPage = "docs.html";

// Returns the file of that name; Errc::not_found. Without any files 503, as a page that says why.
http::Response docs_response(const Assets&, std::string_view name);

}  // namespace gpuyard::api
