#include "tools/doctor/show.h"

#include <fmt/color.h>
#include <fmt/core.h>

namespace weir::tools::doctor {

const char* word(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok: return "ok";
    case Verdict::warn: return "warn";
    case Verdict::fail: return "fail";
  }
  return "";
}

void show(const Finding& finding, bool colour, const std::string& where) {
  const fmt::color shade = finding.verdict == Verdict::ok     ? fmt::color::green
                           : finding.verdict == Verdict::warn ? fmt::color::orange
                                                              : fmt::color::red;
  const std::string verdict = fmt::format("{:4}", word(finding.verdict));
  fmt::print("{}  {}{:13}  {}\n", colour ? fmt::format(fmt::fg(shade), "{}", verdict) : verdict,
             where.empty() ? "" : where + "  ", finding.name, finding.text);
  if (!finding.fix.empty()) fmt::print("{:6}fix: {}\n", "", finding.fix);
}

nlohmann::ordered_json to_json(const Finding& finding) {
  nlohmann::ordered_json one{
      {"name", finding.name}, {"status", word(finding.verdict)}, {"text", finding.text}};
  if (!finding.fix.empty()) one["fix"] = finding.fix;
  return one;
}

}  // namespace weir::tools::doctor
