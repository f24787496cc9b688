// Compares the JSON Schema machine with test suites: every instance of a schema must be accepted
// exactly if the suite says that it is valid.
//
//   json_schema_suite maskbench FOLDER   guidance-ai/jsonschemabench: maskbench/data
//   json_schema_suite suite FOLDER       JSON-Schema-Test-Suite: tests/draft2020-12
//
// With --requests, documents are those that requests get: an instance is written in the order in
// which the schema names its properties, whole numbers without fraction. Valid ones with properties
// that the schema does not list are no texts then, and are counted apart.
//
// Options: --verbose (every deviation), --shard I/N, --annotate-formats, --max-false-accepted N,
// --max-false-rejected N, --min-pass PERCENT (the exit status is 1 beyond these, and if a refusal
// has no JSON pointer). Times are processor time.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "constraints/json_schema.h"

namespace {

using Json = nlohmann::ordered_json;
using chimere::constraints::JsonSchemaMachine;
using chimere::constraints::JsonSchemaOptions;
using chimere::constraints::kDead;
using chimere::constraints::State;

struct Settings {
  bool maskbench = false;
  bool requests = false;
  bool verbose = false;
  int shard = 0;
  int shards = 1;
  JsonSchemaOptions options;
  int max_false_accepted = 1 << 30;
  int max_false_rejected = 1 << 30;
  double min_pass = 0;
};

struct Instance {
  std::string description;
  Json data;
  bool valid = false;
};

struct Totals {
  int schemas = 0, passed = 0, refused = 0, without_pointer = 0;
  int instances = 0, tested = 0, agreed = 0, false_accepted = 0, false_rejected = 0;
  int slow = 0, undeclared = 0;
  std::map<std::string, int> reasons;
  std::vector<double> compile_ms;
  std::vector<double> instance_ms;
};

/// As json.dumps(ensure_ascii=False) writes it.
void write(const Json& value, std::string& out) {
  if (value.is_object()) {
    out += '{';
    bool first = true;
    for (const auto& [key, item] : value.items()) {
      if (!first) out += ", ";
      first = false;
      out += Json(key).dump();
      out += ": ";
      write(item, out);
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (size_t i = 0; i < value.size(); ++i) {
      if (i > 0) out += ", ";
      write(value[i], out);
    }
    out += ']';
  } else {
    out += value.dump();
  }
}

State read(JsonSchemaMachine& machine, State state, std::string_view text) {
  for (const char c : text) {
    if (state == kDead) break;
    state = machine.next(state, static_cast<uint8_t>(c));
  }
  return state;
}

/// Makes whole numbers integers.
void without_fractions(Json& value) {
  constexpr double kExact = 9007199254740992;  // 2^53
  if (value.is_structured()) {
    for (Json& item : value) without_fractions(item);
  } else if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::trunc(number) == number && std::abs(number) <= kExact) {
      value = static_cast<int64_t>(number);
    }
  }
}

/// The value in the order of the machine, which is in `state` and is moved behind it: first the
/// property after which the others can still follow.
Json in_order(JsonSchemaMachine& machine, State& state, const Json& value) {
  Json out = value;
  if (!value.is_structured() || value.empty()) {
    state = read(machine, state, out.dump());
    return out;
  }
  std::string before = value.is_object() ? "{" : "[";
  if (value.is_array()) {
    out.clear();
    for (const Json& item : value) {
      state = read(machine, state, before);
      before = ", ";
      out.push_back(in_order(machine, state, item));
    }
    state = read(machine, state, "]");
    return out;
  }
  std::vector<std::string> keys;
  for (const auto& [key, item] : value.items()) keys.push_back(key);
  out = Json::object();
  for (; !keys.empty(); before = ", ") {
    struct Next {
      size_t lost = SIZE_MAX;
      size_t key = 0;
      State state = kDead;
      Json value;
    } best;
    const auto readable = [&](State from, const std::string& separator, size_t key) {
      return read(machine, from, separator + Json(keys[key]).dump() + ": ");
    };
    std::vector<State> now;
    for (size_t i = 0; i < keys.size(); ++i) now.push_back(readable(state, before, i));
    for (size_t i = 0; i < keys.size() && best.lost > 0; ++i) {
      Next next{.lost = 0, .key = i, .state = now[i], .value = value[keys[i]]};
      if (next.state != kDead) next.value = in_order(machine, next.state, next.value);
      if (next.state == kDead) next.lost = keys.size();
      for (size_t other = 0; other < keys.size() && next.lost < best.lost; ++other) {
        if (other == i || now[other] == kDead) continue;
        if (readable(next.state, ", ", other) == kDead) ++next.lost;
      }
      if (next.lost < best.lost) best = std::move(next);
    }
    out[keys[best.key]] = std::move(best.value);
    state = best.state;
    keys.erase(keys.begin() + static_cast<std::ptrdiff_t>(best.key));
  }
  state = read(machine, state, "}");
  return out;
}

