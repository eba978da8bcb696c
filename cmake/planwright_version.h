#pragma once

namespace planwright {

// Declared here, defined in a source that the build generates: a new commit rebuilds that one only.
extern const char* const kVersion;
extern const char* const kGitRevision;  // "unknown" outside a checkout; ends in "-dirty" if changed
// What the workers of this build are made for; "none" where there is no such worker.
extern const char* const kTorchVersion;
extern const char* const kCudaVersion;
extern const char* const kNcclVersion;

}  // namespace planwright
