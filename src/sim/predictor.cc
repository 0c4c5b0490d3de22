// SPDX-License-Identifier: Apache-2.0
#include "sim/predictor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "os/arena.h"
#include "predict/evaluator.h"

namespace llamalloc::sim {
namespace {

constexpr int kNever = static_cast<int>(LifetimeClass::never);
constexpr double kMost = 0.5;
constexpr double kTrap = 0.05;
constexpr double kElderNanos = 1e9;
constexpr double kElderShare = 0.2;

uint64_t mix(uint64_t value, uint64_t seed) {
  value = (value + seed * 0x9E3779B97F4A7C15ull + 1) * 0xFF51AFD7ED558CCDull;
  value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53ull;
  return value ^ value >> 29;
}

LifetimeClass class_of(uint64_t lifetime) {
  if (lifetime == kNeverFreed) return LifetimeClass::never;
  return class_of_lifetime({static_cast<int64_t>(lifetime)});
}

uint64_t hash_of(const std::vector<std::string>& frames, size_t most, uint64_t size) {
  uint64_t hash = mix(size, 7);
  for (size_t i = 0; i < frames.size() && i < most; ++i)
    hash = mix(hash ^ std::hash<std::string>{}(frames[i]), i);
  return hash;
}

// A key for every context of a trace: the same for the same names in another trace.
std::vector<uint64_t> keys_of(const Learned& trace, size_t most_frames) {
  std::vector<uint64_t> keys;
  for (const Context& context : trace.survey->context_table) {
    const std::vector<std::string> frames = trace.input->frames(context.stack);
    const uint64_t own = frames.empty() ? mix(context.stack, 11) : 0;
    keys.push_back(hash_of(frames, most_frames, context.size) ^ own);
  }
  return keys;
}

// How the objects of each context ended.
std::vector<Lives> lives_by_context(const Survey& survey) {
  std::vector<Lives> by_context(survey.context_table.size());
  const double elder = std::max(kElderNanos, kElderShare * static_cast<double>(survey.duration));
  size_t alive = 0;
  for (size_t i = 0; i < survey.lifetimes.size(); ++i) {
    Lives& lives = by_context[survey.contexts[i]];
    if (survey.lifetimes[i] != kNeverFreed) {
      ++lives.freed[static_cast<int>(class_of(survey.lifetimes[i]))];
      continue;
    }
    const uint64_t age = survey.duration - survey.births[alive++];
    if (static_cast<double>(age) >= elder)
      ++lives.elders;
    else
      ++lives.in_flight[static_cast<int>(class_of(age))];
  }
  return by_context;
}

// The class of an object that was alive at the end at such an age: what became of the others of
// its context that got as old, by the median; `never` where none died older or stayed.
LifetimeClass fate_of(const Lives& lives, uint64_t age) {
  const int from = static_cast<int>(class_of(age));
  uint64_t others = lives.elders;
  for (int i = from; i < kLifetimeClasses; ++i) others += lives.freed[i];
  uint64_t dead = 0;
  for (int i = from; i < kLifetimeClasses; ++i) {
    dead += lives.freed[i];
    if (dead * 2 > others) return static_cast<LifetimeClass>(i);
  }
  return LifetimeClass::never;
}

std::vector<uint8_t> classes_by_oracle(const Survey& survey) {
  const std::vector<Lives> lives = lives_by_context(survey);
  std::vector<uint8_t> classes;
  classes.reserve(survey.lifetimes.size());
  size_t alive = 0;
  for (size_t i = 0; i < survey.lifetimes.size(); ++i) {
    LifetimeClass c = class_of(survey.lifetimes[i]);
    if (survey.lifetimes[i] == kNeverFreed)
      c = fate_of(lives[survey.contexts[i]], survey.duration - survey.births[alive++]);
    classes.push_back(static_cast<uint8_t>(c));
  }
  return classes;
}

using Table = std::unordered_map<uint64_t, Lives>;

Table learn(const Learned& teacher, size_t most_frames) {
  const std::vector<uint64_t> keys = keys_of(teacher, most_frames);
  const std::vector<Lives> by_context = lives_by_context(*teacher.survey);
  Table table;
  for (size_t c = 0; c < keys.size(); ++c) {
    Lives& sum = table[keys[c]];
    for (int i = 0; i < kLifetimeClasses; ++i) {
      sum.freed[i] += by_context[c].freed[i];
      sum.in_flight[i] += by_context[c].in_flight[i];
    }
    sum.elders += by_context[c].elders;
  }
  return table;
}

std::vector<uint8_t> classes_by_table(const PredictorSpec& spec, const Learned& trace,
                                      const Learned& teacher, size_t* known) {
  const size_t most = spec.kind == PredictorSpec::Kind::site ? 1 : SIZE_MAX;
  const Table table = learn(teacher, most);
  std::vector<uint8_t> classes;
  for (uint64_t key : keys_of(trace, most)) {
    const auto found = table.find(key);
    *known += found != table.end();
    const LifetimeClass c =
        found != table.end() ? label(found->second, spec.quantile) : LifetimeClass::mixed;
    classes.push_back(static_cast<uint8_t>(c));
  }
  return classes;
}

LifetimeClass class_by_model(Evaluator& model, const Learned& trace, const Context& context) {
  std::vector<uint64_t> codes;
  for (const CodeFrame& frame : trace.input->code(context.stack)) codes.push_back(frame.code);
  const auto size = static_cast<size_t>(context.size);
  const auto exact =
      model.evidence().find_exact(codes.data(), static_cast<int>(codes.size()), size);
  if (exact.kind != EvidenceKind::none) return exact.lifetime;
  const std::vector<std::string> frames = trace.input->frames(context.stack);
  std::vector<const char*> names;
  for (const std::string& frame : frames) names.push_back(frame.c_str());
  return model.answer(names.data(), static_cast<int>(names.size()), size).lifetime;
}

bool classes_by_model(const PredictorSpec& spec, const Learned& trace,
                      std::vector<uint8_t>* classes, GateKept* evidence, std::string* error) {
  MetadataArena arena(system_pages);
  char text[256] = {};
  Evaluator* evaluator = Evaluator::load(spec.model.c_str(), arena, text, sizeof(text));
  if (evaluator == nullptr) {
    *error = text;
    return false;
  }
  for (const Context& context : trace.survey->context_table)
    classes->push_back(static_cast<uint8_t>(class_by_model(*evaluator, trace, context)));
  *evidence = GateKept::read(evaluator->evidence().gate);
  return true;
}

uint8_t another_class(uint8_t right, uint64_t random) {
  return static_cast<uint8_t>((right + 1 + random % (kLifetimeClasses - 1)) % kLifetimeClasses);
}

void inject_errors(const PredictorSpec& spec, const Survey& survey, std::vector<uint8_t>* classes) {
  if (spec.error <= 0) return;
  const uint64_t limit =
      spec.error >= 1 ? ~uint64_t{0} : static_cast<uint64_t>(spec.error * 0x1p64);
  for (size_t i = 0; i < classes->size(); ++i) {
    const uint64_t random = mix(spec.error_by_object ? i : survey.contexts[i], spec.seed);
    if (random <= limit) (*classes)[i] = another_class((*classes)[i], mix(random, 3));
  }
}

bool parse_quantile(const std::string& text, double* value, std::string* error) {
  char* end = nullptr;
  *value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() && *end == 0 && *value > 0 && *value < 1) return true;
  *error = "'" + text + "' is no quantile; write one between 0 and 1, as in site:0.9999";
  return false;
}

bool parse_class(const std::string& text, LifetimeClass* value, std::string* error) {
  std::string names;
  for (int i = 0; i < kLifetimeClasses; ++i) {
    if (text == kLifetimeClassRows[i].name) {
      *value = static_cast<LifetimeClass>(i);
      return true;
    }
    names += std::string(i ? ", " : "") + kLifetimeClassRows[i].name;
  }
  *error = "'" + text + "' is no lifetime class; the classes are " + names;
  return false;
}

}  // namespace

