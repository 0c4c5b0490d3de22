// SPDX-License-Identifier: Apache-2.0
// llamalloc-simulate: one policy with one predictor over one trace; JSON on standard output.
// `llamalloc simulate` runs it, several at a time, and shows the results.
#include <getopt.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <tuple>

#include "sim/outcome_json.h"
#include "tools/standard_output.h"
#include "tools/trace_argument.h"
#include "tools/write_steps.h"

namespace {

using namespace llamalloc;
using namespace llamalloc::sim;

struct Arguments {
  std::string trace;
  std::string learn;
  std::string pace;
  std::string steps;
  std::string conf;
  std::string policy = "llamalloc";
  std::string predictor = "oracle";
  PredictorSpec spec;
  RunOptions run;
  LearningOptions learning;
  uint64_t delay = 0;  // ms
  bool progress = false;
};

void print_help() {
  printf(
      "usage: llamalloc-simulate TRACE [--policy P] [--predictor W] [options]\n"
      "\n"
      "Replays a trace on a placement policy and prints the memory that it would use, as JSON.\n"
      "TRACE is a file that `llamalloc trace` wrote, or synthetic:NAME[:EVENTS] for a generated\n"
      "load (%s).\n"
      "\n"
      "  --policy P         how objects are placed:\n",
      kSyntheticNames);
  for (const PolicyName& row : kPolicyNames) printf("      %-14s %s\n", row.name, row.meaning);
  printf(
      "  --predictor W      oracle, site[:Q], exact[:Q], model:FILE, constant:CLASS, none,\n"
      "                     online[:INTERVAL], state:FILE: the process learns while it runs, as "
      "with\n"
      "                     the option learn, with so many bytes between samples (1MiB); or "
      "from\n"
      "                     what earlier runs left in a state file. Only for the policy llamalloc\n"
      "  --keep FILE        with these, write what was learned to this state file in the end\n"
      "  --learn TRACE      learn site and exact from this trace instead of the replayed one\n"
      "  --error SHARE      share of contexts that get a wrong class (0 to 1)\n"
      "  --error-objects    --error is a share of objects instead of contexts\n"
      "  --seed N           seed of the wrong classes (1)\n"
      "  --samples N        number of evenly spaced samples (500)\n"
      "  --pace FILE        when things happen, from a replay: the numbers of `clock` with their\n"
      "                     count before them, of `ticks` and `worker`; without it, as recorded\n"
      "  --steps FILE       write what llamalloc-replay does for the trace, and stop\n"
      "  --delay MS         the background work begins so much later: memory depends a little on\n"
      "                     the moments at which it is done, so compare means over some delays\n"
      "  --conf OPTIONS     options of llamalloc, as in LLAMALLOC_CONF: segregate:always, ...\n"
      "  --progress         print lines `progress SHARE` to standard error\n"
      "\n"
      "example: llamalloc-simulate synthetic:waves --policy paper-k2 --predictor site:0.95\n");
}

int wrong(const std::string& message) {
  fprintf(stderr, "llamalloc-simulate: %s\n", message.c_str());
  return 2;
}

bool parse_share(const char* text, double* share) {
  char* end = nullptr;
  *share = strtod(text, &end);
  return end != text && *end == 0 && *share >= 0 && *share <= 1;
}

bool parse_count(const char* text, uint64_t most, uint64_t* count) {
  char* end = nullptr;
  *count = strtoull(text, &end, 10);
  return text[0] >= '0' && text[0] <= '9' && *end == 0 && *count <= most;
}

int option_faults = 0;
void print_fault(const char* message) {
  const std::string text = message;  // nothing is ignored here
  fprintf(stderr, "llamalloc-simulate: %s\n", text.substr(0, text.rfind("; ignored")).c_str());
  ++option_faults;
}

// An option of what a process does, and the simulator does not; null: none is set.
const char* not_simulated(const Options& options) {
  const Options usual;
  if (options.soft_limit != usual.soft_limit) return "soft_limit";
  if (options.follow_limits != usual.follow_limits) return "follow_limits";
  if (options.worker != usual.worker) return "worker";
  if (options.hardened != usual.hardened) return "hardened";
  return nullptr;
}

// 0: go on; else the exit status plus one.
int check_learning(Arguments* arguments) {
  LearningOptions& learning = arguments->learning;
  const PredictorSpec& spec = arguments->spec;
  learning.state = spec.state;
  if (spec.kind != PredictorSpec::Kind::online)
    return learning.keep.empty() ? 0 : 1 + wrong("--keep needs the predictor online or state:FILE");
  if (arguments->policy != "llamalloc")
    return 1 + wrong("online and state:FILE are only for the policy llamalloc");
  if (spec.interval.empty()) return 0;
  const char* fault = nullptr;
  const std::string& interval = spec.interval;
  if (learning.process.set("sample_interval", 15, interval.data(), interval.size(), false, &fault))
    return 0;
  return 1 + wrong("online:" + interval + ": " + fault + "; write it as in online:512KiB");
}

// 0: go on; else the exit status plus one.
int parse(int argc, char** argv, Arguments* arguments) {
  static const option kOptions[] = {{"policy", 1, nullptr, 'p'},
                                    {"predictor", 1, nullptr, 'w'},
                                    {"pace", 1, nullptr, 'c'},
                                    {"steps", 1, nullptr, 't'},
                                    {"keep", 1, nullptr, 'k'},
                                    {"conf", 1, nullptr, 'f'},
                                    {"learn", 1, nullptr, 'l'},
                                    {"error", 1, nullptr, 'e'},
                                    {"seed", 1, nullptr, 's'},
                                    {"samples", 1, nullptr, 'n'},
                                    {"delay", 1, nullptr, 'd'},
                                    {"progress", 0, nullptr, 'g'},
                                    {"error-objects", 0, nullptr, 'o'},
                                    {"help", 0, nullptr, 'h'},
                                    {}};
  uint64_t count = 0;
  for (int c; (c = getopt_long(argc, argv, "h", kOptions, nullptr)) != -1;) switch (c) {
      case 'p':
        arguments->policy = optarg;
        break;
      case 'w':
        arguments->predictor = optarg;
        break;
      case 'l':
        arguments->learn = optarg;
        break;
      case 'k':
        arguments->learning.keep = optarg;
        break;
      case 'f':
        arguments->conf = optarg;
        option_faults = 0;
        arguments->learning.process.parse(optarg, false, print_fault, "--conf");
        if (option_faults != 0) return 1 + 2;
        if (const char* name = not_simulated(arguments->learning.process))
          return 1 + wrong(std::string("--conf: ") + name +
                           " is not simulated: there are no limits of the system here, no "
                           "hardened mode, and always a background thread");
        break;
      case 'c':
        arguments->pace = optarg;
        break;
      case 't':
        arguments->steps = optarg;
        break;
      case 'g':
        arguments->progress = true;
        break;
      case 'o':
        arguments->spec.error_by_object = true;
        break;
      case 'e':
        if (!parse_share(optarg, &arguments->spec.error))
          return 1 + wrong(std::string("--error ") + optarg + ": give a share from 0 to 1");
        break;
      case 's':
        if (!parse_count(optarg, UINT64_MAX, &arguments->spec.seed))
          return 1 + wrong(std::string("--seed ") + optarg + ": give a whole number");
        break;
      case 'n':
        if (!parse_count(optarg, 1'000'000, &count) || count == 0)
          return 1 + wrong(std::string("--samples ") + optarg + ": give a number up to 1000000");
        arguments->run.samples = count;
        break;
      case 'd':
        if (!parse_count(optarg, 60'000, &arguments->delay))
          return 1 + wrong(std::string("--delay ") + optarg + ": give milliseconds up to 60000");
        break;
      case 'h':
        print_help();
        return 1;
      default:
        return 1 + 2;
    }
  if (optind + 1 != argc) return 1 + wrong("give exactly one trace; see --help");
  arguments->trace = argv[optind];
  std::string error;
  if (!parse_predictor(arguments->predictor, &arguments->spec, &error)) return 1 + wrong(error);
  return check_learning(arguments);
}

bool is_policy(const std::string& name) {
  for (const PolicyName& row : kPolicyNames)
    if (name == row.name) return true;
  return false;
}

// COUNT MARK... PERIOD FIRST (EVENT TIME)...
bool read_pace(const std::string& name, uint64_t duration, Pace* pace) {
  std::ifstream file(name);
  size_t count = 0;
  std::vector<uint64_t> marks;
  std::vector<Visit> visits;
  file >> count;
  for (uint64_t mark; marks.size() < count && file >> mark;) marks.push_back(mark);
  Ticks ticks{};
  file >> ticks.period >> ticks.first;
  for (Visit visit; file >> visit.event >> visit.at;) visits.push_back(visit);
  const bool good = file.eof() && count >= 2 && marks.size() == count &&
                    ticks.first < ticks.period && std::is_sorted(marks.begin(), marks.end());
  if (good) *pace = Pace(std::move(marks), ticks, std::move(visits), duration);
  return good;
}

double processor_seconds() {
  return static_cast<double>(clock()) / CLOCKS_PER_SEC;
}

void print_progress(double share, void*) {
  fprintf(stderr, "progress %.3f\n", share);
}

// What reads files names them itself.
int failed(const std::string& name, const std::string& error) {
  const bool named = error.find(name) != std::string::npos;
  const std::string text = named ? error : name + ": " + error;
  fprintf(stderr, "llamalloc-simulate: %s\n", text.c_str());
  return 1;
}

int run(const Arguments& arguments) {
  std::string error;
  const auto input = open_trace(arguments.trace, &error);
  if (input == nullptr) return failed(arguments.trace, error);
  Survey survey, teacher_survey;
  if (!survey_trace(*input, &survey, &error)) return failed(arguments.trace, error);
  if (!arguments.steps.empty())
    return write_steps(*input, survey, arguments.steps, &error) ? 0
                                                                : failed(arguments.trace, error);
  std::unique_ptr<TraceInput> teacher;
  if (!arguments.learn.empty()) {
    teacher = open_trace(arguments.learn, &error);
    if (teacher == nullptr || !survey_trace(*teacher, &teacher_survey, &error))
      return failed(arguments.learn, error);
  }
  const Learned own{&survey, input.get()};
  const Learned other{&teacher_survey, teacher.get()};
  Prediction prediction;
  if (!predict(arguments.spec, own, teacher ? other : own, &prediction, &error))
    return failed(arguments.predictor.substr(arguments.predictor.find(':') + 1), error);
  const bool learns = arguments.spec.kind == PredictorSpec::Kind::online;
  error = "cannot reserve 9 TiB of address space; raise `ulimit -v`";
  const auto policy = learns ? make_learning_policy(*input, arguments.learning, &error)
                             : make_policy(arguments.policy);
  const auto& [state, keep] = std::tie(arguments.learning.state, arguments.learning.keep);
  const bool is_of_keep = !keep.empty() && error.find(keep) != std::string::npos;
  const std::string& named = is_of_keep ? keep : state;
  if (policy == nullptr) return failed(named.empty() ? arguments.policy : named, error);
  if (!arguments.conf.empty() && !policy->configure(arguments.conf, &error))
    return failed("--conf " + arguments.conf, error);
  policy->take_evidence(prediction.evidence);
  policy->delay_work(Nanos::millis(static_cast<int64_t>(arguments.delay)));
  RunOptions options = arguments.run;
  if (arguments.progress) options.progress = print_progress;
  if (!arguments.pace.empty() && !read_pace(arguments.pace, survey.duration, &options.pace))
    return failed(arguments.pace, "no pace of a replay; see --help");
  Outcome outcome;
  const double start = processor_seconds();
  if (!simulate(*input, survey, prediction, *policy, options, &outcome, &error))
    return failed(arguments.trace, error);
  if (learns) {
    prediction.classes = std::move(outcome.chosen);
    count_classes(survey, &prediction);
  }
  const RunNames names{arguments.trace,        arguments.policy,    arguments.predictor,
                       arguments.spec.error,   arguments.spec.seed, processor_seconds() - start,
                       input->ended_in_order()};
  puts(to_json(names, survey, prediction, outcome).c_str());
  return standard_output_is_written() ? 0 : failed("standard output", "cannot be written");
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (const int done = parse(argc, argv, &arguments)) return done - 1;
  if (!is_policy(arguments.policy)) {
    std::string names;
    for (const PolicyName& row : kPolicyNames) names += std::string(" ") + row.name;
    return wrong("no policy '" + arguments.policy + "'; the policies are" + names);
  }
  return run(arguments);
}
