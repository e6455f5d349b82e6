// Prints a line for each GPU, again and again:
//   example_gpu_monitor [--interval SECONDS] [--count TIMES]
// Every 5 seconds and for ever, unless told otherwise.
#include <charconv>
#include <chrono>
#include <iostream>
#include <optional>
#include <string_view>
#include <thread>

#include <gpuyard/gpuyard.h>

namespace {

struct Arguments {
  std::chrono::seconds interval{5};
  std::optional<long> count;  // empty: for ever
};

std::optional<long> positive(std::string_view text) {
  long number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size();
  return whole && number > 0 ? std::optional(number) : std::nullopt;
}

std::optional<Arguments> parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    const auto number = i + 1 < argc ? positive(argv[i + 1]) : std::nullopt;
    if (!number) return std::nullopt;
    if (name == "--interval") {
      arguments.interval = std::chrono::seconds(*number);
    } else if (name == "--count") {
      arguments.count = number;
    } else {
      return std::nullopt;
    }
  }
  return arguments;
}

void show(const gpuyard::Monitor& monitor) {
  for (const gpuyard::GpuMetrics& gpu : monitor.collect_metrics()) {
    std::cout << gpu.display_line() << '\n';
  }
  std::cout.flush();
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments = parse(argc, argv);
  if (!arguments) {
    std::cerr << "usage: " << argv[0] << " [--interval SECONDS] [--count TIMES]\n";
    return 2;
  }
  const auto monitor = gpuyard::Monitor::open();
  if (!monitor) {
    std::cerr << monitor.error().message << '\n' << advice_on(monitor.error()) << '\n';
    return 5;
  }
  for (long shown = 0; arguments->count.value_or(shown + 1) > shown; ++shown) {
    if (shown > 0) std::this_thread::sleep_for(arguments->interval);
    show(*monitor);
  }
  return 0;
}
