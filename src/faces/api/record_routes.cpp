// What is kept of the past but readings: the processes that were on GPUs, and why GPUs were slow.
// And a past moment: all GPUs as the history keeps them, with both.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "base/json_writer.h"
#include "base/record.h"
#include "core/bottleneck/bottleneck_spans.h"
#include "core/history/prepared_query.h"
#include "core/history/query.h"
#include "core/processes/process_spans.h"
#include "faces/api/context.h"
#include "faces/api/devices.h"
#include "faces/api/router.h"
#include "faces/protocol/history.h"

namespace gpuyard::api {
namespace {

using bottleneck::BottleneckRecorder;
using bottleneck::BottleneckSpan;
using bottleneck::BottleneckSpanQuery;
using history::QueryResult;
using processes::ProcessSpan;
using processes::ProcessSpanQuery;

const Missing kNotRecorded{MissingReason::failed, "not recorded in the history"};
const Missing kNoData{MissingReason::failed, "no data for this time"};
constexpr const char* kNotAssessed = "unknown: not assessed at this time";

// Lists are made this far apart: a process that was seen in one was there until the next.
constexpr std::chrono::milliseconds kProcessListInterval = std::chrono::seconds(5);

// More spells than can be kept.
constexpr std::size_t kUnlimitedSpans = 1'000'000;

WallTime wall_at(std::int64_t ms) {
  return WallTime(std::chrono::milliseconds(ms));
}

// Answers with a text that is made on the worker.
template <class Record>
void respond_from_worker(Context& context, const RouteCall& asked,
                         const std::vector<history::Query>& questions,
                         const history::History::Render& render, const Responder<Record>& respond) {
  const auto ask = [&context, questions, render, respond](const std::function<void()>& ended) {
    context.history.query(questions, render, [respond, ended](Result<std::string> text) {
      ended();
      if (!text) return respond(std::move(text).error());
      respond.send_rendered(std::make_shared<const std::string>(*std::move(text)));
    });
  };
  if (!context.query_queue.try_enqueue(requester_of(asked), ask)) respond(too_many_queries());
}

// What is asked of the past, and what is known without it.
struct Moment {
  WallTime at;
  std::shared_ptr<Snapshot> snapshot;  // the GPUs of now, without readings
  std::vector<history::Query> queries;
  std::vector<ProcessSpan> process_spans;
  std::vector<BottleneckSpan> bottleneck_spans;
};

Moment make_moment(Context& context, const Snapshot& seen, std::int64_t at_ms) {
  Moment moment{wall_at(at_ms),
                std::make_shared<Snapshot>(),
                {},
                context.process_recorder.open_spans(),
                context.bottleneck_recorder.open_spans()};
  moment.snapshot->driver = seen.driver;
  moment.snapshot->driver.initialised = true;
  moment.snapshot->driver.why.clear();
  moment.snapshot->wall = moment.at;
  for (const DeviceState& device : seen.devices) {
    DeviceState& then = moment.snapshot->devices.emplace_back();
    then.info = device.info;
    then.sample = missing_sample(ProbeSet::all(), kNotRecorded, {});
    auto some = context.history.queries_at(device.info.id, device.sample, at_ms);
    moment.queries.insert(moment.queries.end(), some.begin(), some.end());
  }
  return moment;
}

protocol::PastResolution resolution_of(history::Resolution resolution) {
  return enum_from_name<protocol::PastResolution>(enum_name(resolution))
      .value_or(protocol::PastResolution::minute);
}

// Fills in the readings of the moment, and returns the coarsest of their resolutions.
protocol::PastResolution put_readings(Snapshot& yard, WallTime at,
                                      const std::vector<QueryResult>& answers) {
  std::map<DeviceId, DeviceState*> by_id;
  for (DeviceState& device : yard.devices) {
    by_id[device.info.id] = &device;
    device.condition = DeviceCondition::unresponsive;
    device.why = kNoData.detail;
  }
  auto coarsest = protocol::PastResolution::nothing;
  for (const QueryResult& answer : answers) {
    const auto value = history::value_at(answer, to_unix_ms(at));
    DeviceState& device = *by_id.at(answer.query.uuid);
    const Metric metric = answer.query.row->metric;
    if (!value) {
      device.sample.set({metric, answer.query.element, {}, kNoData});
      continue;
    }
    device.condition = DeviceCondition::responsive;
    device.why.clear();
    coarsest = std::max(coarsest, resolution_of(answer.resolution));
    device.sample.set({metric, answer.query.element, {}, *value});
  }
  return coarsest;
}

protocol::Process process_of(const ProcessSpan& stay) {
  protocol::Process process;
  process.pid = stay.pid;
  process.memory_bytes = stay.peak_memory_bytes;
  process.uid = stay.uid;
  if (!stay.user.empty()) process.user = stay.user;
  if (!stay.command.empty()) process.command = stay.command;
  if (stay.started) process.started_at = to_rfc3339(*stay.started);
  return process;
}

void put_processes(protocol::Device& device, const std::vector<ProcessSpan>& stays) {
  device.missing.erase("processes");
  auto& processes = device.processes.emplace();
  for (const ProcessSpan& stay : stays) {
    if (stay.gpu == device.uuid) processes.push_back(process_of(stay));
  }
}

void put_bottleneck(protocol::Device& device, const std::vector<BottleneckSpan>& spells,
                    WallTime at) {
  const BottleneckSpan* const spell = span_at(spells, device.uuid, at);
  if (spell == nullptr) {
    device.missing["bottleneck"] = kNotAssessed;
  } else {
    device.bottleneck = spell->bottleneck;
  }
}

struct Archives {
  std::shared_ptr<processes::ProcessSpanArchive> process_spans;
  std::shared_ptr<bottleneck::BottleneckSpanArchive> bottleneck_spans;
};

// Runs on the worker.
Result<std::string> past_snapshot_text(const Moment& moment,
                                       const std::vector<QueryResult>& answers,
                                       const Archives& archives) {
  Snapshot yard = *moment.snapshot;
  protocol::Past past{to_rfc3339(moment.at), put_readings(yard, moment.at, answers), {}};
  for (const QueryResult& answer : answers) {
    for (const std::string& note : answer.notes) {
      const bool about_range = note.starts_with("no data before");
      const bool said = std::ranges::find(past.notes, note) != past.notes.end();
      if (!said && !about_range) past.notes.push_back(note);
    }
  }
  const WallTime until = moment.at + std::chrono::milliseconds(1);
  const ProcessSpanQuery of_stays{
      moment.at - kProcessListInterval, until, {}, protocol::kMaxProcessSpans};
  const auto stays = merge_open_records(of_stays, *archives.process_spans, moment.process_spans);
  if (!stays) past.notes.push_back("processes cannot be read: " + stays.error().text());
  const BottleneckSpanQuery of_spells{
      moment.at - BottleneckRecorder::kMaxGap, until, {}, kUnlimitedSpans};
  const auto spells =
      merge_open_records(of_spells, *archives.bottleneck_spans, moment.bottleneck_spans);
  if (!spells) past.notes.push_back("bottlenecks cannot be read: " + spells.error().text());
  protocol::Snapshot shown = protocol::snapshot_of(yard);
  for (protocol::Device& device : shown.devices) {
    device.age_ms.reset();
    const bool kept = device.condition == DeviceCondition::responsive;
    if (stays && kept) put_processes(device, *stays);
    put_bottleneck(device, spells ? *spells : std::vector<BottleneckSpan>{}, moment.at);
  }
  shown.past = std::move(past);
  return json::to_json(shown);
}

// Returns a question for the GPUs and the time that the query names.
template <class Record, class Query>
Result<RecordQuery<Record>> record_query_for(const Context& context, const RouteCall& asked,
                                             const Snapshot& seen, const Query& query) {
  history::Query times;
  const history::QueryParameters wish{
      query.since.value_or("1h"), query.until.value_or("0s"), {}, {}};
  if (auto set = history::set_times(times, wish, context.history.now_ms()); !set) {
    return std::move(set).error();
  }
  RecordQuery<Record> question{wall_at(times.from_ms), wall_at(times.until_ms + 1), {}, {}};
  if (!query.gpus && asked.principal.gpus.empty()) return question;  // also those that are gone
  const auto gpus = resolve_gpu_ids(seen, query.gpus.value_or(""));
  if (!gpus) return gpus.error();
  question.gpus = *gpus;
  if (gpus->empty()) question.gpus.emplace_back();  // a name that none has: no list means all
  return question;
}

// Answers with what `tell` makes of the records of a book; it runs on the worker.
template <class Record, class Book, class Answered>
void respond_with_records(Context& context, const RouteCall& asked, const Book& book,
                          const RecordQuery<Record>& question,
                          const std::function<Answered(const std::vector<Record>&)>& tell,
                          const Responder<Answered>& respond) {
  const auto render = [question, archive = book.archive(), here = book.open_spans(),
                       tell](const std::vector<QueryResult>&) -> Result<std::string> {
    const auto records = merge_open_records(question, *archive, here);
    if (!records) return records.error();
    return json::to_json(tell(*records));
  };
  respond_from_worker(context, asked, {}, render, respond);
}

std::optional<std::uint32_t> index_of(const DeviceId& gpu, const Snapshot& seen) {
  const auto device = find_device(seen, gpu);
  return device ? std::optional((*device)->info.index) : std::nullopt;
}

protocol::ProcessSpan process_span_view(const ProcessSpan& stay, const Snapshot& seen) {
  protocol::ProcessSpan out;
  out.index = index_of(stay.gpu, seen);
  out.uuid = stay.gpu;
  out.pid = stay.pid;
  if (stay.started) out.started_at = to_rfc3339(*stay.started);
  if (!stay.user.empty()) out.user = stay.user;
  out.uid = stay.uid;
  if (!stay.command.empty()) out.command = stay.command;
  if (!stay.lease.empty()) out.lease = stay.lease;
  out.peak_memory_bytes = stay.peak_memory_bytes;
  out.first_seen = to_rfc3339(stay.first_seen);
  out.last_seen = to_rfc3339(stay.last_seen);
  out.there = !stay.over;
  return out;
}

void get_process_spans(Context& context, const RouteCall& asked,
                       const protocol::ProcessSpansQuery& query,
                       const Responder<protocol::ProcessSpans>& respond) {
  const auto seen = visible_snapshot(context, asked.principal);
  auto question = record_query_for<ProcessSpan>(context, asked, *seen, query);
  if (!question) return respond(std::move(question).error());
  question->most = query.limit.value_or(protocol::kDefaultProcessSpans);
  const std::function tell = [seen, question = *question](const std::vector<ProcessSpan>& stays) {
    protocol::ProcessSpans out;
    out.since = to_rfc3339(question.from);
    out.until = to_rfc3339(question.until);
    out.complete = stays.size() <= question.most;
    for (const ProcessSpan& stay : stays) {
      if (out.processes.size() == question.most) break;
      out.processes.push_back(process_span_view(stay, *seen));
    }
    return out;
  };
  respond_with_records(context, asked, context.process_recorder, *question, tell, respond);
}

double in_seconds(std::chrono::milliseconds length) {
  return std::chrono::duration<double>(length).count();
}

// Fills in what is known of all spells of this GPU.
void put_shares(protocol::GpuBottlenecks& gpu, const std::vector<BottleneckSpan>& spells,
                const BottleneckSpanQuery& question) {
  auto lengths = duration_by_cause(spells, gpu.uuid, question.from, question.until);
  lengths.erase(BottleneckCause::not_known);
  for (const auto& [cause, length] : lengths) gpu.known_seconds += in_seconds(length);
  for (const auto& [cause, length] : lengths) {
    const double share = in_seconds(length) / gpu.known_seconds;
    gpu.shares.push_back({cause, in_seconds(length), std::round(share * 1000) / 10});
  }
  std::ranges::sort(gpu.shares, [](const auto& a, const auto& b) {
    return a.seconds != b.seconds ? a.seconds > b.seconds : a.cause < b.cause;
  });
}

// The GPUs that are there come first, also those without a spell.
protocol::Bottlenecks bottlenecks_of(const std::vector<BottleneckSpan>& spells,
                                     const Snapshot& seen, const BottleneckSpanQuery& question,
                                     std::size_t most) {
  protocol::Bottlenecks out;
  out.simulated = seen.driver.info.simulated;
  out.since = to_rfc3339(question.from);
  out.until = to_rfc3339(question.until);
  out.seconds = in_seconds(question.until - question.from);
  out.complete = spells.size() <= most;
  std::map<DeviceId, std::size_t> places;
  const auto place_of = [&](const DeviceId& gpu) -> protocol::GpuBottlenecks& {
    const auto [place, is_new] = places.try_emplace(gpu, out.gpus.size());
    if (is_new) out.gpus.push_back({index_of(gpu, seen), gpu, 0, {}, {}});
    return out.gpus[place->second];
  };
  for (const DeviceState& device : seen.devices) {
    const auto& gpus = question.gpus;
    if (!gpus.empty() && std::ranges::find(gpus, device.info.id) == gpus.end()) continue;
    place_of(device.info.id);
  }
  std::size_t shown = 0;
  for (const BottleneckSpan& spell : spells) {
    protocol::GpuBottlenecks& gpu = place_of(spell.gpu);
    if (shown++ >= most) continue;
    gpu.spells.push_back(
        {spell.bottleneck, to_rfc3339(spell.first_seen), to_rfc3339(spell.last_seen), !spell.over});
  }
  for (protocol::GpuBottlenecks& gpu : out.gpus) put_shares(gpu, spells, question);
  return out;
}

void get_bottlenecks(Context& context, const RouteCall& asked,
                     const protocol::BottlenecksQuery& query,
                     const Responder<protocol::Bottlenecks>& respond) {
  const auto seen = visible_snapshot(context, asked.principal);
  auto question = record_query_for<BottleneckSpan>(context, asked, *seen, query);
  if (!question) return respond(std::move(question).error());
  question->most = kUnlimitedSpans;
  const std::size_t most = query.limit.value_or(protocol::kDefaultBottleneckSpans);
  const std::function tell = [seen, question = *question,
                              most](const std::vector<BottleneckSpan>& spells) {
    return bottlenecks_of(spells, *seen, question, most);
  };
  respond_with_records(context, asked, context.bottleneck_recorder, *question, tell, respond);
}

}  // namespace

void respond_with_past_snapshot(Context& context, const RouteCall& asked, std::string_view at,
                                const Responder<protocol::Snapshot>& respond) {
  const std::int64_t now_ms = context.history.now_ms();
  const auto at_ms = history::parse_moment(at, "at", now_ms);
  if (!at_ms) return respond(at_ms.error());
  if (*at_ms > now_ms) return respond(Error{Errc::invalid, "at must be in the past"});
  const auto seen = visible_snapshot(context, asked.principal);
  const auto moment = std::make_shared<const Moment>(make_moment(context, *seen, *at_ms));
  const auto render = [moment, archives = Archives{context.process_recorder.archive(),
                                                   context.bottleneck_recorder.archive()}](
                          const std::vector<QueryResult>& answers) {
    return past_snapshot_text(*moment, answers, archives);
  };
  respond_from_worker(context, asked, moment->queries, render, respond);
}

std::vector<BoundRoute> record_routes() {
  return {bind(protocol::kProcessSpans, &get_process_spans),
          bind(protocol::kBottlenecks, &get_bottlenecks)};
}

}  // namespace gpuyard::api