void count_classes(const Survey& survey, Prediction* prediction) {
  for (int c = 0; c < kLifetimeClasses; ++c)
    prediction->placements[c] = prediction->outlived[c] = 0;
  size_t alive = 0;
  for (size_t i = 0; i < prediction->classes.size(); ++i) {
    const uint8_t c = prediction->classes[i];
    ++prediction->placements[c];
    const int64_t bound = kLifetimeClassRows[c].bound.n;
    uint64_t lived = survey.lifetimes[i];
    if (lived == kNeverFreed) lived = survey.duration - survey.births[alive++];
    if (bound != 0 && lived > static_cast<uint64_t>(bound)) ++prediction->outlived[c];
  }
}

bool parse_predictor(const std::string& text, PredictorSpec* spec, std::string* error) {
  using Kind = PredictorSpec::Kind;
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (name == "oracle" || name == "none") {
    spec->kind = name == "oracle" ? Kind::oracle : Kind::none;
    if (rest.empty()) return true;
    *error = "'" + name + "' takes nothing behind a colon";
    return false;
  }
  if (name == "site" || name == "exact") {
    spec->kind = name == "site" ? Kind::site : Kind::exact;
    return rest.empty() || parse_quantile(rest, &spec->quantile, error);
  }
  if (name == "constant") {
    spec->kind = Kind::constant;
    return parse_class(rest, &spec->constant, error);
  }
  if (name == "model" && !rest.empty()) {
    spec->kind = Kind::model;
    spec->model = rest;
    return true;
  }
  if (name == "online" || (name == "state" && !rest.empty())) {
    spec->kind = Kind::online;
    (name == "online" ? spec->interval : spec->state) = rest;
    return true;
  }
  *error = "no predictor '" + text +
           "'; there are oracle, site[:QUANTILE], exact[:QUANTILE], model:FILE, constant:CLASS, "
           "none, online[:INTERVAL] and state:FILE";
  return false;
}

