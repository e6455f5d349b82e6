#include "cli/read/check.h"

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/read/source_access.h"
#include "cli/screen/output.h"
#include "cli/shared_options.h"
#include "cli/verbs.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {
namespace {

using protocol::GpuVerdict;

// node-problem-detector waits 5 s for a program, unless its configuration says otherwise.
constexpr Duration kCheckTimeout = std::chrono::seconds(4);

// GPUs with the same reason, in the order of the first of each.
class Reasons {
 public:
  void add(std::uint32_t gpu, const std::string& reason) {
    const auto same = std::ranges::find(all_, reason, &Group::reason);
    if (same != all_.end()) return same->gpus.push_back(gpu);
    all_.push_back({reason, {gpu}});
  }
  // "GPU 0, 2: not read yet; GPU 1: lost"
  std::string text() const {
    std::vector<std::string> texts;
    for (const Group& group : all_)
      texts.push_back(fmt::format("GPU {}: {}", fmt::join(group.gpus, ", "), group.reason));
    return fmt::format("{}", fmt::join(texts, "; "));
  }

 private:
  struct Group {
    std::string reason;
    std::vector<std::uint32_t> gpus;
  };
  std::vector<Group> all_;
};

// "GPU 2: Xid 79 ...": the message of an alert names its GPU, but for a user's own.
std::string message_of(const GpuVerdict& gpu) {
  const std::string name = fmt::format("GPU {}", gpu.index);
  std::string text = gpu.why.starts_with(name) ? gpu.why : fmt::format("{}: {}", name, gpu.why);
  if (!text.ends_with('.')) text += '.';
  return text;
}

// The messages of each rule whose alerts quarantine GPUs, and its advice once.
std::string bad_text(const std::vector<GpuVerdict>& gpus) {
  std::map<std::string, std::vector<const GpuVerdict*>> by_rule;
  for (const GpuVerdict& gpu : gpus) {
    if (gpu.verdict == Verdict::bad) by_rule[gpu.rule.value_or("")].push_back(&gpu);
  }
  std::vector<std::string> texts;
  for (const auto& [rule, same] : by_rule) {
    for (const GpuVerdict* gpu : same) texts.push_back(message_of(*gpu));
    if (!same.front()->advice.empty()) texts.push_back(same.front()->advice);
  }
  return fmt::format("{}", fmt::join(texts, " "));
}

constexpr std::array<std::string_view, 4> kNagiosNames = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};

Result<protocol::GpuVerdicts> fetch_verdicts(const std::string& socket) {
  const auto daemon = require_daemon(socket, "a verdict needs");
  if (!daemon) return daemon.error();
  // Without a retry, which would take longer than a monitoring system waits.
  return client::call(*daemon, protocol::kVerdict, {}, {}, kCheckTimeout);
}

// A '|' would begin Nagios' performance data.
std::string one_line(std::string_view text) {
  std::string line = printable(text);
  std::ranges::replace(line, '|', '/');
  return line;
}

}  // namespace

std::string shortened(std::string text, std::size_t bytes) {
  constexpr std::string_view kMore = "...";
  if (text.size() <= bytes) return text;
  std::size_t end = 0;
  while (true) {
    const std::size_t next = utf8_sequence_length(std::string_view(text).substr(end));
    if (next == 0 || end + next + kMore.size() > bytes) break;
    end += next;
  }
  return text.substr(0, end).append(kMore);
}

std::string bad_gpu_text(const protocol::GpuVerdict& gpu) {
  return gpu.advice.empty() ? message_of(gpu) : message_of(gpu) + ' ' + gpu.advice;
}

