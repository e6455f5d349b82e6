// The files of the page at /docs, as the build embedded them (web/embed.py writes the other half).
#pragma once

#include <span>
#include <string_view>

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

}  // namespace gpuyard::api
