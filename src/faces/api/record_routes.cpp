// The routes of the past besides readings: the processes that were on GPUs, and why GPUs were slow.
// Also a past moment: all GPUs as the history keeps them, with both.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "base/json_writer.h"
#include "base/record.h"
#include "base/try.h"
#include "core/bottleneck/bottleneck_spans.h"
#include "core/history/prepared_query.h"
#include "core/history/query.h"
#include "core/processes/process_spans.h"
#include "faces/api/bound_route.h"
#include "faces/api/context.h"
#include "faces/api/gpu_names.h"
#include "faces/api/responder.h"
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

// The interval of the lists: a process in one list counts as there until the next list.
constexpr std::chrono::milliseconds kProcessListInterval = std::chrono::seconds(5);

// More spans than can be kept.
constexpr std::size_t kUnlimitedSpans = 1'000'000;

WallTime wall_at(std::int64_t ms) {
  return WallTime(std::chrono::milliseconds(ms));
}

// Answers with a text that is made on the worker.
template <class Record>
void respond_from_worker(PastApi& api, const RouteCall& call,
                         const std::vector<history::Query>& queries,
                         const history::History::Render& render, const Responder<Record>& respond) {
  const auto begin_query = [&api, queries, render, respond](const std::function<void()>& on_done) {
    api.history.query(queries, render, [respond, on_done](Result<std::string> text) {
      on_done();
      if (!text) return respond(std::move(text).error());
      respond.send_rendered(std::make_shared<const std::string>(*std::move(text)));
    });
  };
  if (!api.queries.try_enqueue(requester_of(call), begin_query)) respond(too_many_queries());
}

// The queries for a past moment, and what is known without them.
struct Moment {
  WallTime at;
  std::shared_ptr<Snapshot> snapshot;  // the GPUs of now, without readings
  std::vector<history::Query> queries;
  std::vector<ProcessSpan> process_spans;
  std::vector<BottleneckSpan> bottleneck_spans;
};

Moment make_moment(const PastApi& api, const Snapshot& snapshot, std::int64_t at_ms) {
  Moment moment{wall_at(at_ms),
                std::make_shared<Snapshot>(),
                {},
                api.process_recorder.open_spans(),
                api.bottleneck_recorder.open_spans()};
  moment.snapshot->driver = snapshot.driver;
  moment.snapshot->driver.initialised = true;
  moment.snapshot->driver.why.clear();
  moment.snapshot->wall = moment.at;
  for (const DeviceState& device : snapshot.devices) {
    DeviceState& past_device = moment.snapshot->devices.emplace_back();
    past_device.info = device.info;
    past_device.sample = missing_sample(ProbeSet::all(), kNotRecorded, {});
    auto some = api.history.queries_at(device.info.id, device.sample, at_ms);
    moment.queries.insert(moment.queries.end(), some.begin(), some.end());
  }
  return moment;
}

protocol::PastResolution resolution_of(history::Resolution resolution) {
  return enum_from_name<protocol::PastResolution>(enum_name(resolution))
      .value_or(protocol::PastResolution::minute);
}

