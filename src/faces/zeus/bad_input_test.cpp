// Every parameter of every route: missing, empty, nonsense, twice, and unknown.
#include "faces/zeus/ports_for_tests.h"

namespace gpuyard::zeus {
namespace {

struct Parameter {
  std::string name;
  std::string good;
  bool required;
  std::vector<std::string> bad;
};

const std::vector<std::string> kBadIds = {"",     "%20",        ",",    "0,", ",0",
                                          "0,,1", "0,abc",      "-1",   "+1", "all",
                                          "1.5",  "4294967296", "0%00", "9",  "0,9"};
const std::vector<std::string> kBadBools = {"", "1", "0", "True", "FALSE", "yes", "true%20", "t"};
const std::vector<std::string> kBadNumbers = {
    "", "-1", "+1", "1.5", "1e3", "0x10", "abc", "1%20", "4294967296", "99999999999999999999"};

const Parameter kGpuIds{"gpu_ids", "0,1", false, kBadIds};
const Parameter kCpuIds{"cpu_ids", "0,1", false, kBadIds};
const Parameter kWrittenGpus{"gpu_ids", "0,1", true, kBadIds};
const Parameter kBlock{"block", "true", true, kBadBools};

Parameter flag(const std::string& name) {
  return {name, "true", true, kBadBools};
}
Parameter number(const std::string& name) {
  return {name, "1000", true, kBadNumbers};
}

const std::map<std::string, std::vector<Parameter>> kParameters = {
    {"/discover", {}},
    {"/time", {}},
    {"/auth/whoami", {}},
    {"/gpu/set_power_limit", {kWrittenGpus, kBlock, number("power_limit_mw")}},
    {"/gpu/set_persistence_mode", {kWrittenGpus, kBlock, flag("enabled")}},
    {"/gpu/set_gpu_locked_clocks",
     {kWrittenGpus, kBlock, number("min_clock_mhz"), number("max_clock_mhz")}},
    {"/gpu/set_mem_locked_clocks",
     {kWrittenGpus, kBlock, number("min_clock_mhz"), number("max_clock_mhz")}},
    {"/gpu/reset_gpu_locked_clocks", {kWrittenGpus, kBlock}},
    {"/gpu/reset_mem_locked_clocks", {kWrittenGpus, kBlock}},
    {"/gpu/reset_locked_clocks", {kWrittenGpus, kBlock}},
    {"/gpu/get_power", {kGpuIds}},
    {"/gpu/get_cumulative_energy", {kGpuIds}},
    {"/gpu/get_power_limit", {kGpuIds}},
    {"/gpu/get_power_limit_constraints", {kGpuIds}},
    {"/gpu/get_persistence_mode", {kGpuIds}},
    {"/gpu/stream_power", {kGpuIds}},
    {"/cpu/get_cumulative_energy", {kCpuIds, flag("cpu"), flag("dram")}},
    {"/cpu/get_power", {kCpuIds}},
    {"/cpu/stream_power", {kCpuIds}},
};

class BadInput : public FacadeTest {
 protected:
  using Values = std::vector<std::pair<std::string, std::string>>;

  static Values good(const std::vector<Parameter>& parameters) {
    Values values;
    for (const Parameter& one : parameters) values.emplace_back(one.name, one.good);
    return values;
  }
  void expect_refused(const Route& route, const Values& values) {
    std::string target(route.path);
    for (const auto& [name, value] : values) {
      target += target == route.path ? '?' : '&';
      target.append(name).append("=").append(value);
    }
    http::Request encoded;
    encoded.target = target;
    if (!http::decode_target(encoded)) return;  // the server refuses it before the facade sees it
    const auto answer = answer_to(route.method, target);
    EXPECT_EQ(answer.status, 400) << target;
    EXPECT_FALSE(answer.stream) << target;
    EXPECT_THAT(text(answer), ::testing::StartsWith(R"({"error":")")) << target;
    EXPECT_TRUE(control_.orders.empty()) << target;
  }
  template <class Check>
  void each_parameter(Check check) {
    for (const Route& route : routes()) {
      const auto& parameters = kParameters.at(std::string(route.path));
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        check(route, parameters[i], good(parameters), i);
      }
    }
  }
};

TEST_F(BadInput, TableMatchesFacadeRoutes) {
  EXPECT_EQ(kParameters.size(), routes().size());
  for (const Route& route : routes()) EXPECT_TRUE(kParameters.contains(std::string(route.path)));
}

TEST_F(BadInput, AnUnknownParameterIsRefusedEverywhere) {
  for (const Route& route : routes()) {
    auto values = good(kParameters.at(std::string(route.path)));
    values.emplace_back("extra", "1");
    expect_refused(route, values);
  }
}

TEST_F(BadInput, AMissingParameterIsRefused) {
  each_parameter([&](const Route& route, const Parameter& one, Values values, std::size_t place) {
    values.erase(values.begin() + static_cast<std::ptrdiff_t>(place));
    if (one.required) expect_refused(route, values);
  });
}

TEST_F(BadInput, AParameterThatIsGivenTwiceIsRefused) {
  each_parameter([&](const Route& route, const Parameter& one, Values values, std::size_t) {
    values.emplace_back(one.name, one.good);
    expect_refused(route, values);
  });
}

TEST_F(BadInput, NonsenseIsRefusedInEveryParameter) {
  std::size_t tried = 0;
  each_parameter([&](const Route& route, const Parameter& one, Values values, std::size_t place) {
    for (const std::string& bad : one.bad) {
      values[place].second = bad;
      expect_refused(route, values);
      ++tried;
    }
  });
  EXPECT_GT(tried, 300U);
}

TEST_F(BadInput, ANameInOtherLettersIsAnotherName) {
  each_parameter([&](const Route& route, const Parameter& one, Values values, std::size_t place) {
    values[place].first[0] = static_cast<char>(one.name[0] - 'a' + 'A');
    expect_refused(route, values);
  });
}

TEST_F(BadInput, EchoedTextIsEscapedAsJson) {
  const auto answer = get("/gpu/get_power?gpu_ids=0,%22%7D%5C");
  EXPECT_EQ(text(answer), R"({"error":"\"\"}\\\" is not a GPU index"})");
}

}  // namespace
}  // namespace gpuyard::zeus
