#include "core/bottleneck/bottleneck_detector.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "gpu/device/catalog.h"

namespace gpuyard::bottleneck {
namespace {

constexpr std::int64_t kBusyPercent = 50;        // %: below, a GPU may rest, and lowers its link
constexpr std::int64_t kLowSmActivity = 20'000;  // of SMs active, in thousandths of a percent
constexpr double kFullCorePercent = 95;          // % of a core: a thread that never waits
constexpr double kFullLinkPercent = 80;          // % of what PCIe carries, without its headers

// "PCIe 3 of 5, 8 of 16 lanes"; "" if there is nothing wrong with it.
std::string pcie_fault(const Sample& sample) {
  const auto width = sample.value(Metric::pcie_width);
  const auto width_max = sample.value(Metric::pcie_width_max);
  const auto generation = sample.value(Metric::pcie_generation);
  const auto generation_max = sample.value(Metric::pcie_generation_max);
  std::string text;
  if (width && width_max && *width < *width_max) {
    text = fmt::format("{} of {} PCIe lanes", *width, *width_max);
  }
  if (generation && generation_max && *generation < *generation_max) {
    text += fmt::format("{}PCIe generation {} of {}", text.empty() ? "" : ", ", *generation,
                        *generation_max);
  }
  return text;
}

// "17 of 18 NVLinks"; "" also where none is up: then nothing is connected to the GPU, unless links
// were up before.
std::string nvlink_fault(const std::optional<LostNvlinks>& links) {
  if (!links || links->up == links->all) return "";
  if (links->up == 0 && links->down.empty()) return "";
  return fmt::format("{} of {} NVLinks", links->up, links->all);
}

// Bytes a second in one direction, without what the encoding takes (PCI Express Base 6.0, 1.2).
std::optional<double> pcie_capacity(const Sample& sample) {
  constexpr std::array kLane = {250e6, 500e6, 985e6, 1969e6, 3938e6, 7563e6};
  const auto generation = sample.value(Metric::pcie_generation);
  const auto width = sample.value(Metric::pcie_width);
  if (!generation || !width || *generation < 1 || *width < 1) return std::nullopt;
  const auto row = std::min(static_cast<std::size_t>(*generation), kLane.size()) - 1;
  return kLane.at(row) * static_cast<double>(*width);
}

std::string missing_reason(const Sample& sample, Metric metric) {
  const Reading* const reading = sample.find(metric);
  if (reading == nullptr) return "not read";
  return reading->missing() != nullptr ? describe(*reading->missing()) : "not read";
}

std::string duration_text(Duration length) {
  return short_duration(std::chrono::duration_cast<std::chrono::seconds>(length).count());
}

}  // namespace

// Classifies one GPU by its past and its newest readings.
class BottleneckDetector::Classifier {
 public:
  Classifier(const BottleneckThresholds& thresholds, const ReadingWindow& window,
             const DeviceState& device, const ExternalFacts& external, TimePoint now)
      : thresholds_(thresholds),
        window_(window),
        device_(device),
        sample_(device.sample),
        external_(external),
        now_(now) {}

  Bottleneck classify() {
    const bool named = lost() || stale() || asleep() || heat() || power_brake() || power_cap() ||
                       lost_nvlinks() || narrow_link() || starved() || waiting() || leased_idle() ||
                       memory_full();
    if (!named) none();
    return std::move(bottleneck_);
  }

 private:
  bool name(BottleneckCause cause, std::string brief, std::string text, std::string advice) {
    bottleneck_.cause = cause;
    bottleneck_.brief = std::move(brief);
    bottleneck_.text = std::move(text);
    bottleneck_.advice = std::move(advice);
    return true;
  }

  bool lost() {
    const auto why = loss_reason(device_);
    if (!why) return false;
    return name(BottleneckCause::lost, "lost " + silent_for(),
                fmt::format("has been lost for {}: {}", silent_for(), describe(*why)),
                "Its work has failed. Reset it (gpuyard reset) or replace it.");
  }

  bool stale() {
    if (device_.condition == DeviceCondition::responsive) return false;
    return name(BottleneckCause::stale, "not responding " + silent_for(),
                fmt::format("has not responded for {}: {}", silent_for(), device_.why),
                "Its readings are stale. Check the kernel log and run gpuyard doctor.");
  }

  bool asleep() {
    const auto since = asleep_since(device_);
    if (!since) return false;
    const std::string length = duration_text(now_ - *since);
    return name(BottleneckCause::none, "asleep " + length, "has been asleep for " + length, "");
  }

