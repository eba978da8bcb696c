#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "estimator/spec/error.h"

namespace planwright::testing {

/// The InputFault that `action` throws. A test failure, and an empty fault, if it throws none.
template <class Action>
InputFault fault_of(Action&& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.fault();
  }
  ADD_FAILURE() << "no InputError was thrown";
  return {};
}

/// The whole text of a file; a test failure if it cannot be read.
inline std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace planwright::testing