CheckResult check_of(const protocol::GpuVerdicts& verdicts) {
  CheckResult check;
  Reasons unknown;
  Reasons cordoned;
  for (const GpuVerdict& gpu : verdicts.gpus) {
    switch (gpu.verdict) {
      case Verdict::good:
        ++check.good;
        break;
      case Verdict::bad:
        ++check.bad;
        break;
      case Verdict::unknown:
        ++check.unknown;
        unknown.add(gpu.index, gpu.why);
        break;
    }
    if (!gpu.cordoned) continue;
    ++check.cordoned;
    cordoned.add(gpu.index, *gpu.cordoned);
  }
  const std::size_t all = verdicts.gpus.size();
  const std::string counts =
      fmt::format("{} of {} GPU{} good", check.good, all, all == 1 ? " is" : "s are");
  std::vector<std::string> texts;
  if (verdicts.driver_error) texts.push_back("no driver: " + *verdicts.driver_error);
  if (check.bad > 0) texts.push_back(bad_text(verdicts.gpus));
  const bool critical = check.bad > 0 || (verdicts.driver_error && verdicts.driver_down);
  if (!critical && check.unknown > 0 && texts.empty()) texts.push_back(unknown.text());
  if (verdicts.count != all) {
    texts.push_back(
        fmt::format("{} of {} verdicts are malformed", verdicts.count - all, verdicts.count));
  } else if (all == 0 && texts.empty()) {
    texts.emplace_back("no GPU is listed");
  }
  if (critical) {
    check.status = CheckStatus::critical;
  } else if (!texts.empty()) {
    check.status = CheckStatus::unknown;
  } else if (check.cordoned > 0) {
    check.status = CheckStatus::warning;
    texts.push_back("cordoned: " + cordoned.text());
  } else {
    check.status = CheckStatus::ok;
  }
  check.text = texts.empty() ? counts
               : all == 0    ? fmt::format("{}", fmt::join(texts, "; "))
                             : fmt::format("{} ({})", fmt::join(texts, "; "), counts);
  return check;
}

CheckResult failed_check(const Error& error) {
  const char* const older =
      error.code == Errc::not_found ? " (a daemon older than this program has no verdict)" : "";
  return {.text = error.text() + older};
}

std::string check_line(const CheckResult& check, CheckConvention convention) {
  if (convention == CheckConvention::npd) return shortened(one_line(check.text), kMaxNpdBytes);
  const std::string counts =
      check.good + check.bad + check.unknown == 0
          ? ""
          : fmt::format(" | good={} bad={} unknown={} cordoned={}", check.good, check.bad,
                        check.unknown, check.cordoned);
  return shortened(
             fmt::format("GPU {} - {}", kNagiosNames.at(static_cast<std::size_t>(check.status)),
                         one_line(check.text)),
             kMaxNagiosBytes - counts.size()) +
         counts;
}

int check_exit_code(CheckStatus status, CheckConvention convention) {
  if (convention == CheckConvention::nagios) return static_cast<int>(status);
  switch (status) {
    case CheckStatus::ok:
    case CheckStatus::warning:
      return 0;
    case CheckStatus::critical:
      return 1;
    case CheckStatus::unknown:
      return 2;
  }
  return 2;
}

Options add_check(Options program, CheckVerb& verb) {
  const Options check = program.verb("check", "Check all GPUs, for Nagios and similar systems");
  add_socket(check, verb.socket);
  const Option npd =
      check.flag("--npd", verb.npd, "Use the convention of Kubernetes' node-problem-detector");
  add_json(check, verb.json).excludes(npd);
  check.usage_exit_code(check_exit_code(CheckStatus::unknown, CheckConvention::nagios))
      .exit_codes(
          "Exit code 0: all GPUs are good; 1: a GPU is cordoned; 2: a GPU is bad; 3: unknown, or "
          "wrong usage. With --npd, 0: well; 1: a GPU is bad; 2: unknown")
      .example("gpuyard check")
      .example("gpuyard -H ssh://node7 check")
      .example("gpuyard check --npd");
  return check;
}

// Nothing but a check that went well ends with its exit code: not an exception, nor a closed pipe.
int run(const CheckVerb& verb) {
  const auto convention = verb.npd ? CheckConvention::npd : CheckConvention::nagios;
  const int unknown = check_exit_code(CheckStatus::unknown, convention);
  try {
    const auto verdicts = fetch_verdicts(verb.socket);
    const CheckResult check = verdicts ? check_of(*verdicts) : failed_check(verdicts.error());
    if (verb.json && !verdicts) {
      static_cast<void>(print_error(verdicts.error()));
      return unknown;
    }
    const auto printed = try_print(verb.json ? json_line(*verdicts)
                                             : formatted("{}\n", check_line(check, convention)));
    return printed ? check_exit_code(check.status, convention) : unknown;
  } catch (const std::exception& error) {
    static_cast<void>(print_error({Errc::internal, error.what()}));
    return unknown;
  }
}

}  // namespace gpuyard::cli
