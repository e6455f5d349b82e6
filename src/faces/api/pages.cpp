// The routes that people open in a browser: the front page, the document that every other page
// begins as, and the files of both and of /docs.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "base/html.h"
#include "base/identifiers.h"
#include "base/text.h"
#include "faces/api/assets.h"
#include "faces/api/bound_route.h"
#include "faces/api/context.h"
#include "faces/api/responder.h"
#include "faces/protocol/pages.h"

namespace gpuyard::api {
namespace {

// Both allow only what this daemon serves: no inline script or style, no other host, no frame
// around the page. The style sheet of /docs contains small images; the other pages make no markup
// out of text, and the browser holds them to it.
constexpr std::string_view kDocsPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
constexpr std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

constexpr std::string_view kHtml = "text/html; charset=utf-8";

void put_policy(http::Response& response, std::string_view policy) {
  response.headers.push_back({"Content-Security-Policy", std::string(policy)});
  response.headers.push_back({"Referrer-Policy", "no-referrer"});
  // Browsers keep the file but check it each time: after an update no file of the page may be old.
  response.headers.push_back({"Cache-Control", "no-cache"});
}

// Returns one body shared by all answers; the ETag identifies it.
std::shared_ptr<const std::string> body_of(const Asset& asset) {
  static std::map<std::string, std::shared_ptr<const std::string>, std::less<>> bodies;
  auto& body = bodies[std::string(asset.etag)];
  if (!body) body = std::make_shared<const std::string>(asset.gzipped);
  return body;
}

http::Response missing_assets_response(std::string_view why) {
  http::Response response(
      503, std::string(kHtml),
      fmt::format("<!doctype html><html lang=\"en\"><title>gpuyard</title><h1>Page not "
                  "available</h1><p>This gpuyard was built without the files of its API page: "
                  "{}.</p><p>The API description is at <a "
                  "href=\"openapi.json\">openapi.json</a>.</p></html>\n",
                  why));
  put_policy(response, kDocsPolicy);
  return response;
}

http::Response file_response(const Assets& assets, std::string_view name, std::string_view policy) {
  const auto asset = std::ranges::find(assets.files, name, &Asset::name);
  if (asset == assets.files.end()) {
    return http::error_response({Errc::not_found, fmt::format("file {} not found", name)});
  }
  http::Response response(200, std::string(asset->content_type), body_of(*asset));
  response.gzipped = true;
  response.etag = asset->etag;
  put_policy(response, policy);
  return response;
}

template <class Number>
std::string cell(const std::optional<Number>& value, std::string_view unit) {
  return value ? fmt::format("<td>{:.0f} {}</td>", static_cast<double>(*value), unit)
               : "<td>&ndash;</td>";
}

std::string row_of(const protocol::ColumnsDevice& gpu) {
  constexpr double kGib = 1024.0 * 1024 * 1024;
  const auto gib = [](const std::optional<std::int64_t>& bytes) {
    return bytes ? std::optional(static_cast<double>(*bytes) / kGib) : std::nullopt;
  };
  return fmt::format(
      "<tr><th scope=\"row\"><a href=\"/gpu/{0}\">{0}</a></th><td>{1}</td>{2}{3}{4}{5}<td>{6}</td>"
      "</tr>\n",
      gpu.index, escape_html(gpu.name), cell(gpu.utilization_gpu_percent, "%"),
      cell(gib(gpu.memory_used_bytes), "GiB"), cell(gpu.temperature_core_c, "&deg;C"),
      cell(gpu.power_draw_w, "W"), escape_html(gpu.bottleneck_brief.value_or("")));
}

// The values are right without a script, and before the script has run.
std::string table_of(const Snapshot& snapshot) {
  const auto state = protocol::columns_resync_of(snapshot, protocol::ResyncReason::new_listener);
  if (!state.driver_initialised) {
    return fmt::format("<p>{}</p>\n", escape_html(state.driver_error.value_or("")));
  }
  std::string table =
      "<div class=\"scroll\"><table class=\"gpus\">\n<thead><tr><th scope=\"col\">GPU</th><th "
      "scope=\"col\">Model</th><th scope=\"col\">Busy</th><th scope=\"col\">Memory</th><th "
      "scope=\"col\">Temperature</th><th scope=\"col\">Power</th><th "
      "scope=\"col\">Bottleneck</th></tr></thead>\n<tbody>\n";
  for (const auto& gpu : state.devices) table += row_of(gpu);
  return table + "</tbody></table></div>\n";
}

std::string document(const PageApi& api, const Principal& reader, std::string_view content) {
  const Assets& assets = page_assets();
  const bool known = can_see_machine(reader);
  const std::string host = known ? escape_html(host_name()) : "";
  const std::string files =
      assets.files.empty() ? "<meta http-equiv=\"refresh\" content=\"5\">"
                           : "<link rel=\"icon\" href=\"/page/icon.svg\">\n"
                             "<link rel=\"stylesheet\" href=\"/page/page.css\">\n"
                             "<script type=\"module\" src=\"/page/page.js\"></script>\n"
                             "<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>";
  const std::string missing = assets.files.empty()
                                  ? fmt::format(
                                        "<p>This gpuyard was built without its web page: {}. The "
                                        "table above refreshes automatically.</p>\n",
                                        escape_html(assets.why_missing))
                                  : "";
  return fmt::format(R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{7}gpuyard</title>
{1}
</head>
<body data-host="{0}" data-version="{2}" data-simulated="{3}" data-instance="{8}">
<div id="page">
<main>
<h1>gpuyard{6}</h1>
{4}{5}<p><a href="/docs">The API</a> - <a href="/metrics">the metrics</a></p>
</main>
</div>
</body>
</html>
)",
                     host, files, known ? api.daemon.version : "", is_simulated(api.telemetry),
                     content, missing, known ? " on " + host : "", known ? host + " - " : "",
                     api.daemon.instance);
}

http::Response page_response(std::shared_ptr<const std::string> body) {
  http::Response response(200, std::string(kHtml), std::move(body));
  put_policy(response, kPagePolicy);
  return response;
}

void get_front(PageApi& api, const RouteCall& call, const protocol::PageParams&,
               const Responder<Text>& respond) {
  const bool html = call.accept.find("text/html") != std::string::npos;
  const auto snapshot = visible_snapshot(api.telemetry, call.principal);
  const auto render = [&] {
    if (html) return document(api, call.principal, table_of(*snapshot));
    std::string table = api.device_table(protocol::snapshot_of(*snapshot, &api.processes));
    return snapshot->driver.initialised ? table : table + snapshot->driver.why + "\n";
  };
  const std::uint64_t state = snapshot->generation + api.processes.revision();
  RenderCache<>& rendered = html ? api.front_page : api.front_text;
  const auto body = call.principal.gpus.empty() ? rendered.get(state, render)
                                                : std::make_shared<const std::string>(render());
  http::Response response =
      html ? page_response(body) : http::Response(200, "text/plain; charset=utf-8", body);
  response.headers.push_back({"Vary", "Accept"});
  respond.send(std::move(response));
}

// The document of the pages whose values the script fetches.
void get_empty_page(PageApi& api, const RouteCall& call, const Responder<Text>& respond) {
  respond.send(page_response(std::make_shared<const std::string>(
      document(api, call.principal,
               "<noscript><p>This page needs JavaScript. <a href=\"/\">The table</a> works without "
               "it.</p></noscript>\n"))));
}

void get_page(PageApi& api, const RouteCall& call, const protocol::PageParams&,
              const Responder<Text>& respond) {
  get_empty_page(api, call, respond);
}

void get_gpu_page(PageApi& api, const RouteCall& call, const protocol::GpuPageParams& view,
                  const Responder<Text>& respond) {
  if (!parse_number<std::uint32_t>(view.id)) {
    return respond(
        Error{Errc::not_found, fmt::format("no page for GPU {}: use its index", view.id)});
  }
  get_empty_page(api, call, respond);
}

void get_page_asset(PageApi&, const protocol::AssetName& asset, const Responder<Text>& respond) {
  respond.send(file_response(page_assets(), asset.file, kPagePolicy));
}

void get_docs(PageApi&, const NoParams&, const Responder<Text>& respond) {
  respond.send(docs_response(docs_assets(), kDocsPage));
}

void get_docs_asset(PageApi&, const protocol::AssetName& asset, const Responder<Text>& respond) {
  respond.send(docs_response(docs_assets(), asset.file));
}

}  // namespace

http::Response docs_response(const Assets& assets, std::string_view name) {
  return assets.files.empty() ? missing_assets_response(assets.why_missing)
                              : file_response(assets, name, kDocsPolicy);
}

std::vector<BoundRoute> page_routes() {
  return {
      bind(protocol::kFrontPage, &get_front), bind(protocol::kGpuPage, &get_gpu_page),
      bind(protocol::kQueuePage, &get_page),  bind(protocol::kAlertsPage, &get_page),
      bind(protocol::kUsagePage, &get_page),  bind(protocol::kAuditPage, &get_page),
      bind(protocol::kLoginPage, &get_page),  bind(protocol::kPageAsset, &get_page_asset),
      bind(protocol::kDocs, &get_docs),       bind(protocol::kDocsAsset, &get_docs_asset),
  };
}

}  // namespace gpuyard::api