// Fills in the readings of the moment, and returns the coarsest of their resolutions.
protocol::PastResolution put_readings(Snapshot& snapshot, WallTime at,
                                      const std::vector<QueryResult>& answers) {
  std::map<DeviceId, DeviceState*> by_id;
  for (DeviceState& device : snapshot.devices) {
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

protocol::Process process_of(const ProcessSpan& span) {
  protocol::Process process;
  process.pid = span.pid;
  process.memory_bytes = span.peak_memory_bytes;
  process.uid = span.uid;
  if (!span.user.empty()) process.user = span.user;
  if (!span.command.empty()) process.command = span.command;
  process.started_at = span.started;
  return process;
}

void put_processes(protocol::Device& device, const std::vector<ProcessSpan>& spans) {
  device.missing.erase("processes");
  auto& processes = device.processes.emplace();
  for (const ProcessSpan& span : spans) {
    if (span.gpu == device.uuid) processes.push_back(process_of(span));
  }
}

void put_bottleneck(protocol::Device& device, const std::vector<BottleneckSpan>& spans,
                    WallTime at) {
  const BottleneckSpan* const span = span_at(spans, device.uuid, at);
  if (span == nullptr) {
    device.missing["bottleneck"] = {MissingReason::not_ready, kNotAssessed};
  } else {
    device.bottleneck = span->bottleneck;
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
  Snapshot snapshot = *moment.snapshot;
  protocol::Past past{to_rfc3339(moment.at), put_readings(snapshot, moment.at, answers), {}};
  for (const QueryResult& answer : answers) {
    for (const std::string& note : answer.notes) {
      const bool about_range = note.starts_with("no data before");
      const bool is_listed = std::ranges::find(past.notes, note) != past.notes.end();
      if (!is_listed && !about_range) past.notes.push_back(note);
    }
  }
  const WallTime until = moment.at + std::chrono::milliseconds(1);
  const ProcessSpanQuery process_query{
      moment.at - kProcessListInterval, until, {}, protocol::kMaxProcessSpans};
  const auto process_spans =
      merge_open_records(process_query, *archives.process_spans, moment.process_spans);
  if (!process_spans)
    past.notes.push_back("processes cannot be read: " + process_spans.error().text());
  const BottleneckSpanQuery bottleneck_query{
      moment.at - BottleneckRecorder::kMaxGap, until, {}, kUnlimitedSpans};
  const auto bottleneck_spans =
      merge_open_records(bottleneck_query, *archives.bottleneck_spans, moment.bottleneck_spans);
  if (!bottleneck_spans)
    past.notes.push_back("bottlenecks cannot be read: " + bottleneck_spans.error().text());
  protocol::Snapshot shown = protocol::snapshot_of(snapshot);
  for (protocol::Device& device : shown.devices) {
    device.age_ms.reset();
    const bool is_known = device.condition == DeviceCondition::responsive;
    if (process_spans && is_known) put_processes(device, *process_spans);
    put_bottleneck(device, bottleneck_spans ? *bottleneck_spans : std::vector<BottleneckSpan>{},
                   moment.at);
  }
  shown.past = std::move(past);
  return json::to_json(shown);
}

// Returns a query for the GPUs and the time that the query names.
template <class Record, class Query>
Result<RecordQuery<Record>> record_query_for(const PastApi& api, const RouteCall& call,
                                             const Snapshot& snapshot, const Query& query) {
  history::Query times;
  const history::QueryParameters parameters{
      query.since.value_or("1h"), query.until.value_or("0s"), {}, {}};
  GPUYARD_TRY(history::set_times(times, parameters, api.history.now_ms()));
  RecordQuery<Record> record_query{wall_at(times.from_ms), wall_at(times.until_ms + 1), {}, {}};
  if (!query.gpus && call.principal.gpus.empty()) return record_query;  // also those that are gone
  const auto gpus = resolve_gpu_ids(snapshot, query.gpus.value_or(""));
  if (!gpus) return gpus.error();
  record_query.gpus = *gpus;
  if (gpus->empty()) record_query.gpus.emplace_back();  // a name that none has: no list means all
  return record_query;
}

// Answers with what `make_answer` makes of the records of a recorder; it runs on the worker.
template <class Record, class Book, class Answered>
void respond_with_records(PastApi& api, const RouteCall& call, const Book& recorder,
                          const RecordQuery<Record>& query,
                          const std::function<Answered(const std::vector<Record>&)>& make_answer,
                          const Responder<Answered>& respond) {
  const auto render = [query, archive = recorder.archive(), open_spans = recorder.open_spans(),
                       make_answer](const std::vector<QueryResult>&) -> Result<std::string> {
    const auto records = GPUYARD_TRY(merge_open_records(query, *archive, open_spans));
    return json::to_json(make_answer(records));
  };
  respond_from_worker(api, call, {}, render, respond);
}

std::optional<std::uint32_t> index_of(const DeviceId& gpu, const Snapshot& snapshot) {
  const auto device = find_device(snapshot, gpu);
  return device ? std::optional((*device)->info.index) : std::nullopt;
}

protocol::ProcessSpan process_span_view(const ProcessSpan& span, const Snapshot& snapshot) {
  protocol::ProcessSpan out;
  out.index = index_of(span.gpu, snapshot);
  out.uuid = span.gpu;
  out.pid = span.pid;
  if (span.started) out.started_at = to_rfc3339(*span.started);
  if (!span.user.empty()) out.user = span.user;
  out.uid = span.uid;
  if (!span.command.empty()) out.command = span.command;
  if (!span.lease.empty()) out.lease = span.lease;
  out.peak_memory_bytes = span.peak_memory_bytes;
  out.first_seen = to_rfc3339(span.first_seen);
  out.last_seen = to_rfc3339(span.last_seen);
  out.there = !span.over;
  return out;
}

void get_process_spans(PastApi& api, const RouteCall& call,
                       const protocol::ProcessSpansQuery& query,
                       const Responder<protocol::ProcessSpans>& respond) {
  const auto snapshot = visible_snapshot(api.telemetry, call.principal);
  auto record_query = record_query_for<ProcessSpan>(api, call, *snapshot, query);
  if (!record_query) return respond(std::move(record_query).error());
  record_query->most = query.limit.value_or(protocol::kDefaultProcessSpans);
  const std::function make_answer =
      [snapshot, record_query = *record_query](const std::vector<ProcessSpan>& spans) {
        protocol::ProcessSpans out;
        out.since = to_rfc3339(record_query.from);
        out.until = to_rfc3339(record_query.until);
        out.complete = spans.size() <= record_query.most;
        for (const ProcessSpan& span : spans) {
          if (out.processes.size() == record_query.most) break;
          out.processes.push_back(process_span_view(span, *snapshot));
        }
        return out;
      };
  respond_with_records(api, call, api.process_recorder, *record_query, make_answer, respond);
}

double in_seconds(std::chrono::milliseconds length) {
  return std::chrono::duration<double>(length).count();
}

// Fills in what is known of all spans of this GPU.
void put_cause_shares(protocol::GpuBottlenecks& gpu, const std::vector<BottleneckSpan>& spans,
                      const BottleneckSpanQuery& query) {
  auto lengths = duration_by_cause(spans, gpu.uuid, query.from, query.until);
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

// The GPUs that are there come first, also those without a span.
protocol::Bottlenecks bottlenecks_of(const std::vector<BottleneckSpan>& spans,
                                     const Snapshot& snapshot, const BottleneckSpanQuery& query,
                                     std::size_t most) {
  protocol::Bottlenecks out;
  out.simulated = snapshot.driver.info.simulated;
  out.since = to_rfc3339(query.from);
  out.until = to_rfc3339(query.until);
  out.seconds = in_seconds(query.until - query.from);
  out.complete = spans.size() <= most;
  std::map<DeviceId, std::size_t> indexes;
  const auto find_or_add = [&](const DeviceId& gpu) -> protocol::GpuBottlenecks& {
    const auto [entry, is_new] = indexes.try_emplace(gpu, out.gpus.size());
    if (is_new) out.gpus.push_back({index_of(gpu, snapshot), gpu, 0, {}, {}});
    return out.gpus[entry->second];
  };
  for (const DeviceState& device : snapshot.devices) {
    const auto& gpus = query.gpus;
    if (!gpus.empty() && std::ranges::find(gpus, device.info.id) == gpus.end()) continue;
    find_or_add(device.info.id);
  }
  std::size_t shown = 0;
  for (const BottleneckSpan& span : spans) {
    protocol::GpuBottlenecks& gpu = find_or_add(span.gpu);
    if (shown++ >= most) continue;
    gpu.spells.push_back(
        {span.bottleneck, to_rfc3339(span.first_seen), to_rfc3339(span.last_seen), !span.over});
  }
  for (protocol::GpuBottlenecks& gpu : out.gpus) put_cause_shares(gpu, spans, query);
  return out;
}

void get_bottlenecks(PastApi& api, const RouteCall& call, const protocol::BottlenecksQuery& query,
                     const Responder<protocol::Bottlenecks>& respond) {
  const auto snapshot = visible_snapshot(api.telemetry, call.principal);
  auto record_query = record_query_for<BottleneckSpan>(api, call, *snapshot, query);
  if (!record_query) return respond(std::move(record_query).error());
  record_query->most = kUnlimitedSpans;
  const std::size_t most = query.limit.value_or(protocol::kDefaultBottleneckSpans);
  const std::function make_answer = [snapshot, record_query = *record_query,
                                     most](const std::vector<BottleneckSpan>& spans) {
    return bottlenecks_of(spans, *snapshot, record_query, most);
  };
  respond_with_records(api, call, api.bottleneck_recorder, *record_query, make_answer, respond);
}

}  // namespace

void respond_with_past_snapshot(PastApi& api, const RouteCall& call, std::string_view at,
                                const Responder<protocol::Snapshot>& respond) {
  const std::int64_t now_ms = api.history.now_ms();
  const auto at_ms = history::parse_moment(at, "at", now_ms);
  if (!at_ms) return respond(at_ms.error());
  if (*at_ms > now_ms) return respond(Error{Errc::invalid, "at must be in the past"});
  const auto snapshot = visible_snapshot(api.telemetry, call.principal);
  const auto moment = std::make_shared<const Moment>(make_moment(api, *snapshot, *at_ms));
  const auto render = [moment, archives = Archives{api.process_recorder.archive(),
                                                   api.bottleneck_recorder.archive()}](
                          const std::vector<QueryResult>& answers) {
    return past_snapshot_text(*moment, answers, archives);
  };
  respond_from_worker(api, call, moment->queries, render, respond);
}

std::vector<BoundRoute> record_routes() {
  return {bind(protocol::kProcessSpans, &get_process_spans),
          bind(protocol::kBottlenecks, &get_bottlenecks)};
}

}  // namespace gpuyard::api
