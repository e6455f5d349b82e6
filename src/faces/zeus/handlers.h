// The requests of zeusd's protocol and their handlers. Thread: io.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/record.h"
#include "base/result.h"
#include "faces/cpu/cpu_energy_monitor.h"
#include "faces/zeus/cpu_reads.h"
#include "faces/zeus/ports.h"
#include "faces/zeus/zeus_responder.h"
#include "gpu/device/setting.h"
#include "gpu/device/snapshot.h"
#include "io/http/message.h"
#include "io/http/response_stream.h"

namespace gpuyard::zeus {

struct Context {
  Loop& loop;
  GpuSource& gpus;
  SettingWriter& control;
  cpu::CpuEnergyMonitor& cpus;
  CoarseEnergyMonitor& coarse_cpus;
  bool cpu_over_tcp = false;  // false: only clients of Unix sockets, known by uid, may
  std::string version;
  http::ChannelMap<std::pair<DeviceId, std::uint32_t>> gpu_power = {};  // by GPU, and its index now
};

CpuAccess cpu_access_of(Context&, const http::Request&);
// Errc::denied, saying how to get access.
Result<void> check_cpu_access(const Context&, const http::Request&);

struct NoParams {};
BOOST_DESCRIBE_STRUCT(NoParams, (), ())

struct GpuParams {
  std::optional<std::string> gpu_ids;  // nothing: all
};
BOOST_DESCRIBE_STRUCT(GpuParams, (), (gpu_ids))

struct CpuParams {
  std::optional<std::string> cpu_ids;  // nothing: all
};
BOOST_DESCRIBE_STRUCT(CpuParams, (), (cpu_ids))

struct CpuEnergyParams : CpuParams {
  bool cpu = false;
  bool dram = false;
};
BOOST_DESCRIBE_STRUCT(CpuEnergyParams, (CpuParams), (cpu, dram))

struct SetterParams {
  std::string gpu_ids;
  bool block = false;
};
BOOST_DESCRIBE_STRUCT(SetterParams, (), (gpu_ids, block))

struct PowerLimitParams : SetterParams {
  std::uint32_t power_limit_mw = 0;
};
BOOST_DESCRIBE_STRUCT(PowerLimitParams, (SetterParams), (power_limit_mw))

struct PersistenceParams : SetterParams {
  bool enabled = false;
};
BOOST_DESCRIBE_STRUCT(PersistenceParams, (SetterParams), (enabled))

struct ClocksParams : SetterParams {
  std::uint32_t min_clock_mhz = 0;
  std::uint32_t max_clock_mhz = 0;
};
BOOST_DESCRIBE_STRUCT(ClocksParams, (SetterParams), (min_clock_mhz, max_clock_mhz))

// A handler's arguments besides its parameters.
struct Call {
  const http::Request& request;  // valid while the handler runs
  ZeusResponder responder;
};

// Calls `on_done` once the CPUs have been discovered: at once if they were before, in any case
// soon.
void after_cpu_discovery(Context&, std::function<void()> on_done);

void discover(Context&, const NoParams&, const Call&);
void get_time(Context&, const NoParams&, const Call&);
void whoami(Context&, const NoParams&, const Call&);

void get_gpu_power(Context&, const GpuParams&, const Call&);
void get_gpu_energy(Context&, const GpuParams&, const Call&);
void get_power_limit(Context&, const GpuParams&, const Call&);
void get_power_limit_constraints(Context&, const GpuParams&, const Call&);
void get_persistence_mode(Context&, const GpuParams&, const Call&);
void stream_gpu_power(Context&, const GpuParams&, const Call&);

void set_power_limit(Context&, const PowerLimitParams&, const Call&);
void set_persistence_mode(Context&, const PersistenceParams&, const Call&);
void set_gpu_clocks(Context&, const ClocksParams&, const Call&);
void set_memory_clocks(Context&, const ClocksParams&, const Call&);
void reset_gpu_clocks(Context&, const SetterParams&, const Call&);
void reset_memory_clocks(Context&, const SetterParams&, const Call&);
void reset_clocks(Context&, const SetterParams&, const Call&);

void get_cpu_energy(Context&, const CpuEnergyParams&, const Call&);
void get_cpu_power(Context&, const CpuParams&, const Call&);
void stream_cpu_power(Context&, const CpuParams&, const Call&);

}  // namespace gpuyard::zeus
