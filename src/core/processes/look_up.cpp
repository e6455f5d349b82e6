#include "processes/look_up.h"

#include "processes/pid_namespace.h"
#include "processes/user_names.h"

namespace gpuyard::processes {
namespace {

std::optional<Result<ProcessFacts>> answer(const ProcessReader& reader, const Question& question) {
  if (question.known) {
    const auto seen = reader.glance(question.pid);
    if (!seen) return seen.error();
    if (*seen == *question.known) return std::nullopt;
  }
  return reader.read(question.pid);
}

}  // namespace

Result<void> check_numbers(Numbers numbers, const std::string& proc_root) {
  switch (numbers) {
    case Numbers::of_a_driver:
      return check_pid_namespace(proc_root);
    case Numbers::of_a_recording:
      return Error{Errc::unsupported, "recorded without it"};
    case Numbers::of_simulation:
      break;
  }
  return {};
}

std::vector<Finding> look_up(const ProcessReader& reader, const std::vector<Question>& questions,
                             Numbers numbers) {
  const Result<void> same_numbers = check_numbers(numbers, reader.proc_root());
  std::vector<Finding> findings;
  findings.reserve(questions.size());
  for (const Question& question : questions) {
    Finding& finding = findings.emplace_back();
    finding.pid = question.pid;
    if (same_numbers) {
      finding.facts = answer(reader, question);
    } else {
      finding.facts.emplace(same_numbers.error());
    }
  }
  return findings;
}

std::unique_ptr<ProcessBook> look_up_all(const Owners::Listed& listed, Numbers numbers) {
  auto owners = std::make_unique<Owners>();
  owners->listed(listed);
  owners->found(look_up(ProcessReader(), owners->questions(), numbers));
  for (const std::uint32_t uid : owners->nameless_users()) owners->named(uid, look_up_user(uid));
  return owners;
}

}  // namespace gpuyard::processes
