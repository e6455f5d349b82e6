// Energy as the API's description shows it: the two H100 of examples.cpp, one of them reset once.
#include "api/examples.h"

namespace gpuyard::api {
namespace {

constexpr const char* kSince = "2025-12-31T23:00:00.000Z";

}  // namespace

protocol::EnergyReport example_of(std::type_identity<protocol::EnergyReport>) {
  protocol::EnergyReport report;
  report.simulated = true;
  report.taken_at = "2026-01-01T00:00:00.250Z";
  report.gpus.push_back({0,
                         kBusyGpu,
                         kSince,
                         2'176'400,
                         {2'116'000, 60'400},
                         false,
                         0,
                         0,
                         {1, kSince, 2'176'400},
                         0.25});
  report.gpus.push_back({1,
                         kIdleGpu,
                         kSince,
                         251'300,
                         {244'300, 7'000},
                         false,
                         0,
                         1.002,
                         {2, "2025-12-31T23:40:00.107Z", 84'020},
                         0.25});
  for (const protocol::GpuEnergy& gpu : report.gpus) report.joules += gpu.joules;
  return report;
}

protocol::EnergyWindowWish example_of(std::type_identity<protocol::EnergyWindowWish>) {
  return {{{{"0"}}}, "train", 3600};
}

protocol::EnergyWindow example_of(std::type_identity<protocol::EnergyWindow>) {
  protocol::EnergyWindow window;
  window.id = kWindowExample;
  window.name = "train";
  window.owner_uid = 1000;
  window.simulated = true;
  window.began_at = "2025-12-31T23:50:00.000Z";
  window.ends_at = "2026-01-01T00:50:00.000Z";
  window.seconds = 600.25;
  window.joules = 362'701.5;
  window.gpus.push_back(
      {0, kBusyGpu, 362'701.5, 600.248, 604.25, 655.1, false, false, 0, 0, 0.002});
  return window;
}

protocol::EnergyWindows example_of(std::type_identity<protocol::EnergyWindows>) {
  return {1, {example_of(std::type_identity<protocol::EnergyWindow>{})}};
}

}  // namespace gpuyard::api
