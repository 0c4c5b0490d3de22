// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metrics.h"

#include <gtest/gtest.h>

#include <string>

#include "telemetry/test_telemetry.h"

namespace llamalloc {
namespace {

std::string all(const Metrics& metrics) {
  return all_of(metrics, 8192);
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(Metrics, NamesUnitsAndKinds) {
  Figures figures;
  figures.stats[static_cast<int>(Stat::allocated)] = 12345678901234;
  figures.stats[static_cast<int>(Stat::predict_nanos)] = 1'500'000'000;
  figures.stats[static_cast<int>(Stat::huge_pages_used)] = 4;
  figures.stats[static_cast<int>(Stat::huge_pages_broken)] = 1;
  figures.groups[1].pages = 3;
  const uint64_t predicted[kLifetimeClasses] = {42};
  MetricsFacts facts;
  facts.version = "1";
  facts.model = "a \"x\\y\"\nz\xff\xc3";
  facts.placement = true;
  facts.charge = size_t{3} << 30;
  const std::string text = all({figures, predicted, facts});
  for (const char* line :
       {"llamalloc_allocated_bytes 12345678901234", "# TYPE llamalloc_allocated_bytes gauge",
        "llamalloc_predict_seconds_total 1.500000000",
        "# TYPE llamalloc_predict_seconds_total counter", "llamalloc_huge_pages_used 4",
        "llamalloc_huge_page_coverage_ratio 0.75", "llamalloc_placement 1",
        "llamalloc_charge_bytes 3221225472", "# TYPE llamalloc_charge_bytes gauge",
        "llamalloc_group_huge_pages{group=\"transient\"} 3", "llamalloc_sampling 0",
        "llamalloc_predicted_contexts{class=\"le_10ms\"} 42",
        "llamalloc_info{version=\"1\",hugepages=\"\",model=\"a \\\"x\\\\y\\\" z??\"} 1"})
    EXPECT_TRUE(has_line(text, line)) << line << "\n" << text;
}

TEST(Metrics, EveryStatisticIsThereOnce) {
  const uint64_t none[kLifetimeClasses] = {};
  const std::string text = all({Figures{}, none, MetricsFacts{}});
  for (const StatRow& row : kStatRows) {
    const std::string help = std::string(" ") + row.help + "\n";
    const size_t first = text.find(help);
    ASSERT_NE(first, std::string::npos) << row.name;
    EXPECT_EQ(text.find(help, first + 1), std::string::npos) << row.name;
  }
}

TEST(Metrics, AChargeThatIsNotKnownIsNotShown) {
  const uint64_t none[kLifetimeClasses] = {};
  EXPECT_EQ(all({Figures{}, none, MetricsFacts{}}).find("charge"), std::string::npos);
}

TEST(Metrics, AnEmptyDocumentEnds) {
  EXPECT_EQ(all(Metrics()), "");
}

}  // namespace
}  // namespace llamalloc
