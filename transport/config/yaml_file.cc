#include "transport/config/yaml_file.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <sstream>

#include "transport/config/units.h"

namespace weir::config {
namespace {

constexpr const char* no_lines = "expected lines of the form 'key: value'";
constexpr const char* no_key = "a key has to be a plain word";

// Takes the parser's events instead of a tree: it keeps every line number and sees duplicate keys,
// and neither aliases nor nesting can make it large.
class Reader : public YAML::EventHandler {
 public:
  Reader(const std::string& file, Source& into) : file_(file), into_(into) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 2) problem(mark, "", "does not belong to the mapping of keys before it");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { scalar(mark, ""); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string& value) override {
    scalar(mark, value);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    compound(mark, "is an alias, but only a plain value is taken");
    end();
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    compound(mark, "is a list, but only a plain value is taken");
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    if (depth_ == 0 && documents_ == 1) {
      is_mapping_ = true;
      depth_ = 1;
      return;
    }
    compound(mark, "is a mapping, but only a plain value is taken: the keys are not nested");
  }
  void OnMapEnd() override { end(); }

  void problem(const YAML::Mark& mark, const std::string& key, const std::string& reason) {
    into_.problems.push_back({into_.layer, at(mark), key, reason, line(mark)});
  }

 private:
  static int line(const YAML::Mark& mark) { return mark.is_null() ? 1 : mark.line + 1; }
  std::string at(const YAML::Mark& mark) const { return file_ + ":" + std::to_string(line(mark)); }
  bool in_the_mapping() const { return documents_ == 1 && is_mapping_ && depth_ == 1; }

  // A key, its value, or a document that is nothing else.
  void scalar(const YAML::Mark& mark, const std::string& value) {
    if (documents_ == 1 && depth_ == 0) {
      if (!value.empty()) problem(mark, "", no_lines);
    } else if (!in_the_mapping()) {
      return;
    } else if (!in_value_) {
      if (value.empty()) problem(mark, "", no_key);
      key_ = value;
      key_mark_ = mark;
      in_value_ = true;
    } else {
      in_value_ = false;
      add(value);
    }
  }

  void add(const std::string& value) {
    if (key_.empty()) return;
    const auto [first, is_new] = lines_.try_emplace(key_, line(key_mark_));
    if (!is_new) {
      problem(key_mark_, key_, "is set twice; first in line " + std::to_string(first->second));
    } else {
      into_.entries.push_back({key_, value, at(key_mark_), line(key_mark_)});
    }
  }

  // Something else begins where a scalar should be.
  void compound(const YAML::Mark& mark, const char* what) {
    if (in_the_mapping()) {
      problem(mark, in_value_ ? key_ : "", in_value_ ? what : no_key);
    } else if (documents_ == 1 && depth_ == 0) {
      problem(mark, "", no_lines);
    }
    ++depth_;
  }

  void end() {
    --depth_;
    if (!in_the_mapping()) return;
    if (!in_value_) key_.clear();  // that was a key, and its value follows
    in_value_ = !in_value_;
  }

  const std::string& file_;
  Source& into_;
  int documents_ = 0;
  int depth_ = 0;  // open mappings and lists
  bool is_mapping_ = false;
  bool in_value_ = false;
  std::string key_;
  YAML::Mark key_mark_;
  std::map<std::string, int> lines_;
};

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

Source parse_yaml(const std::string& text, const std::string& file, Layer layer) {
  Source source;
  source.layer = layer;
  Reader reader(file, source);
  if (text.size() > max_file_bytes) {
    source.problems.push_back(
        {layer, file, "", "is larger than " + format_size(max_file_bytes) + ": no configuration",
         0});
    return source;
  }
  if (text.find('\0') != std::string::npos) {
    source.problems.push_back({layer, file, "", "holds bytes that are no text", 0});
    return source;
  }
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    // At most twice: for a stray bracket yaml-cpp returns empty documents without end.
    if (parser.HandleNextDocument(reader)) parser.HandleNextDocument(reader);
  } catch (const YAML::Exception& error) {
    reader.problem(error.mark, "", "this is no YAML: " + error.msg);
  } catch (const std::exception& error) {
    source.problems.push_back(
        {layer, file, "", std::string("cannot be parsed: ") + error.what(), 0});
  }
  return source;
}

Source read_yaml_file(const std::string& path, Layer layer) {
  Source source;
  source.layer = layer;
  const auto unreadable = [&](int error) {
    source.problems.push_back(
        {layer, path, "", std::string("cannot be read: ") + std::strerror(error), 0});
    return source;
  };
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "re"));
  if (file == nullptr) return unreadable(errno);
  std::string text(max_file_bytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return unreadable(errno);
  return parse_yaml(text, path, layer);
}

}  // namespace weir::config
