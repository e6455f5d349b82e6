#include "faces/api/kept.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "faces/api/context.h"
#include "faces/api/router.h"
#include "faces/protocol/fields.h"

namespace gpuyard::api {
namespace {

using Unread = std::optional<Error>;

Unread unread(bool is, const char* what) {
  return is ? Unread(Error{Errc::unavailable, what}) : std::nullopt;
}

Unread nothing(const Context&) {
  return std::nullopt;
}

Unread leases(const Context& context) {
  return context.leases.were_read() ? std::nullopt : context.leases.closed();
}

Unread tokens(const Context& context) {
  return unread(!context.tokens.loaded(), "tokens are still being loaded; try again");
}

// Alerts, settings and energy continue if the disk cannot be read, and their answers say so.

Unread alerts(const Context& context) {
  return unread(context.alerts.reading(),
                "stored alerts are still being loaded; try again in a moment");
}

Unread settings(const Context& context) {
  return unread(context.control.reading(),
                "stored settings are still being loaded; try again in a moment");
}

Unread energy(const Context& context) {
  return unread(context.energy.reading(),
                "stored energy counts are still being loaded; try again in a moment");
}

Unread leases_and_alerts(const Context& context) {
  Unread why = leases(context);
  return why ? why : alerts(context);
}

using Book = Unread (*)(const Context&);

// The stored state behind routes with this tag and this beginning of the path. The first row that
// matches applies.
struct Row {
  std::string_view tag;
  std::string_view path;
  Book book;
  std::string_view method = {};  // "": any
};
constexpr std::array kBooks = {
    Row{"GPU", "/api/gpu/brief", &leases_and_alerts},
    Row{"Alerts", "/api/gpu/rules", &nothing},  // the configuration
    Row{"Alerts", "/api/gpu/sinks", &nothing},
    Row{"Alerts", "/api/gpu/alerts/test", &nothing},
    Row{"Alerts", "/", &alerts},
    Row{"Energy", "/", &energy},
    Row{"Control", "/api/gpu/manage/operations", &nothing},  // since the start
    Row{"Control", "/", &settings, "GET"},                   // a change waits on its own
    Row{"Leases", "/", &leases},
    Row{"Slurm", "/", &leases_and_alerts},
    Row{"Tokens", "/", &tokens},
};

Book book_of(const protocol::RouteInfo& route) {
  const auto row = std::ranges::find_if(kBooks, [&](const Row& one) {
    return route.tag == one.tag && route.pattern.starts_with(one.path) &&
           (one.method.empty() || route.method == one.method);
  });
  return row == kBooks.end() ? &nothing : row->book;
}

}  // namespace

bool is_about_what_is_kept(const protocol::RouteInfo& route) {
  return book_of(route) != &nothing;
}

std::optional<http::Response> not_read_yet(const Context& context,
                                           const protocol::RouteInfo& route) {
  const Unread why = book_of(route)(context);
  if (!why) return std::nullopt;
  http::Response response = render_error(route, *why);
  // With this field, our clients retry. A disk that fails does not recover soon.
  if (!context.leases.in_trouble()) {
    response.headers.push_back({std::string(protocol::kReadingField), "true"});
  }
  return response;
}

}  // namespace gpuyard::api
