#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "estimator/spec/error.h"
#include "estimator/spec/json.h"

namespace planwright {
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxBytes = std::size_t{64} << 20;

/// Counts what the parser has read, which its own callbacks do not say.
class CountingIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator() = default;
  CountingIterator(const char* at, std::size_t& count) : at_(at), count_(&count) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*count_;
    return *this;
  }
  CountingIterator operator++(int) {
    const CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_ = nullptr;
  std::size_t* count_ = nullptr;
};

/// "line 3, column 14" of the last byte that was read, both from 1.
std::string position(std::string_view text, std::size_t read) {
  const std::string_view before = text.substr(0, read == 0 ? 0 : read - 1);
  std::size_t line = 1;
  for (const char c : before) line += c == '\n' ? 1 : 0;
  const std::size_t newline = before.rfind('\n');
  const std::size_t column =
      newline == std::string_view::npos ? before.size() + 1 : before.size() - newline;
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

/// Builds the value as nlohmann's own builder does, and refuses what it lets pass.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(const std::string& text, const std::string& source) : text_(text), source_(source) {}

  Json parse() {
    const CountingIterator begin(text_.data(), read_);
    const CountingIterator end(text_.data() + text_.size(), read_);
    Json::sax_parse(begin, end, this);
    return std::move(root_);
  }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // never in a text
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (!open_.back().keys.insert(name).second) refuse(name, "stands twice in one object");
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    const std::string_view what = error.what();  // "[json.exception…] … syntax error …"
    const std::size_t syntax = what.find("syntax error");
    const std::size_t rest = syntax != what.npos ? syntax : what.find(' ') + 1;
    constexpr std::size_t kMost = 200;  // it repeats what it has read
    refuse("", "is not JSON: " + std::string(what.substr(rest, kMost)));
  }

 private:
  struct Open {
    Json* value;
    std::unordered_set<std::string> keys;
  };

  [[noreturn]] void refuse(const std::string& value, const std::string& rule) const {
    throw InputError({source_, position(text_, read_), value, rule, ""});
  }

  Json* put(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    Json& parent = *open_.back().value;
    if (parent.is_array()) return &parent.get_ref<Json::array_t&>().emplace_back(std::move(value));
    // Past the ordered object's own search for the key, which is linear: `keys` has done it.
    auto& members = static_cast<Json::object_t::Container&>(parent.get_ref<Json::object_t&>());
    return &members.emplace_back(key_, std::move(value)).second;
  }
  bool add(Json value) {
    put(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (open_.size() == kMaxDepth) {
      refuse("", "is deeper than " + std::to_string(kMaxDepth) + " levels");
    }
    Json* opened = put(std::move(value));
    open_.push_back({opened, {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& text_;
  const std::string& source_;
  std::size_t read_ = 0;
  Json root_;
  std::vector<Open> open_;
  std::string key_;
};

}  // namespace

Json parse_json(const std::string& text, const std::string& source) {
  if (text.size() > kMaxBytes) {
    throw InputError({source, "", std::to_string(text.size()) + " bytes",
                      "must be at most " + std::to_string(kMaxBytes) + " bytes long", ""});
  }
  if (text.find('\0') != std::string::npos) {  // which the library takes for the end
    throw InputError({source, "", "", "holds a NUL byte: it is not JSON", ""});
  }
  return Builder(text, source).parse();
}

std::string canonical_text(const Json& json) {
  return nlohmann::json(json).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace planwright
