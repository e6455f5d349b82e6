// Trains a small classifier with dlib, with a TrainingMonitor that watches the GPUs meanwhile:
//   example_training_dlib [--epochs N] [--points N] [--interval SECONDS] [--thermal CELSIUS]
//                         [--patience SECONDS] [--on-alert pause|stop|go]
// It learns by stochastic gradient descent which of two spirals a point belongs to. dlib computes
// on the CPU here; the monitor watches the machine's GPUs as if they did the training. Exit status:
// 0 trained, 3 stopped because of an alert, 1 did not learn, 2 wrong usage.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Uses dlib's headers alone: Debian's library would call BLAS and LAPACK, which two coordinates do
// not need.
#include <dlib/algs.h>
#include <dlib/test_for_odr_violations.h>
#undef DLIB_USE_BLAS
#undef DLIB_USE_LAPACK
#include <dlib/matrix.h>
#include <dlib/rand.h>
#include <dlib/svm/kernel.h>
#include <dlib/svm/pegasos.h>

#include <gpuyard/gpuyard.h>

namespace {

using gpuyard::TrainingAction;
using Sample = dlib::matrix<double, 2, 1>;
using Kernel = dlib::radial_basis_kernel<Sample>;

struct Arguments {
  int epochs = 5;
  int points = 400;  // of each spiral
  double interval = 1;
  double thermal = 80;
  int patience = 60;  // the longest pause, seconds
  TrainingAction on_alert = TrainingAction::pause;
};

std::optional<TrainingAction> action_of(std::string_view name) {
  if (name == "pause") return TrainingAction::pause;
  if (name == "stop") return TrainingAction::stop;
  if (name == "go") return TrainingAction::keep_going;
  return std::nullopt;
}

std::optional<Arguments> parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (i + 1 >= argc) return std::nullopt;
    const char* value = argv[i + 1];
    if (name == "--epochs") {
      arguments.epochs = std::atoi(value);
    } else if (name == "--points") {
      arguments.points = std::atoi(value);
    } else if (name == "--interval") {
      arguments.interval = std::atof(value);
    } else if (name == "--thermal") {
      arguments.thermal = std::atof(value);
    } else if (name == "--patience") {
      arguments.patience = std::atoi(value);
    } else if (const auto action = action_of(value); name == "--on-alert" && action) {
      arguments.on_alert = *action;
    } else {
      return std::nullopt;
    }
  }
  const bool sane = arguments.epochs > 0 && arguments.points > 1 && arguments.patience >= 0;
  return sane ? std::optional(arguments) : std::nullopt;
}

struct Data {
  std::vector<Sample> samples;
  std::vector<double> labels;  // +1 or -1: which spiral
};

Data two_spirals(int points, dlib::rand& random) {
  constexpr double kTurns = 1.5;
  constexpr double kNoise = 0.02;
  Data data;
  for (int i = 0; i < points; ++i) {
    const double along = random.get_random_double();
    const double angle = 2 * std::numbers::pi * kTurns * along;
    for (const double side : {1.0, -1.0}) {
      Sample sample;
      sample(0) = side * along * std::cos(angle) + kNoise * random.get_random_gaussian();
      sample(1) = side * along * std::sin(angle) + kNoise * random.get_random_gaussian();
      data.samples.push_back(sample);
      data.labels.push_back(side);
    }
  }
  return data;
}

// Waits while the training should pause. False: it should end.
bool may_go_on(const gpuyard::TrainingMonitor& training, int patience) {
  if (training.action() == TrainingAction::pause) {
    std::cout << "paused: " << training.cause()->message() << std::endl;
    if (training.wait_while_paused(std::chrono::seconds(patience)) == TrainingAction::pause) {
      std::cout << "gave up waiting" << std::endl;
      return false;
    }
    if (!training.should_stop()) std::cout << "going on" << std::endl;
  }
  return !training.should_stop();
}

using Trainer = dlib::svm_pegasos<Kernel>;

Trainer make_trainer() {
  constexpr double kGamma = 20;
  constexpr double kLambda = 0.0005;
  Trainer trainer;
  trainer.set_kernel(Kernel(kGamma));
  trainer.set_lambda(kLambda);
  trainer.set_max_num_sv(100);
  return trainer;
}

double accuracy(const Trainer& trainer, const Data& data) {
  const auto decide = trainer.get_decision_function();
  std::size_t right = 0;
  for (std::size_t i = 0; i < data.samples.size(); ++i) {
    if (decide(data.samples[i]) * data.labels[i] > 0) ++right;
  }
  return static_cast<double>(right) / static_cast<double>(data.samples.size());
}

// One pass over the data. False: the training should end.
bool train_epoch(Trainer& trainer, const Data& data, gpuyard::TrainingMonitor& training,
                 int patience) {
  for (std::size_t i = 0; i < data.samples.size(); ++i) {
    trainer.train(data.samples[i], data.labels[i]);
    if (training.step() != TrainingAction::keep_going && !may_go_on(training, patience)) {
      return false;
    }
  }
  return true;
}

int verdict(const gpuyard::TrainingMonitor& training, bool finished, double right) {
  if (!finished) {
    const auto cause = training.cause();
    std::cout << "verdict: stopped" << (cause ? ": " + cause->message() : "") << '\n';
    return 3;
  }
  constexpr double kLearnt = 0.9;
  std::cout << "verdict: " << (right >= kLearnt ? "trained" : "did not learn") << '\n';
  return right >= kLearnt ? 0 : 1;
}

int run(const Arguments& arguments, gpuyard::TrainingMonitor& training) {
  dlib::rand random("two spirals");  // the same spirals each time
  const Data data = two_spirals(arguments.points, random);
  Trainer trainer = make_trainer();
  bool finished = true;
  double right = 0;
  for (int epoch = 0; epoch < arguments.epochs && finished; ++epoch) {
    finished = train_epoch(trainer, data, training, arguments.patience);
    right = accuracy(trainer, data);
    const gpuyard::TrainingReport report = training.epoch_end();
    std::cout << report.line() << "; accuracy " << right << std::endl;
    if (!report.joules) std::cout << "no joules: " << report.joules_missing << '\n';
  }
  const gpuyard::TrainingReport all = training.end();
  std::cout << "in all: " << all.line() << "; paused " << all.paused_seconds << " s, " << all.alerts
            << " alerts\n";
  return verdict(training, finished, right);
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments = parse(argc, argv);
  if (!arguments) {
    std::cerr << "usage: " << argv[0]
              << " [--epochs N] [--points N] [--interval SECONDS] [--thermal CELSIUS]"
                 " [--patience SECONDS] [--on-alert pause|stop|go]\n";
    return 2;
  }
  // Without a GPU it trains all the same, and says which values could not be read.
  const gpuyard::Monitor monitor = gpuyard::Monitor::open_or_none();
  gpuyard::TrainingMonitor training(monitor);
  training.with_interval_secs(arguments->interval)
      .with_thermal_threshold(arguments->thermal)
      .on_alert([action = arguments->on_alert](const gpuyard::Alert& alert) {
        std::cerr << alert.line() << '\n';
        const bool hot = std::holds_alternative<gpuyard::ThermalThrottling>(alert.kind);
        return hot ? action : TrainingAction::keep_going;
      });
  if (const auto begun = training.begin(); !begun) {
    std::cerr << begun.error().text() << '\n';
    return 2;
  }
  return run(*arguments, training);
}
