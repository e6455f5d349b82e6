// The routes that people open in a browser. Their documents have no values of the machine but the
// front page, which is also a table for curl; what the others show they ask for like any client.
#pragma once

#include <array>

#include "faces/protocol/resources.h"
#include "faces/protocol/route.h"

namespace gpuyard::protocol {

// What is shown of a page; its address has it, so that a link shows the same. The daemon takes it
// and leaves it to the page.
struct View {
  std::optional<std::string> f;
  std::optional<std::string> sort;
  std::optional<std::string> gpu;
  std::optional<std::string> t;
  std::optional<std::string> at;
  std::optional<std::string> from;
  std::optional<std::string> to;
  std::optional<std::string> by;
};
BOOST_DESCRIBE_STRUCT(View, (), (f, sort, gpu, t, at, from, to, by))
GPUYARD_ABOUT(View, {"f", "Filter, e.g. temp>80 & user==alice."},
              {"sort", "Column to sort by; with a minus sign, largest first."},
              {"gpu", "The selected GPU, by index."}, {"t", "Length of the period: 15m, 6h, 7d."},
              {"at", "Show this past time instead of now."}, {"from", "Start of a range."},
              {"to", "End of a range."}, {"by", "Group by user, day, gpu or lease."})

struct GpuView : View {
  std::string id;
};
BOOST_DESCRIBE_STRUCT(GpuView, (View), (id))
GPUYARD_ABOUT(GpuView, {"id", "Index of a GPU."})

inline constexpr std::array kNeedsAssets = {Errc::unavailable};
inline constexpr std::array kNeedsAsset = {Errc::not_found};

constexpr RouteInfo page(std::string_view pattern, std::string_view summary) {
  RouteInfo route{"GET", pattern, "Pages", Scope::open, Gpus::none, summary};
  route.produces = "text/html";
  return route;
}

constexpr RouteInfo file_of_page(std::string_view pattern, std::string_view summary) {
  RouteInfo route = page(pattern, summary);
  route.failures = kNeedsAsset;
  route.produces = "*/*";
  return route;
}

inline constexpr Route<View, Text> kFront{
    {.method = "GET",
     .pattern = "/",
     .tag = "Pages",
     .gpus = Gpus::some,
     .summary = "The table that `gpuyard devices` prints or, by Accept, an HTML page.",
     .produces = "text/plain",
     .also_produces = "text/html"}};
inline constexpr Route<GpuView, Text> kGpuPage{[] {
  RouteInfo route = page("/gpu/{id}", "One GPU: charts and events.");
  route.failures = kNeedsAsset;
  return route;
}()};
inline constexpr Route<View, Text> kQueuePage{
    page("/queue", "Leases, waiting claims, and processes without a lease.")};
inline constexpr Route<View, Text> kAlertsPage{page("/alerts", "Firing, pending and past alerts.")};
inline constexpr Route<View, Text> kUsagePage{
    page("/usage", "GPU-hours, energy and cost by user.")};
inline constexpr Route<View, Text> kAuditPage{page("/audit", "Audit log of GPU changes.")};
inline constexpr Route<View, Text> kLoginPage{
    page("/login", "Login with a token, for the tabs of this browser.")};
inline constexpr Route<AssetName, Text> kPageAsset{
    file_of_page("/page/{file}", "Assets of the pages.")};

inline constexpr Route<NoParams, Text> kDocs{[] {
  RouteInfo route = page("/docs", "This API description as an interactive page.");
  route.failures = kNeedsAssets;
  return route;
}()};
inline constexpr Route<AssetName, Text> kDocsAsset{
    file_of_page("/docs/{file}", "Assets of the page at /docs.")};

}  // namespace gpuyard::protocol
