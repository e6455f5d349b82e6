// The routes that people open in a browser. Their documents have no values of the machine but the
// front page, which is also a table for curl; what the others show they ask for like any client.
#pragma once

#include <array>

#include "protocol/resources.h"
#include "protocol/route.h"

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
GPUYARD_ABOUT(View, {"f", "A filter: temp>80 & user==alice."},
              {"sort", "The column to sort by; with a minus the largest first."},
              {"gpu", "The GPU that is chosen, by its index."},
              {"t", "How much of the past: 15m, 6h, 7d."}, {"at", "A moment of the past."},
              {"from", "The begin of a range."}, {"to", "The end of a range."},
              {"by", "A row for each: user, day, gpu, lease."})

struct GpuView : View {
  std::string id;
};
BOOST_DESCRIBE_STRUCT(GpuView, (View), (id))
GPUYARD_ABOUT(GpuView, {"id", "A GPU's index."})

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
     .summary = "The GPUs as the table that `gpuyard devices` prints; a page for who asks for HTML "
                "by Accept, as browsers do.",
     .produces = "text/plain",
     .also_produces = "text/html"}};
inline constexpr Route<GpuView, Text> kGpuPage{[] {
  RouteInfo route =
      page("/gpu/{id}", "One GPU: its last minutes or days, and what happened to it.");
  route.failures = kNeedsAsset;
  return route;
}()};
inline constexpr Route<View, Text> kQueuePage{
    page("/queue", "Who has GPUs, who waits for some, and who uses them without a lease.")};
inline constexpr Route<View, Text> kAlertsPage{
    page("/alerts", "What is wrong, what is about to be, and what was.")};
inline constexpr Route<View, Text> kUsagePage{
    page("/usage", "Who used how much of the GPUs, and what it cost.")};
inline constexpr Route<View, Text> kAuditPage{page("/audit", "Who changed what of the GPUs.")};
inline constexpr Route<View, Text> kLoginPage{
    page("/login", "Takes a token for the tabs of this browser.")};
inline constexpr Route<AssetName, Text> kPageAsset{
    file_of_page("/page/{file}", "What the pages are made of.")};

inline constexpr Route<NoParams, Text> kDocs{[] {
  RouteInfo route = page("/docs", "This description as a page to read and to try.");
  route.failures = kNeedsAssets;
  return route;
}()};
inline constexpr Route<AssetName, Text> kDocsAsset{
    file_of_page("/docs/{file}", "What the page at /docs is made of.")};

}  // namespace gpuyard::protocol
