#include "zeus/facade.h"

#include <fmt/format.h>

namespace gpuyard::zeus {
namespace {

// Every answer of a simulated yard says so, also those whose body has no place for it.
http::Reply say_simulated(http::Reply reply) {
  const auto shared = std::make_shared<http::Reply>(std::move(reply));
  return http::Reply([shared](http::Response response) {
    response.headers.push_back({"X-Gpuyard-Simulated", "true"});
    (*shared)(std::move(response));
  });
}

http::Response wrong_method(const http::Request& request, http::Method allowed) {
  http::Response response =
      error_response(405, fmt::format("{} does not take {}; it takes {}", request.path,
                                      http::name_of(request.method), http::name_of(allowed)));
  response.headers.push_back({"Allow", std::string(http::name_of(allowed))});
  return response;
}

// Whether this client may have the group's routes at all.
Result<void> permitted(const Context& context, Group group, const http::Request& request) {
  if (group == Group::cpu_read) return may_see_cpus(context, request);
  if (group != Group::gpu_control) return {};
  if (auto on = context.control.enabled(); !on) return on;
  return context.control.permits(request);
}

}  // namespace

void Facade::handle(http::Request request, http::Reply reply) {
  const bool simulated = context_.gpus.latest()->driver.info.simulated;
  const Answer answer(simulated ? say_simulated(std::move(reply)) : std::move(reply));
  for (const Route& route : routes()) {
    if (route.path != request.path) continue;
    if (route.method != request.method) return answer.send(wrong_method(request, route.method));
    return dispatch(route, std::make_shared<const http::Request>(std::move(request)), answer);
  }
  answer.refuse(404, fmt::format("zeusd's protocol has no {}", request.path));
}

void Facade::dispatch(const Route& route, std::shared_ptr<const http::Request> request,
                      const Answer& answer) {
  if (const auto may = permitted(context_, route.group, *request); !may) {
    return answer.refuse(403, may.error().message);
  }
  if (route.group != Group::cpu_read) return route.call(context_, {*request, answer});
  when_cpus_are_known(context_, [this, &route, request = std::move(request), answer] {
    const cpu::Energies& known = context_.cpus.latest();
    if (!known.packages.empty()) return route.call(context_, {*request, answer});
    answer.refuse(404, fmt::format("{} is off: {}", name_of(route.group), known.why_none));
  });
}

}  // namespace gpuyard::zeus
