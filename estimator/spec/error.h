#pragma once

#include <stdexcept>
#include <string>

namespace planwright {

/// Wrong input: one value that a person gave and that breaks a rule. Thrown where the value is
/// read, caught once in cli/main.cpp, exit code 2. Fields that do not apply stay empty.
struct InputFault {
  std::string file;     ///< the file the value stands in, or "command line"
  std::string key;      ///< "num_attention_heads", "--zero", "[space] zero"
  std::string value;    ///< as it was given
  std::string rule;     ///< what it breaks, a full clause: "must divide hidden_size 770"
  std::string nearest;  ///< the nearest valid spelling or value
};

class InputError : public std::runtime_error {
 public:
  explicit InputError(InputFault fault);
  const InputFault& fault() const { return fault_; }

 private:
  InputFault fault_;
};

/// The world failed: a disk, a process, a device. Exit code 1; what was finished is kept.
class WorldError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace planwright