  bool heat() {
    auto share = window_.share_of(kSwThermal | kHwThermal,
                                  {&WindowSample::sw_heat_ns, &WindowSample::hw_heat_ns});
    const auto bare = window_.unexplained_slowdown_share();
    if (!share && !bare) return unknown("heat", Metric::throttle_reasons);
    bottleneck_.inferred = share.value_or(0) < thresholds_.min_share_percent;
    if (bottleneck_.inferred) share = bare;
    if (share.value_or(0) < thresholds_.min_share_percent) return bottleneck_.inferred = false;
    bottleneck_.share_percent = share;
    return name(
        BottleneckCause::heat, fmt::format("heat {}%", *share),
        fmt::format("is {}throttled by heat, {}{}{}", probably(), window_.share_text(*share),
                    clocks(kSwThermal | kHwThermal | kHwSlowdown), temperature(", ", "")),
        "Check its fans, airflow and neighbouring cards, or lower its power limit.");
  }

  bool power_brake() {
    const auto share = window_.share_of(kHwPowerBrake, {&WindowSample::brake_ns});
    if (!share) return unknown("power brake", Metric::throttle_reasons);
    if (*share < thresholds_.min_share_percent) return false;
    bottleneck_.share_percent = share;
    return name(BottleneckCause::power_brake, fmt::format("power brake {}%", *share),
                fmt::format("is throttled by the power supply (power brake), {}{}",
                            window_.share_text(*share), clocks(kHwPowerBrake)),
                "The power supply or the rack provides too little power: check both.");
  }

  bool power_cap() {
    const auto share = window_.share_of(kSwPowerCap);
    if (!share) return unknown("power cap", Metric::throttle_reasons);
    if (*share < thresholds_.min_share_percent) return false;
    bottleneck_.share_percent = share;
    const auto limit = sample_.value(Metric::power_limit);
    const auto highest = sample_.value(Metric::power_limit_max);
    return name(
        BottleneckCause::power_cap, fmt::format("power cap {}%", *share),
        fmt::format("is limited by its power limit, {}{}{}", window_.share_text(*share),
                    clocks(kSwPowerCap), temperature(", not by heat (", ")")),
        limit && highest ? advice_on_limit(*limit, *highest) : "Spread the work over more GPUs.");
  }

  std::string advice_on_limit(std::int64_t limit, std::int64_t highest) const {
    if (limit >= highest) {
      return "The limit is already at its maximum: spread the work over more GPUs.";
    }
    return fmt::format("To raise the limit to the maximum: gpuyard power {} {}", device_.info.index,
                       highest / 1000);
  }

  // Links that were up and are down count at any load: what waits for them may look idle.
  bool lost_nvlinks() {
    const auto& links = window_.nvlinks();
    if (!links || links->down.empty()) return false;
    return name(BottleneckCause::narrow_link, "NVLink down",
                fmt::format("has only {}: {} {} up until {} ago", nvlink_fault(links),
                            format_links(links->down), links->down.size() == 1 ? "was" : "were",
                            duration_text(now_ - *links->since)),
                "Check its NVLink bridge or switch and the kernel log; resetting the GPU may bring "
                "it back up.");
  }

  bool narrow_link() {
    const auto use = window_.mean_utilization();
    const auto now = sample_.value(Metric::utilization_gpu);
    if (!use || *use < kBusyPercent || now.value_or(0) < kBusyPercent) return false;
    std::string fault = pcie_fault(sample_);
    const std::string nvlink = nvlink_fault(window_.nvlinks());
    if (!nvlink.empty()) fault += (fault.empty() ? "" : ", ") + nvlink;
    if (fault.empty()) return false;
    return name(BottleneckCause::narrow_link,
                pcie_fault(sample_).empty() ? "NVLink down" : "narrow PCIe link",
                "runs with only " + fault,
                "Reseat the card, and check the riser, slot and bridges.");
  }

  bool starved() {
    const auto use = window_.mean_utilization();
    if (!use) return unknown("starved", Metric::utilization_gpu);
    if (*use < 1 || *use >= static_cast<double>(thresholds_.starved_below_percent)) return false;
    const auto capacity = pcie_capacity(sample_);
    const auto received = sample_.value(Metric::pcie_rx);
    const auto link =
        capacity && received
            ? std::optional(static_cast<double>(*received) / *capacity * kHundredPercent)
            : std::nullopt;
    const bool by_link = link && *link >= kFullLinkPercent;
    const bool by_cpu = external_.cpu_percent && *external_.cpu_percent >= kFullCorePercent;
    if (!by_link && !by_cpu) {
      if (!external_.cpu_percent) {
        bottleneck_.not_known.emplace_back("starved: CPU use of its processes unknown");
      }
      if (!link)
        bottleneck_.not_known.push_back("starved: PCIe: " +
                                        missing_reason(sample_, Metric::pcie_rx));
      return false;
    }
    bottleneck_.inferred = true;
    const double cores = external_.cpu_percent.value_or(0) / kHundredPercent;
    return name(BottleneckCause::starved,
                by_link ? std::string("starved: PCIe") : fmt::format("starved: CPU {:.1f}", cores),
                by_link ? fmt::format("is probably waiting for PCIe: {:.0f}% busy, with {:.0f}% of "
                                      "the link's inbound capacity used",
                                      *use, *link)
                        : fmt::format("is probably waiting for its process on the CPU: {:.0f}% "
                                      "busy, while the process uses {:.1f} cores",
                                      *use, cores),
                by_link ? "Keep data on the GPU, or transfer less."
                        : "Give the input pipeline more workers or cores, or use larger batches.");
  }

