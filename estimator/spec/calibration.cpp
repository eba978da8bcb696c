#include "estimator/spec/calibration.h"

#include "estimator/spec/json_fields.h"
#include "estimator/spec/sha256.h"

namespace planwright {

std::string calibration_id(const Calibration& calibration) {
  const Json json = json_io::encode(calibration, json_io::Form::hashed);
  return sha256_hex(canonical_text(json)).substr(0, 12);
}

}  // namespace planwright
