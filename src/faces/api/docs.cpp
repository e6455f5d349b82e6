#include "api/docs.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "api/handlers.h"

namespace gpuyard::api {
namespace {

// Nothing but what this daemon serves: no inline script or style, no other host, no frame around
// it. The page's style sheet has small images in it.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' "
    "data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

void put_policy(http::Response& response) {
  response.headers.push_back({"Content-Security-Policy", std::string(kPolicy)});
  response.headers.push_back({"Referrer-Policy", "no-referrer"});
  // Kept, and asked about each time: after an update the page must not be half an old one.
  response.headers.push_back({"Cache-Control", "no-cache"});
}

// One for all answers; the ETag says what is in it.
std::shared_ptr<const std::string> body_of(const DocsAsset& asset) {
  static std::map<std::string, std::shared_ptr<const std::string>, std::less<>> bodies;
  auto& body = bodies[std::string(asset.etag)];
  if (!body) body = std::make_shared<const std::string>(asset.gzipped);
  return body;
}

http::Response without_assets(std::string_view why) {
  http::Response response(
      503, "text/html; charset=utf-8",
      fmt::format("<!doctype html><html lang=\"en\"><title>gpuyard</title><h1>No page here</h1>"
                  "<p>This gpuyard was built without the files of its API page: {}.</p>"
                  "<p>The description itself is at <a href=\"openapi.json\">openapi.json</a>.</p>"
                  "</html>\n",
                  why));
  put_policy(response);
  return response;
}

}  // namespace

http::Response docs_response(const DocsAssets& assets, std::string_view name) {
  if (assets.files.empty()) return without_assets(assets.why_missing);
  const auto asset = std::ranges::find(assets.files, name, &DocsAsset::name);
  if (asset == assets.files.end()) {
    return http::error_response({Errc::not_found, fmt::format("/docs has no {}", name)});
  }
  http::Response response(200, std::string(asset->content_type), body_of(*asset));
  response.gzipped = true;
  response.etag = asset->etag;
  put_policy(response);
  return response;
}

namespace {

void get_docs(Context&, const NoParams&, Responder<Text> respond) {
  respond.as_is(docs_response(docs_assets(), kDocsPage));
}

void get_docs_asset(Context&, const protocol::AssetName& asset, Responder<Text> respond) {
  respond.as_is(docs_response(docs_assets(), asset.file));
}

}  // namespace

std::vector<BoundRoute> docs_routes() {
  return {
      bind(protocol::kDocs, &get_docs),
      bind(protocol::kDocsAsset, &get_docs_asset),
  };
}

}  // namespace gpuyard::api