  bool waiting() {
    const auto power =
        window_.busy_power_percent(static_cast<double>(thresholds_.waiting_power_percent), now_);
    if (!power) return false;
    const auto sms = sample_.value(Metric::gpm_sm);
    if (sms && *sms >= kLowSmActivity) return false;
    if (!sms)
      bottleneck_.not_known.push_back("SMs active: " + missing_reason(sample_, Metric::gpm_sm));
    bottleneck_.inferred = true;
    return name(
        BottleneckCause::waiting, fmt::format("busy at {:.0f}% W: waits", *power),
        fmt::format("is probably waiting: busy all the time at only {:.0f}% of its power limit{}",
                    *power, sms ? fmt::format(", with {}% of its SMs active", *sms / 1000) : ""),
        "Its kernels are spinning: look for a slow or dead peer in its collective.");
  }

  bool leased_idle() {
    if (external_.leased != true || !window_.idle_since()) return false;
    const Duration idle = now_ - *window_.idle_since();
    if (idle < std::chrono::seconds(thresholds_.idle_after_s)) return false;
    return name(BottleneckCause::leased_idle, "leased, idle " + duration_text(idle),
                "is leased but has been idle for " + duration_text(idle),
                "Ask the holder to release it.");
  }

  bool memory_full() {
    const auto used = sample_.percent_of(Metric::memory_used, Metric::memory_total);
    if (!used) return unknown("memory full", Metric::memory_used);
    if (*used < static_cast<double>(thresholds_.memory_full_percent)) return false;
    return name(BottleneckCause::memory_full, fmt::format("memory {:.0f}% full", *used),
                fmt::format("has {:.0f}% of its memory in use", *used),
                "The next allocation may fail: use smaller batches, or another GPU.");
  }

  void none() {
    const bool blind = !window_.share_of(0) || !window_.mean_utilization();
    if (!blind) {
      name(BottleneckCause::none, "none", "has no bottleneck", "");
      return;
    }
    std::string first =
        bottleneck_.not_known.empty() ? "too few samples" : bottleneck_.not_known.front();
    name(BottleneckCause::not_known, "unknown", "could not be assessed (" + first + ")", "");
  }

  bool unknown(std::string_view what, Metric metric) {
    if (sample_.number(metric) != nullptr) return false;  // too few samples so far
    bottleneck_.not_known.push_back(fmt::format("{}: {}", what, missing_reason(sample_, metric)));
    return false;
  }

  std::string silent_for() const {
    return window_.unresponsive_since() ? duration_text(now_ - *window_.unresponsive_since())
                                        : "0s";
  }
  std::string_view probably() const { return bottleneck_.inferred ? "probably " : ""; }
  // ": then at 1410 of 1980 MHz": the mean clock of the samples with one of these flags. The share
  // is of a minute, and so is this; the clock of the moment may be the highest again.
  std::string clocks(std::int64_t flags) const {
    const auto mean_clock = window_.mean_clock(flags);
    const auto max_clock = sample_.value(Metric::clock_sm_max);
    if (!mean_clock || !max_clock) return "";
    return fmt::format(": then at {} of {} MHz", *mean_clock, *max_clock);
  }
  std::string temperature(std::string_view before, std::string_view after) const {
    const auto hottest = window_.max_temperature();
    const auto limit = sample_.value(Metric::temperature_slowdown);
    if (!hottest || !limit) return "";
    return fmt::format("{}at most {} of {} C{}", before, *hottest, *limit, after);
  }

  const BottleneckThresholds& thresholds_;
  const ReadingWindow& window_;
  const DeviceState& device_;
  const Sample& sample_;
  const ExternalFacts& external_;
  TimePoint now_;
  Bottleneck bottleneck_;
};

void BottleneckDetector::detect(
    Snapshot& snapshot, const std::function<ExternalFacts(const DeviceState&)>& external_facts_of) {
  std::set<DeviceId> present;
  for (DeviceState& device : snapshot.devices) {
    present.insert(device.info.id);
    ReadingWindow& window = windows_[device.info.id];
    window.add(device, snapshot);
    const ExternalFacts external = external_facts_of(device);
    if (external.leased != true) window.restart_idle();
    device.bottleneck =
        Classifier(thresholds_, window, device, external, snapshot.taken).classify();
  }
  std::erase_if(windows_, [&](const auto& one) { return !present.contains(one.first); });
}

}  // namespace gpuyard::bottleneck