/// The number of bytes that are read, or npos if the text is accepted.
size_t rejected_at(JsonSchemaMachine& machine, const std::string& text) {
  State state = machine.start();
  for (size_t i = 0; i < text.size(); ++i) {
    state = machine.next(state, static_cast<uint8_t>(text[i]));
    if (state == kDead) return i;
  }
  return machine.accepts(state) ? std::string::npos : text.size();
}

/// Processor time of this thread.
double milliseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

/// What an error is about, without its place.
std::string reason_of(const std::string& message) {
  const size_t place = message.find(": ");
  return (place == std::string::npos ? message : message.substr(place + 2)).substr(0, 90);
}

void run_group(const Settings& settings, const std::string& name, const Json& schema,
               const std::vector<Instance>& instances, Totals& totals) {
  constexpr double kSlow = 1'000;
  ++totals.schemas;
  totals.instances += static_cast<int>(instances.size());
  const std::string text = schema.dump();
  const double begin = milliseconds();
  auto machine = JsonSchemaMachine::create(text, settings.options);
  const double compile = milliseconds() - begin;
  totals.compile_ms.push_back(compile);
  if (compile > kSlow) {
    ++totals.slow;
    std::printf("SLOW compile %.0f ms: %s\n", compile, name.c_str());
  }
  if (!machine.ok()) {
    ++totals.refused;
    ++totals.reasons[reason_of(machine.error().message)];
    if (!machine.error().message.starts_with("JSON schema, at ")) {
      ++totals.without_pointer;
      std::printf("NO POINTER %s: %s\n", name.c_str(), machine.error().message.c_str());
    }
    if (settings.verbose) {
      std::printf("REFUSED %s: %s\n", name.c_str(), machine.error().message.c_str());
    }
    return;
  }
  std::unique_ptr<JsonSchemaMachine> open;
  if (settings.requests) {
    JsonSchemaOptions options = settings.options;
    options.undeclared_properties = true;
    if (auto made = JsonSchemaMachine::create(text, options); made.ok()) open = *std::move(made);
  }
  bool good = true;
  for (const Instance& instance : instances) {
    ++totals.tested;
    Json data = instance.data;
    State place = (*machine)->start();
    if (settings.requests && instance.valid) without_fractions(data);
    if (settings.requests) data = in_order(**machine, place, data);
    std::string spaced;
    write(data, spaced);
    const std::string compact = data.dump();
    const double start = milliseconds();
    const size_t first = rejected_at(**machine, spaced);
    const size_t second = rejected_at(**machine, compact);
    const double time = milliseconds() - start;
    totals.instance_ms.push_back(time);
    if (time > kSlow) {
      ++totals.slow;
      std::printf("SLOW instance %.0f ms: %s\n", time, name.c_str());
    }
    const auto status = (*machine)->status();
    if (!status.ok()) {
      ++totals.reasons["LATE " + reason_of(status.error().message)];
      std::printf("LATE ERROR %s: %s\n", name.c_str(), status.error().message.c_str());
    }
    // A valid document is accepted in both spellings; an invalid one in neither.
    const bool accepted = instance.valid
                              ? first == std::string::npos && second == std::string::npos
                              : first == std::string::npos || second == std::string::npos;
    if (accepted == instance.valid) {
      ++totals.agreed;
      continue;
    }
    if (open && !accepted) place = open->start();
    if (open && !accepted &&
        rejected_at(*open, in_order(*open, place, data).dump()) == std::string::npos) {
      ++totals.undeclared;
      continue;
    }
    good = false;
    ++(accepted ? totals.false_accepted : totals.false_rejected);
    if (settings.verbose) {
      const size_t shown = std::min(first, spaced.size());
      std::printf(
          "%s %s: %s\n   %s <<HERE>> %s\n", accepted ? "ACCEPTED" : "REJECTED", name.c_str(),
          instance.description.c_str(),
          spaced.substr(shown > 200 ? shown - 200 : 0, std::min<size_t>(shown, 200)).c_str(),
          spaced.substr(shown, 100).c_str());
    }
  }
  totals.passed += good ? 1 : 0;
}