// The cases of python/llamalloc/learning/labels.py, by class; contracts/golden/labels.json holds
// both to the same answers.
LifetimeClass label(const Lives& lives, double quantile) {
  uint64_t freed = 0, young = 0;
  int oldest = 0;
  for (int i = 0; i < kLifetimeClasses; ++i) {
    freed += lives.freed[i];
    young += lives.in_flight[i];
    if (lives.freed[i] + lives.in_flight[i] > 0) oldest = i;
  }
  const double all = static_cast<double>(freed + lives.elders);
  if (all == 0) return LifetimeClass::never;
  const double stays = static_cast<double>(lives.elders) / all;
  const auto outlived_by_at_most = [&](double share) {
    double left = all;
    for (int i = 0; i < kNever; ++i) {
      left -= static_cast<double>(lives.freed[i]);
      if (left <= share * all + 1e-9) return i;
    }
    return kNever;
  };
  int chosen = outlived_by_at_most(1 - quantile);
  if (chosen != kNever && young > 0 && oldest > chosen &&
      static_cast<double>(young) > (1 - quantile) * all)
    chosen = oldest;
  if (kLifetimeClassRows[chosen].group != PageGroup::permanent || stays >= kMost)
    return static_cast<LifetimeClass>(chosen);
  const int early = outlived_by_at_most(stays + kTrap * (1 - stays));
  const bool trap = kLifetimeClassRows[early].group != kLifetimeClassRows[chosen].group;
  return trap ? LifetimeClass::mixed : static_cast<LifetimeClass>(chosen);
}

bool predict(const PredictorSpec& spec, const Learned& trace, const Learned& teacher,
             Prediction* prediction, std::string* error) {
  using Kind = PredictorSpec::Kind;
  const Survey& survey = *trace.survey;
  std::vector<uint8_t>& classes = prediction->classes;
  classes.resize(survey.lifetimes.size());
  prediction->known_contexts = survey.context_table.size();
  if (spec.kind == Kind::oracle) {
    classes = classes_by_oracle(survey);
  } else if (spec.kind == Kind::constant || spec.kind == Kind::none || spec.kind == Kind::online) {
    const LifetimeClass c = spec.kind == Kind::constant ? spec.constant : LifetimeClass::mixed;
    std::fill(classes.begin(), classes.end(), static_cast<uint8_t>(c));
  } else {
    std::vector<uint8_t> by_context;
    if (spec.kind == Kind::model) {
      if (!classes_by_model(spec, trace, &by_context, &prediction->evidence, error)) return false;
    } else {
      prediction->known_contexts = 0;
      by_context = classes_by_table(spec, trace, teacher, &prediction->known_contexts);
    }
    for (size_t i = 0; i < classes.size(); ++i) classes[i] = by_context[survey.contexts[i]];
  }
  inject_errors(spec, survey, &classes);
  count_classes(survey, prediction);
  return true;
}

}  // namespace llamalloc::sim
