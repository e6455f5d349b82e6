// The history of metrics of GPUs: answered on a worker, as JSON or CSV.
#include "core/history/history.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "base/record.h"
#include "base/text.h"
#include "base/try.h"
#include "core/history/query.h"
#include "faces/api/bound_route.h"
#include "faces/api/context.h"
#include "faces/api/gpu_names.h"
#include "faces/api/responder.h"
#include "faces/protocol/history.h"
#include "gpu/device/reading.h"

namespace gpuyard::api {
namespace {

using history::Query;
using history::QueryResult;

// Rounds to a thousandth of the driver's unit: the readings are no more precise.
double rounded_mean(const history::Aggregate& of, double divisor) {
  return std::round(of.mean() * 1000) / 1000 / divisor;
}

protocol::HistoryPoint point_of(const history::TimelinePoint& point, double divisor) {
  if (point.aggregate.count == 0) return {point.wall_ms, {}, {}, {}};
  return {point.wall_ms, static_cast<double>(point.aggregate.min) / divisor,
          rounded_mean(point.aggregate, divisor),
          static_cast<double>(point.aggregate.max) / divisor};
}

protocol::HistorySummary summary_of(const QueryResult& answer, double divisor) {
  protocol::HistorySummary summary;
  summary.readings = answer.aggregate.count;
  if (answer.last) summary.last = *answer.last / divisor;
  if (answer.aggregate.count == 0) return summary;
  const protocol::HistoryPoint all = point_of({0, answer.aggregate}, divisor);
  summary.min = all.min;
  summary.mean = all.mean;
  summary.max = all.max;
  return summary;
}

std::string time_text(std::int64_t wall_ms) {
  return to_rfc3339(WallTime(std::chrono::milliseconds(wall_ms)));
}

// `about` identifies the GPU.
protocol::History history_of(const QueryResult& answer, protocol::History about) {
  const Query& query = answer.query;
  const MetricRow& row = *query.row;
  about.uuid = query.uuid;
  about.metric = json_key(row);
  if (row.dimension != Dimension::none) about.element = element_of(row.dimension, query.element);
  about.unit = unit_info(row.unit).symbol;
  about.counter = row.kind == MetricKind::counter;
  about.resolution = enum_from_name<protocol::HistoryResolution>(enum_name(answer.resolution))
                         .value_or(protocol::HistoryResolution::minute);
  about.step_ms = answer.step_ms;
  about.since = time_text(query.from_ms);
  about.until = time_text(query.until_ms);
  about.covers_since = time_text(answer.covers_since_ms);
  about.notes = answer.notes;
  const auto divisor = static_cast<double>(unit_info(row.unit).json_divisor);
  about.summary = summary_of(answer, divisor);
  about.points.reserve(answer.points.size());
  for (const history::TimelinePoint& point : answer.points) {
    about.points.push_back(point_of(point, divisor));
  }
  return about;
}

// The GPU's UUID, and its names if it is there now.
struct ResolvedGpu {
  std::string uuid;
  protocol::History about;
  bool known = true;   // false: only the store may know it
  Sample sample = {};  // empty if the GPU is not there
};

Result<ResolvedGpu> resolve_history_gpu(const PastApi& api, const Principal& principal,
                                        const std::string& id) {
  const auto visible = visible_snapshot(api.telemetry, principal);
  const Snapshot& snapshot = *visible;
  ResolvedGpu out;
  out.about.simulated = snapshot.driver.info.simulated;
  const auto device = find_device(snapshot, id);
  if (device && !(*device)->info.uuid.empty()) {
    out.uuid = (*device)->info.uuid;
    out.about.index = (*device)->info.index;
    out.about.name = (*device)->info.name;
    out.sample = (*device)->sample;
    return out;
  }
  if (id.starts_with("GPU-") && principal.can_see(id)) {
    out.uuid = id;
    out.known = api.history.rings().find(id) != nullptr;
    return out;
  }
  if (!device && snapshot.devices.empty() && !snapshot.driver.initialised) {
    return Error{Errc::unavailable, snapshot.driver.why};
  }
  if (!device) return device.error();
  return Error{Errc::not_found,
               "GPU " + id + " could not be opened, so its history can only be found by UUID"};
}

Result<Query> history_query_of(const protocol::HistoryQuery& query, std::int64_t now_ms) {
  Query history_query;
  const auto row = GPUYARD_TRY(history::find_row(query.metric));
  history_query.row = row;
  if (query.element) {
    const auto element = GPUYARD_TRY(history::find_element(*row, *query.element));
    history_query.element = element;
  }
  history::QueryParameters parameters;
  if (query.since) parameters.since = *query.since;
  if (query.until) parameters.until = *query.until;
  parameters.step = query.step;
  parameters.points = query.points;
  GPUYARD_TRY(history::set_times(history_query, parameters, now_ms));
  return history_query;
}

std::optional<double> bound_of(Metric metric, const Sample& now) {
  const auto bound = upper_bound_of(metric, now);
  if (!bound) return std::nullopt;
  return static_cast<double>(*bound) /
         static_cast<double>(unit_info(row_of(metric).unit).json_divisor);
}

history::History::Render renderer(ResolvedGpu gpu, bool csv) {
  return
      [gpu = std::move(gpu), csv](const std::vector<QueryResult>& answers) -> Result<std::string> {
        const QueryResult& answer = answers.front();
        if (!gpu.known && answer.points.empty()) {
          return Error{Errc::not_found, "no history for GPU " + gpu.uuid};
        }
        const protocol::History shown = history_of(answer, gpu.about);
        return csv ? protocol::kHistoryCsvHeader + csv_of(shown) : json::to_json(shown);
      };
}

void get_history(PastApi& api, const RouteCall& call, const protocol::HistoryQuery& query,
                 const Responder<protocol::History>& respond) {
  const bool csv = query.format == protocol::TextFormat::csv;
  auto history_query = history_query_of(query, api.history.now_ms());
  if (!history_query) return respond(std::move(history_query).error());
  auto gpu = resolve_history_gpu(api, call.principal, query.id);
  if (!gpu) return respond(std::move(gpu).error());
  history_query->uuid = gpu->uuid;
  gpu->about.bound = bound_of(history_query->row->metric, gpu->sample);
  const auto begin_query = [&api, history_query = *history_query,
                            render = renderer(*std::move(gpu), csv), respond,
                            csv](const std::function<void()>& on_done) {
    api.history.query({history_query}, render, [respond, csv, on_done](Result<std::string> text) {
      on_done();
      if (!text) return respond(std::move(text).error());
      auto body = std::make_shared<const std::string>(*std::move(text));
      if (!csv) return respond.send_rendered(std::move(body));
      respond.send({200, "text/csv; charset=utf-8", std::move(body)});
    });
  };
  if (!api.queries.try_enqueue(requester_of(call), begin_query)) respond(too_many_queries());
}

// Four digits are finer than a pixel, and need few bytes. A counter's differences matter.
double round_to_digits(double value, bool counter) {
  if (counter || value == 0) return value;
  const double scale = std::pow(10, 3 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

void put_points(protocol::HistoryColumn& column, const QueryResult& answer) {
  const std::int64_t cadence = history::cadence_of(answer.query.row->metric);
  column.step_ms = answer.step_ms > 0 ? answer.step_ms : cadence;
  const auto divisor = static_cast<double>(unit_info(answer.query.row->unit).json_divisor);
  for (const history::TimelinePoint& point : answer.points) {
    if (point.aggregate.count == 0) continue;
    if (column.mean.empty()) column.first_ms = point.wall_ms;
    const std::int64_t step =
        (point.wall_ms - column.first_ms + column.step_ms / 2) / column.step_ms;
    const auto index = static_cast<std::size_t>(std::max<std::int64_t>(step, 0));
    if (index >= protocol::kMaxColumnPoints) break;  // a clock that was set
    for (auto* values : {&column.min, &column.mean, &column.max}) {
      if (values->size() <= index) values->resize(index + 1);
    }
    const protocol::HistoryPoint shown = point_of(point, divisor);
    column.min[index] = round_to_digits(*shown.min, column.counter);
    column.mean[index] = round_to_digits(*shown.mean, column.counter);
    column.max[index] = round_to_digits(*shown.max, column.counter);
  }
}

// A query for each GPU and metric, and the columns that their answers fill.
struct ColumnsQuery {
  std::vector<Query> queries;
  protocol::HistoryColumns about;
};

Result<ColumnsQuery> columns_query_of(const Snapshot& snapshot,
                                      const protocol::HistoryColumnsQuery& query,
                                      std::int64_t now_ms) {
  const auto gpus = GPUYARD_TRY(resolve_gpu_ids(snapshot, query.gpus.value_or("")));
  ColumnsQuery out;
  Query times;
  const history::QueryParameters parameters{
      query.since.value_or("15m"), query.until.value_or("0s"), {}, {}};
  GPUYARD_TRY(history::set_times(times, parameters, now_ms));
  const std::uint64_t points = query.points.value_or(protocol::kDefaultColumnPoints);
  times.step_ms = history::step_for(times.until_ms - times.from_ms, points);
  // Whole steps: the answer stays the same until the next one ends.
  const std::int64_t length = times.until_ms - times.from_ms;
  times.until_ms = history::span_begin(times.until_ms, times.step_ms);
  times.from_ms = history::span_begin(times.until_ms - length, times.step_ms);
  out.about.simulated = snapshot.driver.info.simulated;
  out.about.since_ms = times.from_ms;
  out.about.until_ms = times.until_ms;
  out.about.step_ms = times.step_ms;
  std::string_view metrics = query.metrics ? *query.metrics : protocol::kDefaultMetrics;
  do {
    const auto row = GPUYARD_TRY(history::find_row(take_until(',', metrics)));
    times.row = row;
    for (const DeviceId& id : gpus) {
      const DeviceState& device = **find_device(snapshot, id);
      protocol::HistoryColumn& column = out.about.series.emplace_back();
      column.index = device.info.index;
      column.uuid = times.uuid = device.info.id;
      column.metric = json_key(*row);
      column.unit = unit_info(row->unit).symbol;
      column.counter = row->kind == MetricKind::counter;
      column.bound = bound_of(row->metric, device.sample);
      out.queries.push_back(times);
    }
  } while (!metrics.empty() && out.queries.size() <= protocol::kMaxSeries);
  const std::uint64_t steps = static_cast<std::uint64_t>(length / times.step_ms) + 1;
  if (out.queries.size() > protocol::kMaxSeries ||
      out.queries.size() * steps > protocol::kMaxColumnPoints) {
    return Error{
        Errc::invalid,
        fmt::format("{} series of {} steps exceed the limit of {} series and {} points "
                    "per answer; request fewer metrics, GPUs or points",
                    out.queries.size(), steps, protocol::kMaxSeries, protocol::kMaxColumnPoints)};
  }
  return out;
}

std::string columns_text(protocol::HistoryColumns about, const std::vector<QueryResult>& answers) {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    protocol::HistoryColumn& column = about.series[i];
    column.resolution =
        enum_from_name<protocol::HistoryResolution>(enum_name(answers[i].resolution))
            .value_or(protocol::HistoryResolution::minute);
    put_points(column, answers[i]);
    for (const std::string& note : answers[i].notes) {
      if (std::ranges::find(about.notes, note) == about.notes.end()) about.notes.push_back(note);
    }
  }
  return json::to_json(about);
}

void get_columns(PastApi& api, const RouteCall& call, const protocol::HistoryColumnsQuery& query,
                 const Responder<protocol::HistoryColumns>& respond) {
  auto wanted = columns_query_of(*visible_snapshot(api.telemetry, call.principal), query,
                                 api.history.now_ms());
  if (!wanted) return respond(std::move(wanted).error());
  const auto shared = std::make_shared<const ColumnsQuery>(*std::move(wanted));
  const auto begin_query = [&api, shared, respond](const std::function<void()>& on_done) {
    const auto render = [shared](const std::vector<QueryResult>& answers) -> Result<std::string> {
      return columns_text(shared->about, answers);
    };
    api.history.query(shared->queries, render, [respond, on_done](Result<std::string> text) {
      on_done();
      if (!text) return respond(std::move(text).error());
      auto body = std::make_shared<const std::string>(*std::move(text));
      http::Response response{200, "application/json", body};
      response.etag = fmt::format("\"{:016x}\"", std::hash<std::string_view>{}(*body));
      respond.send(std::move(response));
    });
  };
  if (!api.queries.try_enqueue(requester_of(call), begin_query)) respond(too_many_queries());
}

}  // namespace

std::vector<BoundRoute> history_routes() {
  return {bind(protocol::kHistory, &get_history), bind(protocol::kHistoryColumns, &get_columns)};
}

}  // namespace gpuyard::api
