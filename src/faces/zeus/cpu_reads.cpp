// The requests that read CPUs.
#include "faces/zeus/cpu_reads.h"

#include <algorithm>
#include <map>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "faces/cpu/cpu_energy_monitor.h"
#include "faces/cpu/rapl.h"
#include "faces/zeus/handlers.h"
#include "faces/zeus/zeus_responder.h"
#include "io/http/event_stream.h"

namespace gpuyard::zeus {
namespace {

struct CpuPower {
  std::int64_t timestamp_ms = 0;
  std::uint32_t cpu_id = 0;
  std::int64_t cpu_mw = 0;
  std::optional<std::int64_t> dram_mw;
};
BOOST_DESCRIBE_STRUCT(CpuPower, (), (timestamp_ms, cpu_id, cpu_mw, dram_mw))

std::optional<std::int64_t> known_milliwatts(const std::optional<Result<std::int64_t>>& power) {
  return power && power->ok() ? std::optional(**power) : std::nullopt;
}

constexpr std::int64_t kMicrojoulesPerJoule = 1'000'000;  // in microjoules

void coarsen(Result<std::int64_t>& energy_uj) {
  if (energy_uj) *energy_uj -= *energy_uj % kMicrojoulesPerJoule;
}

struct CpuEnergy {
  std::optional<std::int64_t> cpu_energy_uj;
  std::optional<std::int64_t> dram_energy_uj;
};
BOOST_DESCRIBE_STRUCT(CpuEnergy, (), (cpu_energy_uj, dram_energy_uj))

struct CpuDramPower {
  std::int64_t cpu_mw = 0;
  std::optional<std::int64_t> dram_mw;
};
BOOST_DESCRIBE_STRUCT(CpuDramPower, (), (cpu_mw, dram_mw))

struct CpuPowers {
  std::int64_t timestamp_ms = 0;
  std::map<std::string, CpuDramPower> power_mw;
};
BOOST_DESCRIBE_STRUCT(CpuPowers, (), (timestamp_ms, power_mw))

using Ids = std::vector<std::uint32_t>;

Result<Ids> resolve_cpus(const cpu::Energies& known, const std::optional<std::string>& ids) {
  if (!ids) {
    Ids all;
    for (const auto& package : known.packages) all.push_back(package.number);
    return all;
  }
  auto wanted = parse_ids(*ids, "CPU");
  if (!wanted) return wanted;
  for (const std::uint32_t id : *wanted) {
    if (std::ranges::find(known.packages, id, &cpu::PackageEnergy::number) ==
        known.packages.end()) {
      return Error{Errc::invalid, fmt::format("CPU {} not found", id)};
    }
  }
  return wanted;
}

const Error kCpuGoneError{Errc::unavailable, "the CPU's counters are no longer present"};

// Fills `to` if it is wanted and exists; an error only if it cannot be read.
Result<void> put(std::optional<std::int64_t>& to, bool wanted,
                 const std::optional<Result<std::int64_t>>& from) {
  if (!wanted || !from) return {};
  if (!*from) return from->error();
  to = **from;
  return {};
}

Result<CpuEnergy> energy_of(const cpu::Energies& read, std::uint32_t id,
                            const CpuEnergyParams& params) {
  const auto package = std::ranges::find(read.packages, id, &cpu::PackageEnergy::number);
  if (package == read.packages.end()) return kCpuGoneError;
  CpuEnergy energy;
  if (auto result = put(energy.cpu_energy_uj, params.cpu, package->energy_uj); !result) {
    return std::move(result).error();
  }
  if (auto result = put(energy.dram_energy_uj, params.dram, package->dram_uj); !result) {
    return std::move(result).error();
  }
  return energy;
}

Result<CpuDramPower> power_of(const std::vector<cpu::PackagePower>& powers, std::uint32_t id) {
  const auto package = std::ranges::find(powers, id, &cpu::PackagePower::number);
  if (package == powers.end()) return kCpuGoneError;
  if (!package->milliwatts) return package->milliwatts.error();
  CpuDramPower power{*package->milliwatts, std::nullopt};
  if (auto result = put(power.dram_mw, true, package->dram_milliwatts); !result) {
    return std::move(result).error();
  }
  return power;
}

// Returns {"0": ...}, the result of `of` for each CPU; answers with the errors if some failed.
template <class T, class Of>
std::optional<std::map<std::string, T>> gather(const Ids& ids, const ZeusResponder& answer, Of of) {
  std::map<std::string, T> found;
  DeviceErrors errors;
  for (const std::uint32_t id : ids) {
    const Result<T> one = of(id);
    if (one) found[std::to_string(id)] = *one;
    if (!one) errors[id] = one.error();
  }
  if (errors.empty()) return found;
  answer.send_device_errors(errors);
  return std::nullopt;
}

}  // namespace

CpuPowerStream::CpuPowerStream(Loop& loop, const CpuAccess& cpu_access,
                               const std::vector<std::uint32_t>& cpus)
    : loop_(loop) {
  for (const std::uint32_t id : cpus) pending_.push_back({id, std::nullopt});
  subscription_ =
      cpu_access.subscribe([this](const cpu::Energies& energies) { on_energies(energies); });
}

void CpuPowerStream::on_energies(const cpu::Energies& energies) {
  const auto before = std::exchange(last_, energies);
  if (!before) return;
  for (cpu::PackagePower& power : cpu::power_between(*before, energies)) {
    const auto one = std::ranges::find(pending_, power.number, &PendingPower::id);
    if (one != pending_.end() && power.milliwatts) one->power = std::move(power);
  }
  notify_more();
}

http::Chunk CpuPowerStream::next() {
  for (std::size_t tried = 0; tried < pending_.size(); ++tried) {
    PendingPower& one = pending_[next_index_];
    next_index_ = (next_index_ + 1) % pending_.size();
    const auto power = std::exchange(one.power, std::nullopt);
    if (!power) continue;
    const CpuPower event{
        loop_.wall().time_since_epoch().count() - to_milliseconds(loop_.now() - last_->taken),
        one.id, *power->milliwatts, known_milliwatts(power->dram_milliwatts)};
    return http::event_chunk("", json::to_json(event));
  }
  return {};
}

const cpu::Energies& CoarseEnergyMonitor::update(const cpu::Energies& read) {
  if (latest_ && loop_.now() - latest_at_ < kPeriod) return *latest_;
  latest_ = read;
  latest_at_ = loop_.now();
  for (cpu::PackageEnergy& package : latest_->packages) {
    coarsen(package.energy_uj);
    if (package.dram_uj) coarsen(*package.dram_uj);
  }
  return *latest_;
}

void CoarseEnergyMonitor::read_fresh(cpu::CpuEnergyMonitor::OnRead on_done) {
  if (latest_ && loop_.now() - latest_at_ < kPeriod) {
    return loop_.post([on_done = std::move(on_done), energies = *latest_] { on_done(energies); });
  }
  monitor_.read_fresh([this, alive = lifetime_.weak_token(),
                       on_done = std::move(on_done)](const Result<cpu::Energies>& read) {
    if (!read) return on_done(read.error());
    if (!alive.expired()) on_done(update(*read));
  });
}

Subscription CoarseEnergyMonitor::subscribe(cpu::CpuEnergyMonitor::OnEnergies on_energies) {
  return monitor_.subscribe(
      lifetime_.guard([this, on_energies = std::move(on_energies),
                       last = std::make_shared<TimePoint>()](const cpu::Energies& read) {
        const cpu::Energies& energies = update(read);
        if (std::exchange(*last, energies.taken) != energies.taken) on_energies(energies);
      }));
}

Result<void> check_cpu_access(const Context& context, const http::Request& request) {
  if (context.cpu_over_tcp || request.peer.kind == http::Peer::Kind::unix_socket) return {};
  return Error{
      Errc::denied,
      "CPU energy reveals what the CPUs compute, so it is not available over TCP; with [zeus] "
      "cpu_over_tcp = true in gpuyard's configuration, whole joules are available once per second"};
}

CpuAccess cpu_access_of(Context& context, const http::Request& request) {
  const auto access_to = [](auto& cpus) -> CpuAccess {
    return {[&cpus](cpu::CpuEnergyMonitor::OnRead on_done) { cpus.read_fresh(std::move(on_done)); },
            [&cpus](cpu::CpuEnergyMonitor::OnEnergies on_energies) {
              return cpus.subscribe(std::move(on_energies));
            },
            std::remove_cvref_t<decltype(cpus)>::kPeriod};
  };
  const bool local = request.peer.kind == http::Peer::Kind::unix_socket;
  return local ? access_to(context.cpus) : access_to(context.coarse_cpus);
}

void get_cpu_energy(Context& context, const CpuEnergyParams& params, const Call& call) {
  const auto ids = resolve_cpus(context.cpus.latest(), params.cpu_ids);
  if (!ids) return call.responder.send_error(ids.error());
  cpu_access_of(context, call.request)
      .read_fresh([answer = call.responder, ids = *ids, params](const Result<cpu::Energies>& read) {
        if (!read) return answer.send_error(500, read.error().text());
        const auto found = gather<CpuEnergy>(
            ids, answer, [&](std::uint32_t id) { return energy_of(*read, id, params); });
        if (found) answer.send_json(*found);
      });
}

// Power is the difference of two readings over the time between them.
void get_cpu_power(Context& context, const CpuParams& params, const Call& call) {
  const auto ids = resolve_cpus(context.cpus.latest(), params.cpu_ids);
  if (!ids) return call.responder.send_error(ids.error());
  struct Measuring {
    Ids ids;
    ZeusResponder answer;
    CpuAccess cpus;
    cpu::Energies first;
    Subscription pause;
  };
  const auto measuring = std::make_shared<Measuring>(
      Measuring{*ids, call.responder, cpu_access_of(context, call.request), {}, {}});
  const auto end = [&context, measuring](const Result<cpu::Energies>& read) {
    if (!read) return measuring->answer.send_error(500, read.error().text());
    const auto powers = cpu::power_between(measuring->first, *read);
    auto found = gather<CpuDramPower>(measuring->ids, measuring->answer,
                                      [&](std::uint32_t id) { return power_of(powers, id); });
    if (!found) return;
    measuring->answer.send_json(
        CpuPowers{context.loop.wall().time_since_epoch().count(), *std::move(found)});
  };
  measuring->cpus.read_fresh([&context, measuring, end](const Result<cpu::Energies>& read) {
    if (!read) return measuring->answer.send_error(500, read.error().text());
    measuring->first = *read;
    measuring->pause = context.loop.call_after(measuring->cpus.period, [measuring, end] {
      measuring->pause.reset();
      measuring->cpus.read_fresh(end);
    });
  });
}

void stream_cpu_power(Context& context, const CpuParams& params, const Call& call) {
  const auto ids = resolve_cpus(context.cpus.latest(), params.cpu_ids);
  if (!ids) return call.responder.send_error(ids.error());
  call.responder.send(http::event_stream(
      std::make_shared<CpuPowerStream>(context.loop, cpu_access_of(context, call.request), *ids)));
}

}  // namespace gpuyard::zeus
