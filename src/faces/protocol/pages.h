// The routes that people open in a browser. Their documents have no values of the machine but the
// front page, which is also a table for curl; what the others show they ask for like any client.
#pragma once

#include "faces/protocol/resources.h"
#include "faces/protocol/route.h"

namespace gpuyard::protocol {

// The part of a page that is shown. The address has it, so that a link shows the same. The daemon
// accepts it, and only the page uses it.
struct PageParams {
  std::optional<std::string> f;
  std::optional<std::string> sort;
  std::optional<std::string> gpu;
  std::optional<std::string> t;
  std::optional<std::string> at;
  std::optional<std::string> from;
  std::optional<std::string> to;
  std::optional<std::string> by;
};
BOOST_DESCRIBE_STRUCT(PageParams, (), (f, sort, gpu, t, at, from, to, by))
GPUYARD_ABOUT(PageParams, {"f", "Filter, e.g. temp>80 & user==alice."},
              {"sort", "Column to sort by; with a minus sign, largest first."},
              {"gpu", "The selected GPU, by index."}, {"t", "Length of the period: 15m, 6h, 7d."},
              {"at", "Show this past time instead of now."}, {"from", "Start of a range."},
              {"to", "End of a range."}, {"by", "Group by user, day, gpu or lease."})

struct GpuPageParams : PageParams {
  std::string id;
};
BOOST_DESCRIBE_STRUCT(GpuPageParams, (PageParams), (id))
GPUYARD_ABOUT(GpuPageParams, {"id", "Index of a GPU."})

constexpr RouteInfo page_route(std::string_view pattern, std::string_view summary) {
  RouteInfo route{"GET", pattern, "Pages", Scope::open, GpuScope::none, summary};
  route.produces = "text/html";
  return route;
}

constexpr RouteInfo asset_route(std::string_view pattern, std::string_view summary) {
  RouteInfo route = page_route(pattern, summary);
  route.failures = kNotFound;
  route.produces = "*/*";
  return route;
}

inline constexpr Route<PageParams, Text> kFrontPage{
    {.method = "GET",
     .pattern = "/",
     .tag = "Pages",
     .gpus = GpuScope::some,
     .summary = "The table that `gpuyard devices` prints or, by Accept, an HTML page.",
     .produces = "text/plain",
     .also_produces = "text/html"}};
inline constexpr Route<GpuPageParams, Text> kGpuPage{[] {
  RouteInfo route = page_route("/gpu/{id}", "One GPU: charts and events.");
  route.failures = kNotFound;
  return route;
}()};
inline constexpr Route<PageParams, Text> kQueuePage{
    page_route("/queue", "Leases, waiting claims, and processes without a lease.")};
inline constexpr Route<PageParams, Text> kAlertsPage{
    page_route("/alerts", "Firing, pending and past alerts.")};
inline constexpr Route<PageParams, Text> kUsagePage{
    page_route("/usage", "GPU-hours, energy and cost by user.")};
inline constexpr Route<PageParams, Text> kAuditPage{
    page_route("/audit", "Audit log of GPU changes.")};
inline constexpr Route<PageParams, Text> kLoginPage{
    page_route("/login", "Login with a token, for the tabs of this browser.")};
inline constexpr Route<AssetName, Text> kPageAsset{
    asset_route("/page/{file}", "Assets of the pages.")};

inline constexpr Route<NoParams, Text> kDocs{[] {
  RouteInfo route = page_route("/docs", "This API description as an interactive page.");
  route.failures = kUnavailable;
  return route;
}()};
inline constexpr Route<AssetName, Text> kDocsAsset{
    asset_route("/docs/{file}", "Assets of the page at /docs.")};

}  // namespace gpuyard::protocol
