// Power as fast as it is worth reading, for as long as somebody listens. A listener that does not
// keep up gets the newest reading of each GPU and how many he missed: nothing is queued for him,
// and he slows nobody else down.
#include <utility>

#include "api/context.h"
#include "api/gpu_names.h"
#include "api/handlers.h"
#include "base/json_writer.h"
#include "http/event_stream.h"
#include "protocol/power_stream.h"

namespace gpuyard::api {
namespace {

protocol::PowerSample sample_of(const DeviceInfo& gpu, const Reading& reading,
                                const Snapshot& newest) {
  protocol::PowerSample sample;
  sample.index = gpu.index;
  sample.uuid = gpu.uuid;
  const auto age =
      std::chrono::duration_cast<std::chrono::milliseconds>(newest.taken - reading.taken);
  sample.t_ms = (newest.wall - age).time_since_epoch().count();
  if (const auto* milliwatts = reading.number()) {
    sample.power_w = static_cast<double>(*milliwatts) / 1000;
  } else if (const Missing* missing = reading.missing()) {
    sample.why = describe(*missing);
  }
  sample.instant = reading.metric == Metric::power_draw_instant;
  return sample;
}

// Told of each reading of one GPU.
Subscription listen(telemetry::Telemetry& telemetry, const DeviceInfo& info, Duration period,
                    http::Channel& channel) {
  const auto gpu = std::make_shared<const DeviceInfo>(info);
  return telemetry.listen_power(info.id, period, [&telemetry, gpu, &channel](const Reading& now) {
    channel.put([&telemetry, gpu, now](std::uint64_t skipped) {
      protocol::PowerSample sample = sample_of(*gpu, now, *telemetry.latest());
      sample.skipped = skipped;
      return http::event_chunk(protocol::kPowerEvent, json::to_json(sample));
    });
  });
}

void get_power_stream(Context& context, const protocol::PowerStreamRequest& request,
                      Responder<Text> respond) {
  const double hz = request.hz.value_or(protocol::kDefaultPowerHz);
  const auto gpus = gpus_named(*context.telemetry.latest(), request.gpus.value_or(""));
  if (!gpus) return respond(gpus.error());
  const auto period =
      std::chrono::round<std::chrono::milliseconds>(std::chrono::duration<double>(1 / hz));
  std::vector<std::shared_ptr<http::Channel>> lines;
  for (const DeviceInfo& gpu : *gpus) {
    lines.push_back(context.power_lines.get(
        {gpu.id, gpu.index, period},
        [&](http::Channel& channel) { return listen(context.telemetry, gpu, period, channel); }));
  }
  respond.as_is(http::event_stream(std::make_shared<http::ChannelsFeed>(std::move(lines), true)));
}

}  // namespace

std::vector<BoundRoute> power_stream_routes() {
  return {bind(protocol::kPowerStream, &get_power_stream)};
}

}  // namespace gpuyard::api
