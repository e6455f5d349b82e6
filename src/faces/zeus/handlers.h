// The requests of zeusd's protocol and their handlers. Everything on the io thread.
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
#include "faces/cpu/rapl.h"
#include "faces/zeus/answer.h"
#include "faces/zeus/cpu_reads.h"
#include "faces/zeus/ports.h"
#include "gpu/device/setting.h"
#include "gpu/device/snapshot.h"
#include "io/http/message.h"
#include "io/http/response_stream.h"

namespace gpuyard::zeus {

struct Context {
  Loop& loop;
  Gpus& gpus;
  Setter& control;
  cpu::Watch& cpus;
  CoarseCpus& coarse_cpus;
  bool cpu_over_tcp = false;  // false: only clients of Unix sockets, known by uid, may
  std::string version;
  http::Channels<std::pair<DeviceId, std::uint32_t>> gpu_power = {};  // by GPU, and its index now
};

CpuAccess sight_of(Context&, const http::Request&);
// Errc::denied, saying how to get access.
Result<void> may_see_cpus(const Context&, const http::Request&);

struct Nothing {};
BOOST_DESCRIBE_STRUCT(Nothing, (), ())

struct SomeGpus {
  std::optional<std::string> gpu_ids;  // nothing: all
};
BOOST_DESCRIBE_STRUCT(SomeGpus, (), (gpu_ids))

struct SomeCpus {
  std::optional<std::string> cpu_ids;  // nothing: all
};
BOOST_DESCRIBE_STRUCT(SomeCpus, (), (cpu_ids))

struct CpuEnergyParams : SomeCpus {
  bool cpu = false;
  bool dram = false;
};
BOOST_DESCRIBE_STRUCT(CpuEnergyParams, (SomeCpus), (cpu, dram))

struct Write {
  std::string gpu_ids;
  bool block = false;
};
BOOST_DESCRIBE_STRUCT(Write, (), (gpu_ids, block))

struct PowerLimitWrite : Write {
  std::uint32_t power_limit_mw = 0;
};
BOOST_DESCRIBE_STRUCT(PowerLimitWrite, (Write), (power_limit_mw))

struct PersistenceWrite : Write {
  bool enabled = false;
};
BOOST_DESCRIBE_STRUCT(PersistenceWrite, (Write), (enabled))

struct ClocksWrite : Write {
  std::uint32_t min_clock_mhz = 0;
  std::uint32_t max_clock_mhz = 0;
};
BOOST_DESCRIBE_STRUCT(ClocksWrite, (Write), (min_clock_mhz, max_clock_mhz))

// A handler's arguments besides its parameters.
struct Call {
  const http::Request& request;  // valid while the handler runs
  Answer answer;
};

// Calls `then` once the CPUs have been looked for: at once if they were before, in any case soon.
void when_cpus_are_known(Context&, std::function<void()> then);

void discover(Context&, const Nothing&, const Call&);
void get_time(Context&, const Nothing&, const Call&);
void whoami(Context&, const Nothing&, const Call&);

void get_gpu_power(Context&, const SomeGpus&, const Call&);
void get_gpu_energy(Context&, const SomeGpus&, const Call&);
void get_power_limit(Context&, const SomeGpus&, const Call&);
void get_power_limit_constraints(Context&, const SomeGpus&, const Call&);
void get_persistence_mode(Context&, const SomeGpus&, const Call&);
void stream_gpu_power(Context&, const SomeGpus&, const Call&);

void set_power_limit(Context&, const PowerLimitWrite&, const Call&);
void set_persistence_mode(Context&, const PersistenceWrite&, const Call&);
void set_gpu_clocks(Context&, const ClocksWrite&, const Call&);
void set_memory_clocks(Context&, const ClocksWrite&, const Call&);
void reset_gpu_clocks(Context&, const Write&, const Call&);
void reset_memory_clocks(Context&, const Write&, const Call&);
void reset_clocks(Context&, const Write&, const Call&);

void get_cpu_energy(Context&, const CpuEnergyParams&, const Call&);
void get_cpu_power(Context&, const SomeCpus&, const Call&);
void stream_cpu_power(Context&, const SomeCpus&, const Call&);

}  // namespace gpuyard::zeus
