// gpuyard why: what holds the GPUs back now, or did, which only the daemon judges.
#include <fmt/format.h>

#include "cli/read/history_table.h"
#include "cli/read/json_output.h"
#include "cli/read/source_access.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/output.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {
namespace {

WhyAnswer answer_of(const protocol::Snapshot& snapshot) {
  WhyAnswer answer{{.simulated = snapshot.simulated}, snapshot.taken_at, {}};
  for (const protocol::Device& device : snapshot.devices) {
    answer.gpus.push_back({device.index, device.uuid, device.name, device.bottleneck});
  }
  return answer;
}

Printable text_of(const protocol::Snapshot& snapshot, const Screen& screen) {
  Printable out;
  for (const protocol::Device& device : snapshot.devices) {
    const Bottleneck found = device.bottleneck.value_or(
        Bottleneck{.text = "has not been assessed yet: try again in a second"});
    const bool fine = found.cause == BottleneckCause::none;
    out += paragraph(screen, fine ? Tone::faint : Tone::plain,
                     fmt::format("GPU {} {}.{}{}", device.index, found.text,
                                 found.advice.empty() ? "" : " ", found.advice));
  }
  if (snapshot.simulated) out += paragraph(screen, Tone::faint, "These GPUs are simulated.");
  return out;
}

int show_now(const WhyVerb& verb, const http::Endpoint& daemon) {
  auto snapshot = client::call(daemon, protocol::kSnapshot);
  if (!snapshot) return print_source_error(snapshot.error());
  if (!snapshot->driver_initialised) return print_source_error(no_driver_error(*snapshot));
  if (!verb.gpus.empty()) {
    SourceFlags flags;
    flags.socket = verb.socket;
    const auto kept = keep_only(*snapshot, verb.gpus, source_words(flags));
    if (!kept) return print_error(kept.error());
  }
  print(verb.json ? json_line(answer_of(*snapshot))
                  : text_of(*snapshot, Screen::of_stdout(verb.color)));
  return 0;
}

int show_past(const WhyVerb& verb, const http::Endpoint& daemon) {
  const protocol::BottlenecksQuery query{
      non_empty(verb.gpus), non_empty(verb.since), non_empty(verb.until), {}};
  const auto bottlenecks = client::call(daemon, protocol::kBottlenecks, query);
  if (!bottlenecks) return print_source_error(bottlenecks.error());
  print(verb.json ? json_line(*bottlenecks)
                  : bottleneck_tables(*bottlenecks, Screen::of_stdout(verb.color), wall_now()));
  return 0;
}

}  // namespace

Options add_why(Options program, WhyVerb& verb) {
  const Options why = program.verb("why", "Explain why GPUs are slow, now or in the past");
  add_gpus(why, verb.gpus, "Only these GPUs: indexes, UUIDs or PCI addresses").default_is("all");
  const Option since =
      why.option("--since", verb.since,
                 "Past bottlenecks since TIME: 2h (ago), 02:10 or 2026-01-31 12:00")
          .metavar("TIME")
          .moment();
  why.option("--until", verb.until, "End, in the same format")
      .metavar("TIME")
      .default_is("now")
      .needs(since)
      .moment();
  add_output_options(why, verb);
  why.example("gpuyard why")
      .example("gpuyard why 0 --since 2h")
      .example("gpuyard why --since 02:10 --until 03:00");
  return why;
}

int run(const WhyVerb& verb) {
  const auto daemon = require_daemon(verb.socket, "bottlenecks need");
  if (!daemon) return print_source_error(daemon.error());
  return verb.since.empty() ? show_now(verb, *daemon) : show_past(verb, *daemon);
}

}  // namespace gpuyard::cli
