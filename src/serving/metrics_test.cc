#include "serving/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace chimere::serving {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Metrics, EveryRowIsInTheTextWithTypeAndHelp) {
  Metrics metrics;
  metrics.count_request("/v1/models", 200);
  engine::ServiceStats stats;
  stats.accepted = 41;
  stats.kv_bytes = 5000;
  stats.engine.masks_beside = 7;
  stats.engine.speculation.add("dflash", 90, 61);
  stats.engine.speculation.add("ngram", 15, 12);
  stats.engine.speculation.memory_shortages = 2;
  stats.first_token.add(0.01);
  ModelStatus loaded;
  loaded.about.id = "a";
  loaded.state = ModelStatus::State::kReady;
  ModelStatus absent;
  absent.about.id = "b";
  const std::vector<ModelMetrics> models = {{loaded, stats}, ModelMetrics(absent)};
  const std::vector<KeyUsage::Budget> keys = {{"ann", 40, 100}, {"bob", 7, 0}};
  const std::string text = metrics.text(models, 3, keys);
  EXPECT_THAT(text, HasSubstr("\nchimere_key_day_tokens{key=\"ann\"} 40\n"));
  EXPECT_THAT(text, HasSubstr("\nchimere_key_day_tokens{key=\"bob\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("\nchimere_key_day_tokens_limit{key=\"ann\"} 100\n"));
  EXPECT_THAT(text, Not(HasSubstr("limit{key=\"bob\"}")));
  for (const MetricInfo& info : kMetrics) {
    const std::string name(info.name);
    const std::string type = info.type == MetricInfo::Type::kCounter ? "counter"
                             : info.type == MetricInfo::Type::kGauge ? "gauge"
                                                                     : "histogram";
    EXPECT_THAT(text, HasSubstr("# HELP " + name + " " + std::string(info.help) + "\n"));
    EXPECT_THAT(text, HasSubstr("# TYPE " + name + " " + type + "\n"));
    EXPECT_EQ(std::ranges::count(kMetrics, info.name, &MetricInfo::name), 1) << name;
    EXPECT_EQ(name.ends_with("_total"), info.type == MetricInfo::Type::kCounter) << name;
    const bool labels = !info.labels.front().empty();
    EXPECT_EQ(labels, info.labelled != nullptr || info.counted()) << name;
  }
  EXPECT_THAT(text, HasSubstr("\nchimere_connections 3\n"));
  EXPECT_THAT(text, HasSubstr("\nchimere_model_ready{model=\"a\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nchimere_model_ready{model=\"b\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("total{model=\"b\"} 41")));
  EXPECT_THAT(text, HasSubstr("\nchimere_requests_accepted_total{model=\"a\"} 41\n"));
  EXPECT_THAT(text, HasSubstr("\nchimere_constraint_masks_beside_total{model=\"a\"} 7\n"));
  EXPECT_THAT(text,
              HasSubstr("\nchimere_drafts_verified_total{source=\"dflash\",model=\"a\"} 90\n"));
  EXPECT_THAT(text,
              HasSubstr("\nchimere_drafts_accepted_total{source=\"dflash\",model=\"a\"} 61\n"));
  EXPECT_THAT(text,
              HasSubstr("\nchimere_drafts_accepted_total{source=\"ngram\",model=\"a\"} 12\n"));
  EXPECT_THAT(text, HasSubstr("\nchimere_draft_memory_shortages_total{model=\"a\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("\nchimere_memory_bytes{kind=\"kv\",model=\"a\"} 5000\n"));
  EXPECT_THAT(text, HasSubstr("\nchimere_time_to_first_token_seconds_count{model=\"a\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("\nchimere_http_requests_total{route=\"/v1/models\",status=\"200\"} 1\n"));
}

}  // namespace
}  // namespace chimere::serving
