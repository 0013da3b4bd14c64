// What the doctor finds, as values; how it is shown is report.cc's business.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weir::tools::doctor {

enum class Verdict { ok, warn, fail };

struct Finding {
  std::string name;  // one word or two: "memlock", "srq limit"
  Verdict verdict = Verdict::ok;
  std::string text;  // one sentence, no full stop
  std::string fix;   // of a warn or a fail: the exact command or setting
};

inline Finding ok(std::string name, std::string text) {
  return {std::move(name), Verdict::ok, std::move(text), {}};
}
inline Finding warn(std::string name, std::string text, std::string fix) {
  return {std::move(name), Verdict::warn, std::move(text), std::move(fix)};
}
inline Finding fail(std::string name, std::string text, std::string fix) {
  return {std::move(name), Verdict::fail, std::move(text), std::move(fix)};
}

using Findings = std::vector<Finding>;

}  // namespace weir::tools::doctor