void run_file(const Settings& settings, const std::filesystem::path& path, Totals& totals) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const Json document = Json::parse(text.str(), nullptr, false);
  if (document.is_discarded()) return;
  const auto instances_of = [&](const Json& tests) {
    std::vector<Instance> out;
    for (const Json& test : tests) {
      out.push_back({test.value("description", ""), test.at("data"), test.at("valid")});
    }
    return out;
  };
  if (settings.maskbench) {
    run_group(settings, path.filename().string(), document.at("schema"),
              instances_of(document.at("tests")), totals);
    return;
  }
  for (const Json& group : document) {
    run_group(settings, path.filename().string() + " / " + group.value("description", ""),
              group.at("schema"), instances_of(group.at("tests")), totals);
  }
}

double percentile(std::vector<double>& sorted, double p) {
  return sorted.empty() ? 0
                        : sorted[static_cast<size_t>(p * static_cast<double>(sorted.size() - 1))];
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  if (argc < 3) {
    std::printf("usage: json_schema_suite maskbench|suite FOLDER_OR_FILE [OPTIONS]\n");
    return 2;
  }
  settings.maskbench = std::strcmp(argv[1], "maskbench") == 0;
  for (int i = 3; i < argc; ++i) {
    const std::string_view option = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "0";
    if (option == "--verbose") settings.verbose = true;
    if (option == "--requests") {
      settings.requests = settings.options.canonical = true;
      settings.options.undeclared_properties = false;
    }
    if (option == "--annotate-formats") settings.options.assert_formats = false;
    if (option == "--shard") std::sscanf(value, "%d/%d", &settings.shard, &settings.shards);
    if (option == "--max-false-accepted") settings.max_false_accepted = std::atoi(value);
    if (option == "--max-false-rejected") settings.max_false_rejected = std::atoi(value);
    if (option == "--min-pass") settings.min_pass = std::atof(value);
  }
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(argv[2])) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[2])) {
      if (entry.path().extension() == ".json") files.push_back(entry.path());
    }
  } else {
    files.emplace_back(argv[2]);
  }
  std::sort(files.begin(), files.end());
  Totals totals;
  for (size_t i = 0; i < files.size(); ++i) {
    if (static_cast<int>(i % static_cast<size_t>(settings.shards)) != settings.shard) continue;
    run_file(settings, files[i], totals);
  }
  std::sort(totals.compile_ms.begin(), totals.compile_ms.end());
  std::sort(totals.instance_ms.begin(), totals.instance_ms.end());
  const double pass = 100.0 * totals.passed / std::max(1, totals.schemas);
  std::printf("schemas: %d, passed %d (%.2f %%), refused %d\n", totals.schemas, totals.passed, pass,
              totals.refused);
  std::printf(
      "instances: %d, of compiled schemas %d, agreed %d, invalid accepted %d, valid "
      "rejected %d, with undeclared properties %d; slow %d\n",
      totals.instances, totals.tested, totals.agreed, totals.false_accepted, totals.false_rejected,
      totals.undeclared, totals.slow);
  std::printf("instances agreed or refused: %.2f %%\n",
              100.0 * totals.agreed / std::max(1, totals.instances));
  std::printf(
      "compile ms: p50 %.3f, p99 %.3f, p99.9 %.3f, max %.1f; instance ms: p50 %.3f, p99 "
      "%.3f, max %.1f\n",
      percentile(totals.compile_ms, 0.5), percentile(totals.compile_ms, 0.99),
      percentile(totals.compile_ms, 0.999), percentile(totals.compile_ms, 1),
      percentile(totals.instance_ms, 0.5), percentile(totals.instance_ms, 0.99),
      percentile(totals.instance_ms, 1));
  std::vector<std::pair<int, std::string>> reasons;
  for (const auto& [reason, count] : totals.reasons) reasons.emplace_back(-count, reason);
  std::sort(reasons.begin(), reasons.end());
  for (const auto& [count, reason] : reasons) std::printf("%6d %s\n", -count, reason.c_str());
  const bool failed = totals.false_accepted > settings.max_false_accepted ||
                      totals.false_rejected > settings.max_false_rejected ||
                      totals.without_pointer > 0 || pass < settings.min_pass;
  return failed ? 1 : 0;
}
