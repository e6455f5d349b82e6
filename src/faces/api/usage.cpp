// What was used under leases: by user, day, GPU or lease.
#include <utility>

#include <fmt/format.h>

#include "api/handlers.h"
#include "protocol/usage.h"

namespace gpuyard::api {
namespace {

using lease::UseBy;
using lease::UseQuestion;
using UsageResponder = Responder<protocol::Usage>;

constexpr double kUsualSeconds = std::chrono::seconds(std::chrono::days(7)).count();

UseQuestion question_of(const protocol::UsageQuery& query, WallTime now) {
  UseQuestion question;
  question.by = query.by.value_or(question.by);
  const std::chrono::duration<double> since(query.since_s.value_or(kUsualSeconds));
  const auto ago = std::chrono::duration_cast<std::chrono::milliseconds>(since);
  question.since = std::chrono::floor<std::chrono::days>(now - ago);
  return question;
}

protocol::UserNames names_in(const Context& context, const lease::UseAnswer& answer) {
  protocol::UserNames names;
  for (const lease::UseSum& sum : answer.sums) {
    if (!sum.uid || !context.user_name) continue;
    if (auto name = context.user_name(*sum.uid)) names.emplace(*sum.uid, *std::move(name));
  }
  return names;
}

// Once the names of its users are known, or cannot be had in time.
void when_named(const Context& context, const UseQuestion& question, const lease::UseAnswer& answer,
                std::function<void()> then) {
  if (question.by != UseBy::user || !context.learn_users) return then();
  std::vector<std::uint32_t> users;
  for (const lease::UseSum& sum : answer.sums) users.push_back(sum.uid.value_or(0));
  context.learn_users(users, std::move(then));
}

void answer_with(UsageResponder& respond, const protocol::Usage& usage, bool csv) {
  if (!csv) return respond(usage);
  auto body = std::make_shared<const std::string>(protocol::kUsageCsvHeader + csv_of(usage));
  respond.as_is({200, "text/csv; charset=utf-8", std::move(body)});
}

void get_usage(Context& context, const Asked& asked, const protocol::UsageQuery& query,
               UsageResponder respond) {
  if (context.use == nullptr) {
    return respond(Error{Errc::unavailable, "this daemon hands out no GPUs"});
  }
  const bool csv = query.format == protocol::TextFormat::csv;
  UseQuestion question = question_of(query, context.loop->wall());
  question.simulated = simulated(context);
  const auto shared = std::make_shared<UsageResponder>(std::move(respond));
  const auto ask = [&context, shared, question, csv](const std::function<void()>& ended) {
    const auto told = [&context, shared, question, csv, ended](Result<lease::UseAnswer> got) {
      ended();
      if (!got) return (*shared)(std::move(got).error());
      const auto answer = std::make_shared<const lease::UseAnswer>(*std::move(got));
      when_named(context, question, *answer, [&context, shared, question, csv, answer] {
        auto usage = protocol::usage_of(*answer, question, names_in(context, *answer));
        usage.notes = context.use->notes();
        answer_with(*shared, usage, csv);
      });
    };
    context.use->ask(question, told);
  };
  if (!context.questions.enter(asked.peer.party, ask)) (*shared)(too_many_questions());
}

}  // namespace

std::vector<BoundRoute> usage_routes() {
  return {bind(protocol::kUsage, &get_usage)};
}

}  // namespace gpuyard::api
