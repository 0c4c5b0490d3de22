// SPDX-License-Identifier: Apache-2.0
// Each job builds an inverted index and merges it into the permanent one. Most jobs free theirs
// after the merge. The index of a "segment" job is adopted as it is, and merged only three such
// jobs later. A "snapshot" job keeps its longest lists.
//
// Why it is hard: the kind of a job decides how long its objects live, but all kinds have the same
// call sites. The size of a job varies with the seed by a factor of 20.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server.h"

using Postings = std::vector<int>;
using Index = std::unordered_map<std::string, Postings>;

std::string term(uint64_t rank) {
  uint64_t h = mix(rank, 99);
  std::string out;
  for (size_t n = 5 + h % 23; n > 0; --n) {
    out += char('a' + (h & 15));
    h = h >> 4 | h << 60;
  }
  out += std::to_string(rank);
  return out;
}
// Zipf-like: the log of the rank is uniform, with a flat tail of terms that occur once.
uint64_t pick(Rng& rng, uint64_t vocabulary) {
  if (rng.chance(0.45))
    return uint64_t(__builtin_exp(rng.unit() * __builtin_log(double(vocabulary) / 20)));
  return rng.next() % vocabulary;
}

struct Job {
  enum Kind { kMerge, kSegment, kSnapshot } kind;
  std::unique_ptr<Index> index = std::make_unique<Index>();
  uint64_t sum = 0, postings = 0;
};

void add(Index& index, Rng& rng, uint64_t vocabulary, int doc, uint64_t& sum, uint64_t& count) {
  for (uint32_t n = rng.range(20, 180); n > 0; --n) {
    const uint64_t rank = pick(rng, vocabulary);
    Postings& list = index[term(rank)];
    if (list.empty() || list.back() != doc) list.push_back(doc), sum += mix(rank, doc), ++count;
  }
}
uint64_t total(const Index& index) {
  uint64_t n = 0;
  for (auto& [key, list] : index) n += list.size();
  return n;
}

struct Permanent {
  Index index;
  uint64_t docs_sum = 0, entries = 0;
  uint32_t keep;  // one term in this many is new enough to be indexed for good
  void merge(const Index& from) {
    for (auto& [key, list] : from) {
      const uint64_t h = mix(7, key);
      if (h % keep) continue;
      Postings& to = index[key];
      for (int doc : list)
        if ((uint32_t(doc) & 1) == (h >> 40 & 1))
          to.push_back(doc), docs_sum += mix(h, doc), ++entries;
    }
  }
  void verify() const {
    uint64_t sum = 0, n = 0;
    for (auto& [key, list] : index) {
      const uint64_t h = mix(7, key);
      for (int doc : list) sum += mix(h, doc), ++n;
    }
    if (sum != docs_sum || n != entries) corrupt("permanent index");
  }
};

int main(int argc, char** argv) {
  Args args(argc, argv);
  Rng rng(args.seed);
  Pace pace;
  Permanent permanent;
  permanent.keep = 9;
  std::deque<std::unique_ptr<Index>> segments;
  std::unordered_map<std::string, Postings> snapshots;
  uint64_t ops = 0, check = 0;
  int doc = 1;
  constexpr double kTick = 0.05;
  double begin = 0;
  for (int number = 0; begin < args.seconds; ++number) {
    pace.at(begin);
    Job job;
    const uint32_t dice = rng.below(10);
    job.kind = dice < 6 ? Job::kMerge : dice < 8 ? Job::kSegment : Job::kSnapshot;
    double size = 0.05 + 0.95 * rng.unit() * rng.unit();
    if (number % 3 == 0)
      size = rng.unit() * 0.2 + 0.8;  // a full rebuild
    else if (job.kind == Job::kSegment)
      size = 0.04 + 0.06 * rng.unit();
    const uint32_t docs = args.count(31000 * size);
    const uint64_t vocabulary = 40 + uint64_t(4200000 * args.scale * size);
    const int build = 20 + int(size * 100), hold = 4 + int(rng.below(10));  // ticks
    for (int tick = 0; tick < build; ++tick) {
      pace.at(begin + tick * kTick);
      const uint32_t from = uint64_t(docs) * tick / build, to = uint64_t(docs) * (tick + 1) / build;
      for (uint32_t d = from; d < to; ++d, ++doc, ++ops)
        add(*job.index, rng, vocabulary, doc, job.sum, job.postings);
    }
    pace.at(begin + (build + hold) * kTick);
    if (total(*job.index) != job.postings) corrupt("job");
    check = mix(check, job.sum);
    if (number % 3 == 0 && job.kind == Job::kSegment) job.kind = Job::kMerge;
    switch (job.kind) {
      case Job::kMerge:
        permanent.merge(*job.index);
        break;
      case Job::kSegment:
        segments.push_back(std::move(job.index));
        if (segments.size() > 3) {
          permanent.merge(*segments.front());
          segments.pop_front();
        }
        break;
      case Job::kSnapshot:
        permanent.merge(*job.index);
        // Its longest lists move over with their memory, and replace those of an earlier snapshot.
        for (auto& [key, list] : *job.index)
          if (list.size() > 24) snapshots[key] = std::move(list);
        break;
    }
    job.index.reset();
    begin += (build + hold) * kTick + 0.6 + (number % 4 == 3 ? 4.0 : 1.6 * rng.unit());
  }
  pace.at(std::max(begin, args.seconds));
  permanent.verify();
  for (auto& [key, list] : snapshots) {
    if (!std::is_sorted(list.begin(), list.end())) corrupt("snapshot");
    check += mix(3, key) * list.size();
  }
  for (auto& segment : segments) check += total(*segment);
  finish("batchidx", ops, mix(check, permanent.docs_sum), pace);
}
