#include "api/power_stream.h"

#include <utility>

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

}  // namespace

PowerFeed::PowerFeed(telemetry::Telemetry& telemetry, const std::vector<DeviceInfo>& gpus,
                     Duration period, PowerChunks& shared)
    : telemetry_(telemetry), shared_(shared) {
  for (const DeviceInfo& gpu : gpus) {
    const std::size_t place = gpus_.size();
    gpus_.push_back({gpu, std::nullopt, 0});
    listening_.push_back(telemetry.listen_power(
        gpu.id, period, [this, place](const Reading& reading) { hear(place, reading); }));
  }
}

void PowerFeed::hear(std::size_t gpu, const Reading& reading) {
  Waiting& waiting = gpus_[gpu];
  if (waiting.reading) ++waiting.skipped;
  waiting.reading = reading;
  more();
}

http::Chunk PowerFeed::next() {
  for (std::size_t tried = 0; tried < gpus_.size(); ++tried) {
    Waiting& waiting = gpus_[turn_];
    turn_ = (turn_ + 1) % gpus_.size();
    const auto reading = std::exchange(waiting.reading, std::nullopt);
    if (!reading) continue;
    const std::uint64_t skipped = std::exchange(waiting.skipped, 0);
    const auto render = [&] {
      protocol::PowerSample sample = sample_of(waiting.gpu, *reading, *telemetry_.latest());
      sample.skipped = skipped;
      return http::event_chunk(protocol::kPowerEvent, json::to_json(sample));
    };
    return skipped > 0 ? render() : shared_[waiting.gpu.id].of(reading->taken, render);
  }
  return {};
}

namespace {

void get_power_stream(Context& context, const protocol::PowerStreamRequest& request,
                      Responder<Text> respond) {
  const double hz = request.hz.value_or(protocol::kDefaultPowerHz);
  if (!(hz >= protocol::kLowestPowerHz && hz <= protocol::kHighestPowerHz)) {
    return respond(Error{Errc::invalid, "parameter hz must be from 1 to 100"});
  }
  const auto gpus = gpus_named(*context.telemetry.latest(), request.gpus.value_or(""));
  if (!gpus) return respond(gpus.error());
  const auto period = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(1 / hz));
  respond.as_is(http::event_stream(
      std::make_shared<PowerFeed>(context.telemetry, *gpus, period, context.power_chunks)));
}

}  // namespace

std::vector<BoundRoute> power_stream_routes() {
  return {bind(protocol::kPowerStream, &get_power_stream)};
}

}  // namespace gpuyard::api
