// The history of one metric of one GPU: answered on a worker, as JSON or CSV.
#include "history/history.h"

#include <cmath>
#include <utility>

#include "api/context.h"
#include "api/table.h"
#include "base/json_writer.h"
#include "base/record.h"
#include "device/reading.h"
#include "history/question.h"
#include "protocol/history.h"

namespace gpuyard::api {
namespace {

using history::Answer;
using history::Question;

// Rounds to a thousandth of the driver's unit: the readings are no more precise.
double shown_mean(const history::Aggregate& of, double divisor) {
  return std::round(of.mean() * 1000) / 1000 / divisor;
}

protocol::HistoryPoint point_of(const history::TimelinePoint& point, double divisor) {
  if (point.of.count == 0) return {point.wall_ms, {}, {}, {}};
  return {point.wall_ms, static_cast<double>(point.of.min) / divisor, shown_mean(point.of, divisor),
          static_cast<double>(point.of.max) / divisor};
}

protocol::HistorySummary summary_of(const Answer& answer, double divisor) {
  protocol::HistorySummary summary;
  summary.readings = answer.all.count;
  if (answer.last) summary.last = *answer.last / divisor;
  if (answer.all.count == 0) return summary;
  const protocol::HistoryPoint all = point_of({0, answer.all}, divisor);
  summary.min = all.min;
  summary.mean = all.mean;
  summary.max = all.max;
  return summary;
}

std::string time_text(std::int64_t wall_ms) {
  return to_rfc3339(WallTime(std::chrono::milliseconds(wall_ms)));
}

// `about` says which GPU it is.
protocol::History history_of(const Answer& answer, protocol::History about) {
  const Question& question = answer.question;
  const Row& row = *question.row;
  about.uuid = question.uuid;
  about.metric = json_key(row);
  if (row.dimension != Dimension::none) about.element = element_of(row.dimension, question.element);
  about.unit = unit_info(row.unit).symbol;
  about.counter = row.kind == Kind::counter;
  about.resolution = enum_from_name<protocol::HistoryResolution>(enum_name(answer.resolution))
                         .value_or(protocol::HistoryResolution::minute);
  about.step_ms = answer.step_ms;
  about.since = time_text(question.from_ms);
  about.until = time_text(question.until_ms);
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
struct Named {
  std::string uuid;
  protocol::History about;
  bool known = true;  // false: only the store may know it
  Sample now = {};    // empty if the GPU is not there
};

Result<Named> named(const Context& context, const Principal& principal, const std::string& id) {
  const auto seen = seen_by(context, principal);
  const Snapshot& snapshot = *seen;
  Named out;
  out.about.simulated = snapshot.driver.info.simulated;
  const auto device = find_device(snapshot, id);
  if (device && !(*device)->info.uuid.empty()) {
    out.uuid = (*device)->info.uuid;
    out.about.index = (*device)->info.index;
    out.about.name = (*device)->info.name;
    out.now = (*device)->sample;
    return out;
  }
  if (id.starts_with("GPU-") && principal.sees(id)) {
    out.uuid = id;
    out.known = context.history.rings().find(id) != nullptr;
    return out;
  }
  if (!device && snapshot.devices.empty() && !snapshot.driver.initialised) {
    return Error{Errc::unavailable, snapshot.driver.why};
  }
  if (!device) return device.error();
  return Error{Errc::not_found, "GPU " + id + " did not open, and only its UUID has a history"};
}

Result<Question> question_of(const protocol::HistoryQuery& query, std::int64_t now_ms) {
  Question question;
  const auto row = history::find_row(query.metric);
  if (!row) return row.error();
  question.row = *row;
  if (query.element) {
    const auto element = history::find_element(**row, *query.element);
    if (!element) return element.error();
    question.element = *element;
  }
  history::Wish wish;
  if (query.since) wish.since = *query.since;
  if (query.until) wish.until = *query.until;
  wish.step = query.step;
  wish.points = query.points;
  if (auto set = history::set_times(question, wish, now_ms); !set) return std::move(set).error();
  return question;
}

history::History::Render renderer(Named gpu, bool csv) {
  return [gpu = std::move(gpu), csv](const Answer& answer) -> Result<std::string> {
    if (!gpu.known && answer.points.empty()) {
      return Error{Errc::not_found, "nothing is known of GPU " + gpu.uuid};
    }
    const protocol::History shown = history_of(answer, gpu.about);
    return csv ? protocol::kHistoryCsvHeader + csv_of(shown) : json::to_json(shown);
  };
}

void get_history(Context& context, const Asked& asked, const protocol::HistoryQuery& query,
                 const Responder<protocol::History>& respond) {
  const bool csv = query.format == protocol::TextFormat::csv;
  auto question = question_of(query, context.history.now_ms());
  if (!question) return respond(std::move(question).error());
  auto gpu = named(context, asked.principal, query.id);
  if (!gpu) return respond(std::move(gpu).error());
  question->uuid = gpu->uuid;
  const Row& row = *question->row;
  if (const auto bound = upper_bound_of(row.metric, gpu->now)) {
    gpu->about.bound =
        static_cast<double>(*bound) / static_cast<double>(unit_info(row.unit).json_divisor);
  }
  const auto ask = [&context, question = *question, render = renderer(*std::move(gpu), csv),
                    respond, csv](const std::function<void()>& ended) {
    context.history.ask(question, render, [respond, csv, ended](Result<std::string> text) {
      ended();
      if (!text) return respond(std::move(text).error());
      auto body = std::make_shared<const std::string>(*std::move(text));
      if (!csv) return respond.rendered(std::move(body));
      respond.as_is({200, "text/csv; charset=utf-8", std::move(body)});
    });
  };
  if (!context.questions.enter(asked.peer.party, ask)) respond(too_many_questions());
}

}  // namespace

std::vector<BoundRoute> history_routes() {
  return {bind(protocol::kHistory, &get_history)};
}

}  // namespace gpuyard::api
