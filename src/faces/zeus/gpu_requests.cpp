// The requests that read GPUs, always from the driver.
#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "base/json_writer.h"
#include "faces/zeus/handlers.h"
#include "faces/zeus/zeus_responder.h"
#include "io/http/event_stream.h"
#include "io/http/response_stream.h"

namespace gpuyard::zeus {
namespace {

struct Energy {
  std::int64_t energy_mj = 0;
};
BOOST_DESCRIBE_STRUCT(Energy, (), (energy_mj))

struct PowerLimit {
  std::int64_t power_limit_mw = 0;
};
BOOST_DESCRIBE_STRUCT(PowerLimit, (), (power_limit_mw))

struct PowerLimitRange {
  std::int64_t min_power_limit_mw = 0;
  std::int64_t max_power_limit_mw = 0;
};
BOOST_DESCRIBE_STRUCT(PowerLimitRange, (), (min_power_limit_mw, max_power_limit_mw))

struct Persistence {
  bool enabled = false;
};
BOOST_DESCRIBE_STRUCT(Persistence, (), (enabled))

struct Power {
  std::int64_t timestamp_ms = 0;
  std::map<std::string, std::int64_t> power_mw;
};
BOOST_DESCRIBE_STRUCT(Power, (), (timestamp_ms, power_mw))

Result<std::int64_t> number(const DeviceState& device, Metric metric) {
  const Reading* reading = device.sample.find(metric);
  if (reading == nullptr) return Error{Errc::unavailable, "not read: " + device.why};
  if (const Missing* missing = reading->missing()) return error_of(*missing);
  return *reading->number();
}

// Returns one metric of a GPU, for answers of one number.
template <class T, Metric kMetric>
Result<T> read_metric(const DeviceState& device) {
  const auto value = number(device, kMetric);
  if (!value) return value.error();
  return T{*value};
}

Result<PowerLimitRange> power_limit_range(const DeviceState& device) {
  const auto least = number(device, Metric::power_limit_min);
  if (!least) return least.error();
  const auto most = number(device, Metric::power_limit_max);
  if (!most) return most.error();
  return PowerLimitRange{*least, *most};
}

Result<Persistence> persistence_mode(const DeviceState& device) {
  const auto mode = number(device, Metric::persistence_mode);
  if (!mode) return mode.error();
  return Persistence{*mode != 0};
}

// Returns instant power if the GPU has it, else average power; zeusd does the same.
Result<std::int64_t> power(const DeviceState& device) {
  auto instant = number(device, Metric::power_draw_instant);
  return instant ? instant : number(device, Metric::power_draw);
}

template <class T>
using Extractor = Result<T> (*)(const DeviceState&);

template <class T>
Result<T> extract_from(const Snapshot& fresh, const DeviceId& id, Extractor<T> of) {
  const auto device =
      std::ranges::find(fresh.devices, id, [](const DeviceState& one) { return one.info.id; });
  if (device == fresh.devices.end())
    return Error{Errc::device_lost, "the GPU is no longer present"};
  return of(*device);
}

// Reads `probes` of the named GPUs and gives `render` the result of `of` for each; or answers with
// the error.
template <class T, class Render>
void read_each(Context& context, const GpuParams& params, const ZeusResponder& answer,
               ProbeSet probes, Extractor<T> of, const Render& render) {
  auto gpus = resolve_gpus(*context.gpus.latest(), params.gpu_ids);
  if (!gpus) return answer.send_error(gpus.error());
  context.gpus.read_fresh(probes,
                          [answer, of, render, gpus = *std::move(gpus)](const Snapshot& fresh) {
                            std::map<std::string, T> found;
                            DeviceErrors errors;
                            for (const DeviceInfo& gpu : gpus) {
                              const auto one = extract_from(fresh, gpu.id, of);
                              if (one) found[std::to_string(gpu.index)] = *one;
                              if (!one) errors[gpu.index] = one.error();
                            }
                            if (!errors.empty()) return answer.send_device_errors(errors);
                            render(fresh, std::move(found));
                          });
}

template <class T>
void send_each(Context& context, const GpuParams& params, const ZeusResponder& answer, Probe probe,
               Extractor<T> of) {
  read_each(context, params, answer, {probe}, of,
            [answer](const Snapshot&, const std::map<std::string, T>& found) {
              answer.send_json(found);
            });
}

constexpr Duration kStreamPeriod = std::chrono::milliseconds(50);  // zeusd's default

struct GpuPower {
  std::int64_t timestamp_ms = 0;
  std::uint32_t gpu_id = 0;
  std::int64_t power_mw = 0;
};
BOOST_DESCRIBE_STRUCT(GpuPower, (), (timestamp_ms, gpu_id, power_mw))

// A client treats a null power as a broken event, so unknown power is not sent.
Subscription subscribe_channel(GpuSource& gpus, const DeviceInfo& gpu, http::Channel& channel) {
  return gpus.subscribe_power(
      gpu.id, kStreamPeriod, [&gpus, index = gpu.index, &channel](const Reading& reading) {
        if (reading.number() == nullptr) return;
        channel.publish([&gpus, index, taken = reading.taken, power = *reading.number()](auto) {
          const auto newest = gpus.latest();
          const auto when =
              newest->wall.time_since_epoch().count() - to_milliseconds(newest->taken - taken);
          return http::event_chunk("", json::to_json(GpuPower{when, index, power}));
        });
      });
}

void send_outcomes(const ZeusResponder& answer, const std::vector<GpuOutcome>& outcomes) {
  DeviceErrors errors;
  for (const GpuOutcome& one : outcomes) {
    if (!one.result) errors.insert_or_assign(one.index, one.result.error());
  }
  if (errors.empty()) return answer.send_ok();
  answer.send_device_errors(errors);
}

SettingOrder order_of(const SetterParams& write, const Call& call, std::vector<DeviceInfo> gpus,
                      SettingKind kind, std::optional<Setting> setting) {
  return {call.request.peer.uid, std::move(gpus),         kind, setting, write.block,
          call.request.id,       call.request.received_at};
}

// Sends an order to control and turns the outcomes into one answer.
void submit_order(Context& context, const SetterParams& write, const Call& call, SettingKind kind,
                  std::optional<Setting> setting) {
  auto gpus = resolve_gpus(*context.gpus.latest(), write.gpu_ids);
  if (!gpus) return call.responder.send_error(gpus.error());
  context.control.submit(order_of(write, call, *std::move(gpus), kind, setting),
                         [answer = call.responder](const std::vector<GpuOutcome>& outcomes) {
                           send_outcomes(answer, outcomes);
                         });
}

}  // namespace

void get_gpu_power(Context& context, const GpuParams& params, const Call& call) {
  read_each(
      context, params, call.responder, {Probe::power, Probe::power_fields}, power,
      [answer = call.responder](const Snapshot& fresh, std::map<std::string, std::int64_t> found) {
        answer.send_json(Power{fresh.wall.time_since_epoch().count(), std::move(found)});
      });
}

void get_gpu_energy(Context& context, const GpuParams& params, const Call& call) {
  send_each(context, params, call.responder, Probe::energy,
            read_metric<Energy, Metric::energy_total>);
}

void get_power_limit(Context& context, const GpuParams& params, const Call& call) {
  // The metric is the limit that was set: the enforced one may be lower, for reasons outside the
  // client.
  send_each(context, params, call.responder, Probe::power_limit,
            read_metric<PowerLimit, Metric::power_limit_set>);
}

void get_power_limit_constraints(Context& context, const GpuParams& params, const Call& call) {
  send_each(context, params, call.responder, Probe::power_bounds, power_limit_range);
}

void get_persistence_mode(Context& context, const GpuParams& params, const Call& call) {
  send_each(context, params, call.responder, Probe::modes, persistence_mode);
}

void stream_gpu_power(Context& context, const GpuParams& params, const Call& call) {
  const auto gpus = resolve_gpus(*context.gpus.latest(), params.gpu_ids);
  if (!gpus) return call.responder.send_error(gpus.error());
  std::vector<std::shared_ptr<http::Channel>> channels;
  for (const DeviceInfo& gpu : *gpus) {
    channels.push_back(context.gpu_power.get({gpu.id, gpu.index}, [&](http::Channel& channel) {
      return subscribe_channel(context.gpus, gpu, channel);
    }));
  }
  // zeusd's clients reconnect at once after an end of the body, but only after a while when the
  // connection breaks.
  constexpr bool kMayEnd = false;
  call.responder.send(
      http::event_stream(std::make_shared<http::ChannelStream>(std::move(channels), kMayEnd)));
}

void set_power_limit(Context& context, const PowerLimitParams& write, const Call& call) {
  submit_order(context, write, call, SettingKind::power_limit, power_limit(write.power_limit_mw));
}

void set_persistence_mode(Context& context, const PersistenceParams& write, const Call& call) {
  submit_order(context, write, call, SettingKind::persistence, persistence(write.enabled));
}

void set_gpu_clocks(Context& context, const ClocksParams& write, const Call& call) {
  submit_order(context, write, call, SettingKind::gpu_clocks,
               gpu_clocks(write.min_clock_mhz, write.max_clock_mhz));
}

void set_memory_clocks(Context& context, const ClocksParams& write, const Call& call) {
  submit_order(context, write, call, SettingKind::memory_clocks,
               memory_clocks(write.min_clock_mhz, write.max_clock_mhz));
}

void reset_gpu_clocks(Context& context, const SetterParams& write, const Call& call) {
  submit_order(context, write, call, SettingKind::gpu_clocks, std::nullopt);
}

void reset_memory_clocks(Context& context, const SetterParams& write, const Call& call) {
  submit_order(context, write, call, SettingKind::memory_clocks, std::nullopt);
}

// Resets both clocks, one after the other; a GPU fails if either reset failed.
void reset_clocks(Context& context, const SetterParams& write, const Call& call) {
  auto gpus = resolve_gpus(*context.gpus.latest(), write.gpu_ids);
  if (!gpus) return call.responder.send_error(gpus.error());
  auto memory = order_of(write, call, *gpus, SettingKind::memory_clocks, std::nullopt);
  context.control.submit(
      order_of(write, call, *std::move(gpus), SettingKind::gpu_clocks, std::nullopt),
      [&context, answer = call.responder,
       memory = std::move(memory)](const std::vector<GpuOutcome>& of_gpu) {
        context.control.submit(memory, [answer, of_gpu](const std::vector<GpuOutcome>& of_memory) {
          std::vector<GpuOutcome> both = of_gpu;
          both.insert(both.end(), of_memory.begin(), of_memory.end());
          send_outcomes(answer, both);
        });
      });
}

}  // namespace gpuyard::zeus
