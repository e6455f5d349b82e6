// Lowers the power limit of a GPU for some seconds, and restores the old limit: example_power_limit
// [GPU] [WATTS] [SECONDS]. Without WATTS it uses the lowest allowed limit.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include <gpuyard/gpuyard.h>

namespace {

using gpuyard::SettingState;

constexpr std::int64_t kMilliwatts = 1000;

std::string watts_of(const SettingState& state) {
  return state.now ? std::to_string(state.now->lowest / kMilliwatts) + " W" : "unknown";
}

int fail(const gpuyard::Error& error) {
  std::cerr << error.text() << '\n';
  return 1;
}

int hold(const gpuyard::Control& control, std::uint32_t gpu, int watts, int seconds) {
  const auto before = control.read_setting(gpu, gpuyard::SettingKind::power_limit);
  if (!before) return fail(before.error());
  if (!before->now || !before->allowed) {
    return fail({gpuyard::Errc::unsupported, "the driver does not tell the limit or its range"});
  }
  const std::int64_t wanted = watts > 0 ? watts * kMilliwatts : before->allowed->lowest;
  const auto set = control.send_command_blocking(
      gpu, gpuyard::Control::SetPowerManagementLimit{static_cast<std::uint32_t>(wanted)});
  if (!set) return fail(set.error());
  std::cout << "GPU " << gpu << ": " << watts_of(*before) << " -> "
            << watts_of(set->after.value_or(SettingState{})) << '\n';

  std::this_thread::sleep_for(std::chrono::seconds(seconds));  // your work

  const auto restored =
      control.set_power_management_limit(gpu, static_cast<std::uint32_t>(before->now->lowest));
  if (!restored) return fail(restored.error());
  std::cout << "GPU " << gpu << ": back to " << watts_of(*before) << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int gpu = argc > 1 ? std::atoi(argv[1]) : 0;
  const int watts = argc > 2 ? std::atoi(argv[2]) : 0;
  const int seconds = argc > 3 ? std::atoi(argv[3]) : 1;
  if (argc > 4 || gpu < 0 || watts < 0 || seconds < 0) {
    std::cerr << "usage: " << argv[0] << " [GPU] [WATTS] [SECONDS]\n";
    return 2;
  }
  const auto control = gpuyard::Control::open();
  if (!control) {
    std::cerr << control.error().text() << '\n' << advice_on(control.error()) << '\n';
    return 5;
  }
  return hold(*control, static_cast<std::uint32_t>(gpu), watts, seconds);
}
